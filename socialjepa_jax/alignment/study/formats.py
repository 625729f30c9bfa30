"""Readers of .npy, .npz, .safetensors and .parquet files, strict and without pickle.

The files are hostile input. The safetensors package could read its own, but does not bound the
size of a header, and copies tensors into memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from socialjepa_jax.errors import InputError, check_unpacked
from socialjepa_jax.npz import Header, check_shape, check_size, open_archive

MAX_HEADER = 1 << 20  # bytes of JSON at the head of a .safetensors file
UNREADABLE = -1  # number of axes of an array that its reader refuses
_BATCH_ROWS = 8192  # of a parquet file

_SAFETENSORS_DTYPES = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BOOL": np.dtype("?"),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
}


@dataclass(frozen=True)
class Format:
    """Readers of one kind of file.

    Attributes:
        names: path -> number of axes of every named array, or `UNREADABLE`.
        read: (path, name) -> array.
    """

    names: Callable[[Path], Mapping[str, int]]
    read: Callable[[Path, str], np.ndarray]


def _read_npy(path: Path, _: str) -> np.ndarray:
    with path.open("rb") as file:
        header = Header.read(file, str(path), path.stat().st_size)
    return _mapped(path, header.shape, header.dtype, header.offset, order=header.order)


def _mapped(
    path: Path, shape: tuple[int, ...], dtype: np.dtype, offset: int, order: Any = "C"
) -> np.ndarray:
    if 0 in shape:  # cannot be mapped
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", offset, shape, order)


def _npz_names(path: Path) -> dict[str, int]:
    names = {}
    with open_archive(path) as archive:
        for name in archive.members:
            try:
                names[name] = len(archive.header(name).shape)
            except InputError:  # said if it is chosen
                names[name] = UNREADABLE
    return names


def _read_npz(path: Path, chosen: str) -> np.ndarray:
    with open_archive(path) as archive:
        return archive.read(chosen)


@dataclass(frozen=True)
class _Tensor:
    """Entry in the header of a .safetensors file: start and stop are bytes after the header."""

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @staticmethod
    def of(path: Path, name: str, entry: Any) -> _Tensor:
        """Checks an entry."""
        try:
            (start, stop), shape, kind = entry["data_offsets"], entry["shape"], entry["dtype"]
            numbers = [start, stop, *shape]
            name.encode()
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: tensor {name!r} is not described properly") from error
        if not isinstance(shape, list) or not isinstance(kind, str):
            raise InputError(f"{path}: tensor {name!r} is not described properly")
        check_shape(f"{path}: tensor {name!r}", numbers)
        dtype = _SAFETENSORS_DTYPES.get(kind)
        if start > stop or (dtype and stop - start != math.prod(shape) * dtype.itemsize):
            raise InputError(f"{path}: tensor {name!r} does not fit its data offsets")
        return _Tensor(name, kind, tuple(shape), start, stop)


def _safetensors_header(path: Path) -> tuple[dict[str, _Tensor], int]:
    """Reads the header and checks it against the size of the file.

    Returns:
        The tensors by name, and the offset of their data.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise InputError(f"{path}: header of {length} bytes in a file of {size}")
        header = json.loads(file.read(length), object_pairs_hook=_distinct)
    if not isinstance(header, dict):
        raise InputError(f"{path}: the header is no table of tensors")
    header.pop("__metadata__", None)
    tensors = {name: _Tensor.of(path, name, entry) for name, entry in header.items()}
    end = max((tensor.stop for tensor in tensors.values()), default=0)
    check_size(str(path), size, 8 + length + end)
    return tensors, 8 + length


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice in the header")
    return table


def _safetensors_names(path: Path) -> dict[str, int]:
    return {
        name: len(tensor.shape) if tensor.kind in _SAFETENSORS_DTYPES else UNREADABLE
        for name, tensor in _safetensors_header(path)[0].items()
    }


def _read_safetensors(path: Path, name: str) -> np.ndarray:
    tensors, offset = _safetensors_header(path)
    tensor = tensors[name]
    if tensor.kind not in _SAFETENSORS_DTYPES:
        raise InputError(f"{path}: tensor {name!r} has dtype {tensor.kind!r}, not supported")
    dtype = _SAFETENSORS_DTYPES[tensor.kind]
    return _mapped(path, tensor.shape, dtype, offset + tensor.start)


def _is_list(kind: pa.DataType) -> bool:
    lists = "fixed_size_list", "list", "large_list", "list_view", "large_list_view"
    return any(getattr(pa.types, f"is_{name}")(kind) for name in lists)


