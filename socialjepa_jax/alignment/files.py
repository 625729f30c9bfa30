"""Embedding files: .npy, .npz, .safetensors and parquet, read strictly and never unpickled.

Raw files (.npy, .safetensors) are memory-mapped. A bfloat16 `.npy`, which NumPy writes as raw
two-byte elements, is read as bfloat16.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib import format as npy_format

from socialjepa_jax.validate import InputError

MAX_HEADER = 1 << 20  # bytes of JSON at the head of a .safetensors file
MAX_RATIO = 1000  # uncompressed / compressed size of an .npz member; beyond is a zip bomb
MAX_UNPACKED = 1 << 36  # bytes of an .npz member

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
      key: array of an .npz or .safetensors file, or column of a parquet file. May be left out
        where only one fits.

    Raises:
      InputError: if the file is damaged, unsafe or holds something else; names it.
    """
    array = read_array(path, key)
    if array.dtype.kind != "f" and array.dtype != ml_dtypes.bfloat16:
        raise InputError(f"{path}: embeddings must be floating point, got {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{path}: embeddings must be samples x features, got {array.shape}")
    return array


def read_column(path: Location, key: str | None = None) -> np.ndarray:
    """Reads one value a sample (ids, groups or labels): integers or text, [N]."""
    array = read_array(path, key)
    if array.ndim != 1 or array.dtype.kind not in "iuSU":
        raise InputError(
            f"{path}: expected a column of integers or text, got {array.dtype} {array.shape}"
        )
    return array


def read_array(path: Location, key: str | None = None) -> np.ndarray:
    """Reads an array of any shape from any supported file; see `read_latents`."""
    path = Path(path)
    readers = {
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".safetensors": _read_safetensors,
        ".parquet": _read_parquet,
    }
    if path.suffix not in readers:
        raise InputError(f"{path}: expected a file ending in {', '.join(readers)}")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        return readers[path.suffix](path, key)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, pa.ArrowException) as error:
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


def _read_npy(path: Path, key: str | None) -> np.ndarray:
    if key is not None:
        raise InputError(f"{path}: an .npy file has no keys, got key={key!r}")
    with path.open("rb") as file:
        shape, fortran, dtype, offset = _npy_header(file, str(path))
    _check_size(path, offset, shape, dtype, path.stat().st_size)
    if 0 in shape:
        return np.zeros(shape, dtype)
    if fortran:
        return np.memmap(path, dtype, "r", offset, shape, order="F")
    return np.memmap(path, dtype, "r", offset, shape)


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


def _read_npz(path: Path, key: str | None) -> np.ndarray:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        for name in members:
            if "/" in name or "\\" in name or ".." in name:
                raise InputError(f"{path}: member {name!r} has a path in its name")
        names = [name.removesuffix(".npy") for name in members]
        chosen = _choose(path, key, names)
        info = members.get(f"{chosen}.npy", members.get(chosen))
        assert info is not None  # chosen is one of the names
        if info.file_size > min(MAX_UNPACKED, MAX_RATIO * max(info.compress_size, 1)):
            raise InputError(f"{path}: {chosen} unpacks to {info.file_size} bytes, refused")
        with archive.open(info) as file:
            name = f"{path}: {chosen}"
            shape, fortran, dtype, offset = _npy_header(file, name)
            _check_size(name, offset, shape, dtype, info.file_size)
            flat = np.frombuffer(file.read(), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _choose(path: Path, key: str | None, names: Sequence[str]) -> str:
    if key is None and len(names) == 1:
        return names[0]
    if key is None or key not in names:
        wanted = "choose one with --key" if key is None else f"there is no {key!r}"
        raise InputError(f"{path}: {wanted}; it holds {', '.join(sorted(names)) or 'nothing'}")
    return key


def _read_safetensors(path: Path, key: str | None) -> np.ndarray:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise InputError(f"{path}: header of {length} bytes in a file of {size}")
        header = json.loads(file.read(length))
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    end = max((_span(path, name, entry)[1] for name, entry in tensors.items()), default=0)
    if size != 8 + length + end:
        what = "is truncated" if size < 8 + length + end else "has trailing bytes"
        raise InputError(f"{path}: {what}, {size} bytes instead of {8 + length + end}")
    name = _choose(path, key, list(tensors))
    shape, dtype = tuple(tensors[name]["shape"]), _SAFETENSORS_DTYPES[tensors[name]["dtype"]]
    offset = 8 + length + _span(path, name, tensors[name])[0]
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)


def _span(path: Path, name: str, entry: Any) -> tuple[int, int]:
    try:
        (start, end), shape = entry["data_offsets"], entry["shape"]
        dtype = _SAFETENSORS_DTYPES[entry["dtype"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: tensor {name!r} is not described properly") from error
    if not (0 <= start <= end and end - start == math.prod(shape) * dtype.itemsize):
        raise InputError(f"{path}: tensor {name!r} does not fit its data offsets")
    return start, end


def _read_parquet(path: Path, key: str | None) -> np.ndarray:
    schema = pq.read_schema(path)
    lists = [field.name for field in schema if pa.types.is_fixed_size_list(field.type)]
    name = _choose(path, key, lists if key is None else schema.names)
    column = pq.read_table(path, columns=[name])[name].combine_chunks()
    if column.null_count:
        raise InputError(f"{path}: column {name!r} has {column.null_count} missing values")
    if not pa.types.is_fixed_size_list(column.type):
        values = column.to_numpy(zero_copy_only=False)
        return values.astype(str) if values.dtype == object else values
    flat = column.flatten()
    if flat.null_count:
        raise InputError(f"{path}: column {name!r} has {flat.null_count} missing values")
    return flat.to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
