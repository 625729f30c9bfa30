"""Three or more spaces of the same states: every pair, and one hub that serves them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.hub import Hub, fit_hub
from socialjepa_jax.alignment.maps import LinearMap, fit
from socialjepa_jax.alignment.metrics import evaluate, r2
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.similarity import cka_matrix
from socialjepa_jax.alignment.study import intervals, pairing
from socialjepa_jax.alignment.study.study import TEST_ROWS, Settings, check_pairs, check_test


@dataclass(frozen=True, eq=False)
class Comparison:
    """What was found of K spaces, [K, K] from the row's space to the column's.

    Attributes:
      train, test: int64, the fitted rows and the held-out rows that are measured.
      metrics: (i, j) -> the metrics of `evaluate` in the space of j.
      r2: of the map of each pair.
      low, high: its 95 % interval over groups.
      null: the largest R2 of the same fit on shuffled pairs.
      hub: fitted on the training rows.
      hub_r2: R2 of going through the hub, by rotations only.
      cka: debiased, without any map.
      maps: (i, j) -> the fitted map.
    """

    train: np.ndarray
    test: np.ndarray
    metrics: dict[tuple[int, int], dict[str, float]]
    r2: Float64
    low: Float64
    high: Float64
    null: Float64
    hub: Hub
    hub_r2: Float64
    cka: Float64
    maps: dict[tuple[int, int], LinearMap]


def compare_spaces(
    spaces: Sequence[np.ndarray],
    settings: Settings,
    *,
    groups: np.ndarray | None = None,
    strata: np.ndarray | None = None,
) -> Comparison:
    """Fits a map between every two spaces, both ways, and a hub between all.

    Args:
      spaces: K raw latents [N, D_k].
      settings, groups, strata: as for `run_study`.
    """
    check_pairs(len(spaces[0]))
    group_N = np.arange(len(spaces[0])) if groups is None else groups
    test_N = pairing.hold_out(group_N, settings.test_fraction, settings.seed)
    rows = intervals.some(np.flatnonzero(test_N), TEST_ROWS, settings.seed)
    for i, z in enumerate(spaces):
        check_test(f"space {i + 1}", z[rows])
    train, test = [z[~test_N] for z in spaces], [z[rows] for z in spaces]
    weights = resampling.group_weights(group_N[rows], settings.resamples, settings.seed)
    labels = [None if a is None else (a[~test_N], a[rows]) for a in (groups, strata)]
    hub = fit_hub(train, scale=True)
    k = len(spaces)
    values, low, high, null, through = (np.eye(k) for _ in range(5))
    metrics, maps = {}, {}
    for i, j in ((i, j) for i in range(k) for j in range(k) if i != j):
        linear_map = settings.fit(train[i], train[j], group_N[~test_N])
        maps[i, j] = linear_map
        metrics[i, j] = evaluate(linear_map, test[i], test[j], back="forward")
        values[i, j] = metrics[i, j]["r2"]
        low[i, j], high[i, j] = _interval(linear_map, test[i], test[j], weights)
        null[i, j] = _null(linear_map, (train[i], train[j]), (test[i], test[j]), labels, settings)
        through[i, j] = _r2_through(hub, linear_map, test[i], test[j], i, j)
    np.fill_diagonal(null, np.nan)
    matrix = cka_matrix(test, test)
    return Comparison(
        np.flatnonzero(~test_N), rows, metrics, values, low, high, null, hub, through, matrix, maps
    )


def _interval(
    linear_map: LinearMap, x: np.ndarray, y: np.ndarray, weights: Float64
) -> tuple[float, float]:
    squared = intervals.squared_errors(linear_map, (x, y))
    drawn = resampling.resample_regression(squared, linear_map.standardize_y(y), weights)
    found = intervals.Sampling(weights, 1.0).interval(drawn["r2"], r2(linear_map, x, y))
    return found.low, found.high


def _null(
    linear_map: LinearMap,
    train: intervals.Pair,
    test: intervals.Pair,
    labels: Sequence[intervals.Pair | None],
    settings: Settings,
) -> float:
    options = settings.refit(linear_map)

    def score(x: Float64, y: Float64, x_test: Float64, y_test: Float64) -> dict[str, float]:
        return {"r2": r2(fit(x, y, **options), x_test, y_test)}

    found = resampling.permutation_null(
        score,
        train,
        test,
        groups=labels[0],
        strata=labels[1],
        num=settings.permutations,
        seed=settings.seed,
    )
    return float(found.samples["r2"].max())


def _r2_through(
    hub: Hub, linear_map: LinearMap, x: np.ndarray, y: np.ndarray, i: int, j: int
) -> float:
    """R2 of the hub's translation, in the units in which the direct map standardises y."""
    residual = (y - hub.translate(x, i, j)) / linear_map.y_scale
    target = linear_map.standardize_y(y)
    return 1 - float(np.sum(residual**2) / np.sum((target - target.mean(axis=0)) ** 2))
