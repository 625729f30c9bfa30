"""Readers of .csv and .tsv files.

Embeddings are numbered columns (`emb_0`, `emb_1`, ... are `emb`), one column of lists of JSON, or
all columns of a file that holds nothing else. A first line of numbers alone is no header, unless it
counts the columns. Columns of single values are text as written, or integers if all of them are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from socialjepa_jax.alignment.study.formats.base import MAX_LINE, Format
from socialjepa_jax.alignment.study.formats.layout import Layout, is_number
from socialjepa_jax.alignment.study.formats.values import fixed_width, from_json, parse_json
from socialjepa_jax.errors import InputError, shown

# Empty cells are missing, unless they are quoted; all other text is kept, such as NA.
_TEXT = {"strings_can_be_null": True, "quoted_strings_can_be_null": False, "null_values": [""]}


def _names(path: Path) -> dict[str, int]:
    return Layout.of(path).names()


def _read(path: Path, name: str) -> np.ndarray:
    layout = Layout.of(path)
    if name in layout.matrices:
        return _matrix(layout, name)
    values = _text(layout, name)
    if name in layout.lists:
        cells = enumerate(values.to_pylist())
        return from_json(path, name, (parse_json(path, name, row, cell) for row, cell in cells))
    return _integers(fixed_width(path, name, values, "U"))


def _table(layout: Layout, columns: Sequence[str], *, text: bool = False) -> pa.Table:
    """Reads columns as text, or as what they hold."""
    kinds = {"column_types": dict.fromkeys(columns, pa.string()), **_TEXT} if text else {}
    return pc.read_csv(
        layout.path,
        pc.ReadOptions(
            use_threads=False, block_size=MAX_LINE, autogenerate_column_names=not layout.header
        ),
        pc.ParseOptions(
            delimiter=layout.delimiter,
            newlines_in_values=True,
            ignore_empty_lines=False,  # they would move the rows that follow
        ),
        pc.ConvertOptions(include_columns=columns, **kinds),
    )


def _text(layout: Layout, name: str) -> pa.Array:
    """Reads a column as text, without missing values."""
    column = _table(layout, [name], text=True)[name]
    missing = np.flatnonzero(column.is_null())
    if len(missing):
        raise InputError(f"{layout.path}: column {name!r} has no value in row {missing[0]}")
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())


def _integers(values: np.ndarray) -> np.ndarray:
    """Returns integers if all values are, as Python writes them, such as 7 but not 007."""
    try:
        numbers = values.astype(np.int64)
    except (ValueError, OverflowError):
        return values
    return numbers if (numbers.astype(str) == values).all() else values


def _matrix(layout: Layout, name: str) -> np.ndarray:
    """Reads the columns of a matrix: int64, or float64 with NaN for empty cells, or text."""
    columns = layout.matrices[name]
    table = _table(layout, columns)
    other = [column for column in columns if not _is_numeric(table[column].type)]
    if len(other) == len(columns) and not is_number(str(table[columns[0]][0])):
        texts = {column: _text(layout, column) for column in columns}
        parts = [fixed_width(layout.path, *named, "U") for named in texts.items()]
        return np.column_stack(parts)
    for column in other:
        _refuse_cell(layout, column)
    if layout.header and set(columns) <= set(layout.columns):
        _check_alike(layout.path, table)
    arrays = [table[column].to_numpy() for column in columns]
    return np.column_stack([a.astype(np.float64) if a.dtype == object else a for a in arrays])


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)


def _refuse_cell(layout: Layout, column: str) -> None:
    """Names the first cell that is no number."""
    cells = _table(layout, [column], text=True)[column].to_pylist()
    for row, cell in enumerate(cells):
        if cell is not None and not is_number(cell):
            raise InputError(
                f"{layout.path}: row {row} holds {shown(cell)} in column {column!r}, no number"
            )
    raise InputError(f"{layout.path}: column {column!r} holds numbers of an unknown form")


def _check_alike(path: Path, table: pa.Table) -> None:
    """Refuses integers that vary among columns of other numbers: they may be ids or classes."""
    whole = [name for name in table.column_names if pa.types.is_integer(table[name].type)]
    if len(whole) == table.num_columns:
        return
    for name in whole:
        if len(table[name].unique()) > 1:
            raise InputError(
                f"{path}: column {name!r} holds integers, others do not; if all are features, "
                "name them emb_0, emb_1, ...; else remove it"
            )


DELIMITED = Format(_names, _read)
