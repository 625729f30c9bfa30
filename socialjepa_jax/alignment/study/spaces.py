"""Comparison of two or more spaces of the same states: a map for every pair, and one hub."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.fitting import fit
from socialjepa_jax.alignment.hub import Hub, fit_hub
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import evaluate, prediction_r2, r2
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.permutation import permutation_null
from socialjepa_jax.alignment.similarity import cka_matrix
from socialjepa_jax.alignment.study.intervals import GroupBootstrap, Pair, squared_errors
from socialjepa_jax.alignment.study.settings import (
    TEST_ROWS,
    Settings,
    check_pairs,
    check_test,
    hold_out,
    sample_rows,
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results for K spaces; matrices are [K, K], from the row's space to the column's.

    Attributes:
      train, test: row numbers of the fitted and of the measured rows, int64.
      metrics: (i, j) -> metrics of `evaluate` in the space of j.
      r2: of the direct maps.
      low, high: 95 % intervals of `r2` over groups.
      null: largest R2 of the same fit on shuffled pairs; NaN on the diagonal.
      hub: fitted on the training rows.
      hub_r2: R2 through the hub, by rotations only.
      cka: debiased CKA, without a map.
      maps: (i, j) -> fitted map.
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
    """Fits maps in both directions between every two spaces, and a hub between all.

    Args:
      spaces: K raw latents [N, D_k].
      settings, groups, strata: as for `run_study`.

    Raises:
      InputError: if there are too few pairs, or the test part of a space is constant.
    """
    check_pairs(len(spaces[0]))
    group_N = np.arange(len(spaces[0])) if groups is None else groups
    held_N = hold_out(group_N, settings.test_fraction, settings.seed)
    rows = sample_rows(np.flatnonzero(held_N), TEST_ROWS, settings.seed)
    for i, z in enumerate(spaces):
        check_test(f"space {i + 1}", z[rows])
    train, test = [z[~held_N] for z in spaces], [z[rows] for z in spaces]
    weights = resampling.group_weights(group_N[rows], settings.resamples, settings.seed)
    bootstrap = GroupBootstrap(weights)
    labels = [None if a is None else (a[~held_N], a[rows]) for a in (groups, strata)]
    hub = fit_hub(train, scale=True)
    k = len(spaces)
    r2s, low, high, null, hub_r2 = (np.eye(k) for _ in range(5))
    metrics, maps = {}, {}
    for i, j in itertools.permutations(range(k), 2):
        train_pair, test_pair = (train[i], train[j]), (test[i], test[j])
        maps[i, j] = settings.fit(*train_pair, group_N[~held_N])
        metrics[i, j] = evaluate(maps[i, j], *test_pair, back="forward")
        r2s[i, j] = metrics[i, j]["r2"]
        low[i, j], high[i, j] = _interval(maps[i, j], test_pair, bootstrap)
        null[i, j] = _largest_null(maps[i, j], train_pair, test_pair, labels, settings)
        hub_r2[i, j] = prediction_r2(hub.translate(test[i], i, j), test[j], maps[i, j].y_scale)
    np.fill_diagonal(null, np.nan)
    return Comparison(
        train=np.flatnonzero(~held_N),
        test=rows,
        metrics=metrics,
        r2=r2s,
        low=low,
        high=high,
        null=null,
        hub=hub,
        hub_r2=hub_r2,
        cka=cka_matrix(test, test),
        maps=maps,
    )


def _interval(linear_map: LinearMap, test: Pair, bootstrap: GroupBootstrap) -> tuple[float, float]:
    squared_N, target = squared_errors(linear_map, test), linear_map.standardize_y(test[1])
    samples = resampling.resample_regression(squared_N, target, bootstrap.weights)
    interval = bootstrap.interval(samples["r2"], r2(linear_map, *test))
    return interval.low, interval.high


def _largest_null(
    linear_map: LinearMap,
    train: Pair,
    test: Pair,
    labels: Sequence[Pair | None],
    settings: Settings,
) -> float:
    """Returns the largest R2 of fits on shuffled pairs; `labels` are groups and strata."""
    options = settings.refit(linear_map)

    def score(x: Float64, y: Float64, x_test: Float64, y_test: Float64) -> dict[str, float]:
        return {"r2": r2(fit(x, y, **options), x_test, y_test)}

    null = permutation_null(
        score,
        train,
        test,
        groups=labels[0],
        strata=labels[1],
        num=settings.permutations,
        seed=settings.seed,
    )
    return float(null.samples["r2"].max())
