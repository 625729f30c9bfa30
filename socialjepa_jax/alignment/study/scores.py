"""Scores of a map that are cheap enough for hundreds of repetitions (nulls, curves, heat maps).

`metrics.evaluate` is exact for few rows. Here distances are float32 and DSC comes from a joint
histogram wherever the bound on its error is at most 1e-3; the error is about 1e-6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import neighbourhoods, similarity
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import BACKS, common_space, geometry_metrics, r2
from socialjepa_jax.alignment.moments import Float64, as_pairs, weak_features
from socialjepa_jax.alignment.neighbourhoods import unit_rows

K = 10  # neighbours
NO_NEWS = 0.95  # share of its best value from which on a measure of shuffled rows says nothing
_ORDERS = 3  # random orders of the rows whose mean is taken
_KEYS = ("dsc", "dsc_bound", f"nos@{K}", "cka", "cka_debiased")


def map_scores(
    linear_map: LinearMap,
    x_test: ArrayLike,
    y_test: ArrayLike,
    *,
    backs: Sequence[str] = BACKS,
) -> dict[str, float]:
    """Scores a map: `mse`, `r2`, and `<back>/<key>` of `space_scores` for every common space.

    Args:
        linear_map, x_test, y_test: as for `evaluate`, N >= 4.
        backs: common spaces, see `evaluate`.

    NOS is left out as by `telling`.
    """
    x, y = as_pairs(x_test, y_test, "x_test", "y_test")
    x, y = linear_map.standardize(x, y)
    scores = {
        "mse": float(np.mean((y - x @ linear_map.w.T) ** 2)),
        "r2": r2(linear_map, x_test, y_test),
    }
    for back in backs:
        values = space_scores(*common_space(linear_map, x, y, back))
        scores |= {f"{back}/{key}": value for key, value in values.items()}
    return scores


def space_scores(a: Float64, b: Float64) -> dict[str, float]:
    """Scores two sets of latents in one space: see `_KEYS`."""
    metrics = geometry_metrics(a, b, (K,), exact=False)
    return telling({key: metrics[key] for key in _KEYS if key in metrics}, len(a))


def telling(metrics: Mapping[str, float], count: int) -> dict[str, float]:
    """Leaves out NOS@k where chance is nearly its best value: k of nearly k other rows agree.

    Args:
        metrics: with keys such as `nos@10`.
        count: rows that were measured.
    """

    def tells(key: str) -> bool:
        name, _, k = key.rpartition("@")
        return not name.endswith(("nos", "nos_expected")) or int(k) < NO_NEWS * (count - 1)

    return {key: value for key, value in metrics.items() if tells(key)}


def row_errors(
    linear_map: LinearMap, test: tuple[ArrayLike, ArrayLike], similarity: str
) -> Float64:
    """Computes the error of W x for each row, in raw units: [M].

    Args:
        linear_map: fitted on other pairs.
        test: pairs [M, D] and [M, E].
        similarity: for "cosine", 1 - the cosine of W x and y; otherwise the squared distance over
            the variance of y, so that 1 is the error of the mean.
    """
    x, y = as_pairs(*test, "x", "y")
    mapped = linear_map.forward(x)
    if similarity == "cosine":
        return 1.0 - np.sum(unit_rows(mapped) * unit_rows(y), axis=1)
    return np.sum((y - mapped) ** 2, axis=1) / np.sum(y.var(axis=0))


def faint_columns(z: np.ndarray) -> np.ndarray:
    """Returns the numbers of the faint features of training latents, see `nonzero_scales`."""
    z = np.asarray(z, np.float64)
    return np.flatnonzero(weak_features(z.std(axis=0), z.mean(axis=0))[1])


class MapFreeScores:
    """Similarity of two spaces without a map; computes what depends on one space only once.

    Args:
        x, y: standardised latents [N, D] and [N, E] of the same samples.
    """

    def __init__(self, x: Float64, y: Float64) -> None:
        self._x, self._y = x, y
        self._bases = similarity.basis(x), similarity.basis(y)
        self._kernels = None
        if len(x) > K:
            self._kernels = tuple(neighbourhoods.neighbor_kernel(z, K) for z in (x, y))

    def __call__(self, order: np.ndarray | None = None) -> dict[str, float]:
        """Returns all measures by name, with the rows of y reordered first."""
        order = np.arange(len(self._x)) if order is None else order
        x, y = self._bases[0], self._bases[1].reordered(order)
        scores = {
            "r2_whitened": similarity.r2_whitened(x, y),
            "svcca": similarity.svcca(x, y),
            "pwcca": similarity.pwcca(x, y),
            "shape_correlation": similarity.shape_correlation(self._x, self._y[order]),
        }
        if self._kernels is not None:
            a, b = self._kernels[0], self._kernels[1][order][:, order]
            common = (a.astype(bool) * b.astype(bool)).sum()
            scores[f"mutual_knn@{K}"] = float(common / (K * len(y)))
            scores[f"cknna@{K}"] = neighbourhoods.kernel_cknna(a, b)
        return scores

    def without_news(self, seed: int) -> dict[str, float]:
        """Returns the measures that are nearly 1, their best value, whatever the rows of y are.

        So few rows, or so many features, determine them: random subspaces of P and Q dimensions
        have a whitened R2 of max(P, Q) / (N - 1).

        Args:
            seed: of the orders of the rows.

        Returns:
            Measure -> its mean over rows in random orders.
        """
        rng = np.random.default_rng(seed)
        runs = [self(rng.permutation(len(self._x))) for _ in range(_ORDERS)]
        means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        return {key: mean for key, mean in means.items() if mean >= NO_NEWS}
