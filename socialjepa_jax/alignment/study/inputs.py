"""Spaces read from files: embeddings, their ids, groups, labels and strata, paired and checked."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from socialjepa_jax.alignment.moments import BLOCK_ROWS
from socialjepa_jax.alignment.study import files
from socialjepa_jax.errors import InputError, as_array

_LISTED_ROWS = 20  # bad rows named in a message
_NUMBER, _PLAIN_NUMBER = re.compile(r"\s*[+-]?\d+\s*"), re.compile(r"0|-?[1-9][0-9]*")


@dataclass(frozen=True)
class Column:
    """A file with one value per row.

    Attributes:
        path: file.
        key: name of the column; None if there is only one.
        option: flag that sets the key, named in messages.
    """

    path: str
    key: str | None = None
    option: str = "--key"

    def read(self, length: int) -> np.ndarray:
        """Reads the values and checks that there are `length` of them."""
        values = files.read_column(self.path, self.key, option=self.option)
        if len(values) != length:
            raise InputError(f"{self.path} has {len(values)} entries for {length} rows")
        return values


@dataclass(frozen=True)
class Sources:
    """Files of two or more spaces and of the columns that describe their rows.

    Attributes:
        spaces: files of embeddings.
        keys: array or column to read from each file with several; None: the only one that fits.
        ids: empty; or one column with names of rows that are already paired; or one column of
            unique ids per space, by which rows are paired.
        groups, labels: columns by row of the first space.
        strata: columns by row of the first space.
        drop_nonfinite: True to drop rows with NaN or Inf in any space, False to refuse them.
    """

    spaces: tuple[str, ...]
    keys: tuple[str | None, ...] = ()
    ids: tuple[Column, ...] = ()
    groups: Column | None = None
    labels: Column | None = None
    strata: tuple[Column, ...] = ()
    drop_nonfinite: bool = False

    def __post_init__(self) -> None:
        if not self.keys:
            object.__setattr__(self, "keys", (None,) * len(self.spaces))
        if len(self.ids) not in (0, 1, len(self.spaces)):
            raise InputError(
                f"{len(self.ids)} files of ids for {len(self.spaces)} spaces: give none, one for "
                "rows that are already paired, or one for each"
            )


@dataclass(frozen=True)
class RowCount:
    """Rows of one file, and how many of them are left out.

    Attributes:
        space: name of the space.
        rows: number of rows in the file.
        unpaired: rows whose id another file lacks.
        not_finite: paired rows that hold NaN or Inf in some space.
    """

    space: str
    rows: int
    unpaired: int
    not_finite: int

    @property
    def left_out(self) -> int:
        """Number of rows that are left out."""
        return self.unpaired + self.not_finite

    def __str__(self) -> str:
        reasons = {"without a partner by id": self.unpaired, "with NaN or Inf": self.not_finite}
        why = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        return f"{self.space}: {self.left_out:,} of {self.rows:,} rows left out ({why})"


@dataclass(frozen=True, eq=False)
class Spaces:
    """Embeddings of the same states, row by row.

    Attributes:
        names: unique names of the spaces, printable.
        latents: [N, D_k] per space, memory-mapped if possible.
        items: [N] names of the rows.
        groups, labels, strata: [N] or None.
        layers: per space, all matrices of its file by name; rows as in `latents`.
        rows: per space, the row numbers [N] of its file.
        counts: per space, the rows of its file.
    """

    names: tuple[str, ...]
    latents: tuple[np.ndarray, ...]
    items: np.ndarray
    groups: np.ndarray | None
    labels: np.ndarray | None
    strata: np.ndarray | None
    layers: tuple[dict[str, np.ndarray], ...]
    counts: tuple[RowCount, ...] = ()
    rows: tuple[np.ndarray, ...] = ()

    def remarks(self) -> list[str]:
        """Says what a user should know of the files: rows left out, and equal embeddings."""
        pairs = itertools.combinations(range(len(self.latents)), 2)
        equal = [
            f"{self.names[i]} and {self.names[j]} hold the same embeddings"
            for i, j in pairs
            if _are_equal(self.latents[i], self.latents[j])
        ]
        return [str(count) for count in self.counts if count.left_out] + equal


def _are_equal(a: np.ndarray, b: np.ndarray) -> bool:
    starts = range(0, len(a), BLOCK_ROWS)
    return a.shape == b.shape and all(
        np.array_equal(a[start : start + BLOCK_ROWS], b[start : start + BLOCK_ROWS])
        for start in starts
    )


def read_spaces(sources: Sources) -> Spaces:
    """Reads all files, pairs their rows and checks them.

    Raises:
        InputError: if a file cannot be used; the message names the file and the row.
    """
    latents = [files.read_latents(*source) for source in zip(sources.spaces, sources.keys)]
    for path, z in zip(sources.spaces, latents):
        _check_varies(path, z)
    rows, items = _paired_rows(sources, latents)
    keep, names = _finite(sources, latents, rows), _names(sources.spaces)
    dropped = len(keep) - int(keep.sum())
    counts = tuple(
        RowCount(name, len(z), len(z) - len(r), dropped) for name, z, r in zip(names, latents, rows)
    )
    rows, items = [r[keep] for r in rows], items[keep]
    if not len(items):
        raise InputError("no rows are left")
    length, first = len(latents[0]), rows[0]
    groups, labels = (
        None if column is None else as_text(column.read(length)[first])
        for column in (sources.groups, sources.labels)
    )
    if labels is not None and sources.labels is not None and len(np.unique(labels)) < 2:
        raise InputError(f"{sources.labels.path}: all labels are alike, a probe needs 2 classes")
    strata = [column.read(length)[first] for column in sources.strata]
    layers = tuple(
        {name: files.take_rows(layer, r) for name, layer in files.read_layers(path, z).items()}
        for path, z, r in zip(sources.spaces, latents, rows)
    )
    return Spaces(
        names,
        tuple(files.take_rows(z, r) for z, r in zip(latents, rows)),
        as_text(items),
        groups,
        labels,
        _cells(strata) if strata else None,
        layers,
        counts,
        tuple(rows),
    )


def _check_varies(path: str, z: np.ndarray) -> None:
    first = np.asarray(z[:1])
    blocks = range(0, len(z), BLOCK_ROWS)
    if all((z[start : start + BLOCK_ROWS] == first).all() for start in blocks):
        raise InputError(f"{path}: all {z.shape[1]} features are constant over {len(z)} rows")


def _paired_rows(
    sources: Sources, latents: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the paired rows of every space, and the names of the pairs."""
    lengths = [len(z) for z in latents]
    if len(sources.ids) == len(latents):
        ids = [column.read(n) for column, n in zip(sources.ids, lengths)]
        rows = match_ids(ids, [column.path for column in sources.ids])
        return rows, ids[0][rows[0]]
    for path, n in zip(sources.spaces, lengths):
        if n != lengths[0]:
            raise InputError(
                f"{sources.spaces[0]} has {lengths[0]} rows but {path} has {n}; give ids to pair by"
            )
    rows = [np.arange(lengths[0])] * len(latents)
    return rows, sources.ids[0].read(lengths[0]) if sources.ids else rows[0]


