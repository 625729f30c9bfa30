"""Measurements of a fitted map on held-out pairs, with intervals over groups.

Intervals are percentiles of draws, moved so that their mean is the value itself: draws hold rows
twice, which biases most metrics where rows are few. Draws come from few rows; where more are
measured they are narrowed by the square root of the ratio of groups (m-out-of-n bootstrap).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.maps import LinearMap, fit
from socialjepa_jax.alignment.metrics import BACKS, common_space
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.neighbourhoods import match_ranks, retrieval_scores
from socialjepa_jax.alignment.study import references, scores

_STITCH_ROWS = 5_000
_ANCHORS = 300

Pair = tuple[np.ndarray, np.ndarray]
Bounds = dict[str, resampling.Interval]


def some(rows: np.ndarray, limit: int, seed: int) -> np.ndarray:
    """At most so many of the rows, at random, in their order."""
    if len(rows) <= limit:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, limit, replace=False))


@dataclass(frozen=True, eq=False)
class Reference:
    """Another way to predict y from x: its R2, and the paired difference to the map."""

    r2: float
    interval: resampling.Interval
    difference: resampling.Interval


@dataclass(frozen=True, eq=False)
class Search:
    """Items of one space searched among the held-out items of the other.

    Attributes:
      scores: recall@k, mrr, median_rank.
      intervals: of recall@1, recall@10 and mrr.
      ranks: [M] of every query's match, ties at their mid-rank.
    """

    scores: dict[str, float]
    intervals: Bounds
    ranks: Float64


@dataclass(frozen=True, eq=False)
class Sampling:
    """Draws of groups among the few rows.

    Attributes:
      weights: [R, few] how often each row is drawn.
      shrinkage: how much less all measured rows vary, square root of the ratio of groups.
    """

    weights: Float64
    shrinkage: float

    def interval(self, samples: Float64, value: float) -> resampling.Interval:
        """The interval about the value of all rows, from samples of the few."""
        moved = value + (samples - np.nanmean(samples)) * self.shrinkage
        return resampling.intervals({"": moved})[""]


def squared_errors(linear_map: LinearMap, test: Pair) -> Float64:
    """Standardised squared error of W x of every row, summed over features: [M]."""
    x, y = linear_map.standardize_x(test[0]), linear_map.standardize_y(test[1])
    return np.sum((y - x @ linear_map.w.T) ** 2, axis=1)


def intervals(
    linear_map: LinearMap,
    few: Pair,
    metrics: Mapping[str, Mapping[str, float]],
    sampling: Sampling,
) -> tuple[dict[str, Bounds], dict[str, Bounds]]:
    """Intervals of every common space, and of its paired differences to no map."""
    x, y = linear_map.standardize_x(few[0]), linear_map.standardize_y(few[1])
    spaces = {back: common_space(linear_map, x, y, back) for back in BACKS}
    k = min(scores.K, len(x) - 1)
    squared = squared_errors(linear_map, few)
    drawn = resampling.resample_regression(squared, y, sampling.weights)
    found = resampling.resample_geometry(spaces, sampling.weights, k)
    common = {
        key: sampling.interval(samples, metrics["forward"][key]) for key, samples in drawn.items()
    }
    intervals, differences = {}, {}
    for back in BACKS:
        bounds, apart = dict(common), {}
        for key in (key for key in found[back] if key in metrics[back]):
            value, without = metrics[back][key], metrics["none"][key]
            bounds[key] = sampling.interval(found[back][key], value)
            paired = resampling.difference(found[back], found["none"])[key]
            apart[key] = sampling.interval(paired, value - without)
        intervals[back], differences[back] = bounds, apart
    return intervals, differences


def other_maps(
    linear_map: LinearMap,
    train: Pair,
    few: Pair,
    groups: np.ndarray,
    sampling: Sampling,
    *,
    standardize: str,
    seed: int,
) -> dict[str, Reference]:
    """R2 of other maps on the few rows, in the units in which `linear_map` standardises y.

    Args:
      linear_map: what they are compared with; the first entry.
      train: pairs that all are fitted on.
      few: held-out pairs.
      groups: of the training rows, what stays together when the MLP holds some out.
      sampling: draws of the few rows.
      standardize, seed: as for `fit` and `fit_stitch`.
    """
    x, y = few
    rotation = fit(*train, method="procrustes", standardize=standardize)
    robust = fit(*train, method="robust", ridge=max(linear_map.ridge, 1e-3))
    part = some(np.arange(len(groups)), _STITCH_ROWS, seed)
    stitch = references.fit_stitch(
        linear_map,
        train[0][part],
        train[1][part],
        hidden=128,
        epochs=200,
        learning_rate=3e-3,
        groups=groups[part],
        seed=seed,
    )
    predictions = {
        f"this map ({linear_map.method})": linear_map.forward(x),
        "a rotation (procrustes)": rotation.forward(x),
        "without the worst tenth of the pairs (robust)": robust.forward(x),
        "this map + a small MLP": stitch.forward(x),
    }
    return _compared(predictions, y, linear_map, sampling)


def _compared(
    predictions: Mapping[str, Float64], y: np.ndarray, linear_map: LinearMap, sampling: Sampling
) -> dict[str, Reference]:
    target = linear_map.standardize_y(y)
    once = np.ones((1, len(y)))
    drawn, values = {}, {}
    for name, predicted in predictions.items():
        squared = np.sum(((y - predicted) / linear_map.y_scale) ** 2, axis=1)
        drawn[name] = resampling.resample_regression(squared, target, sampling.weights)["r2"]
        values[name] = float(resampling.resample_regression(squared, target, once)["r2"][0])
    first = next(iter(predictions))
    found = {}
    for name, value in values.items():
        found[name] = Reference(
            value,
            sampling.interval(drawn[name], value),
            sampling.interval(drawn[name] - drawn[first], value - values[first]),
        )
    return found


def relative(
    train: Pair, few: Pair, sampling: Sampling, seed: int
) -> tuple[int, dict[str, float], Bounds]:
    """Relative representations: the number of anchors, `scores.of_spaces`, and intervals."""
    anchors = some(np.arange(len(train[0])), _ANCHORS, seed)
    a, b = (references.relative(z, base[anchors]) for z, base in zip(few, train))
    values = scores.of_spaces(a, b)
    k = min(scores.K, len(a) - 1)
    drawn = resampling.resample_geometry({"": (a, b)}, sampling.weights, k)[""]
    bounds = {
        key: sampling.interval(samples, values[key])
        for key, samples in drawn.items()
        if key in values
    }
    return len(anchors), values, bounds


def searches(
    linear_map: LinearMap, test: Pair, among: np.ndarray, sampling: Sampling
) -> dict[str, Search]:
    """Every direction of `scores.retrieval_spaces`; `among` marks the few rows, bool [M]."""
    found = {}
    for name, spaces in scores.retrieval_spaces(linear_map, *test).items():
        best, middle = match_ranks(*spaces)
        values = retrieval_scores(best, middle)
        few = best[among], middle[among]
        bounds = {
            key: sampling.interval(samples, values[key])
            for key, samples in resampling.resample_retrieval(*few, sampling.weights).items()
        }
        found[name] = Search(values, bounds, middle)
    return found
