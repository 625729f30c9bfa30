"""Image files as a lazy array: indexing selects files, `np.asarray` reads and decodes them."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from socialjepa_jax.data import images as images_lib
from socialjepa_jax.errors import InputError

Broken = list[tuple[str, str]]  # (file name, error message)


@dataclasses.dataclass(frozen=True, eq=False)
class Files:
    """Lazy uint8 [..., H, W, C], H = W = `size`; only the file names are in memory.

    Indexing works as for an array of images: an index of one image reads it, any other index
    returns the selected `Files`.

    Attributes:
        folder: folder of the files.
        names: names of the files, relative to the folder.
        places: i64[...], the file of each image, an index into `names`.
        size: side that images are resized to, in pixels.
        channels: 1 (RGB becomes luma) or 3 (grey is repeated).
        digests: SHA-256 of every file, hexadecimal; empty: files are not verified.
        broken_is_black: a file that cannot be read yields a black image instead of an error.
    """

    folder: pathlib.Path
    names: tuple[str, ...]
    places: np.ndarray
    size: int
    channels: int
    digests: tuple[str, ...] = ()
    broken_is_black: bool = False

    dtype = np.dtype(np.uint8)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of images."""
        return *self.places.shape, self.size, self.size, self.channels

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
        for index in np.ndindex(*self.places.shape):
            file = int(self.places[index])
            try:
                images[index] = self._read_file(file)
            except ValueError as error:
                good[index] = False
                broken.append((self.names[file], str(error)))
                if not self.broken_is_black:
                    break
        return images, good, broken

    def _read_file(self, file: int) -> np.ndarray:
        """Reads one file: uint8 [H, W, C].

        Raises:
            ValueError: it cannot be read, differs from its digest, or is no image.
        """
        try:
            blob = (self.folder / self.names[file]).read_bytes()
        except OSError as error:
            raise ValueError(f"cannot be read ({error.strerror})") from error
        if self.digests and hashlib.sha256(blob).hexdigest() != self.digests[file]:
            raise ValueError("is not the file of the manifest (its SHA-256 differs)")
        image = images_lib.to_channels(images_lib.decode(blob), self.channels)
        return images_lib.resize(image, self.size)

    def fingerprint(self) -> str:
        """Digest of `places`, of how files are read, and of their names, sizes and times."""
        digest = hashlib.sha256(f"{self.size} {self.channels} {images_lib.VERSION}\n".encode())
        digest.update(self.places.tobytes())
        for name in self.names:
            try:
                status = (self.folder / name).stat()
            except OSError:
                continue
            digest.update(os.fsencode(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n"))
        return digest.hexdigest()


def printable(name: str) -> str:
    """Returns the name of a file with each byte that is not UTF-8 as `\\xff`."""
    return os.fsencode(name).decode(errors="backslashreplace")
