"""Which rows of two files belong together, and which of them are held out."""

from __future__ import annotations

import numpy as np

from socialjepa_jax.validate import InputError


def match_ids(ids_x: np.ndarray, ids_y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of x and of y with equal ids, in the order of x: two int64 arrays of equal length.

    Raises:
      InputError: if an id occurs twice in one file, or none in both.
    """
    for name, ids in (("ids_x", ids_x), ("ids_y", ids_y)):
        values, counts = np.unique(ids, return_counts=True)
        if counts.max(initial=0) > 1:
            repeated = values[np.argmax(counts)]
            raise InputError(f"{name}: {repeated} occurs {counts.max()} times, ids must be unique")
    common, rows_x, rows_y = np.intersect1d(ids_x, ids_y, assume_unique=True, return_indices=True)
    if not common.size:
        raise InputError(f"ids_x ({len(ids_x)}) and ids_y ({len(ids_y)}) have no id in common")
    order = np.argsort(rows_x)
    return rows_x[order], rows_y[order]


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