def _finite(
    sources: Sources, latents: Sequence[np.ndarray], rows: Sequence[np.ndarray]
) -> np.ndarray:
    """Marks the paired rows that are finite in every space: bool [N]."""
    keep = np.ones(len(rows[0]), bool)
    for path, z, r in zip(sources.spaces, latents, rows):
        bad_rows = files.find_bad_rows(z)
        bad = np.isin(r, bad_rows)
        keep &= ~bad
        if bad.any() and not sources.drop_nonfinite:
            named = r[bad]
            column = int(np.argmin(np.isfinite(np.asarray(z[named[0]], np.float64))))
            listed = ", ".join(map(str, named[:_LISTED_ROWS]))
            listed += ", ..." * (len(named) > _LISTED_ROWS)
            raise InputError(
                f"{path}: {len(named)} of {len(r)} rows hold NaN or Inf (rows {listed}; row "
                f"{named[0]} in column {column}); give --drop_nonfinite to leave them out"
            )
    return keep


def _cells(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers the combinations of values of several columns: int64 [N]."""
    codes = np.stack([np.unique(column, return_inverse=True)[1] for column in columns], axis=1)
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)


def _names(paths: Sequence[str]) -> tuple[str, ...]:
    """Returns the shortest unique names of files that can be printed: stems, names, or paths."""
    paths = [printable(path) for path in paths]
    for names in ([Path(p).stem for p in paths], [Path(p).name for p in paths], list(paths)):
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{Path(path).stem} ({i + 1})" for i, path in enumerate(paths))


def printable(path: str | os.PathLike[str]) -> str:
    """Returns a path with U+FFFD for bytes of its name that are no UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def as_text(values: np.ndarray) -> np.ndarray:
    """Returns bytes as text, or as hexadecimal numbers if they are no UTF-8; others as given."""
    if values.dtype.kind != "S":
        return values
    try:
        return np.strings.decode(values, "utf-8")
    except UnicodeDecodeError:
        return np.array([value.hex() for value in values.tolist()])


def match_ids(ids: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """Pairs rows by id: the rows of every file whose ids are in all files, in the first's order.

    Ids are compared exactly. Integers of all types are equal by value; bytes equal the text that
    they encode in UTF-8; an integer equals its decimal digits.

    Args:
        ids: one array of unique ids per file.
        names: names of the files for messages.

    Returns:
        An int64 array of rows per file, all of equal length.

    Raises:
        InputError: if an id occurs twice in a file, no id occurs in all files, or ids of two kinds
            cannot be compared.
    """
    ids = [as_array(column, name) for name, column in zip(names, ids)]
    for name, column in zip(names, ids):
        _check_unique(name, column)
    ids = comparable_ids(ids, names)
    common = functools.reduce(functools.partial(np.intersect1d, assume_unique=True), ids)
    if not common.size:
        sizes = " and ".join(f"{name} ({len(column)})" for name, column in zip(names, ids))
        raise InputError(f"{sizes} have no id in common")
    sorters = [np.argsort(column, kind="stable") for column in ids]
    rows = [sorter[np.searchsorted(column[sorter], common)] for column, sorter in zip(ids, sorters)]
    assert all((column[found] == common).all() for column, found in zip(ids, rows))
    order = np.argsort(rows[0])
    return [found[order] for found in rows]


def _check_unique(name: str, column: np.ndarray) -> None:
    values, first, counts = np.unique(column, return_index=True, return_counts=True)
    if counts.max(initial=0) > 1:
        worst = int(np.argmax(counts))
        raise InputError(
            f"{name}: {values[worst]} occurs {counts[worst]} times (first in row {first[worst]}), "
            f"ids must be unique; {len(column) - len(values)} of {len(column)} rows repeat one"
        )


def comparable_ids(ids: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """Returns all ids in one type that holds each of them exactly: integers, bytes, or text.

    Raises:
        InputError: if ids of two kinds cannot be compared, see `match_ids`.
    """
    kinds = {column.dtype.kind for column in ids}
    common = np.result_type(*ids)
    if kinds == {"S"} or kinds == {"U"} or common.kind in "iu":
        return [column.astype(common) for column in ids]
    if kinds & {"i", "u"}:
        for name, column in zip(names, ids):
            _check_plain_numbers(name, column)
    return [_decoded(name, column) for name, column in zip(names, ids)]


def _decoded(name: str, column: np.ndarray) -> np.ndarray:
    try:
        return (
            np.strings.decode(column, "utf-8") if column.dtype.kind == "S" else column.astype(str)
        )
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}: ids are bytes that are no UTF-8 text, other files hold text or integers"
        ) from error


def _check_plain_numbers(name: str, column: np.ndarray) -> None:
    """Raises `InputError` for text such as 007, which may mean the integer 7 of another file."""
    if column.dtype.kind in "iu":
        return
    for text in as_text(column).tolist():
        if _NUMBER.fullmatch(text) and not _PLAIN_NUMBER.fullmatch(text):
            raise InputError(
                f"{name}: id {text!r} is text, other files hold integers; write ids alike"
            )
