"""Spaces read from files: embeddings, their ids, groups, labels and strata, paired and checked."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from socialjepa_jax.alignment.moments import BLOCK_ROWS
from socialjepa_jax.alignment.study import files
from socialjepa_jax.errors import InputError

_LISTED_ROWS = 20  # bad rows named in a message


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
        key: array or column to read from files with several.
        ids: empty; or one column with names of rows that are already paired; or one column of
            unique ids per space, by which rows are paired.
        groups, labels: columns by row of the first space.
        strata: columns by row of the first space.
        drop_nonfinite: True to drop rows with NaN or Inf in any space, False to refuse them.
    """

    spaces: tuple[str, ...]
    key: str | None = None
    ids: tuple[Column, ...] = ()
    groups: Column | None = None
    labels: Column | None = None
    strata: tuple[Column, ...] = ()
    drop_nonfinite: bool = False

    def __post_init__(self) -> None:
        if len(self.ids) not in (0, 1, len(self.spaces)):
            raise InputError(
                f"{len(self.ids)} files of ids for {len(self.spaces)} spaces: give none, one for "
                "rows that are already paired, or one for each"
            )


@dataclass(frozen=True, eq=False)
class Spaces:
    """Embeddings of the same states, row by row.

    Attributes:
        names: unique names of the spaces.
        latents: [N, D_k] per space, memory-mapped if possible.
        items: [N] names of the rows.
        groups, labels, strata: [N] or None.
        layers: per space, all matrices of its file by name; rows as in `latents`.
    """

    names: tuple[str, ...]
    latents: tuple[np.ndarray, ...]
    items: np.ndarray
    groups: np.ndarray | None
    labels: np.ndarray | None
    strata: np.ndarray | None
    layers: tuple[dict[str, np.ndarray], ...]


def read_spaces(sources: Sources) -> Spaces:
    """Reads all files, pairs their rows and checks them.

    Raises:
        InputError: if a file cannot be used; the message names the file and the row.
    """
    latents = [files.read_latents(path, sources.key) for path in sources.spaces]
    for path, z in zip(sources.spaces, latents):
        _check_varies(path, z)
    rows, items = _paired_rows(sources, latents)
    keep = _finite(sources, latents, rows)
    rows, items = [r[keep] for r in rows], items[keep]
    if not len(items):
        raise InputError("no rows are left")
    length, first = len(latents[0]), rows[0]
    groups, labels = (
        None if column is None else column.read(length)[first]
        for column in (sources.groups, sources.labels)
    )
    if labels is not None and sources.labels is not None and len(np.unique(labels)) < 2:
        raise InputError(f"{sources.labels.path}: all labels are alike, a probe needs 2 classes")
    strata = [column.read(length)[first] for column in sources.strata]
    layers = tuple(
        {name: files.take_rows(layer, r) for name, layer in files.read_layers(path, len(z)).items()}
        for path, z, r in zip(sources.spaces, latents, rows)
    )
    return Spaces(
        _names(sources.spaces),
        tuple(files.take_rows(z, r) for z, r in zip(latents, rows)),
        items,
        groups,
        labels,
        _cells(strata) if strata else None,
        layers,
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
    """Returns the shortest unique names of files: stems, file names, or paths."""
    for names in ([Path(p).stem for p in paths], [Path(p).name for p in paths], list(paths)):
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{Path(path).stem} ({i + 1})" for i, path in enumerate(paths))


def match_ids(ids: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """Pairs rows by id: the rows of every file whose ids are in all files, in the first's order.

    Args:
        ids: one array of unique ids per file.
        names: names of the files for messages.

    Returns:
        An int64 array of rows per file, all of equal length.

    Raises:
        InputError: if an id occurs twice in a file, or no id occurs in all files.
    """
    for name, column in zip(names, ids):
        values, first, counts = np.unique(column, return_index=True, return_counts=True)
        if counts.max(initial=0) > 1:
            worst = int(np.argmax(counts))
            raise InputError(
                f"{name}: {values[worst]} occurs {counts[worst]} times (first in row "
                f"{first[worst]}), ids must be unique"
            )
    common = functools.reduce(functools.partial(np.intersect1d, assume_unique=True), ids)
    if not common.size:
        sizes = " and ".join(f"{name} ({len(column)})" for name, column in zip(names, ids))
        raise InputError(f"{sizes} have no id in common")
    order = None
    rows = []
    for column in ids:
        sorter = np.argsort(column, kind="stable")
        found = sorter[np.searchsorted(column[sorter], common.astype(column.dtype))]
        order = np.argsort(found) if order is None else order
        rows.append(found[order])
    return rows
