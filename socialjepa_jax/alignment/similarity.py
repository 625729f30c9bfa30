"""Similarity of two sets of latents of the same samples without a map, and the rank of one set.

Four families: linear CKA, CKA of Gaussian kernels, shape distances (Procrustes), and canonical
correlations. All are float64 NumPy without an N x N array.

Shape suffixes: N samples, D and E features, B rows of a block, P and Q directions of a basis,
R canonical correlations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs, check_rows
from socialjepa_jax.errors import InputError, check_in_range, check_positive

RANK_CUTOFF = 1e-10  # singular values below this fraction of the largest are rounding errors
_BLOCK_ROWS = 512  # rows of a kernel in memory at once


def cka(x: ArrayLike, y: ArrayLike) -> float:
    """Biased linear CKA of x [N, D] and y [N, E] (Kornblith et al. 2019).

    ||X^T Y||_F^2 / (||X^T X||_F ||Y^T Y||_F) with centred columns. For independent white data it
    is about D / (N + D), not 0: see `cka_debiased`.
    """
    return _ratio(*_hsic0(*_centred(x, y)))


def cka_debiased(x: ArrayLike, y: ArrayLike) -> float:
    """Debiased linear CKA from HSIC_1 of Song et al. (2012); can be negative. N >= 4."""
    return cka_pair(x, y)[1]


def cka_pair(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Returns `cka` and `cka_debiased`, whose matrix products are shared. N >= 4."""
    x_ND, y_NE = _centred(x, y)
    if len(x_ND) < 4:
        raise InputError(f"debiased CKA needs at least 4 samples, got {len(x_ND)}")
    hsic0_3 = _hsic0(x_ND, y_NE)
    return _ratio(*hsic0_3), _ratio(*_hsic1(x_ND, y_NE, hsic0_3))


def cka_minibatch(x: ArrayLike, y: ArrayLike, batch: int) -> float:
    """Debiased linear CKA with HSIC_1 summed over consecutive batches (Nguyen et al. 2021).

    Args:
        x, y: [N, D] and [N, E].
        batch: rows of a batch, at least 4; a smaller last batch is dropped.
    """
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    if not 4 <= batch <= len(x_ND):
        raise InputError(f"batch={batch} must be in [4, {len(x_ND)}]")
    sums = np.zeros(3)
    for start in range(0, len(x_ND) - batch + 1, batch):
        a, b = _centred(x_ND[start : start + batch], y_NE[start : start + batch])
        sums += _hsic1(a, b, _hsic0(a, b))
    return _ratio(*sums)


def cka_matrix(
    xs: Sequence[ArrayLike], ys: Sequence[ArrayLike], *, debiased: bool = True
) -> Float64:
    """CKA of every space in `xs`, such as the layers of a network, with every space in `ys`.

    Args:
        xs, ys: latents [N, D_i] and [N, E_j] of the same samples.
        debiased: True for `cka_debiased`, False for `cka`.

    Returns:
        Values [len(xs), len(ys)].
    """
    measure = cka_debiased if debiased else cka
    return np.asarray([[measure(x, y) for y in ys] for x in xs])


def _centred(x: ArrayLike, y: ArrayLike) -> tuple[Float64, Float64]:
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    return x_ND - x_ND.mean(axis=0), y_NE - y_NE.mean(axis=0)


def _hsic0(x_ND: Float64, y_NE: Float64) -> Float64:
    """Returns ||X^T Y||_F^2 of (x, y), (x, x) and (y, y): [3]."""
    pairs = ((x_ND, y_NE), (x_ND, x_ND), (y_NE, y_NE))
    return np.asarray([np.sum((a_ND.T @ b_NE) ** 2) for a_ND, b_NE in pairs])


