"""All that a study reports of a map, in a form that is cheap to compute many times over.

Nulls, curves and heat maps repeat these for hundreds of maps. Unlike `metrics.evaluate`, which is
exact, distances are float32 and their rank correlation comes from a histogram: it is off by less
than a millionth, a thousandth of what chance does to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import neighbourhoods, similarity
from socialjepa_jax.alignment import similarity as similarity_lib
from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import BACKS, common_space, r2
from socialjepa_jax.alignment.moments import Float64, as_pairs

K = 10  # neighbours


def of_map(
    linear_map: LinearMap,
    x_test: ArrayLike,
    y_test: ArrayLike,
    *,
    backs: Sequence[str] = BACKS,
) -> dict[str, float]:
    """`mse`, `r2`, and for every common space `<back>/dsc`, `/nos@10`, `/cka` and `/cka_debiased`.

    Args:
      linear_map, x_test, y_test, backs: as for `evaluate`, N >= 4. NOS needs N > 10.
    """
    x, y = as_pairs(x_test, y_test, "x_test", "y_test")
    x, y = linear_map.standardize_x(x), linear_map.standardize_y(y)
    scores = {
        "mse": float(np.mean((y - x @ linear_map.w.T) ** 2)),
        "r2": r2(linear_map, x_test, y_test),
    }
    for back in backs:
        found = of_spaces(*common_space(linear_map, x, y, back))
        scores |= {f"{back}/{key}": value for key, value in found.items()}
    return scores


def of_spaces(a: Float64, b: Float64) -> dict[str, float]:
    """`dsc`, `nos@10`, `cka` and `cka_debiased` of two sets of latents in one space."""
    found = compare.compare(a, b, (K,), exact=False)
    cka, cka_debiased = similarity.cka_pair(a, b)
    return {
        "dsc": found.dsc,
        **{f"nos@{k}": 1 - share for k, share in found.overlap.items()},
        "cka": cka,
        "cka_debiased": cka_debiased,
    }


def retrieval_spaces(
    linear_map: LinearMap, x_test: ArrayLike, y_test: ArrayLike
) -> dict[str, tuple[Float64, Float64]]:
    """(queries, gallery) of each way to search one space with items of the other."""
    x, y = linear_map.standardize_x(x_test), linear_map.standardize_y(y_test)
    return {
        "x -> y, forward": (x @ linear_map.w.T, y),
        "y -> x, regression": (y @ linear_map.w_back.T, x),
        "y -> x, inverse": (y @ linear_map.w_inv.T, x),
    }


class Unfitted:
    """Similarity of two spaces without any map; what each space alone needs is computed once.

    Args:
      x, y: latents [N, D] and [N, E] of the same samples, standardised.
    """

    def __init__(self, x: Float64, y: Float64) -> None:
        self._x, self._y = x, y
        self._bases = similarity_lib.basis(x), similarity_lib.basis(y)
        self._kernels = None
        if len(x) > K:
            self._kernels = tuple(neighbourhoods.neighbor_kernel(z, K) for z in (x, y))

    def __call__(self, order: np.ndarray | None = None) -> dict[str, float]:
        """All measures by name, with the rows of y reordered first."""
        order = np.arange(len(self._x)) if order is None else order
        x, y = self._bases[0], self._bases[1].reordered(order)
        found = {
            "r2_whitened": similarity_lib.r2_whitened(x, y),
            "svcca": similarity_lib.svcca(x, y),
            "pwcca": similarity_lib.pwcca(x, y),
            "shape_correlation": similarity.shape_correlation(self._x, self._y[order]),
        }
        if self._kernels is not None:
            a, b = self._kernels[0], self._kernels[1][order][:, order]
            found[f"mutual_knn@{K}"] = float((a.astype(bool) * b.astype(bool)).sum() / (K * len(y)))
            found[f"cknna@{K}"] = neighbourhoods.kernel_cknna(a, b)
        return found
