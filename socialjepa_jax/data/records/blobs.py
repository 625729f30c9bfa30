"""Encoded images by number, and the lazy array of the images that they decode to."""

import contextlib
import dataclasses
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, overload

import numpy as np

from socialjepa_jax.data.files import Blob, Files
from socialjepa_jax.errors import InputError

_TOGETHER = 64  # records that are read at once: 7 MB of photographs


@dataclasses.dataclass(frozen=True)
class Shards:
    """Files in a fixed order, whose records are numbered from the first to the last file.

    Attributes:
        paths: the files.
        counts: records of each.
    """

    paths: tuple[str, ...]
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return sum(self.counts)

    def locate(self, numbers: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the file i64[B] and the position within it i64[B] of records."""
        ends, places = np.cumsum(self.counts), np.asarray(numbers, np.int64)
        files = np.searchsorted(ends, places, side="right")
        return files, places - (ends - np.asarray(self.counts))[files]

    def read(
        self, numbers: Sequence[int], of_file: Callable[[str, np.ndarray], list[Blob]]
    ) -> list[Blob]:
        """Reads records, those of a file together.

        Args:
            numbers: of the records.
            of_file: reads (path, positions i64[b] within the file).
        """
        files, positions = self.locate(numbers)
        blobs: list[Blob] = [b""] * len(numbers)
        for file in np.unique(files):
            where = np.flatnonzero(files == file)
            found = of_file(self.paths[file], positions[where])
            for index, blob in zip(where.tolist(), found, strict=True):
                blobs[index] = blob
        return blobs

    def stamp(self) -> str:
        """Digest of the files' names, sizes, times and counts.

        Raises:
            InputError: a file is gone.
        """
        digest = hashlib.sha256(str(self.counts).encode())
        for path in self.paths:
            try:
                status = os.stat(path)
            except OSError as error:
                raise InputError(f"{path}: cannot be read ({error.strerror})") from None
            name = os.path.basename(path)
            digest.update(os.fsencode(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n"))
        return digest.hexdigest()


class Blobs(Protocol):
    """Records that hold an encoded image each; picklable, and opened where they are read."""

    @property
    def shards(self) -> Shards:
        """The files that hold them."""
        ...

    def read(self, numbers: Sequence[int]) -> list[Blob]:
        """Reads the images of some records; what is wrong with one stands in its place."""
        ...


class Handles:
    """Open files of one process, the last used ones; whoever unpickles it opens its own."""

    def __init__(self, opener: Callable[[str], Any], most: int) -> None:
        """Opens nothing yet.

        Args:
            opener: opens a path; a function of a module.
            most: files that are open at once.
        """
        self._opener, self._most = opener, most
        self._lock, self._open = threading.RLock(), OrderedDict[str, Any]()

    def __reduce__(self) -> tuple[Any, ...]:
        return Handles, (self._opener, self._most)

    @contextlib.contextmanager
    def use(self, path: str) -> Iterator[Any]:
        """Lends the open file to one thread at a time."""
        with self._lock:
            if path not in self._open:
                self._open[path] = self._opener(path)
            self._open.move_to_end(path)
            if len(self._open) > self._most:
                self._open.popitem(last=False)
            yield self._open[path]


@dataclasses.dataclass(frozen=True)
class RecordNames(Sequence[str]):
    """Names of records in messages and lists: the file's name, '#', the position within it."""

    shards: Shards

    def __len__(self) -> int:
        return len(self.shards)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        (file,), (position,) = self.shards.locate([index])
        return f"{os.path.basename(self.shards.paths[file])}#{position}"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Records(Files):
    """Lazy uint8 [..., H, W, C] of records, as `Files` is of files.

    Attributes:
        blobs: the records; `places` are their numbers.
    """

    blobs: Blobs

    def _encoded(self) -> Iterator[Blob]:
        numbers = self.places.ravel().tolist()
        for start in range(0, len(numbers), _TOGETHER):
            yield from self.blobs.read(numbers[start : start + _TOGETHER])

    def _stamps(self) -> Iterator[bytes]:
        yield self.blobs.shards.stamp().encode()
