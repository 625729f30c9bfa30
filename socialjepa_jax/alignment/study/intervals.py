"""Intervals of a study: bias-corrected group bootstrap (percentiles about the measured value).

Draws contain rows more than once, which biases most metrics of small samples, so the percentiles
of the draws are shifted by (measured value - mean of the draws). Draws come from at most
`RESAMPLED_ROWS` rows; if more are measured, the intervals are narrowed by the square root of the
ratio of the numbers of groups (m-out-of-n bootstrap).

Shape suffixes: N resampled rows, M measured rows, R draws, E features of y.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import BACKS, common_space
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.study.scores import K
from socialjepa_jax.alignment.study.settings import Pair, Settings, Split

Bounds = dict[str, resampling.Interval]  # metric -> interval

_SHARE, _CORRELATION = resampling.Interval(0.0, 1.0), resampling.Interval(-1.0, 1.0)
_RANGES = {  # of metrics, by the name before "@"
    "r2": resampling.Interval(-np.inf, 1.0),
    "mse": resampling.Interval(0.0, np.inf),
    "dsc": _CORRELATION,
    "cka_debiased": _CORRELATION,
    "nos": _SHARE,
    "recall": _SHARE,
    "mrr": _SHARE,
}


@dataclass(frozen=True, eq=False)
class GroupBootstrap:
    """Draws of groups among the resampled rows.

    Attributes:
        weights: [R, N] how often each draw contains each row.
        shrinkage: ratio of the spread over all measured rows to that over the resampled rows.
    """

    weights: Float64
    shrinkage: float = 1.0

    @staticmethod
    def of(groups: np.ndarray, split: Split, settings: Settings) -> GroupBootstrap:
        """Draws `settings.resamples` times from the groups of the resampled rows."""
        drawn = groups[split.resampled]
        weights = resampling.group_weights(drawn, settings.resamples, settings.seed)
        counts = [len(np.unique(groups[rows])) for rows in (split.resampled, split.test)]
        return GroupBootstrap(weights, float(np.sqrt(counts[0] / counts[1])))

    def interval(
        self, samples: Float64, value: float, within: resampling.Interval = resampling.ANY
    ) -> resampling.Interval:
        """Returns the 95 % interval about a measured value, from its values [R] on the draws."""
        shrinkage = self.shrinkage
        return resampling.corrected_interval(samples, value, within=within, shrinkage=shrinkage)

    def intervals(self, samples: Mapping[str, Float64], values: Mapping[str, float]) -> Bounds:
        """Returns the intervals of all metrics that have both samples and a value."""
        return {
            key: self.interval(samples[key], values[key], _RANGES[key.partition("@")[0]])
            for key in samples
            if key in values
        }

    def differences(self, samples: Mapping[str, Float64], values: Mapping[str, float]) -> Bounds:
        """Returns the intervals of differences of metrics, which have other ranges."""
        return {key: self.interval(samples[key], values[key]) for key in samples if key in values}


def map_intervals(
    linear_map: LinearMap,
    sample: Pair,
    metrics: Mapping[str, Mapping[str, float]],
    bootstrap: GroupBootstrap,
) -> tuple[dict[str, Bounds], dict[str, Bounds]]:
    """Computes intervals of the metrics of a map, and of their paired differences to no map.

    Args:
        linear_map: fitted on other pairs.
        sample: the resampled rows.
        metrics: back -> metrics of all measured rows.
        bootstrap: draws of the resampled rows.

    Returns:
        Two dictionaries, back -> metric -> interval.
    """
    x, y = linear_map.standardize(*sample)
    spaces = {back: common_space(linear_map, x, y, back) for back in BACKS}
    squared_N = linear_map.squared_errors(*sample)
    fit_samples = resampling.resample_regression(squared_N, y, bootstrap.weights)
    samples = resampling.resample_geometry(spaces, bootstrap.weights, min(K, len(x) - 1))
    fit_bounds = bootstrap.intervals(fit_samples, metrics["forward"])
    intervals, differences = {}, {}
    for back in BACKS:
        intervals[back] = {**fit_bounds, **bootstrap.intervals(samples[back], metrics[back])}
        apart = {key: metrics[back][key] - metrics["none"][key] for key in metrics[back]}
        paired = resampling.difference(samples[back], samples["none"])
        differences[back] = bootstrap.differences(paired, apart)
    return intervals, differences
