"""Embedding files: .npy, .npz, .safetensors and parquet, read strictly and never unpickled.

Raw files (.npy, .safetensors) are memory-mapped. A bfloat16 `.npy`, which NumPy writes as raw
two-byte elements, is read as bfloat16.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
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

from socialjepa_jax.errors import DAMAGED_ARCHIVE, InputError

MAX_HEADER = 1 << 20  # bytes of JSON at the head of a .safetensors file
MAX_RATIO = 1000  # uncompressed / compressed size of an .npz member; beyond is a zip bomb
MAX_UNPACKED = 1 << 36  # bytes of an .npz member
IN_MEMORY = 1 << 31  # bytes of selected rows; more go to a temporary file

_SAFETENSORS_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}

Location = str | os.PathLike[str]


def read_latents(path: Location, key: str | None = None) -> np.ndarray:
    """Reads a matrix of embeddings [N, D] of floating point numbers.

    Args:
      path: .npy, .npz, .safetensors or .parquet file.
      key: array of an .npz or .safetensors file, or column of a parquet file (lists of one
        length). May be left out where only one fits; an .npy file has none and ignores it.

    Raises:
      InputError: if the file is damaged, unsafe or holds something else; names it.
    """
    array = read_array(path, key, ndim=2)
    if not _is_float(array.dtype):
        raise InputError(f"{path}: embeddings must be floating point, got {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{path}: embeddings must be samples x features, got {array.shape}")
    return array


def read_layers(path: Location, rows: int) -> dict[str, np.ndarray]:
    """Every matrix of embeddings in a file with named arrays that has so many rows, by name."""
    path = Path(path)
    if path.suffix == ".npy":
        return {}
    matrices = [name for name, ndim in _format(path).names(path).items() if ndim == 2]
    layers = {name: read_array(path, name) for name in matrices}
    return {name: z for name, z in layers.items() if _is_float(z.dtype) and len(z) == rows}


def read_column(path: Location, key: str | None = None, *, option: str = "--key") -> np.ndarray:
    """Reads one value a sample (ids, groups or labels): integers or text, [N].

    Args:
      path: any supported file.
      key: as for `read_latents`.
      option: the flag that gives the key, for messages.
    """
    array = read_array(path, key, ndim=1, option=option)
    if array.ndim != 1 or array.dtype.kind not in "iuSU":
        raise InputError(
            f"{path}: expected a column of integers or text, got {array.dtype} {array.shape}"
        )
    return array


def read_array(
    path: Location, key: str | None = None, *, ndim: int | None = None, option: str = "--key"
) -> np.ndarray:
    """Reads an array of any shape from any supported file.

    Args:
      path, key, option: as for `read_latents` and `read_column`.
      ndim: where no key is given, only arrays with so many axes are looked at.
    """
    path = Path(path)
    one = _format(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        if path.suffix == ".npy":
            return one.read(path, "")
        return one.read(path, _choose(path, key, one.names(path), ndim, option))
    except (OSError, EOFError, ValueError, *DAMAGED_ARCHIVE, pa.ArrowException) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: damaged or not a {path.suffix} file ({error})") from error


def find_bad_rows(z_ND: np.ndarray, *, block: int = 8192) -> np.ndarray:
    """Indices of rows that hold NaN or Inf, int64."""
    bad = [
        start + np.flatnonzero(~np.isfinite(z_ND[start : start + block].astype(np.float64)).all(1))
        for start in range(0, len(z_ND), block)
    ]
    return np.concatenate(bad)


def take_rows(z_ND: np.ndarray, rows: np.ndarray, *, block: int = 8192) -> np.ndarray:
    """The rows named, in memory up to 2 GiB, else in a temporary file that is mapped.

    All rows in their order are the array itself.
    """
    if len(rows) == len(z_ND) and (rows == np.arange(len(rows))).all():
        return z_ND
    if len(rows) * z_ND.shape[1] * z_ND.dtype.itemsize <= IN_MEMORY:
        return np.asarray(z_ND[rows])
    with tempfile.TemporaryFile() as file:  # the mapping outlives the name and the handle
        taken = np.memmap(file, z_ND.dtype, "w+", shape=(len(rows), z_ND.shape[1]))
    for start in range(0, len(rows), block):
        taken[start : start + block] = z_ND[rows[start : start + block]]
    return taken


@dataclass(frozen=True)
class _Format:
    """How a kind of file is read: array -> number of its axes, and the array of a name."""

    names: Callable[[Path], Mapping[str, int]]
    read: Callable[[Path, str], np.ndarray]


def _format(path: Path) -> _Format:
    formats = {
        ".npy": _Format(lambda path: {}, lambda path, _: _read_npy(path)),
        ".npz": _Format(_npz_names, _read_npz),
        ".safetensors": _Format(_safetensors_names, _read_safetensors),
        ".parquet": _Format(_parquet_names, _read_parquet),
    }
    if path.suffix not in formats:
        raise InputError(f"{path}: expected a file ending in {', '.join(formats)}")
    return formats[path.suffix]


def _choose(
    path: Path, key: str | None, names: Mapping[str, int], ndim: int | None, option: str
) -> str:
    fitting = [name for name, axes in names.items() if ndim in (None, axes)]
    if key is None and len(fitting or names) == 1:
        return (fitting or list(names))[0]
    if key is None or key not in names:
        wanted = f"choose one with {option}" if key is None else f"there is no {key!r}"
        held = ", ".join(sorted(fitting or names)) or "nothing"
        raise InputError(f"{path}: {wanted}; it holds {held}")
    return key


def _read_npy(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        shape, fortran, dtype, offset = _npy_header(file, str(path))
    _check_size(path, offset, shape, dtype, path.stat().st_size)
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape, order="F" if fortran else "C")


def _npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    version = npy_format.read_magic(file)
    readers = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}
    if version not in readers:
        raise InputError(f"{name}: .npy version {version} is not supported")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise InputError(f"{name}: holds Python objects, which are never unpickled")
    if dtype == np.dtype("V2"):
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


Tensors = dict[str, tuple[tuple[int, ...], np.dtype, int]]  # shape, dtype, place in the file


def _safetensors_header(path: Path) -> Tensors:
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


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def _is_list(kind: pa.DataType) -> bool:
    return (
        pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    )


def _parquet_names(path: Path) -> dict[str, int]:
    return {
        field.name: 2 if _is_list(field.type) else 0 if pa.types.is_nested(field.type) else 1
        for field in pq.read_schema(path)
        if not field.name.startswith("__index_level_")  # what pandas adds
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
