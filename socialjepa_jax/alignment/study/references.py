"""References for a map: other ways to predict y, and relative representations.

Shape suffixes: N samples, D features, A anchors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.fitting import fit
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64, as_latents
from socialjepa_jax.alignment.neighbourhoods import unit_rows
from socialjepa_jax.alignment.study.intervals import Bounds, GroupBootstrap
from socialjepa_jax.alignment.study.scores import K, space_scores
from socialjepa_jax.alignment.study.settings import Pair, Settings, sample_rows
from socialjepa_jax.alignment.study.stitch import fit_stitch

_STITCH_ROWS = 5_000
_ANCHORS = 300


@dataclass(frozen=True, eq=False)
class Reference:
    """Held-out R2 of one way to predict y from x.

    Attributes:
        r2: on the resampled rows.
        interval: of `r2`.
        difference: interval of the paired difference to the map under study.
    """

    r2: float
    interval: resampling.Interval
    difference: resampling.Interval


def compare_maps(
    linear_map: LinearMap,
    train: Pair,
    sample: Pair,
    groups: np.ndarray,
    bootstrap: GroupBootstrap,
    settings: Settings,
) -> dict[str, Reference]:
    """Fits other maps and compares their R2, in the units in which `linear_map` standardises y.

    Args:
        linear_map: the map under study, which is the first entry.
        train: pairs that all maps are fitted on.
        sample: held-out pairs, the resampled rows.
        groups: labels of the training rows, kept together when the MLP holds some out.
        bootstrap: draws of the resampled rows.
        settings: give `standardize` and the seed.
    """
    x, y = sample
    rotation = fit(*train, method="procrustes", standardize=settings.standardize)
    robust = fit(*train, method="robust", ridge=max(linear_map.ridge, 1e-3))
    rows = sample_rows(np.arange(len(groups)), _STITCH_ROWS, settings.seed)
    stitch = fit_stitch(
        linear_map,
        train[0][rows],
        train[1][rows],
        hidden=128,
        epochs=200,
        learning_rate=3e-3,
        groups=groups[rows],
        seed=settings.seed,
    )
    predictions = {
        f"this map ({linear_map.method})": linear_map.forward(x),
        "a rotation (procrustes)": rotation.forward(x),
        "without the worst tenth of the pairs (robust)": robust.forward(x),
        "this map + a small MLP": stitch.forward(x),
    }
    return _compare(predictions, y, linear_map, bootstrap)


def _compare(
    predictions: Mapping[str, Float64],
    y: np.ndarray,
    linear_map: LinearMap,
    bootstrap: GroupBootstrap,
) -> dict[str, Reference]:
    target = linear_map.standardize_y(y)
    once = np.ones((1, len(y)))
    samples, values = {}, {}
    for name, predicted in predictions.items():
        squared_N = np.sum(((y - predicted) / linear_map.y_scale) ** 2, axis=1)
        samples[name], values[name] = (
            resampling.resample_regression(squared_N, target, weights)["r2"]
            for weights in (bootstrap.weights, once)
        )
    first = next(iter(predictions))
    return {
        name: Reference(
            float(value[0]),
            bootstrap.interval(samples[name], float(value[0])),
            bootstrap.interval(samples[name] - samples[first], float(value[0] - values[first][0])),
        )
        for name, value in values.items()
    }


def relative(z: ArrayLike, anchors: ArrayLike) -> Float64:
    """Relative representation: cosines to the anchors [N, A] (Moschella et al. 2023).

    Unlike the original, both are centred by the mean of the anchors first: a common offset would
    make all cosines alike.

    Args:
        z: raw latents [N, D].
        anchors: raw latents [A, D] of the same space, of states that the other space also has.
    """
    anchors_AD = as_latents(anchors, "anchors")
    centre_D = anchors_AD.mean(axis=0)
    return unit_rows(as_latents(z, "z") - centre_D) @ unit_rows(anchors_AD - centre_D).T


def relative_scores(
    train: Pair, sample: Pair, bootstrap: GroupBootstrap, seed: int
) -> tuple[int, dict[str, float], Bounds]:
    """Scores relative representations with anchors among the training rows.

    Returns:
        The number of anchors, `space_scores` of the resampled rows, and their intervals.
    """
    anchors = sample_rows(np.arange(len(train[0])), _ANCHORS, seed)
    a, b = (relative(z, base[anchors]) for z, base in zip(sample, train))
    values = space_scores(a, b)
    k = min(K, len(a) - 1)
    samples = resampling.resample_geometry({"": (a, b)}, bootstrap.weights, k)[""]
    return len(anchors), values, bootstrap.intervals(samples, values)
