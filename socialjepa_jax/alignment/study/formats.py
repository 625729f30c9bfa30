"""Readers of .npy, .npz, .safetensors and .parquet files, strict and without pickle.

The files are hostile input. NumPy and the safetensors package could read them, but bound neither
the size of a header nor that of an unpacked archive, and copy tensors into memory.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.lib import format as npy_format

from socialjepa_jax.errors import InputError

MAX_HEADER = 1 << 20  # bytes of JSON at the head of a .safetensors file
MAX_RATIO = 1000  # uncompressed / compressed size of an .npz member; more is a zip bomb
MAX_UNPACKED = 1 << 36  # bytes of an .npz member

_SAFETENSORS_DTYPES = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
}


@dataclass(frozen=True)
class Format:
    """Readers of one kind of file.

    Attributes:
        names: path -> number of axes of every named array.
        read: (path, name) -> array.
    """

    names: Callable[[Path], Mapping[str, int]]
    read: Callable[[Path, str], np.ndarray]


def _read_npy(path: Path, _: str) -> np.ndarray:
    with path.open("rb") as file:
        shape, fortran, dtype, offset = _npy_header(file, str(path))
    _check_size(path, offset, shape, dtype, path.stat().st_size)
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape, order="F" if fortran else "C")


def _npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Returns shape, True for Fortran order, dtype, and the offset of the data."""
    version = npy_format.read_magic(file)
    readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
    if version not in readers:
        raise InputError(f"{name}: .npy version {version} is not supported")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise InputError(f"{name}: holds Python objects, which are never unpickled")
    if dtype == np.dtype("V2"):  # how NumPy writes bfloat16
        dtype = np.dtype(ml_dtypes.bfloat16)
    if dtype.kind == "V" and dtype != ml_dtypes.bfloat16:
        raise InputError(f"{name}: structured dtype {dtype} is not supported")
    return shape, fortran, dtype, file.tell()


def _check_size(
    path: Path | str, offset: int, shape: Sequence[int], dtype: np.dtype, size: int
) -> None:
    expected = offset + math.prod(shape) * dtype.itemsize
    if size != expected:
        what = "is truncated" if size < expected else "has trailing bytes"
        raise InputError(f"{path}: {what}, {size} bytes instead of {expected}")


def _npz_members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Returns the members by name; refuses paths in names and zip bombs."""
    members = {}
    for info in archive.infolist():
        name = info.filename
        if "/" in name or "\\" in name or ".." in name:
            raise InputError(f"{path}: member {name!r} has a path in its name")
        if info.file_size > min(MAX_UNPACKED, MAX_RATIO * max(info.compress_size, 1)):
            raise InputError(f"{path}: {name} unpacks to {info.file_size} bytes, refused")
        members[name.removesuffix(".npy")] = info
    return members


def _npz_names(path: Path) -> dict[str, int]:
    names = {}
    with zipfile.ZipFile(path) as archive:
        for name, info in _npz_members(path, archive).items():
            with archive.open(info) as file:
                names[name] = len(_npy_header(file, f"{path}: {name}")[0])
    return names


def _read_npz(path: Path, chosen: str) -> np.ndarray:
    with zipfile.ZipFile(path) as archive:
        info = _npz_members(path, archive)[chosen]
        with archive.open(info) as file:
            name = f"{path}: {chosen}"
            shape, fortran, dtype, offset = _npy_header(file, name)
            _check_size(name, offset, shape, dtype, info.file_size)
            flat = np.frombuffer(file.read(), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


Tensors = dict[str, tuple[tuple[int, ...], np.dtype, int]]  # shape, dtype, offset in the file


def _safetensors_header(path: Path) -> Tensors:
    """Reads the header and checks it against the size of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise InputError(f"{path}: header of {length} bytes in a file of {size}")
        header = json.loads(file.read(length))
    tensors: Tensors = {}
    end = 0
    for name, entry in header.items():
        if name != "__metadata__":
            shape, dtype, (start, stop) = _tensor(path, name, entry)
            tensors[name] = shape, dtype, 8 + length + start
            end = max(end, stop)
    if size != 8 + length + end:
        what = "is truncated" if size < 8 + length + end else "has trailing bytes"
        raise InputError(f"{path}: {what}, {size} bytes instead of {8 + length + end}")
    return tensors


def _tensor(path: Path, name: str, entry: Any) -> tuple[tuple[int, ...], np.dtype, tuple[int, int]]:
    """Returns shape, dtype and data offsets of an entry of the header."""
    try:
        (start, end), shape = entry["data_offsets"], tuple(entry["shape"])
        dtype = _SAFETENSORS_DTYPES[entry["dtype"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: tensor {name!r} is not described properly") from error
    if not (0 <= start <= end and end - start == math.prod(shape) * dtype.itemsize):
        raise InputError(f"{path}: tensor {name!r} does not fit its data offsets")
    return shape, dtype, (start, end)


def _safetensors_names(path: Path) -> dict[str, int]:
    return {name: len(shape) for name, (shape, _, _) in _safetensors_header(path).items()}


def _read_safetensors(path: Path, name: str) -> np.ndarray:
    shape, dtype, offset = _safetensors_header(path)[name]
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)


def _is_list(kind: pa.DataType) -> bool:
    return (
        pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    )


def _parquet_names(path: Path) -> dict[str, int]:
    return {
        field.name: 2 if _is_list(field.type) else 0 if pa.types.is_nested(field.type) else 1
        for field in pq.read_schema(path)
        if not field.name.startswith("__index_level_")  # added by pandas
    }


def _read_parquet(path: Path, name: str) -> np.ndarray:
    column = pq.read_table(path, columns=[name])[name].combine_chunks()
    flat = column.flatten() if _is_list(column.type) else column
    missing = column.null_count or flat.null_count
    if missing:
        raise InputError(f"{path}: column {name!r} has {missing} missing values")
    values = flat.to_numpy(zero_copy_only=False)
    if not _is_list(column.type):
        return values.astype(str) if values.dtype == object else values
    if pa.types.is_fixed_size_list(column.type):
        return values.reshape(len(column), column.type.list_size)
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) > 1:
        raise InputError(f"{path}: column {name!r} has lists of {len(lengths)} different lengths")
    return values.reshape(len(column), -1)


FORMATS = {
    ".npy": Format(lambda _: {}, _read_npy),
    ".npz": Format(_npz_names, _read_npz),
    ".safetensors": Format(_safetensors_names, _read_safetensors),
    ".parquet": Format(_parquet_names, _read_parquet),
}
