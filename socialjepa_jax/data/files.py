"""Image files as a lazy array: indexing selects files, `np.asarray` reads and decodes them."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from socialjepa_jax.data import images as images_lib
from socialjepa_jax.errors import (
    ImageSize,
    InputError,
    check_in_range,
    check_one_of,
    sides,
)

Broken = list[tuple[str, str]]  # (file name, error message)
Blob = bytes | ValueError  # an encoded image, or why there is none
FITS = ("stretch", "centre")


@dataclasses.dataclass(frozen=True, eq=False)
class Files:
    """Lazy uint8 [..., H, W, C]; only the file names are in memory.

    Indexing works as for an array of images: an index of one image reads it, any other index
    returns the selected `Files`.

    Attributes:
        folder: folder of the files.
        names: names of the files, relative to the folder.
        places: i64[...], the file of each image, an index into `names`.
        size: side, or (H, W), that images are resized to, in pixels.
        channels: 1 (RGB becomes luma) or 3 (grey is repeated).
        digests: SHA-256 of every file, hexadecimal; empty: files are not verified.
        broken_is_black: a file that cannot be read yields a black image instead of an error.
        fit: "stretch": whole images are resized | "centre": the largest central part that has the
            proportions of `size`.
    """

    folder: pathlib.Path
    names: Sequence[str]
    places: np.ndarray
    size: ImageSize
    channels: int
    digests: tuple[str, ...] = ()
    broken_is_black: bool = False
    fit: str = "stretch"

    dtype = np.dtype(np.uint8)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of images."""
        return *self.places.shape, *sides(self.size), self.channels

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array of images."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        places = self.places[index]
        if np.ndim(places):
            return dataclasses.replace(self, places=places)
        return np.asarray(dataclasses.replace(self, places=places.reshape(1)))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        images, _, broken = self.read()
        if broken and not self.broken_is_black:
            raise InputError(f"{self.folder / broken[0][0]}: {broken[0][1]}")
        return images.astype(dtype or self.dtype, copy=False)

    def read(self) -> tuple[np.ndarray, np.ndarray, Broken]:
        """Reads all images; stops at the first broken file unless `broken_is_black`.

        Returns:
            Images uint8 [..., H, W, C], black where broken; bool[...], true where intact; and the
            name and error message of every broken file.
        """
        images, good = np.zeros(self.shape, np.uint8), np.ones(self.places.shape, bool)
        broken: Broken = []
        for index, blob in zip(np.ndindex(*self.places.shape), self._encoded()):
            try:
                images[index] = self._decoded(blob)
            except ValueError as error:
                good[index] = False
                broken.append((self.names[int(self.places[index])], str(error)))
                if not self.broken_is_black:
                    break
        return images, good, broken

    def _encoded(self) -> Iterator[Blob]:
        """Yields the bytes of every image in order; an error in the place of what has none."""
        for file in self.places.ravel().tolist():
            try:
                blob = (self.folder / self.names[file]).read_bytes()
            except OSError as error:
                yield ValueError(f"cannot be read ({error.strerror})")
                continue
            if self.digests and hashlib.sha256(blob).hexdigest() != self.digests[file]:
                yield ValueError("is not the file of the manifest (its SHA-256 differs)")
                continue
            yield blob

    def _decoded(self, blob: Blob) -> np.ndarray:
        """Decodes one image: uint8 [H, W, C].

        Raises:
            ValueError: there are no bytes, or they are no image.
        """
        if isinstance(blob, ValueError):
            raise blob
        image = images_lib.to_channels(images_lib.decode(blob), self.channels)
        if self.fit == "centre":
            image = images_lib.central(image, self.size)
        return images_lib.resize(image, self.size)

    def fingerprint(self) -> str:
        """Digest of `places`, of how files are read, and of their names, sizes and times."""
        part = f" {self.fit}" if self.fit != "stretch" else ""
        read = f"{self.size} {self.channels} {images_lib.VERSION}{part}\n"
        digest = hashlib.sha256(read.encode())
        digest.update(self.places.tobytes())
        for stamp in self._stamps():
            digest.update(stamp)
        return digest.hexdigest()

    def _stamps(self) -> Iterator[bytes]:
        """Yields the names, sizes and times of the files that are there."""
        for name in self.names:
            try:
                status = (self.folder / name).stat()
            except OSError:
                continue
            yield os.fsencode(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n")


def check_reading(
    image_size: ImageSize, channels: int, read: str, workers: int, max_broken: float
) -> None:
    """Checks how a configuration reads files, see `FolderData`; names the field that is wrong."""
    sides(image_size)
    check_one_of((1, 3), channels=channels)
    check_one_of(("resident", "stream"), read=read)
    check_in_range(0, 256, workers=workers)
    check_in_range(0.0, 1.0, max_broken=max_broken)


def printable(name: str) -> str:
    """Returns the name of a file with each byte that is not UTF-8 as `\\xff`."""
    return os.fsencode(name).decode(errors="backslashreplace")
