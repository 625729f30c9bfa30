"""Reading of embedding files of every format of `formats`, and selection of their rows.

Raw files (.npy, .safetensors) are memory-mapped.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from socialjepa_jax.alignment.study.formats import FORMATS, UNREADABLE, Format
from socialjepa_jax.errors import DAMAGED_ARCHIVE, InputError

IN_MEMORY = 1 << 31  # bytes of selected rows; larger selections go to a temporary file
_BLOCK_ROWS = 8192
_SMALL_FLOATS = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)

Location = str | os.PathLike[str]


def read_latents(path: Location, key: str | None = None) -> np.ndarray:
    """Reads a matrix of embeddings [N, D]: floating-point numbers, or integers made into them.

    Args:
        path: file of a format of `FORMATS`.
        key: array of an .npz or .safetensors file, column of a parquet or .csv file (lists of equal
            length), common name of the numbered columns of a .csv file, or field of the objects of
            a .jsonl file. Optional if only one fits; ignored for .npy.

    Raises:
        InputError: if the file is damaged, unsafe or has other contents; the message names it.
    """
    array = read_array(path, key, ndim=2)
    if not _is_float(array.dtype) and array.dtype.kind not in "iu":
        raise InputError(f"{path}: embeddings must be numbers, got {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{path}: embeddings must be samples x features, got {array.shape}")
    return array if _is_float(array.dtype) else _as_floats(array)


def read_layers(path: Location, latents: np.ndarray) -> dict[str, np.ndarray]:
    """Reads all matrices of embeddings from a file, by name, that have as many rows as others.

    Args:
        path: file.
        latents: what `read_latents` found in it; the only matrix is not read again.
    """
    path, rows = Path(path), len(latents)
    matrices = [name for name, ndim in _format(path).names(path).items() if ndim == 2]
    if len(matrices) == 1:
        return {matrices[0]: latents}
    layers = {}
    for name in matrices:
        with contextlib.suppress(InputError):  # such as lists of tokens beside the embeddings
            layers[name] = read_array(path, name)
    return {name: z for name, z in layers.items() if _is_layer(z.dtype) and len(z) == rows}


def read_column(path: Location, key: str | None = None, *, option: str = "--key") -> np.ndarray:
    """Reads one value per sample (ids, groups or labels), integers or text: [N].

    Args:
        path: any supported file.
        key: as for `read_latents`.
        option: flag that sets the key, named in messages.
    """
    array = read_array(path, key, ndim=1, option=option)
    if array.ndim != 1 or array.dtype.kind not in "iuSU":
        raise InputError(
            f"{path}: expected a column of integers or text, got {array.dtype} {array.shape}"
        )
    if array.dtype.kind == "U" and not _is_unicode(array):
        raise InputError(f"{path}: holds text that is no Unicode")
    return array


def read_array(
    path: Location, key: str | None = None, *, ndim: int | None = None, option: str = "--key"
) -> np.ndarray:
    """Reads an array of any shape.

    Args:
        path, key, option: as for `read_latents` and `read_column`.
        ndim: without a key, number of axes of the arrays to choose from.
    """
    path = Path(path)
    reader = _format(path)
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        if path.suffix == ".npy":
            return reader.read(path, "")
        return reader.read(path, _choose(path, key, reader.names(path), ndim, option))
    except InputError:
        raise
    except (OSError, EOFError, ValueError, *DAMAGED_ARCHIVE, pa.ArrowException) as error:
        why = " ".join(str(error).split())
        raise InputError(f"{path}: damaged or not a {path.suffix} file ({why})") from error


def find_bad_rows(z_ND: np.ndarray, *, block: int = _BLOCK_ROWS) -> np.ndarray:
    """Returns the indices of rows that contain NaN or Inf, int64."""
    bad = [
        start + np.flatnonzero(~np.isfinite(z_ND[start : start + block].astype(np.float64)).all(1))
        for start in range(0, len(z_ND), block)
    ]
    return np.concatenate(bad)


def take_rows(z_ND: np.ndarray, rows: np.ndarray, *, block: int = _BLOCK_ROWS) -> np.ndarray:
    """Selects rows, in memory up to 2 GiB and beyond in a memory-mapped temporary file.

    Returns the array itself if all rows are selected in their order.
    """
    if len(rows) == len(z_ND) and (rows == np.arange(len(rows))).all():
        return z_ND
    taken = _empty((len(rows), z_ND.shape[1]), z_ND.dtype)
    for start in range(0, len(rows), block):
        taken[start : start + block] = z_ND[rows[start : start + block]]
    return taken


def _as_floats(z_ND: np.ndarray, *, block: int = _BLOCK_ROWS) -> np.ndarray:
    """Converts integers, such as quantised embeddings: float32 holds those of 16 bits exactly."""
    converted = _empty(z_ND.shape, np.float32 if z_ND.dtype.itemsize <= 2 else np.float64)
    for start in range(0, len(z_ND), block):
        converted[start : start + block] = z_ND[start : start + block]
    return converted


def _empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Returns an array to fill, in memory up to 2 GiB and beyond in a temporary file."""
    if math.prod(shape) * np.dtype(dtype).itemsize <= IN_MEMORY:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:  # the mapping outlives the name and the handle
        return np.memmap(file, dtype, "w+", shape=shape)


def _format(path: Path) -> Format:
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: expected a file ending in {', '.join(FORMATS)}")
    return FORMATS[path.suffix]


def _choose(
    path: Path, key: str | None, names: Mapping[str, int], ndim: int | None, option: str
) -> str:
    readable = {name: axes for name, axes in names.items() if axes != UNREADABLE}
    fitting = [name for name, axes in readable.items() if ndim in (None, axes)] or list(names)
    if key is None and len(fitting) == 1:
        return fitting[0]
    if key is None or key not in names:
        wanted = f"choose one with {option}" if key is None else f"there is no {key!r}"
        raise InputError(f"{path}: {wanted}; it holds {', '.join(sorted(fitting)) or 'nothing'}")
    return key


def _is_unicode(text: np.ndarray) -> bool:
    """True if all characters can be written to a file: neither surrogates nor out of range."""
    codes = np.frombuffer(text.astype(text.dtype.newbyteorder("<")).tobytes(), "<u4")
    return bool(((codes < 0xD800) | ((codes > 0xDFFF) & (codes <= sys.maxunicode))).all())


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype in _SMALL_FLOATS


def _is_layer(dtype: np.dtype) -> bool:
    """True for floating point and quantised numbers; longer integers may be tokens."""
    return _is_float(dtype) or (dtype.kind in "iu" and dtype.itemsize == 1)
