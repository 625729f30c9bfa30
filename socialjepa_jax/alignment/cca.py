"""The CCA family: similarity that every invertible linear map leaves as it is.

A low rank or few samples inflate all of these (independent data with D = 384 and N = 1,000 have
a mean canonical correlation of .55): read them beside a permutation null.

Shape suffixes: N samples, D and E features, R = min(rank of x, rank of y), P and Q directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.moments import Float64, as_latents, check_rows
from socialjepa_jax.validate import in_range

RANK_CUTOFF = 1e-10  # singular values below this fraction of the largest are rounding


@dataclass(frozen=True, eq=False)
class Basis:
    """What CCA needs of one space; every function here takes it in the place of latents.

    Attributes:
      q: [N, P] orthonormal basis of the centred features, leading directions first.
      s: [P] their singular values.
      loadings: [P, D] the centred features in this basis, q^T z.
    """

    q: Float64
    s: Float64
    loadings: Float64

    def __len__(self) -> int:
        return len(self.q)

    def reordered(self, order: np.ndarray) -> Basis:
        """The basis of the same samples in another order."""
        return replace(self, q=self.q[order])


Space = ArrayLike | Basis


def basis(z: Space) -> Basis:
    """The basis of latents z [N, D]; a basis is returned as it is."""
    if isinstance(z, Basis):
        return z
    z_ND = as_latents(z, "latents")
    u, s, vt = np.linalg.svd(z_ND - z_ND.mean(axis=0), full_matrices=False)
    keep = s > RANK_CUTOFF * s[0]
    return Basis(u[:, keep], s[keep], s[keep, None] * vt[keep])


def canonical_correlations(x: Space, y: Space) -> Float64:
    """All canonical correlations of x [N, D] and y [N, E], largest first: [R]."""
    bx, by = _bases(x, y)
    return _cosines(bx.q, by.q)


def mean_correlation(x: Space, y: Space) -> float:
    """The mean canonical correlation."""
    return float(canonical_correlations(x, y).mean())


def r2_whitened(x: Space, y: Space) -> float:
    """The mean squared canonical correlation (Yanai's generalised coefficient).

    R2 after both spaces are whitened: unlike R2, a few large directions do not carry it.
    """
    return float(np.mean(canonical_correlations(x, y) ** 2))


def svcca(x: Space, y: Space, *, variance: float = 0.99, directions: int | None = None) -> float:
    """Mean canonical correlation of the leading principal components (Raghu et al. 2017).

    Args:
      x, y: [N, D] and [N, E].
      variance: each space keeps the fewest components whose squared singular values reach this
        share of their sum.
      directions: keep so many components instead (the authors' tutorial).
    """
    in_range(0.0, 1.0, variance=variance)
    if directions is not None:
        in_range(1, float("inf"), directions=directions)
    bx, by = _bases(x, y)
    kept = [b.q[:, : directions or leading(b.s, variance)] for b in (bx, by)]
    return float(_cosines(*kept).mean())


def leading(s: Float64, variance: float) -> int:
    """The fewest leading directions whose squared singular values reach a share of their sum."""
    share = np.cumsum(s**2) / np.sum(s**2)
    return int(np.searchsorted(share, variance) + 1)


def pwcca(x: Space, y: Space) -> float:
    """Projection-weighted CCA (Morcos et al. 2018), weighted by what x's variates explain of x.

    Not symmetric; not well defined where several correlations are equal.
    """
    bx, by = _bases(x, y)
    u_PR, correlations_R, _ = np.linalg.svd(bx.q.T @ by.q, full_matrices=False)
    weights_R = np.abs(u_PR.T @ bx.loadings).sum(axis=1)
    return float(weights_R @ np.minimum(correlations_R, 1.0) / weights_R.sum())


def _bases(x: Space, y: Space) -> tuple[Basis, Basis]:
    bx, by = basis(x), basis(y)
    check_rows(len(bx), len(by), "x", "y")
    return bx, by


def _cosines(qx_NP: Float64, qy_NQ: Float64) -> Float64:
    if not min(qx_NP.shape[1], qy_NQ.shape[1]):
        return np.full(1, np.nan)
    return np.minimum(np.linalg.svd(qx_NP.T @ qy_NQ, compute_uv=False), 1.0)
