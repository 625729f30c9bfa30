"""Arrays from values in memory: columns of Arrow, and lists of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from socialjepa_jax.errors import InputError, check_unpacked, shown


def flat_values(path: Path, name: str, flat: pa.Array) -> np.ndarray:
    """Returns the values of an array without lists: [N], text and bytes of fixed width."""
    if pa.types.is_dictionary(flat.type):
        flat = flat.cast(flat.type.value_type)
    kinds = {"U": ("string", "large_string", "string_view"), "S": ("binary", "large_binary")}
    kinds["S"] += "binary_view", "fixed_size_binary"
    for dtype, types in kinds.items():
        if any(getattr(pa.types, f"is_{kind}")(flat.type) for kind in types):
            return fixed_width(path, name, flat, dtype)
    values = flat.to_numpy(zero_copy_only=False)
    return values.astype(str) if values.dtype == object else values


def fixed_width(path: Path, name: str, flat: pa.Array, dtype: str) -> np.ndarray:
    """Returns text ("U") or bytes ("S") in an array: [N].

    Raises:
        InputError: its longest value makes the array too large, or one ends in a zero.
    """
    values = flat.to_numpy(zero_copy_only=False)
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    width = 4 if dtype == "U" else 1
    check_unpacked(path, int(sizes.max(initial=0)) * width * len(values), path.stat().st_size)
    array = values.astype(dtype) if len(values) else np.zeros(0, f"{dtype}1")
    # NumPy drops zeros at the end, which would make different values equal.
    if not pa.types.is_fixed_size_binary(flat.type) and (np.strings.str_len(array) != sizes).any():
        raise InputError(f"{path}: column {name!r} has values that end in a zero character")
    return array


def from_json(path: Path, name: str, values: Iterable[Any]) -> np.ndarray:
    """Returns the values of JSON of all rows as an array: [N], or [N, D, ...] of nested lists.

    Numbers become int64, or float64 with NaN for null in lists; text stays text.

    Args:
        path, name: for messages.
        values: one per row.

    Raises:
        InputError: values differ in kind or shape, are missing, or cannot be held.
    """
    rows = list(values)
    if rows and isinstance(rows[0], list):
        return _matrix(path, name, rows)
    kinds = [_kind(value) for value in rows]
    for row, kind in enumerate(kinds):
        if kind != kinds[0] or not kind:
            raise InputError(f"{path}: {name!r} of row {row} is {shown(rows[row])}")
    if kinds and kinds[0] == "text":
        return fixed_width(path, name, pa.array(rows, pa.string()), "U")
    return _of_numbers(path, name, rows)


def parse_json(path: Path, name: str, row: int, text: str) -> Any:
    """Parses a value of JSON in a cell."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: {name!r} of row {row} is no list of JSON: {shown(text)}"
        ) from error


def _kind(value: Any) -> str:
    kinds = {"text": str, "truth": bool, "number": int | float}
    return next((name for name, kind in kinds.items() if isinstance(value, kind)), "")


def _of_numbers(path: Path, name: str, values: Sequence[Any]) -> np.ndarray:
    array = np.array(values)
    if array.dtype.kind not in "biuf":  # integers beyond 64 bits
        raise InputError(f"{path}: {name!r} holds numbers of more than 64 bits")
    return array


def _matrix(path: Path, name: str, rows: Sequence[Any]) -> np.ndarray:
    vectors = [_vector(path, name, row, value) for row, value in enumerate(rows)]
    first = vectors[0]
    for row, vector in enumerate(vectors):
        if vector.shape != first.shape:
            raise InputError(
                f"{path}: {name!r} of row {row} has shape {vector.shape}, of row 0 {first.shape}"
            )
        if (vector.dtype.kind == "U") != (first.dtype.kind == "U"):
            raise InputError(f"{path}: {name!r} of row {row} mixes text and numbers")
    width = max(vector.dtype.itemsize for vector in vectors)
    check_unpacked(path, width * first.size * len(rows), path.stat().st_size)
    return np.stack(vectors)


def _vector(path: Path, name: str, row: int, value: Any) -> np.ndarray:
    """Returns one list, nested or not, as an array of numbers or of text."""
    try:
        array = np.array(value if isinstance(value, list) else None)
    except ValueError as error:
        raise InputError(f"{path}: {name!r} of row {row} has lists of different lengths") from error
    if array.dtype == object and array.ndim == 1:
        numbers = [math.nan if v is None else v for v in value]
        array = np.array(numbers) if all(_kind(v) == "number" for v in numbers) else array
    mixed = array.dtype.kind == "U" and not all(isinstance(v, str) for v in _leaves(value))
    if array.dtype.kind not in "iufU" or mixed:
        raise InputError(f"{path}: {name!r} of row {row} is no list of numbers: {shown(value)}")
    return array


def _leaves(value: Any) -> Iterable[Any]:
    """Yields what nested lists hold."""
    for entry in value:
        yield from _leaves(entry) if isinstance(entry, list) else (entry,)
