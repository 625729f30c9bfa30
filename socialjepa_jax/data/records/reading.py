"""A data set of records, whatever holds them: fields, loading and feeds."""

import dataclasses
import pathlib

import numpy as np

from socialjepa_jax.data import base, manifest
from socialjepa_jax.data.files import FITS, check_reading, printable
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.data.protocols import ImageFeed, Opening
from socialjepa_jax.data.records.blobs import Blobs, RecordNames, Records
from socialjepa_jax.data.records.index import Index
from socialjepa_jax.data.records.views import TwoViews
from socialjepa_jax.errors import ImageSize, InputError, check_one_of, expand_user

ONE_CAMERA = base.Protocol("norb", azimuths=(0,))
FEW_HELD_OUT = base.Splits(test_instances=1, test_states=0.2)


@dataclasses.dataclass(frozen=True)
class RecordData:
    """What all data sets of records have in common. Every record is an object of its own.

    Attributes:
        path: folder of the records.
        image_size, channels, read, workers, max_broken: as of `FolderData`.
        fit: "stretch" | "centre", as of `Files`.
        protocol: one camera, at azimuth 0; two see each picture where `views.on`.
        splits: what is held out; objects are records.
        manifest: if true, every file of records must have the SHA-256 in the folder's
            manifest.json (`data.manifest`), which is verified once for a size and a time of it.
        views: two cameras that see every picture through a recipe each.
    """

    path: str = ""
    image_size: ImageSize = 64
    channels: int = 3
    fit: str = "stretch"
    protocol: base.Protocol = ONE_CAMERA
    splits: base.Splits = FEW_HELD_OUT
    manifest: bool = False
    read: str = "stream"
    workers: int = 2
    max_broken: float = 0.01
    views: TwoViews = TwoViews()

    def __post_init__(self) -> None:
        check_one_of(FITS, fit=self.fit)
        check_reading(self.image_size, self.channels, self.read, self.workers, self.max_broken)
        if self.protocol.azimuths != (0,) or self.protocol.kind != "norb":
            raise InputError(
                f"protocol={self.protocol}: records are seen by one camera, kind='norb' and "
                "azimuths=(0,); two see each picture with views.on"
            )

    @property
    def num_cameras(self) -> int:
        """Cameras that see every state."""
        return self.views.num_cameras(self.protocol)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Finds the records, and reads them if `read` is "resident".

        Args:
            cache_dir: folder of the index, which takes a pass over the records.

        Returns:
            The view dataset; its images are `Records` if `read` is "stream".

        Raises:
            InputError: the folder or a file is missing, damaged or not as described; the message
                names it.
        """
        folder = pathlib.Path(expand_user(self.path, "path"))
        if not self.path or not folder.is_dir():
            raise InputError(f"path={self.path!r}: no such folder")
        blobs, index = self._open(folder, cache_dir)
        if self.manifest:
            manifest.verify(blobs.shards.paths, blobs.shards.stamp(), cache_dir)
        stream = self.read == "stream"
        records = Records(
            folder,
            RecordNames(blobs.shards),
            np.arange(len(blobs.shards)),
            self.image_size,
            self.channels,
            broken_is_black=stream,
            fit=self.fit,
            blobs=blobs,
        )
        table = index.table(records if stream else np.asarray(records))
        name = printable(folder.resolve().name)
        dataset = pair_views(table, self.protocol, self.splits, name)
        return self.views.of(dataclasses.replace(dataset, facts=(("Records", index.counts()),)))

    def open_feed(self, dataset: base.ViewDataset, opening: Opening) -> ImageFeed:
        """Opens a stream of the records, or puts all images on the devices."""
        return self.views.open_feed(dataset, opening, self.workers, self.max_broken)

    def _open(self, folder: pathlib.Path, cache: pathlib.Path) -> tuple[Blobs, Index]:
        """Returns a reader of the records, and what is known of them."""
        raise NotImplementedError