def _axes(kind: pa.DataType) -> int:
    """Returns the number of axes of a column of this type."""
    if isinstance(kind, pa.FixedShapeTensorType):
        return 1 + len(kind.shape)
    return 2 if _is_list(kind) else 0 if pa.types.is_nested(kind) else 1


def _parquet_names(path: Path) -> dict[str, int]:
    columns = [(field.name, _axes(field.type)) for field in pq.read_schema(path)]
    if len(dict(columns)) < len(columns):
        raise InputError(f"{path}: two columns have one name")
    # Columns of that name are added by pandas.
    return {name: axes for name, axes in columns if not name.startswith("__index_level_")}


def _read_parquet(path: Path, name: str) -> np.ndarray:
    return column_values(path, name, _read_column(path, name))


def choose_matrix(path: Path, key: str | None) -> str:
    """Returns the column of embeddings of a parquet file: `key`, or the only one of lists.

    Raises:
        InputError: there is no such column, or several without a key.
    """
    matrices = [name for name, axes in _parquet_names(path).items() if axes == 2]
    if key is None and len(matrices) == 1:
        return matrices[0]
    if key not in matrices:
        wanted = "choose one with --key" if key is None else f"there are no embeddings {key!r}"
        raise InputError(f"{path}: {wanted}; it holds {', '.join(sorted(matrices)) or 'none'}")
    return key


def column_values(path: Path, name: str, column: pa.Array) -> np.ndarray:
    """Returns a column, or a part of it, as an array: [N], or [N, D] of lists of equal length.

    Args:
        path, name: for messages.
        column: values without missing ones.

    Raises:
        InputError: values are missing, lists differ in length, or the type is not supported.
    """
    stored = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
    flat = stored.flatten() if _is_list(stored.type) else stored
    missing = stored.null_count or flat.null_count
    if missing:
        raise InputError(f"{path}: column {name!r} has {missing} missing values")
    if isinstance(column.type, pa.FixedShapeTensorType) and len(column):
        return column.to_numpy_ndarray()
    values = _values(path, name, flat)
    if flat is stored:
        return values
    lengths = pc.unique(pc.list_value_length(stored)).to_pylist()
    if len(lengths) > 1:
        raise InputError(f"{path}: column {name!r} has lists of {len(lengths)} different lengths")
    return values.reshape(len(stored), *(lengths or [getattr(stored.type, "list_size", 0)]))


def _read_column(path: Path, name: str) -> pa.Array:
    """Reads a column batch by batch, until it is too large.

    The metadata are not asked for sizes: they may lie, and pyarrow aborts on some damaged ones.
    """
    packed = path.stat().st_size
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        parts, unpacked = [], 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=[name]):
            parts.append(batch[name])
            unpacked += batch[name].nbytes
            check_unpacked(path, unpacked, packed)
        return pa.concat_arrays(parts or [pa.array([], file.schema_arrow.field(name).type)])


def _values(path: Path, name: str, flat: pa.Array) -> np.ndarray:
    """Returns the values of an array without lists: [N], text and bytes of fixed width."""
    if pa.types.is_dictionary(flat.type):
        flat = flat.cast(flat.type.value_type)
    kinds = {"U": ("string", "large_string", "string_view"), "S": ("binary", "large_binary")}
    kinds["S"] += "binary_view", "fixed_size_binary"
    for dtype, types in kinds.items():
        if any(getattr(pa.types, f"is_{kind}")(flat.type) for kind in types):
            return _fixed_width(path, name, flat, dtype)
    values = flat.to_numpy(zero_copy_only=False)
    return values.astype(str) if values.dtype == object else values


def _fixed_width(path: Path, name: str, flat: pa.Array, dtype: str) -> np.ndarray:
    values = flat.to_numpy(zero_copy_only=False)
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    width = 4 if dtype == "U" else 1
    check_unpacked(path, int(sizes.max(initial=0)) * width * len(values), path.stat().st_size)
    array = values.astype(dtype) if len(values) else np.zeros(0, f"{dtype}1")
    # NumPy drops zeros at the end, which would make different values equal.
    if not pa.types.is_fixed_size_binary(flat.type) and (np.strings.str_len(array) != sizes).any():
        raise InputError(f"{path}: column {name!r} has values that end in a zero character")
    return array


FORMATS = {
    ".npy": Format(lambda _: {}, _read_npy),
    ".npz": Format(_npz_names, _read_npz),
    ".safetensors": Format(_safetensors_names, _read_safetensors),
    ".parquet": Format(_parquet_names, _read_parquet),
}
