"""Closed-form fits of W in y ~ W x from centred (standardised) data or moments, in float64.

Shape suffixes: N paired samples, D features of x, E features of y, L ridge strengths.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from socialjepa_jax.alignment.moments import Float64, Moments, as_pairs
from socialjepa_jax.errors import InputError

# Singular values of X below this fraction of the largest one are rounding, not signal.
LSTSQ_CUTOFF = 1e-10


def ridge(xx_DD: Float64, xy_DE: Float64, lam: float) -> Float64:
    """Ridge regression, eq. (4): W = Y X^T (X X^T + lam I)^-1, with lam > 0 on the sum.

    Args:
      xx_DD, xy_DE: scatter sums of standardised latents.
      lam: absolute strength; it is not multiplied by the number of pairs.

    Returns:
      W [E, D].
    """
    return np.linalg.solve(xx_DD + lam * np.eye(len(xx_DD)), xy_DE).T


def lstsq(xx_root_DD: Float64, xy_root_DE: Float64) -> Float64:
    """Minimum-norm least squares, eq. (3), by SVD: W [E, D]; works for N < D and any rank.

    Args:
      xx_root_DD, xy_root_DE: R_xx and R_xy of `triangular`, or X and Y themselves.
    """
    u_NR, s_R, v_RD = np.linalg.svd(xx_root_DD, full_matrices=False)
    keep = s_R > LSTSQ_CUTOFF * s_R[0]
    return (xy_root_DE.T @ u_NR[:, keep] / s_R[keep]) @ v_RD[keep]


def triangular(blocks: Iterable[Float64]) -> Float64:
    """The R factor of all rows of a matrix, streamed block by block (TSQR).

    R keeps what the rows say about least squares without squaring the condition number.
    """
    root: Float64 | None = None
    for block in blocks:
        stacked = block if root is None else np.concatenate([root, block])
        root = np.asarray(np.linalg.qr(stacked, mode="r"))
    if root is None:
        raise InputError("no rows")
    return root


def leave_one_out(x: ArrayLike, y: ArrayLike, lambdas: ArrayLike) -> tuple[Float64, Float64]:
    """Exact leave-one-out and generalised cross-validation errors of ridge regression.

    No intercept is fitted and standardisation is held fixed: give standardised latents. Rows
    of one group leak into one another here; `ridge="auto"` of `fit` keeps groups together.

    Args:
      x, y: standardised latents [N, D] and [N, E].
      lambdas: [L], all > 0.

    Returns:
      Two arrays [L]: mean squared error per element when each pair is predicted from all
      others, and GCV, mean squared residual / (1 - tr H / N)^2.
    """
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    u_NR, s_R, _ = np.linalg.svd(x_ND, full_matrices=False)
    uy_RE, energy_NR = u_NR.T @ y_NE, u_NR**2
    errors = []
    for lam in np.asarray(lambdas, np.float64):
        shrink_R = s_R**2 / (s_R**2 + lam)
        residual_NE = y_NE - (u_NR * shrink_R) @ uy_RE
        kept_N1 = 1 - (energy_NR @ shrink_R)[:, None]
        loo = np.mean((residual_NE / kept_N1) ** 2)
        errors.append((loo, np.mean(residual_NE**2) / np.mean(kept_N1) ** 2))
    return tuple(np.asarray(errors).T)


def procrustes(xy_DE: Float64, *, scale_by: float | None = None) -> Float64:
    """Orthogonal Procrustes: W = U V^T from svd(Y X^T), reflections allowed (A.5).

    For D != E the rows or columns of W are orthonormal, whichever are fewer. Where the cross
    moment is rank-deficient W is not unique.

    Args:
      xy_DE: cross scatter of centred latents.
      scale_by: squared Frobenius norm of X; if given, W is multiplied by the optimal scale
        (sum of singular values) / scale_by.

    Returns:
      W [E, D].
    """
    u_ER, s_R, v_RD = np.linalg.svd(xy_DE.T, full_matrices=False)
    w_ED = u_ER @ v_RD
    return w_ED if scale_by is None else w_ED * (s_R.sum() / scale_by)


def reduced_rank(xx_DD: Float64, xy_DE: Float64, lam: float, rank: int) -> Float64:
    """Reduced-rank regression: W [E, D] of at most `rank` (Izenman 1975).

    The ridge fit is projected on the leading principal directions of its own fitted values.
    Without a ridge no W of this rank has a smaller error; a truncated SVD of W has a larger one.
    """
    if lam > 0:
        w_ED = ridge(xx_DD, xy_DE, lam)
    else:
        w_ED = xy_DE.T @ np.linalg.pinv(xx_DD, rcond=LSTSQ_CUTOFF, hermitian=True)
    _, u_EE = np.linalg.eigh(w_ED @ xx_DD @ w_ED.T)
    lead_EK = u_EE[:, ::-1][:, :rank]
    return lead_EK @ (lead_EK.T @ w_ED)


def ridge_by_folds(folds: list[Moments], lambdas_L: Float64, standardize: str) -> Float64:
    """Held-out squared error of ridge regression for every lambda, summed over folds: [L].

    Each training set is the total minus one fold; its statistics standardise both sides, and one
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
    """Spreads whole groups over folds of nearly equal size: the fold of every row, int64 [N].

    Groups are taken from the largest to the smallest (equal sizes in an order drawn from the
    seed), each into the fold that has the fewest rows so far.

    Raises:
      InputError: if there are fewer groups than two.
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
