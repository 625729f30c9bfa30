"""Which rows of several files belong together, and which of them are held out."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from socialjepa_jax.errors import InputError


def match_ids(ids: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """The rows of every file that have an id of all files, in the order of the first.

    Args:
      ids: one array of unique ids a file.
      names: what the arrays are called in messages.

    Returns:
      An int64 array of rows for every file, all of equal length.

    Raises:
      InputError: if an id occurs twice in one file, or none in all.
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


def hold_out(groups: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Marks whole groups, drawn from the seed, until `fraction` of all rows is held out: bool [N].

    Raises:
      InputError: if the fraction or the number of groups leaves either side empty.
    """
    if not 0 < fraction < 1:
        raise InputError(f"test_fraction={fraction} must lie between 0 and 1")
    _, group_N, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    filled = int(np.searchsorted(np.cumsum(sizes[order]), fraction * len(groups))) + 1
    taken = min(filled, len(sizes) - 1)
    if not taken:
        raise InputError(f"{len(sizes)} group(s) cannot be split into train and test")
    return np.isin(group_N, order[:taken])
