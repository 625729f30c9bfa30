"""Picture files as an array that is read when it is looked at."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from socialjepa_jax.data import images as images_lib
from socialjepa_jax.errors import InputError

Broken = list[tuple[str, str]]  # (file, what is wrong with it)


@dataclasses.dataclass(frozen=True, eq=False)
class Files:
    """uint8 [..., H, W, C], H = W = `size`, of which only the file names are in memory.

    Indexing takes a part, as of an array; the part that is one picture is read, and `np.asarray`
    reads them all.

    Attributes:
        folder: where the files are.
        names: of the files, relative to it.
        places: i64[...], the file of each picture, an index into `names`.
        size: side that pictures are resized to, in pixels.
        channels: 1 (RGB becomes luma) or 3 (grey is repeated).
        digests: SHA-256 of every file, hexadecimal; empty: not known.
        broken_is_black: what a file that cannot be read is when it is looked at: a black picture,
            or an error.
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
        """Of the array."""
        return *self.places.shape, self.size, self.size, self.channels

    @property
    def ndim(self) -> int:
        """Of the array."""
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
        """Reads all pictures; stops at the first broken one unless `broken_is_black`.

        Returns:
            uint8 [..., H, W, C], black where broken; bool[...], which are whole; and what is wrong
            with the others.
        """
        images, good = np.zeros(self.shape, np.uint8), np.ones(self.places.shape, bool)
        broken: Broken = []
        for index in np.ndindex(*self.places.shape):
            place = int(self.places[index])
            try:
                images[index] = self.picture(place)
            except ValueError as error:
                good[index] = False
                broken.append((self.names[place], str(error)))
                if not self.broken_is_black:
                    break
        return images, good, broken

    def picture(self, place: int) -> np.ndarray:
        """Reads one file: uint8 [H, W, C].

        Raises:
            ValueError: it cannot be read, is not the file of the manifest, or no picture.
        """
        try:
            blob = (self.folder / self.names[place]).read_bytes()
        except OSError as error:
            raise ValueError(f"cannot be read ({error.strerror})") from error
        if self.digests and hashlib.sha256(blob).hexdigest() != self.digests[place]:
            raise ValueError("is not the file of the manifest (its SHA-256 differs)")
        picture = images_lib.to_channels(images_lib.decode(blob), self.channels)
        return images_lib.resize(picture, self.size)

    def fingerprint(self) -> str:
        """Changes with every file's name, size and time of change, and with what is made of it."""
        digest = hashlib.sha256(f"{self.size} {self.channels}\n".encode())
        digest.update(self.places.tobytes())
        for name in self.names:
            try:
                status = (self.folder / name).stat()
            except OSError:
                continue
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        return digest.hexdigest()
