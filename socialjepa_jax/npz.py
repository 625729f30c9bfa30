"""Strict reading of .npy and .npz files, without pickle.

The files are hostile input. NumPy could read them, but bounds neither the size of an unpacked
archive nor what its compression methods allocate.
"""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import ml_dtypes
import numpy as np
from numpy.lib import format as npy_format

from socialjepa_jax.errors import DAMAGED_ARCHIVE, InputError, check_unpacked

MAX_SIZE = 1 << 63  # sizes of axes are below it

_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
# NumPy writes these two; others are unpacked without a bound on memory.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Header:
    """Header of an .npy file.

    Attributes:
        shape: of the array.
        order: "C" or "F".
        dtype: of the array; never objects, never structured.
        offset: of the data in bytes.
    """

    shape: tuple[int, ...]
    order: str
    dtype: np.dtype
    offset: int

    @staticmethod
    def read(file: IO[bytes], name: str, size: int) -> Header:
        """Reads a header and checks it.

        Args:
            file: at its beginning.
            name: of the array, for messages.
            size: of the file in bytes.

        Raises:
            InputError: if the array is of no accepted kind, or does not fill the file.
        """
        version = npy_format.read_magic(file)
        if version not in _HEADERS:
            raise InputError(f"{name}: .npy version {version} is not supported")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # the header is parsed as Python
            shape, fortran, dtype = _HEADERS[version](file)
        if dtype.hasobject:
            raise InputError(
                f"{name}: holds Python objects, which are never unpickled; save text as "
                "array.astype(str) and numbers as array.astype(float)"
            )
        if dtype == np.dtype("V2"):  # how NumPy writes bfloat16
            dtype = np.dtype(ml_dtypes.bfloat16)
        if dtype.kind == "V" and dtype != ml_dtypes.bfloat16:
            raise InputError(f"{name}: structured dtype {dtype} is not supported")
        check_shape(name, shape)
        header = Header(shape, "F" if fortran else "C", dtype, file.tell())
        check_size(name, size, header.offset + math.prod(shape) * dtype.itemsize)
        return header


def check_shape(name: str, shape: Sequence[object]) -> None:
    """Raises `InputError` unless a shape from a file holds sizes: integers, not even booleans."""
    if not all(type(size) is int and 0 <= size < MAX_SIZE for size in shape):
        raise InputError(f"{name}: {shape} is no shape of an array")


def check_size(name: str, size: int, expected: int) -> None:
    """Raises `InputError` unless a file has the expected size in bytes."""
    if size != expected:
        what = "is truncated" if size < expected else "has trailing bytes"
        raise InputError(f"{name}: {what}, {size} bytes instead of {expected}")


class Archive:
    """An open .npz file.

    Attributes:
        path: of the file.
        members: name of an array -> entry of the archive; folders have none.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        self.members: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in self.members:
                raise InputError(f"{path}: two members are called {name!r}")
            if not info.is_dir():
                self.members[name] = info
        total = sum(info.file_size for info in self.members.values())
        check_unpacked(path, total, path.stat().st_size)

    def header(self, name: str) -> Header:
        """Reads the header of an array.

        Raises:
            InputError: as for `read`.
        """
        with self._open(name) as (file, size):
            return Header.read(file, f"{self.path}: {name}", size)

    def read(self, name: str) -> np.ndarray:
        """Reads an array.

        Raises:
            InputError: if it is damaged, has a path for a name, or is of no accepted kind.
        """
        with self._open(name) as (file, size):
            header = Header.read(file, f"{self.path}: {name}", size)
            flat = np.frombuffer(file.read(), dtype=header.dtype)
        return flat.reshape(header.shape, order="F" if header.order == "F" else "C")

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[IO[bytes], int]]:
        info = self.members[name]
        if "/" in info.filename or "\\" in info.filename or ".." in info.filename:
            raise InputError(f"{self.path}: member {info.filename!r} has a path in its name")
        if info.compress_type not in _COMPRESSIONS:
            raise InputError(
                f"{self.path}: {name} has compression method {info.compress_type}; .npz files "
                "are stored or deflated"
            )
        try:
            with self._archive.open(info) as file:
                yield file, info.file_size
        except InputError:
            raise
        except (OSError, EOFError, ValueError, *DAMAGED_ARCHIVE) as error:
            raise InputError(f"{self.path}: {name} is damaged ({error})") from error


@contextmanager
def open_archive(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """Opens an .npz file.

    Raises:
        InputError: if two members have one name, or all would unpack to too much. A file that is
            no archive raises as `zipfile` does.
    """
    with zipfile.ZipFile(path) as archive:
        yield Archive(Path(path), archive)
