"""Reader of .parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from socialjepa_jax.alignment.study.formats.base import Format
from socialjepa_jax.alignment.study.formats.values import flat_values
from socialjepa_jax.errors import InputError, check_unpacked

_BATCH_ROWS = 8192


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
    values = flat_values(path, name, flat)
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


PARQUET = Format(_parquet_names, _read_parquet)
