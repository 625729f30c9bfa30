"""Dependence of a map on its training pairs: budget (Figure 5) and noise (Table 4) curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.fitting import fit
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import as_pairs
from socialjepa_jax.alignment.study import scores
from socialjepa_jax.errors import check_in_range

BUDGETS = (50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
NOISES = (0.0, 0.05, 0.1, 0.2, 0.3)

Pair = tuple[ArrayLike, ArrayLike]
Row = dict[str, float]


def pair_budget(
    train: Pair,
    test: Pair,
    *,
    sizes: Sequence[int] = BUDGETS,
    repeats: int = 3,
    seed: int = 0,
    back: str = "inverse",
    **options: Any,
) -> list[Row]:
    """Fits subsets of the training pairs and scores each fit on all test pairs.

    Args:
        train, test: raw latents (x, y).
        sizes: numbers of pairs; those beyond all pairs are replaced by all.
        repeats: draws per size (1 for all pairs); draws of one repeat are nested.
        seed: of the draws.
        back: common space of DSC and NOS.
        **options: of `fit`, without groups.

    Returns:
        One row per fit: pairs, repeat, r2, dsc, dsc_bound, nos@10, kappa, kappa_effective.
    """
    x, y = as_pairs(*train, "x", "y")
    sizes = [*(size for size in sorted(set(sizes)) if size < len(x)), len(x)]
    rows = []
    for repeat in range(repeats):
        order = np.random.default_rng([seed, repeat]).permutation(len(x))
        for size in sizes if repeat == 0 else sizes[:-1]:
            linear_map = fit(x[order[:size]], y[order[:size]], **options)
            rows.append({"pairs": size, "repeat": repeat, **_score(linear_map, test, back)})
    return rows


def pair_noise(
    train: Pair,
    test: Pair,
    *,
    fractions: Sequence[float] = NOISES,
    repeats: int = 3,
    seed: int = 0,
    back: str = "inverse",
    **options: Any,
) -> list[Row]:
    """Fits training pairs of which a share is mismatched and scores each fit on true test pairs.

    Args:
        train, test, seed, back, **options: as for `pair_budget`.
        fractions: shares of pairs whose y are exchanged in a random cycle.
        repeats: draws per fraction.

    Returns:
        One row per fit: epsilon, repeat, r2, dsc, dsc_bound, nos@10, kappa, kappa_effective.
    """
    x, y = as_pairs(*train, "x", "y")
    rows = []
    for repeat in range(repeats):
        order = np.random.default_rng([seed, repeat]).permutation(len(x))
        for epsilon in fractions:
            linear_map = fit(x, y[mismatched(order, epsilon)], **options)
            rows.append({"epsilon": epsilon, "repeat": repeat, **_score(linear_map, test, back)})
    return rows


def mismatched(order: np.ndarray, epsilon: float) -> np.ndarray:
    """Returns the row of y that each row of x is paired with, if a share of the pairs is wrong.

    Args:
        order: i64[N], a permutation; its first rows have the wrong partners, each the one before.
        epsilon: share of wrong pairs.
    """
    check_in_range(0.0, 1.0, epsilon=epsilon)
    wrong = order[: round(epsilon * len(order))]
    partner = np.arange(len(order))
    partner[wrong] = np.roll(wrong, 1)
    return partner


def _score(linear_map: LinearMap, test: Pair, back: str) -> Row:
    values = scores.map_scores(linear_map, *test, backs=(back,))
    keys = [key for key in ("dsc", "dsc_bound", "nos@10") if f"{back}/{key}" in values]
    geometry = {key: values[f"{back}/{key}"] for key in keys}
    spectrum = {"kappa": linear_map.kappa, "kappa_effective": linear_map.kappa_effective}
    return {"r2": values["r2"], **geometry, **spectrum}
