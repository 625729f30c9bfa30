"""Application of a saved map to files of embeddings, in blocks of rows: files may exceed memory.

Shape key: B rows of a block, D features of the input, E features of the output.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib import format as npy_format

from socialjepa_jax import records
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.neighbourhoods import unit_rows
from socialjepa_jax.alignment.study import formats
from socialjepa_jax.errors import DAMAGED_ARCHIVE, InputError, check_one_of, check_positive
from socialjepa_jax.npz import Header

DIRECTIONS = ("forward", "back")
SUFFIXES = (".npy", ".parquet")
ROWS = 8192  # of a block

Progress = Callable[[int, int], None]  # rows done, rows in all


@dataclass(frozen=True)
class Application:
    """How a map is applied.

    Attributes:
        linear_map: the map.
        direction: "forward" (x to y) | "back" (y to x, by the reverse regression).
        unit_norm: divide rows by their Euclidean norms; rows of zeros stay.
        batch: rows of a block.
        key: column of a parquet file; None if it has one column of embeddings.
    """

    linear_map: LinearMap
    direction: str = "forward"
    unit_norm: bool = False
    batch: int = ROWS
    key: str | None = None

    def __post_init__(self) -> None:
        check_one_of(DIRECTIONS, direction=self.direction)
        check_positive(batch=self.batch)

    @property
    def widths(self) -> tuple[int, int]:
        """Features of the input and of the output."""
        x, y = len(self.linear_map.x_mean), len(self.linear_map.y_mean)
        return (x, y) if self.direction == "forward" else (y, x)

    def __call__(self, z_BD: np.ndarray) -> np.ndarray:
        """Maps rows [B, D], computed in float64: f32[B, E]."""
        if self.direction == "forward":
            mapped_BE = self.linear_map.forward(z_BD)
        else:
            mapped_BE = self.linear_map.backward(z_BD, "regression")
        if self.unit_norm:
            mapped_BE = unit_rows(mapped_BE)
        with np.errstate(over="ignore"):  # checked by the caller
            return mapped_BE.astype(np.float32)


def apply_to_file(
    application: Application,
    source: Path,
    target: Path,
    progress: Progress = lambda done, total: None,
) -> int:
    """Maps the rows of a file into a new one of the same format, which appears when it is whole.

    A parquet file keeps its other columns; its embeddings become fixed-size lists of float32.

    Args:
        application: how.
        source: .npy file of real numbers [N, D], or .parquet file with a column of lists.
        target: file to write; an existing one is replaced.
        progress: called after every block.

    Returns:
        The number of rows N.

    Raises:
        InputError: a file cannot be used; the message names it.
    """
    for path in (source, target):
        if path.suffix not in SUFFIXES:
            raise InputError(f"{path}: expected a file ending in {' or '.join(SUFFIXES)}")
    if source.suffix != target.suffix:
        raise InputError(f"{target}: must end in {source.suffix}, as {source} does")
    if not source.is_file():
        raise InputError(f"{source}: no such file")
    apply = _to_npy if source.suffix == ".npy" else _to_parquet
    try:
        with records.replacing(target) as part:
            return apply(application, source, part, progress)
    except InputError:
        raise
    except (EOFError, ValueError, *DAMAGED_ARCHIVE, pa.ArrowException) as error:
        why = " ".join(str(error).split())
        raise InputError(f"{source}: damaged or not a {source.suffix} file ({why})") from error
    except OSError as error:
        raise InputError(f"{error.filename or target}: {error.strerror or error}") from error


def _check(application: Application, source: Path, width: int) -> None:
    expected = application.widths[0]
    if width != expected:
        raise InputError(
            f"{source}: has {width} features; the map takes {expected} with "
            f"--direction={application.direction}"
        )


def _mapped(application: Application, source: Path, z_BD: np.ndarray, start: int) -> np.ndarray:
    finite = np.isfinite(z_BD).all(axis=1)
    if not finite.all():
        raise InputError(f"{source}: row {start + int(np.argmin(finite))} holds NaN or Inf")
    mapped_BE = application(z_BD)
    if not np.isfinite(mapped_BE).all():
        row = start + int(np.argmin(np.isfinite(mapped_BE).all(axis=1)))
        raise InputError(f"{source}: row {row} is mapped to numbers too large for float32")
    return mapped_BE


def _to_npy(application: Application, source: Path, part: Path, progress: Progress) -> int:
    with source.open("rb") as file, part.open("wb") as out:
        header = Header.read(file, str(source), source.stat().st_size)
        rows = _rows(source, header)
        _check(application, source, header.shape[1])
        shape = (rows, application.widths[1])
        about = {"descr": "<f4", "fortran_order": False, "shape": shape}
        npy_format.write_array_header_1_0(out, about)
        for start in range(0, rows, application.batch):
            z_BD = _block(file, header, min(application.batch, rows - start))
            out.write(_mapped(application, source, z_BD, start).astype("<f4").tobytes())
            progress(start + len(z_BD), rows)
    return rows


def _rows(source: Path, header: Header) -> int:
    if len(header.shape) != 2 or 0 in header.shape:
        raise InputError(f"{source}: embeddings must be samples x features, got {header.shape}")
    if header.order != "C":
        raise InputError(f"{source}: is stored by columns; save it with np.ascontiguousarray")
    if not np.can_cast(header.dtype, np.float64, casting="same_kind"):
        raise InputError(f"{source}: must hold real numbers, got dtype {header.dtype}")
    return header.shape[0]


def _block(file: IO[bytes], header: Header, rows: int) -> np.ndarray:
    """The next rows. Read, and not mapped: mapped pages would count as the process's memory."""
    data = file.read(rows * header.shape[1] * header.dtype.itemsize)
    return np.frombuffer(data, header.dtype).reshape(rows, header.shape[1])


def _to_parquet(application: Application, source: Path, part: Path, progress: Progress) -> int:
    name = formats.choose_matrix(source, application.key)
    done = 0
    with (
        pq.ParquetFile(source, page_checksum_verification=True) as file,
        contextlib.ExitStack() as opened,
    ):
        total, writer = file.metadata.num_rows, None
        for batch in file.iter_batches(application.batch):
            z_BD = formats.column_values(source, name, batch[name])
            if not len(z_BD):
                continue
            _check(application, source, z_BD.shape[1])
            mapped_BE = _mapped(application, source, z_BD, done)
            column = pa.FixedSizeListArray.from_arrays(mapped_BE.reshape(-1), mapped_BE.shape[1])
            place = batch.schema.get_field_index(name)
            table = pa.table(batch).set_column(place, name, column)
            writer = writer or opened.enter_context(pq.ParquetWriter(part, table.schema))
            writer.write_table(table)
            done += len(z_BD)
            progress(done, total)
    if not done:
        raise InputError(f"{source}: has no rows")
    return done
