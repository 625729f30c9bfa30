"""The smallNORB dataset (LeCun, Huang and Bottou, 2004), read from its original files."""

import dataclasses
import gzip
import io
import math
import os
import pathlib

import numpy as np

from socialjepa_jax.data import base
from socialjepa_jax.data import images as images_lib
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.errors import (
    DAMAGED_ARCHIVE,
    InputError,
    check_one_of,
    check_positive,
    check_unpacked,
    expand_user,
)

LABEL_NAMES = ("four-legged animal", "human", "airplane", "truck", "car")
FACTOR_NAMES = ("category", "instance", "elevation", "azimuth", "lighting")
_PREFIX = {
    "training": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "testing": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
_DTYPES: dict[int, np.dtype] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_LEVELS = np.array([10, 9, 36, 6])  # info columns: instance, elevation, azimuth, lighting


@dataclasses.dataclass(frozen=True)
class SmallNorbData:
    """Photographs of 50 toys under 9 elevations, 18 azimuths and 6 lightings.

    Attributes:
        kind: "smallnorb".
        path: folder with the files `smallnorb-...-{dat,cat,info}.mat` or `.mat.gz`.
        protocol: which images show the same state; azimuths are multiples of 20 degrees.
        splits: what is held out.
        image_size: side that images are resized to, in pixels (96 as stored).
        parts: published files to read, "training" and "testing"; each shows five other objects of
            every category.
        stereo: "left" camera of the stereo pair, or "both" as two channels.
    """

    kind: str = "smallnorb"
    path: str = ""
    protocol: base.Protocol = base.Protocol()
    splits: base.Splits = base.Splits()
    image_size: int = 96
    parts: tuple[str, ...] = ("training", "testing")
    stereo: str = "left"

    def __post_init__(self) -> None:
        check_one_of(("smallnorb",), kind=self.kind)
        check_positive(image_size=self.image_size)
        check_one_of(("left", "both"), stereo=self.stereo)
        if not self.parts or len(set(self.parts)) < len(self.parts):
            raise InputError(f"parts={self.parts} must be one or two distinct names")
        for part in self.parts:
            check_one_of(tuple(_PREFIX), parts=part)

    @property
    def channels(self) -> int:
        """Channels of an image: one per camera of the stereo pair that is read."""
        return 2 if self.stereo == "both" else 1

    @property
    def num_cameras(self) -> int:
        """Cameras that see every state."""
        return len(self.protocol.azimuths)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Reads, pairs and resizes the images; nothing is cached.

        Args:
            cache_dir: unused.

        Returns:
            The view dataset.

        Raises:
            InputError: a file is missing, damaged or not what its name says.
        """
        del cache_dir
        folder = pathlib.Path(expand_user(self.path, "path"))
        tables = [_read_part(folder, part) for part in self.parts]
        shapes = {pairs.shape[1:] for pairs, _ in tables}
        if len(shapes) > 1:
            raise InputError(f"{self.path}: the parts' images differ in shape, {shapes}")
        images = np.concatenate([pairs[:, : self.channels] for pairs, _ in tables])
        table = base.ObservationTable(
            images=np.moveaxis(images, 1, -1),
            factors=np.concatenate([factors for _, factors in tables]),
            factor_names=FACTOR_NAMES,
            label_names=LABEL_NAMES,
        )
        views = pair_views(table, self.protocol, self.splits, self.kind)
        return dataclasses.replace(
            views, images=images_lib.resize(np.asarray(views.images), self.image_size)
        )


def read_matrix(path: pathlib.Path) -> np.ndarray:
    """Reads one matrix: little-endian i32 magic, ndim and max(3, ndim) dimensions, then the data.

    Args:
        path: path of the plain file; `path` + ".gz" is read if only that exists.

    Returns:
        Read-only uint8 or int32 array.

    Raises:
        InputError: the file is missing, damaged, too short, too long, or has another magic number.
    """
    compressed = path.with_name(path.name + ".gz")
    if not os.path.isfile(path) and not os.path.isfile(compressed):
        raise InputError(f"{path}: no such file, nor {compressed.name} beside it")
    path = path if os.path.isfile(path) else compressed
    try:
        with path.open("rb") if path.suffix == ".mat" else gzip.open(path) as stream:
            return _read_stream(stream, path)
    except (OSError, EOFError, *DAMAGED_ARCHIVE) as error:
        raise InputError(f"{path}: damaged or truncated ({error})") from error


def _read_stream(stream: io.BufferedIOBase, path: pathlib.Path) -> np.ndarray:
    magic, ndim = _integers(stream, 2, path)
    if magic not in _DTYPES:
        raise InputError(f"{path}: magic number {magic:#x} is not smallNORB's")
    if not 1 <= ndim <= 4:
        raise InputError(f"{path}: {ndim} dimensions, must be 1 to 4")
    shape = _integers(stream, max(3, ndim), path)[:ndim]
    if min(shape) < 1:
        raise InputError(f"{path}: dimensions {shape} must be > 0")
    size, packed = math.prod(shape) * _DTYPES[magic].itemsize, path.stat().st_size
    if path.suffix == ".gz":
        check_unpacked(path, size, packed)
    # Allocates no more than the file may hold.
    data = stream.read(size + 1) if size <= packed or path.suffix == ".gz" else b""
    if len(data) != size:
        raise InputError(
            f"{path}: truncated or overlong, dimensions {shape} need {size} bytes of data"
        )
    return np.frombuffer(data, _DTYPES[magic]).reshape(shape)


def _integers(stream: io.BufferedIOBase, count: int, path: pathlib.Path) -> list[int]:
    data = stream.read(4 * count)
    if len(data) < 4 * count:
        raise InputError(f"{path}: truncated, the header is incomplete")
    return np.frombuffer(data, "<i4").tolist()


def _read_part(folder: pathlib.Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads stereo pairs uint8 [M, 2, H, W] and factors int32 [M, 5], columns `FACTOR_NAMES`."""
    paths = {name: folder / f"{_PREFIX[part]}-{name}.mat" for name in ("dat", "cat", "info")}
    data, labels, info = (read_matrix(path) for path in paths.values())
    if data.dtype != np.uint8 or data.ndim != 4 or data.shape[1] != 2:
        raise InputError(f"{paths['dat']}: {data.dtype}{data.shape} is no u1 [M, 2, H, W]")
    for name, matrix, shape in (("cat", labels, data.shape[:1]), ("info", info, (len(data), 4))):
        if matrix.dtype != np.int32 or matrix.shape != shape:
            raise InputError(
                f"{paths[name]}: {matrix.dtype}{matrix.shape} does not fit {len(data)} images"
            )
    if labels.min() < 0 or labels.max() >= len(LABEL_NAMES):
        raise InputError(f"{paths['cat']}: categories must be 0 to {len(LABEL_NAMES) - 1}")
    if info.min() < 0 or (info >= _LEVELS[None]).any() or (info[:, 2] % 2).any():
        raise InputError(
            f"{paths['info']}: instance, elevation, azimuth, lighting must be "
            "0-9, 0-8, even 0-34 and 0-5"
        )
    instance, elevation, azimuth, lighting = info.T
    return data, np.stack([labels, instance, elevation, 10 * azimuth, lighting], axis=1)
