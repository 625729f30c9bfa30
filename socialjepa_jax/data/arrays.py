"""Dataset of NumPy arrays: images and factors in one `.npz`, or in a folder of `.npy` files."""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterator

import numpy as np

from socialjepa_jax import npz
from socialjepa_jax.data import base
from socialjepa_jax.data import images as images_lib
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.errors import (
    DAMAGED_ARCHIVE,
    InputError,
    check_non_negative,
    check_one_of,
    expand_user,
)


@dataclasses.dataclass(frozen=True)
class ArraysData:
    """Dataset of the user's own arrays.

    Attributes:
        kind: "arrays".
        path: `.npz` file, or folder with a `NAME.npy` for every array.
        columns: (factor, array name) of every factor, integers [M]. The factors "category",
            "instance" and "azimuth" (degrees) are required; "elevation", "lighting" and others
            are optional.
        images: name of the images' array, uint8 [M, H, W] or [M, H, W, C]; with `offsets`,
            concatenated JPEG or PNG files, uint8 [bytes].
        offsets: name of an array of integers [M + 1], file m is images[offsets[m] : offsets[m +
            1]]; "" if the images are not encoded.
        label_names: name of the array of category names, strings; "" names them by number.
        image_size: side in pixels that images are resized to; 0 keeps their size.
        channels: 1 (RGB becomes luma) or 3 (grey is repeated).
        protocol: which images show the same state, and where the cameras stand.
        splits: what is held out.
    """

    kind: str = "arrays"
    path: str = ""
    columns: tuple[tuple[str, str], ...] = tuple((name, name) for name in base.REQUIRED_FACTORS)
    images: str = "images"
    offsets: str = ""
    label_names: str = ""
    image_size: int = 0
    channels: int = 3
    protocol: base.Protocol = base.Protocol(kind="rig", azimuths=(0, 180))
    splits: base.Splits = base.Splits()

    def __post_init__(self) -> None:
        check_one_of(("arrays",), kind=self.kind)
        check_non_negative(image_size=self.image_size)
        check_one_of((1, 3), channels=self.channels)
        base.check_columns(self.columns)

    @property
    def num_cameras(self) -> int:
        """Cameras that see every state."""
        return len(self.protocol.azimuths)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Reads, decodes and pairs the images; nothing is cached.

        Args:
            cache_dir: unused.

        Returns:
            The view dataset.

        Raises:
            InputError: a file or array is missing, damaged, or of another type or length.
        """
        del cache_dir
        path = pathlib.Path(expand_user(self.path, "path"))
        images = np.stack(list(self._images(path)))
        columns = {
            factor: read_array(path, name, "iu", (1,)).astype(np.int64)
            for factor, name in self.columns
        }
        for (_, name), column in zip(self.columns, columns.values()):
            if len(column) != len(images):
                raise InputError(
                    f"{path}: {name!r} has {len(column)} entries for {len(images)} images"
                )
        if self.label_names:
            label_names = tuple(read_array(path, self.label_names, "U", (1,)).tolist())
        else:
            label_names = tuple(str(label) for label in range(columns["category"].max() + 1))
        factors = np.stack(list(columns.values()), axis=1)
        table = base.ObservationTable(images, factors, tuple(columns), label_names)
        return pair_views(table, self.protocol, self.splits, path.stem)

    def _images(self, path: pathlib.Path) -> Iterator[np.ndarray]:
        """Yields at least one uint8 [H, W, channels], all of one shape."""
        shape = None
        for index, image in enumerate(self._stored(path)):
            image = images_lib.to_channels(image, self.channels)
            if self.image_size:
                image = images_lib.resize(image, self.image_size)
            shape = shape or image.shape
            if image.shape != shape:
                raise InputError(
                    f"{path}: {self.images!r}: image {index} is {image.shape}, the first is "
                    f"{shape}; image_size makes them equal"
                )
            yield image
        if not shape:
            raise InputError(f"{path}: {self.images!r} holds no images")

    def _stored(self, path: pathlib.Path) -> Iterator[np.ndarray]:
        """Yields the images as stored: uint8 [H, W, 1 or 3]."""
        if self.offsets:
            yield from self._decoded(path)
            return
        images = read_array(path, self.images, "u", (3, 4))
        images = images[..., None] if images.ndim == 3 else images
        if images.dtype != np.uint8 or images.shape[-1] not in (1, 3) or 0 in images.shape[1:]:
            raise InputError(
                f"{path}: {self.images!r} is {images.dtype}{images.shape}, must be uint8 [M, H, W] "
                "or [M, H, W, 1 or 3]"
            )
        yield from images

    def _decoded(self, path: pathlib.Path) -> Iterator[np.ndarray]:
        blobs = read_array(path, self.images, "u", (1,))
        offsets = read_array(path, self.offsets, "iu", (1,)).astype(np.int64)
        bounds = np.concatenate([[0], offsets, [len(blobs)]])
        if blobs.dtype != np.uint8 or (np.diff(bounds) < 0).any():
            raise InputError(
                f"{path}: {self.offsets!r} must rise from 0 to the length of {self.images!r}, "
                f"which must be uint8 (here {blobs.dtype}[{len(blobs)}])"
            )
        for index, (start, stop) in enumerate(itertools.pairwise(offsets)):
            try:
                yield images_lib.decode(blobs[start:stop].tobytes())
            except ValueError as error:
                raise InputError(f"{path}: {self.images!r}: image {index}: {error}") from error


def read_array(path: pathlib.Path, name: str, kinds: str, ndims: tuple[int, ...]) -> np.ndarray:
    """Reads one array of a `.npz` file or of a folder of `.npy` files after checking its header.

    Args:
        path: file or folder.
        name: name of the array.
        kinds: accepted NumPy dtype kinds ("iu": integers). Objects are never accepted, so nothing
            is unpickled.
        ndims: accepted numbers of dimensions.

    Returns:
        The array.

    Raises:
        InputError: the file or array is missing, damaged, truncated, or of another kind.
    """
    try:
        if os.path.isdir(path):
            return _read_file(path / f"{name}.npy", kinds, ndims)
        if not os.path.isfile(path):
            raise InputError(f"{path}: no such file")
        with npz.open_archive(path) as archive:
            if name not in archive.members:
                held = ", ".join(archive.members)
                raise InputError(f"{path}: no array {name!r}, it holds {held}")
            _check_kind(f"{path}: {name!r}", archive.header(name), kinds, ndims)
            return archive.read(name)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, *DAMAGED_ARCHIVE) as error:
        raise InputError(f"{path}: {name!r}: damaged or truncated ({error})") from error


def _read_file(path: pathlib.Path, kinds: str, ndims: tuple[int, ...]) -> np.ndarray:
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file")
    with path.open("rb") as stream:
        header = npz.Header.read(stream, str(path), path.stat().st_size)
        _check_kind(str(path), header, kinds, ndims)
        flat = np.frombuffer(stream.read(), header.dtype)
    return flat.reshape(header.shape, order="F" if header.order == "F" else "C")


def _check_kind(name: str, header: npz.Header, kinds: str, ndims: tuple[int, ...]) -> None:
    if header.dtype.kind not in kinds or len(header.shape) not in ndims:
        raise InputError(
            f"{name} is {header.dtype}{list(header.shape)}, must be of kind {kinds!r} with "
            f"{' or '.join(map(str, ndims))} dimensions"
        )
