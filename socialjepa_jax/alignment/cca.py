"""The CCA family: similarity that every invertible linear map leaves as it is.

A low rank or few samples inflate all of these (independent data with D = 384 and N = 1,000 have
a mean canonical correlation of .55): read them beside a permutation null.

Shape suffixes: N samples, D and E features, R = min(rank of x, rank of y), P and Q directions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.moments import Float64, as_pairs
from socialjepa_jax.validate import in_range

RANK_CUTOFF = 1e-10  # singular values below this fraction of the largest are rounding


def canonical_correlations(x: ArrayLike, y: ArrayLike) -> Float64:
    """All canonical correlations of x [N, D] and y [N, E], largest first: [R]."""
    (qx, _), (qy, _) = _bases(x, y)
    return _cosines(qx, qy)


def mean_correlation(x: ArrayLike, y: ArrayLike) -> float:
    """The mean canonical correlation."""
    return float(canonical_correlations(x, y).mean())


def r2_whitened(x: ArrayLike, y: ArrayLike) -> float:
    """The mean squared canonical correlation (Yanai's generalised coefficient).

    R2 after both spaces are whitened: unlike R2, a few large directions do not carry it.
    """
    return float(np.mean(canonical_correlations(x, y) ** 2))


def svcca(x: ArrayLike, y: ArrayLike, *, variance: float = 0.99) -> float:
    """Mean canonical correlation of the leading principal components (Raghu et al. 2017).

    Args:
      x, y: [N, D] and [N, E].
      variance: each space keeps the fewest components whose squared singular values reach this
        share of their sum.
    """
    in_range(0.0, 1.0, variance=variance)
    (qx, sx), (qy, sy) = _bases(x, y)
    return float(_cosines(_leading(qx, sx, variance), _leading(qy, sy, variance)).mean())


def pwcca(x: ArrayLike, y: ArrayLike) -> float:
    """Projection-weighted CCA (Morcos et al. 2018), weighted by what x's variates explain of x.

    Not symmetric; not well defined where several correlations are equal.
    """
    (qx, _), (qy, _) = _bases(x, y)
    u_PR, correlations_R, _ = np.linalg.svd(qx.T @ qy, full_matrices=False)
    x_ND, _ = as_pairs(x, y, "x", "y")
    variates_NR = qx @ u_PR
    weights_R = np.abs(variates_NR.T @ (x_ND - x_ND.mean(axis=0))).sum(axis=1)
    return float(weights_R @ np.minimum(correlations_R, 1.0) / weights_R.sum())


def _bases(x: ArrayLike, y: ArrayLike) -> list[tuple[Float64, Float64]]:
    """Orthonormal bases [N, P] of the centred columns, and their singular values [P]."""
    bases = []
    for z in as_pairs(x, y, "x", "y"):
        u, s, _ = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)
        keep = s > RANK_CUTOFF * s[0]
        bases.append((u[:, keep], s[keep]))
    return bases


def _leading(basis: Float64, s: Float64, variance: float) -> Float64:
    share = np.cumsum(s**2) / np.sum(s**2)
    return basis[:, : int(np.searchsorted(share, variance) + 1)]


def _cosines(qx_NP: Float64, qy_NQ: Float64) -> Float64:
    if not min(qx_NP.shape[1], qy_NQ.shape[1]):
        return np.full(1, np.nan)
    return np.minimum(np.linalg.svd(qx_NP.T @ qy_NQ, compute_uv=False), 1.0)
