"""Comparison of two or more spaces of the same states: a map for every pair, and one hub."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.hub import Hub, fit_hub
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import evaluate, prediction_r2, r2
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.similarity import cka_matrix
from socialjepa_jax.alignment.study.intervals import GroupBootstrap
from socialjepa_jax.alignment.study.settings import Pair, Settings, Split, check_pairs, check_test


@dataclass(frozen=True, eq=False)
class PairResult:
    """Result of the map from one space to another.

    Attributes:
        linear_map: fitted on the training rows.
        metrics: of `evaluate` in the space of y.
        interval: 95 % interval of R2 over groups.
        null: largest R2 of the same fit on shuffled pairs.
        hub_r2: R2 through the hub, by rotations only.
    """

    linear_map: LinearMap
    metrics: dict[str, float]
    interval: resampling.Interval
    null: float
    hub_r2: float

    @property
    def r2(self) -> float:
        """R2 of the direct map."""
        return self.metrics["r2"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results for K spaces.

    Attributes:
        split: row numbers of the fitted (`train`) and of the measured rows (`test`).
        pairs: (i, j) -> result of the map from space i to space j.
        hub: fitted on the training rows.
        cka: debiased CKA [K, K], without a map.
    """

    split: Split
    pairs: dict[tuple[int, int], PairResult]
    hub: Hub
    cka: Float64

    def matrix(self, attribute: str) -> Float64:
        """Returns an attribute of all pairs as a matrix [K, K] with a diagonal of ones."""
        values = np.eye(len(self.cka))
        for index, pair in self.pairs.items():
            values[index] = getattr(pair, attribute)
        return values


def compare_spaces(
    spaces: Sequence[np.ndarray],
    settings: Settings,
    *,
    groups: np.ndarray | None = None,
    strata: np.ndarray | None = None,
    labels: np.ndarray | None = None,
) -> Comparison:
    """Fits maps in both directions between every two spaces, and a hub between all.

    Args:
        spaces: K raw latents [N, D_k].
        settings, groups, strata, labels: as for `run_study`.

    Raises:
        InputError: if there are too few pairs, or the test part of a space is constant.
    """
    check_pairs(len(spaces[0]))
    group_N = np.arange(len(spaces[0])) if groups is None else groups
    split = Split.draw(group_N, settings, labels=labels)
    for i, z in enumerate(spaces):
        check_test(f"space {i + 1}", z[split.test])
    train, test = ([z[rows] for z in spaces] for rows in (split.train, split.test))
    bootstrap = GroupBootstrap(
        resampling.group_weights(group_N[split.test], settings.resamples, settings.seed)
    )
    kept = [None if a is None else (a[split.train], a[split.test]) for a in (groups, strata)]
    hub = fit_hub(train, scale=True)
    pairs = {}
    for i, j in itertools.permutations(range(len(spaces)), 2):
        train_pair, test_pair = (train[i], train[j]), (test[i], test[j])
        linear_map = settings.fit(*train_pair, group_N[split.train])
        null = settings.null(linear_map, _r2_score, train_pair, test_pair, kept)
        through_hub = hub.translate(test[i], i, j)
        pairs[i, j] = PairResult(
            linear_map,
            evaluate(linear_map, *test_pair, back="forward"),
            _interval(linear_map, test_pair, bootstrap),
            float(null.samples["r2"].max()),
            prediction_r2(through_hub, test[j], linear_map.y_scale),
        )
    return Comparison(split, pairs, hub, cka_matrix(test, test))


def _r2_score(linear_map: LinearMap, x: Float64, y: Float64) -> dict[str, float]:
    return {"r2": r2(linear_map, x, y)}


def _interval(linear_map: LinearMap, test: Pair, bootstrap: GroupBootstrap) -> resampling.Interval:
    squared_N, target = linear_map.squared_errors(*test), linear_map.standardize_y(test[1])
    samples = resampling.resample_regression(squared_N, target, bootstrap.weights)
    return bootstrap.interval(samples["r2"], r2(linear_map, *test))
