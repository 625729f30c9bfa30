"""Readers of .npy, .npz and .safetensors files.

The safetensors package could read its own, but does not bound the size of a header, and copies
tensors into memory.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from socialjepa_jax.alignment.study.formats.base import UNREADABLE, Format, distinct
from socialjepa_jax.errors import InputError
from socialjepa_jax.npz import Header, check_shape, check_size, open_archive

MAX_HEADER = 1 << 20  # bytes of JSON at the head of a .safetensors file

_SAFETENSORS_DTYPES = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BOOL": np.dtype("?"),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
}


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
        header = json.loads(file.read(length), object_pairs_hook=distinct)
    if not isinstance(header, dict):
        raise InputError(f"{path}: the header is no table of tensors")
    header.pop("__metadata__", None)
    tensors = {name: _Tensor.of(path, name, entry) for name, entry in header.items()}
    end = max((tensor.stop for tensor in tensors.values()), default=0)
    check_size(str(path), size, 8 + length + end)
    return tensors, 8 + length


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


NPY = Format(lambda _: {}, _read_npy)
NPZ = Format(_npz_names, _read_npz)
SAFETENSORS = Format(_safetensors_names, _read_safetensors)