def _hsic1(x_ND: Float64, y_NE: Float64, hsic0_3: Float64) -> Float64:
    """Returns HSIC_1 of (x, y), (x, x) and (y, y): [3]."""
    # Song et al. eq. 5 for linear kernels of centred data, whose row sums are zero: with the
    # diagonals k, l of K and L, tr(K~ L~) = ||X^T Y||^2 - k.l, K~ 1 = -k and L~ 1 = -l.
    n = len(x_ND)
    k_N, l_N = (np.einsum("nd,nd->n", z, z) for z in (x_ND, y_NE))
    shared_3 = np.asarray([k_N @ l_N, k_N @ k_N, l_N @ l_N])
    sums_3 = np.asarray([k_N.sum() * l_N.sum(), k_N.sum() ** 2, l_N.sum() ** 2])
    total_3 = hsic0_3 - shared_3 + sums_3 / ((n - 1) * (n - 2)) - 2 * shared_3 / (n - 2)
    return total_3 / (n * (n - 3))


def _ratio(cross: float, self_x: float, self_y: float) -> float:
    if self_x <= 0 or self_y <= 0:
        return float("nan")
    return float(cross / np.sqrt(self_x * self_y))


def cka_rbf(x: ArrayLike, y: ArrayLike, *, width: float = 1.0) -> float:
    """Biased CKA of Gaussian kernels exp(-d^2 / 2 s^2) (Kornblith et al. 2019), O(N^2) in time.

    Args:
        x, y: [N, D] and [N, E], N >= 3.
        width: s, as a multiple of the exact median distance of all pairs in each space.
    """
    check_positive(width=width)
    spaces = as_pairs(x, y, "x", "y")
    scaled = [z / (width * np.sqrt(np.median(compare.pair_distances(z)))) for z in spaces]
    scaled = [z - z.mean(axis=0) for z in scaled]
    products, row_sums = np.zeros(3), np.zeros((2, len(scaled[0])))
    for start in range(0, len(scaled[0]), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        k_BN, l_BN = (_gaussian(z[rows], z) for z in scaled)
        products += [np.sum(k_BN * l_BN), np.sum(k_BN**2), np.sum(l_BN**2)]
        row_sums[:, rows] = k_BN.sum(axis=1), l_BN.sum(axis=1)
    pairs = ((0, 1), (0, 0), (1, 1))
    cross, first, second = (
        product - _mean_part(row_sums[a], row_sums[b]) for product, (a, b) in zip(products, pairs)
    )
    return float(cross / np.sqrt(first * second))


def _gaussian(block_BD: Float64, z_ND: Float64) -> Float64:
    squared_BN = np.sum(block_BD**2, axis=1)[:, None] + np.sum(z_ND**2, axis=1)
    return np.exp(-np.maximum(squared_BN - 2 * block_BD @ z_ND.T, 0.0) / 2)


def _mean_part(k_N: Float64, l_N: Float64) -> float:
    """Returns <K, L> - <HKH, L>, the effect of centring, from the row sums of both kernels."""
    n = len(k_N)
    return float(2 * k_N @ l_N / n - k_N.sum() * l_N.sum() / n**2)


def shape_correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Shape correlation ||A^T B||_* in [0, 1], A and B centred with unit Frobenius norm.

    Equals the normalised Bures similarity of the two Gram matrices, and the cosine of the angle
    between the two shapes after the best rotation or reflection (Williams et al. 2021).
    """
    a_ND, b_NE = _centred(x, y)
    norms = np.linalg.norm(a_ND) * np.linalg.norm(b_NE)
    if norms == 0:
        return float("nan")
    return float(min(1.0, np.linalg.svd(a_ND.T @ b_NE, compute_uv=False).sum() / norms))


def procrustes_error(x: ArrayLike, y: ArrayLike) -> float:
    """Squared Procrustes distance 2 - 2 ||A^T B||_* of two shapes of unit norm.

    0 for shapes equal up to rotation, reflection and scale; 2 for orthogonal shapes.
    """
    return 2 - 2 * shape_correlation(x, y)


def shape_angle(x: ArrayLike, y: ArrayLike) -> float:
    """Angular shape distance arccos ||A^T B||_* in radians (Williams et al. 2021)."""
    return float(np.arccos(shape_correlation(x, y)))


@dataclass(frozen=True, eq=False)
class Basis:
    """SVD of one space; the functions of CCA accept it instead of latents, to compute it once.

    Attributes:
        q: orthonormal basis [N, P] of the centred features, leading directions first.
        s: their singular values [P].
        loadings: coordinates [P, D] of the centred features in this basis, q^T z.
    """

    q: Float64
    s: Float64
    loadings: Float64

    def __len__(self) -> int:
        return len(self.q)

    def reordered(self, order: np.ndarray) -> Basis:
        """Returns the basis of the same samples in another order."""
        return replace(self, q=self.q[order])


Space = ArrayLike | Basis


def basis(z: Space) -> Basis:
    """Computes the basis of latents z [N, D]; returns a `Basis` unchanged."""
    if isinstance(z, Basis):
        return z
    z_ND = as_latents(z, "latents")
    u, s, vt = np.linalg.svd(z_ND - z_ND.mean(axis=0), full_matrices=False)
    keep = s > RANK_CUTOFF * s[0]
    return Basis(u[:, keep], s[keep], s[keep, None] * vt[keep])


def canonical_correlations(x: Space, y: Space) -> Float64:
    """Canonical correlations of x [N, D] and y [N, E], largest first: [R]."""
    bx, by = _bases(x, y)
    return _cosines(bx.q, by.q)


def r2_whitened(x: Space, y: Space) -> float:
    """Mean squared canonical correlation (Yanai's generalised coefficient).

    Equals R2 between whitened spaces: unlike R2, a few large directions do not dominate it.
    """
    return float(np.mean(canonical_correlations(x, y) ** 2))


def svcca(x: Space, y: Space, *, variance: float = 0.99, directions: int | None = None) -> float:
    """Mean canonical correlation of the leading principal components (Raghu et al. 2017).

    Args:
        x, y: [N, D] and [N, E].
        variance: each space keeps the fewest components whose squared singular values reach this
            share of their sum.
        directions: number of components to keep instead, as in the authors' tutorial.
    """
    check_in_range(0.0, 1.0, variance=variance)
    if directions is not None:
        check_in_range(1, float("inf"), directions=directions)
    bx, by = _bases(x, y)
    kept = [b.q[:, : directions or leading(b.s, variance)] for b in (bx, by)]
    return float(_cosines(*kept).mean())


def leading(s: Float64, variance: float) -> int:
    """Returns how many leading directions hold a share of the squared singular values."""
    share = np.cumsum(s**2) / np.sum(s**2)
    return int(np.searchsorted(share, variance) + 1)


def pwcca(x: Space, y: Space) -> float:
    """Projection-weighted CCA (Morcos et al. 2018); the weights are the variates' shares of x.

    Not symmetric in x and y. Not unique if correlations are equal.
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


def entropy_rank(singular_values: Float64) -> float:
    """Effective rank exp(entropy of s / sum s) (Roy & Vetterli 2007); 0 if all s are 0."""
    total = singular_values.sum()
    if total <= 0:
        return 0.0
    p = singular_values[singular_values > 0] / total
    return float(np.exp(-np.sum(p * np.log(p))))


def effective_rank(z: ArrayLike, *, center: bool = True) -> float:
    """Effective rank of latents z [N, D], see `entropy_rank`.

    Args:
        z: latents.
        center: True to subtract the mean first, so that a common offset cannot hide or feign a
            collapse; False for `rankme`.
    """
    z_ND = as_latents(z, "z")
    if center:
        z_ND = z_ND - z_ND.mean(axis=0)
    gram = z_ND.T @ z_ND if z_ND.shape[0] >= z_ND.shape[1] else z_ND @ z_ND.T
    eigenvalues = np.linalg.eigvalsh(gram)
    # The Gram matrix squares the spectrum: eigenvalues below eps of the largest are rounding.
    rounding = len(gram) * np.finfo(np.float64).eps * eigenvalues[-1]
    return entropy_rank(np.sqrt(eigenvalues[eigenvalues > rounding]))


def rankme(z: ArrayLike) -> float:
    """RankMe of latents z [N, D] (Garrido et al. 2023): `effective_rank` without centring."""
    return effective_rank(z, center=False)
