"""Permutation tests of metrics: refit and remeasure with the pairs shuffled.

Whole groups (objects, states) are exchanged, because rows of one group are not independent.

Shape suffixes: N samples, R permutations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.moments import Float64, as_pairs
from socialjepa_jax.alignment.resampling import Samples
from socialjepa_jax.errors import as_array, check_non_negative

Pair = tuple[ArrayLike, ArrayLike]
Score = Callable[[Float64, Float64, Float64, Float64], Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class Null:
    """Metrics of the true pairs beside their values on shuffled pairs.

    Attributes:
        observed: metric -> value on the true pairs.
        samples: metric -> [R] values on shuffled pairs.
    """

    observed: Mapping[str, float]
    samples: Samples

    def __len__(self) -> int:
        """Number of permutations R."""
        return len(next(iter(self.samples.values())))

    def p_value(self, key: str, *, larger: bool = True) -> float:
        """One-sided p-value (1 + hits) / (1 + R) of the observed value.

        Args:
            key: metric.
            larger: True to count samples >= the observed value, False to count samples <= it.
        """
        values, observed = self.samples[key], self.observed[key]
        hits = np.sum(values >= observed if larger else values <= observed)
        return float((1 + hits) / (1 + len(values)))

    def calibrated(self, key: str, best: float) -> float:
        """Returns (observed - null mean) / (best - null mean): 0 at chance, 1 at the best value."""
        mean = float(np.nanmean(self.samples[key]))
        return (self.observed[key] - mean) / (best - mean)


def permutation_null(
    score: Score,
    train: Pair,
    test: Pair,
    *,
    groups: Pair | None = None,
    strata: Pair | None = None,
    map_free: Callable[[np.ndarray], Mapping[str, float]] | None = None,
    num: int = 20,
    seed: int = 0,
) -> Null:
    """Repeats fit and metrics with the rows of y permuted, in train and test separately.

    Args:
        score: fits and measures, (x_train, y_train, x_test, y_test) -> metrics.
        train, test: raw latents (x, y).
        groups: labels of (train, test) rows; whole groups are exchanged.
        strata: labels of (train, test) rows; rows or groups are exchanged within strata only, so
            that the null keeps what the strata explain.
        map_free: further metrics as a function of the order of the test rows of y.
        num: number of permutations R.
        seed: of the permutations.
    """
    check_non_negative(num=num)
    (x0, y0), (x1, y1) = (as_pairs(*pair, "x", "y") for pair in (train, test))
    rng = np.random.default_rng(seed)

    def run(train_order: np.ndarray, test_order: np.ndarray) -> dict[str, float]:
        more = {} if map_free is None else map_free(test_order)
        return {**score(x0, y0[train_order], x1, y1[test_order]), **more}

    def shuffled(part: int) -> np.ndarray:
        named = (("groups", groups), ("strata", strata))
        labels = (None if pair is None else as_array(pair[part], name) for name, pair in named)
        return permute(len((y0, y1)[part]), rng, *labels)

    observed = run(np.arange(len(y0)), np.arange(len(y1)))
    runs = [run(shuffled(0), shuffled(1)) for _ in range(num)]
    return Null(observed, {key: np.asarray([run[key] for run in runs]) for key in observed})


def permute(
    count: int,
    rng: np.random.Generator,
    groups: np.ndarray | None = None,
    strata: np.ndarray | None = None,
) -> np.ndarray:
    """Draws a permutation of rows that moves whole groups within their strata: int64 [N].

    Row i of a group receives row i (modulo the size) of the group that replaces it, so groups of
    different sizes repeat or drop rows.

    Args:
        count: N.
        rng: source of randomness.
        groups: [N] labels; None: every row is a group.
        strata: [N] labels, of which the first row of a group decides; None: one stratum.
    """
    groups = np.arange(count) if groups is None else groups
    strata = np.zeros(count, np.int64) if strata is None else strata
    _, first, group_N = np.unique(groups, return_index=True, return_inverse=True)
    members = np.split(np.argsort(group_N, kind="stable"), np.cumsum(np.bincount(group_N))[:-1])
    order = np.empty(count, np.int64)
    for stratum in np.unique(strata[first]):
        targets = np.flatnonzero(strata[first] == stratum)
        sources = rng.permutation(targets)
        if len(first) == count:  # every group is one row
            order[first[targets]] = first[sources]
            continue
        for target, source in zip(targets, sources):
            order[members[target]] = np.resize(members[source], len(members[target]))
    return order
