"""Closed-form solvers of W in y ~ W x from centred or standardised latents, in float64.

Shape suffixes: N paired samples, D features of x, E features of y, L ridge strengths.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from socialjepa_jax.alignment.moments import Float64, Moments
from socialjepa_jax.errors import InputError

# Singular values of X below this fraction of the largest one are rounding, not signal.
LSTSQ_CUTOFF = 1e-10


def ridge(xx_DD: Float64, xy_DE: Float64, lam: float) -> Float64:
    """Solves ridge regression, eq. (4): W = Y X^T (X X^T + lam I)^-1.

    Args:
        xx_DD, xy_DE: scatter sums of standardised latents.
        lam: absolute strength > 0; it is not multiplied by the number of pairs.

    Returns:
        W [E, D].
    """
    return np.linalg.solve(xx_DD + lam * np.eye(len(xx_DD)), xy_DE).T


def lstsq(xx_root_DD: Float64, xy_root_DE: Float64) -> Float64:
    """Solves least squares, eq. (3), with minimum norm by SVD; works for N < D and any rank.

    Args:
        xx_root_DD, xy_root_DE: R_xx and R_xy of `triangular`, or X and Y themselves.

    Returns:
        W [E, D].
    """
    u_NR, s_R, v_RD = np.linalg.svd(xx_root_DD, full_matrices=False)
    keep = s_R > LSTSQ_CUTOFF * s_R[0]
    return (xy_root_DE.T @ u_NR[:, keep] / s_R[keep]) @ v_RD[keep]


def triangular(blocks: Iterable[Float64]) -> Float64:
    """Returns the R factor of the QR decomposition of stacked blocks of rows (sequential TSQR).

    Least squares on R equals least squares on all rows, and unlike the normal equations it does
    not square the condition number.
    """
    parts = iter(blocks)
    root = np.linalg.qr(next(parts), mode="r")
    for block in parts:
        root = np.linalg.qr(np.concatenate([root, block]), mode="r")
    return np.asarray(root)


def procrustes(xy_DE: Float64) -> tuple[Float64, float]:
    """Solves orthogonal Procrustes (A.5): W = U V^T from svd(Y X^T), reflections allowed.

    For D != E the rows or columns of W are orthonormal, whichever are fewer. W is not unique if
    the cross moment is rank-deficient. The transpose of W is that of the swapped spaces.

    Args:
        xy_DE: cross scatter of centred latents.

    Returns:
        W [E, D], and the sum of singular values: over the squared Frobenius norm of X it is the
        optimal scale of W.
    """
    u_ER, s_R, v_RD = np.linalg.svd(xy_DE.T, full_matrices=False)
    return u_ER @ v_RD, float(s_R.sum())


def reduced_rank(xx_DD: Float64, xy_DE: Float64, lam: float, rank: int) -> Float64:
    """Solves reduced-rank regression: W [E, D] of at most `rank` (Izenman 1975).

    The ridge fit is projected onto the leading principal directions of its fitted values. For
    lam = 0 this W has the least squared error of all of its rank; a truncated SVD of W does not.
    """
    if lam > 0:
        w_ED = ridge(xx_DD, xy_DE, lam)
    else:
        w_ED = xy_DE.T @ np.linalg.pinv(xx_DD, rcond=LSTSQ_CUTOFF, hermitian=True)
    _, u_EE = np.linalg.eigh(w_ED @ xx_DD @ w_ED.T)
    lead_EK = u_EE[:, ::-1][:, :rank]
    return lead_EK @ (lead_EK.T @ w_ED)


def ridge_by_folds(folds: list[Moments], lambdas_L: Float64, standardize: str) -> Float64:
    """Computes the held-out squared error of ridge regression for every lambda, over folds: [L].

    Each training set is the total minus one fold. Its statistics standardise both parts, and one
    eigendecomposition of its X X^T serves all lambdas.
    """
    total = folds[0]
    for fold in folds[1:]:
        total = total + fold
    return np.sum([_fold_error(total - f, f, lambdas_L, standardize) for f in folds], axis=0)


def _fold_error(train: Moments, held: Moments, lambdas_L: Float64, standardize: str) -> Float64:
    held = held.about(train.mean_x, train.mean_y)
    if standardize == "full":
        scales = train.scales()
        train, held = train.scaled(*scales), held.scaled(*scales)
    eigenvalues_D, v_DD = np.linalg.eigh(train.xx)
    p_DE = v_DD.T @ train.xy
    # With r = 1 / (eigenvalue + lambda): W = P^T diag(r) V^T, so that
    # |Y - W X|^2 = tr YY - 2 r.linear + r^T quadratic r.
    linear_D = np.sum(p_DE * (v_DD.T @ held.xy), axis=1)
    quadratic_DD = (v_DD.T @ held.xx @ v_DD) * (p_DE @ p_DE.T)
    r_LD = 1.0 / (np.maximum(eigenvalues_D, 0.0) + lambdas_L[:, None])
    return np.trace(held.yy) - 2 * r_LD @ linear_D + np.sum((r_LD @ quadratic_DD) * r_LD, axis=1)


def group_folds(groups_N: NDArray, num_folds: int, seed: int = 0) -> NDArray[np.int64]:
    """Assigns whole groups to folds of nearly equal size: the fold of every row, int64 [N].

    Groups go from the largest to the smallest (equal sizes in an order drawn from the seed), each
    into the fold with the fewest rows so far.

    Raises:
        InputError: if there are fewer than two groups.
    """
    _, group_of_row, sizes = np.unique(groups_N, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise InputError("groups must hold at least 2 different values to be split")
    num_folds = min(num_folds, len(sizes))
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    filled = np.zeros(num_folds, np.int64)
    fold_of_group = np.empty(len(sizes), np.int64)
    for group in order:
        fold_of_group[group] = np.argmin(filled)
        filled[fold_of_group[group]] += sizes[group]
    return fold_of_group[group_of_row]
