"""Dataset of JPEG and PNG files, in class folders or listed with their factors in a CSV table."""

import dataclasses
import os
import pathlib

import numpy as np
from absl import logging

from socialjepa_jax.data import base, manifest
from socialjepa_jax.data.files import Files, check_reading, printable
from socialjepa_jax.data.folder.listing import (
    Listing,
    camera_folders,
    class_folders,
    integers,
    levels,
    read_table,
)
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.data.protocols import ImageFeed, Opening
from socialjepa_jax.data.records.views import TwoViews
from socialjepa_jax.errors import ImageSize, InputError, check_one_of, expand_user, shown

SINGLE = (
    "Every state counts as an object of its own, so held-out objects are single states; subfolders "
    "CATEGORY/OBJECT say which of them show one object."
)


@dataclasses.dataclass(frozen=True)
class FolderData:
    """Dataset of image files.

    Class folders are CATEGORY/FILE, where every file is an object of its own, or
    CATEGORY/OBJECT/FILE. They carry no azimuths, so one camera (azimuth 0) sees all images, and
    the factor "picture" numbers the images of an object. Folders without images are left out, as
    are hidden ones and `__MACOSX`.

    With `cameras`, every camera has a folder of its name, CAMERA/FILE, CAMERA/CATEGORY/FILE or
    CAMERA/CATEGORY/OBJECT/FILE, and files of one path below it show the same state; or the table
    has a column "camera" with these names in place of azimuths.

    Attributes:
        kind: "folder".
        path: the folder.
        table: CSV file in the folder with a header; its column "file" names the images relative
            to the folder. "": class folders.
        columns: (factor, column of the table) of every factor, as in `ArraysData`. Category and
            instance may be any text, the other factors are integers.
        cameras: names of cameras; () takes them from the protocol's azimuths.
        image_size: side, or (height, width), that images are resized to, pixels.
        channels: 1 (RGB becomes luma) or 3 (grey is repeated).
        protocol: which images show the same state, and where the cameras stand; not read with
            `cameras`.
        splits: what is held out.
        manifest: if true, every file must have the SHA-256 in the folder's manifest.json
            (`data.manifest`).
        read: "resident": all images are read at the start and stay on the devices, and a broken
            file is refused | "stream": files are read when a step needs them (`data.streaming`).
        workers: worker processes that read for the training steps of a stream, and as many for
            its evaluations, per process of the run; 0: threads of the process itself.
        max_broken: share of the files that may be broken before a stream ends the run.
        views: two cameras that see every picture of one camera through a recipe each.
    """

    kind: str = "folder"
    path: str = ""
    table: str = ""
    columns: tuple[tuple[str, str], ...] = tuple((name, name) for name in base.REQUIRED_FACTORS)
    cameras: tuple[str, ...] = ()
    image_size: ImageSize = 64
    channels: int = 3
    protocol: base.Protocol = base.Protocol()
    splits: base.Splits = base.Splits()
    manifest: bool = False
    read: str = "resident"
    workers: int = 2
    max_broken: float = 0.01
    views: TwoViews = TwoViews()

    def __post_init__(self) -> None:
        check_one_of(("folder",), kind=self.kind)
        check_reading(self.image_size, self.channels, self.read, self.workers, self.max_broken)
        self.views.num_cameras(self.seen)
        if self.cameras:
            self._check_cameras()
        base.check_columns(self.columns, self._required)

    def _check_cameras(self) -> None:
        if len(set(self.cameras)) < max(2, len(self.cameras)) or not all(self.cameras):
            raise InputError(f"cameras={self.cameras} must be two names or more, all different")
        if self.table and "azimuth" in dict(self.columns):
            raise InputError(
                f"columns={self.columns} must name category and instance, and no azimuth, which "
                "the column 'camera' replaces; a factor 'pose' may take the column azimuth"
            )

    @property
    def _required(self) -> tuple[str, ...]:
        """Factors that the columns must name; a camera's name takes the place of its azimuth."""
        given = ("azimuth",) if self.cameras else ()
        return tuple(name for name in base.REQUIRED_FACTORS if name not in given)

    @property
    def seen(self) -> base.Protocol:
        """The protocol; named cameras stand at azimuths 0, 1, ..., which are their numbers."""
        if not self.cameras:
            return self.protocol
        return base.Protocol("norb", azimuths=tuple(range(len(self.cameras))))

    @property
    def num_cameras(self) -> int:
        """Cameras that see every state."""
        return self.views.num_cameras(self.seen)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Lists and pairs the images, and reads them if `read` is "resident".

        Args:
            cache_dir: unused.

        Returns:
            The view dataset; its images are `Files` if `read` is "stream".

        Raises:
            InputError: the folder, the table or a file is missing or not as described; the message
                names it.
        """
        del cache_dir
        folder = pathlib.Path(expand_user(self.path, "path"))
        if not self.path or not os.path.isdir(folder):
            raise InputError(f"path={self.path!r}: no such folder")
        names, columns, labels = self._listing(folder)
        files = Files(
            folder.resolve(),
            names,
            np.arange(len(names)),
            self.image_size,
            self.channels,
            self._digests(folder, names),
            broken_is_black=self.read == "stream",
        )
        images = files if self.read == "stream" else np.asarray(files)
        factors = np.stack(list(columns.values()), axis=1)
        table = base.ObservationTable(images, factors, tuple(columns), labels)
        name = printable(folder.resolve().name)
        dataset = pair_views(table, self.seen, self.splits, name)
        if self.cameras and not self.table and not columns["picture"].any():
            logging.warning("%s: %s", name, SINGLE)
            dataset = dataclasses.replace(dataset, facts=(*dataset.facts, ("Objects", SINGLE)))
        return self.views.of(dataset)

    def open_feed(self, dataset: base.ViewDataset, opening: Opening) -> ImageFeed:
        """Opens a stream of the files, or puts all images on the devices."""
        return self.views.open_feed(dataset, opening, self.workers, self.max_broken)

    def _listing(self, folder: pathlib.Path) -> Listing:
        if self.table:
            return self._table(folder)
        return camera_folders(folder, self.cameras) if self.cameras else class_folders(folder)

    def _digests(self, folder: pathlib.Path, names: tuple[str, ...]) -> tuple[str, ...]:
        if not self.manifest:
            return ()
        recorded = manifest.read(folder)
        if unknown := [name for name in names if name not in recorded]:
            raise InputError(f"{folder / unknown[0]}: is not in {manifest.NAME}")
        return tuple(recorded[name] for name in names)

    def _table(self, folder: pathlib.Path) -> Listing:
        path = folder / expand_user(self.table, "table")
        if not os.path.exists(path):
            raise InputError(
                f"{path}: no such table; table='' reads class folders, and "
                "--preset=folder_ijepa:cameras a folder for each camera"
            )
        camera = ("camera",) if self.cameras else ()
        rows = read_table(path, ("file", *camera, *(column for _, column in self.columns)))
        names = tuple(row["file"] for row in rows)
        for number, name in enumerate(names):
            if pathlib.PurePath(name).is_absolute() or ".." in pathlib.PurePath(name).parts:
                raise InputError(f"{path}: row {number + 1}: {name!r} leaves the folder")
            if not os.path.isfile(folder / name):
                fault = "is a broken link" if os.path.islink(folder / name) else "no such file"
                raise InputError(f"{folder / name}: {fault} ({path.name})")
        columns: dict[str, np.ndarray] = {}
        labels: tuple[str, ...] = ()
        if self.cameras:
            columns["azimuth"] = self._camera_of(rows, path)
        for factor, column in self.columns:
            texts = [row[column] for row in rows]
            if factor in ("category", "instance"):
                distinct, columns[factor] = levels(texts)
                labels = distinct if factor == "category" else labels
            else:
                columns[factor] = integers(texts, path, column)
        return names, columns, labels

    def _camera_of(self, rows: list[dict[str, str]], path: pathlib.Path) -> np.ndarray:
        """Returns the number of every row's camera: i64[M]."""
        for number, row in enumerate(rows):
            if row["camera"] not in self.cameras:
                raise InputError(
                    f"{path}: row {number + 1}: camera={shown(row['camera'])} must be one of "
                    f"{', '.join(self.cameras)}"
                )
        return np.array([self.cameras.index(row["camera"]) for row in rows], np.int64)
