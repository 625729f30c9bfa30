"""Similarity of two sets of latents of the same samples, and the rank of one: no map, no N x N.

Everything is float64 NumPy on d x d moments. Shape suffixes: N samples, D and E features.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs
from socialjepa_jax.validate import InputError


def entropy_rank(singular_values: Float64) -> float:
    """exp(entropy of s / sum s), the effective rank of Roy & Vetterli (2007); 0 for zeros."""
    total = singular_values.sum()
    if total <= 0:
        return 0.0
    p = singular_values[singular_values > 0] / total
    return float(np.exp(-np.sum(p * np.log(p))))


def effective_rank(z: ArrayLike, *, center: bool = True) -> float:
    """The effective rank of latents z [N, D]: exp entropy of the singular values.

    With `center` (the default) the mean is taken away first, so that a common offset does not
    hide (or fake) a collapse. `rankme` is the same on uncentred latents.
    """
    z_ND = as_latents(z, "z")
    if center:
        z_ND = z_ND - z_ND.mean(axis=0)
    gram = z_ND.T @ z_ND if z_ND.shape[0] >= z_ND.shape[1] else z_ND @ z_ND.T
    eigenvalues = np.linalg.eigvalsh(gram)
    # The Gram matrix squares the spectrum: below eps of the largest it holds only rounding.
    rounding = len(gram) * np.finfo(np.float64).eps * eigenvalues[-1]
    return entropy_rank(np.sqrt(eigenvalues[eigenvalues > rounding]))


def rankme(z: ArrayLike) -> float:
    """RankMe of latents z [N, D] (Garrido et al. 2023): `effective_rank` without centring."""
    return effective_rank(z, center=False)


def cka(x: ArrayLike, y: ArrayLike) -> float:
    """Linear CKA with centred columns (Kornblith et al. 2019), biased.

    ||X^T Y||_F^2 / (||X^T X||_F ||Y^T Y||_F). For independent white data it is about
    D / (N + D), not 0: see `cka_debiased`.
    """
    return _ratio(*_hsic0(*_centred(x, y)))


def cka_debiased(x: ArrayLike, y: ArrayLike) -> float:
    """Linear CKA from the unbiased HSIC_1 of Song et al. (2012); can be negative. N >= 4."""
    return cka_pair(x, y)[1]


def cka_pair(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """`cka` and `cka_debiased` for the price of one. N >= 4."""
    x_ND, y_NE = _centred(x, y)
    if len(x_ND) < 4:
        raise InputError(f"debiased CKA needs at least 4 samples, got {len(x_ND)}")
    hsic0_3 = _hsic0(x_ND, y_NE)
    return _ratio(*hsic0_3), _ratio(*_hsic1(x_ND, y_NE, hsic0_3))


def cka_minibatch(x: ArrayLike, y: ArrayLike, batch: int) -> float:
    """Debiased linear CKA with HSIC_1 summed over consecutive batches (Nguyen et al. 2021).

    Args:
      x, y: [N, D] and [N, E].
      batch: rows of a batch, at least 4; a last, smaller batch is left out.
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
    """CKA of every space in `xs` (layers of one network) with every one in `ys`: [len, len]."""
    measure = cka_debiased if debiased else cka
    return np.asarray([[measure(x, y) for y in ys] for x in xs])


def shape_correlation(x: ArrayLike, y: ArrayLike) -> float:
    """||A^T B||_*, A and B the centred latents of unit Frobenius norm: in [0, 1].

    The normalised Bures similarity of the two Gram matrices, and the cosine of the angle
    between the two shapes (Williams et al. 2021) after the best rotation or reflection.
    """
    a_ND, b_NE = _centred(x, y)
    norms = np.linalg.norm(a_ND) * np.linalg.norm(b_NE)
    if norms == 0:
        return float("nan")
    return float(min(1.0, np.linalg.svd(a_ND.T @ b_NE, compute_uv=False).sum() / norms))


def procrustes_error(x: ArrayLike, y: ArrayLike) -> float:
    """2 - 2 ||A^T B||_*, the squared Procrustes distance of two shapes of unit norm.

    0 for the same shape up to rotation, reflection and scale; 2 for nothing in common.
    """
    return 2 - 2 * shape_correlation(x, y)


def shape_angle(x: ArrayLike, y: ArrayLike) -> float:
    """The angular shape distance arccos ||A^T B||_* (Williams et al. 2021), radians."""
    return float(np.arccos(shape_correlation(x, y)))


def _centred(x: ArrayLike, y: ArrayLike) -> tuple[Float64, Float64]:
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    return x_ND - x_ND.mean(axis=0), y_NE - y_NE.mean(axis=0)


def _hsic0(x_ND: Float64, y_NE: Float64) -> Float64:
    """||X^T Y||_F^2 of (x, y), (x, x) and (y, y): [3]."""
    pairs = ((x_ND, y_NE), (x_ND, x_ND), (y_NE, y_NE))
    return np.asarray([np.sum((a_ND.T @ b_NE) ** 2) for a_ND, b_NE in pairs])


def _hsic1(x_ND: Float64, y_NE: Float64, hsic0_3: Float64) -> Float64:
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
