"""Fits a linear map to paired latents: checks, standardisation, choice of the ridge, refits.

Shape suffixes: N paired samples, D features of x, E features of y.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import solve
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import (
    CONSTANT_FEATURE,
    FAINT_FEATURE,
    Float64,
    Moments,
    checked_pairs,
    float64_blocks,
    weak_features,
)
from socialjepa_jax.errors import (
    InputError,
    as_array,
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
)

METHODS = ("ridge", "lstsq", "procrustes", "reduced_rank", "robust")
AUTO_FOLDS = 10
_NAMED_FEATURES = 10  # in a warning
ROBUST_REFITS = 10


def fit(
    x: ArrayLike,
    y: ArrayLike,
    *,
    method: str = "ridge",
    ridge: float | str = 1e-3,
    standardize: str = "full",
    groups: ArrayLike | None = None,
    kappa_max: float = 1e6,
    rank: int | None = None,
    trim: float = 0.1,
    scale: bool = False,
) -> LinearMap:
    """Fits y ~ W x on training pairs (Algorithm 1, lines 4-6).

    Args:
        x, y: raw latents [N, D] and [N, E] of the same N states, row by row; memory-mapped arrays
            are streamed ("robust" and "auto" read them into memory).
        method: "ridge" (eq. 4; ridge=0 is "lstsq"), "lstsq" (eq. 3, minimum norm by SVD),
            "procrustes" (orthogonal), "reduced_rank" (at most `rank`), or "robust" (ridge, refitted
            without the `trim` worst pairs until the selection no longer changes).
        ridge: the absolute lambda of eq. (4) on standardised latents, or "auto" for `choose_ridge`.
        standardize: "full" (training mean and population standard deviation; constant and faint
            features see `moments.nonzero_scales`) or "center" (mean only).
        groups: [N] labels of rows that stay together in a fold, such as objects; None: single rows.
        kappa_max: conditioning threshold of the inverse.
        rank: maximum rank for "reduced_rank".
        trim: share of pairs that "robust" leaves out.
        scale: True to fit one global scale with "procrustes".

    Returns:
        The fitted map. A warning names features that vary too little to be standardised.

    Raises:
        InputError: if latents or options cannot be used.
    """
    x_ND, y_NE = checked_pairs(x, y, "x", "y")
    check_one_of(METHODS, method=method)
    check_one_of(("full", "center"), standardize=standardize)
    check_positive(kappa_max=kappa_max - 1)
    if len(x_ND) < 2:
        raise InputError("a fit needs at least 2 pairs, got 1")
    if method == "reduced_rank" and not (rank and 1 <= rank <= min(x_ND.shape[1], y_NE.shape[1])):
        raise InputError(f"rank={rank} must be in [1, {min(x_ND.shape[1], y_NE.shape[1])}]")
    if method == "robust":
        check_in_range(0.0, 0.5, trim=trim)
    if isinstance(ridge, str):
        check_one_of(("auto",), ridge=ridge)
        ridge = choose_ridge(x_ND, y_NE, groups=groups, standardize=standardize)
    check_non_negative(ridge=ridge)
    if method == "ridge" and ridge == 0:
        method = "lstsq"
    options = _Options(method, float(ridge), standardize, kappa_max, rank or 0, scale)
    moments = Moments.of(x_ND, y_NE, cross=method == "procrustes")
    if standardize == "full":
        x_deviation, y_deviation = moments.deviations()
        _warn_of_weak("x", x_ND, x_deviation, moments.mean_x)
        _warn_of_weak("y", y_NE, y_deviation, moments.mean_y)
    if method == "robust":
        return _fit_robust(x_ND, y_NE, moments, trim, options)
    return _fit(x_ND, y_NE, moments, options)


def _warn_of_weak(name: str, z_ND: np.ndarray, deviation_D: Float64, mean_D: Float64) -> None:
    """Warns of features that vary, but so little that they are not divided by their deviation."""
    constant_D, faint_D = weak_features(deviation_D, mean_D)
    columns = np.flatnonzero(constant_D)
    varies = np.ptp(np.asarray(z_ND[:, columns], np.float64), axis=0) > 0
    found = {
        f"less than {CONSTANT_FEATURE} of max(1, |mean|) and count as constant": columns[varies],
        f"less than {FAINT_FEATURE} of the median feature and are divided by its deviation instead "
        "of their own": np.flatnonzero(faint_D),
    }
    for what, features in found.items():
        if len(features):
            named = ", ".join(map(str, features[:_NAMED_FEATURES]))
            warnings.warn(
                f"{name}: {len(features)} of {len(deviation_D)} features vary by {what} (features "
                f"{named}); rescale them to use them",
                stacklevel=3,
            )


def choose_ridge(
    x_ND: np.ndarray,
    y_NE: np.ndarray,
    *,
    groups: ArrayLike | None = None,
    standardize: str = "full",
) -> float:
    """Returns the lambda with the least held-out error in 10-fold cross-validation over groups.

    The grid has four values per decade from 1e-8 N to 10 N.

    Args:
        x_ND, y_NE: raw latents.
        groups, standardize: as for `fit`.

    Raises:
        InputError: if `groups` has another shape than [N], or fewer than two values.
    """
    x_ND, y_NE = as_array(x_ND, "x"), as_array(y_NE, "y")
    n = len(x_ND)
    groups_N = np.arange(n) if groups is None else as_array(groups, "groups")
    if groups_N.shape != (n,):
        raise InputError(f"groups has shape {groups_N.shape}, not ({n},)")
    fold_N = solve.group_folds(groups_N, AUTO_FOLDS)
    folds = [Moments.of(x_ND[fold_N == f], y_NE[fold_N == f]) for f in range(fold_N.max() + 1)]
    lambdas = n * np.logspace(-8, 1, 37)
    return float(lambdas[np.argmin(solve.ridge_by_folds(folds, lambdas, standardize))])


@dataclass(frozen=True)
class _Options:
    """Checked options of `fit`; `method` is "lstsq" for a ridge of 0."""

    method: str
    ridge: float
    standardize: str
    kappa_max: float
    rank: int
    scale: bool


def _fit(x_ND: np.ndarray, y_NE: np.ndarray, moments: Moments, options: _Options) -> LinearMap:
    x_scale, y_scale = moments.scales()
    if options.standardize == "center":
        x_scale, y_scale = np.ones_like(x_scale), np.ones_like(y_scale)
    if options.method == "lstsq":
        x, y = (x_ND, moments.mean_x, x_scale), (y_NE, moments.mean_y, y_scale)
        faint_x, faint_y = moments.faint()
        w_ED, w_back_DE = _least_squares(faint_x, x, y), _least_squares(faint_y, y, x)
    else:
        w_ED, w_back_DE = _solve_both(moments.scaled(x_scale, y_scale), options)
    return LinearMap(
        w_ED,
        w_back_DE,
        moments.mean_x,
        x_scale,
        moments.mean_y,
        y_scale,
        options.method,
        0.0 if options.method in ("lstsq", "procrustes") else options.ridge,
        moments.count,
        options.kappa_max,
    )


def _least_squares(faint_D: np.ndarray, *spaces: tuple[np.ndarray, Float64, Float64]) -> Float64:
    """Solves least squares block by block, given latents, mean and scale of x and of y.

    Faint features of x have no weight: without a ridge their scale alone would not restrain them.
    """

    def standardized(z_ND: np.ndarray, mean_D: Float64, scale_D: Float64) -> Iterator[Float64]:
        return ((block - mean_D) / scale_D for block in float64_blocks(z_ND))

    blocks = zip(*(standardized(*space) for space in spaces))
    root = solve.triangular(np.concatenate(pair, axis=1) for pair in blocks)
    d = spaces[0][0].shape[1]
    return solve.lstsq(np.where(faint_D, 0.0, root[:d, :d]), root[:d, d:])


def _solve_both(moments: Moments, options: _Options) -> tuple[Float64, Float64]:
    if options.method != "procrustes":
        return _solve(moments, options), _solve(moments.swapped(), options)
    rotation_ED, stretch = solve.procrustes(moments.xy)
    if not options.scale:
        return rotation_ED, rotation_ED.T
    squares = (float(np.trace(scatter)) for scatter in (moments.xx, moments.yy))
    scale, back = (stretch / square for square in squares)
    return rotation_ED * scale, rotation_ED.T * back


def _solve(moments: Moments, options: _Options) -> Float64:
    if options.method == "reduced_rank":
        return solve.reduced_rank(moments.xx, moments.xy, options.ridge, options.rank)
    return solve.ridge(moments.xx, moments.xy, options.ridge)


def _fit_robust(
    x_ND: np.ndarray, y_NE: np.ndarray, moments: Moments, trim: float, options: _Options
) -> LinearMap:
    """Alternates between a fit and the choice of the pairs with the smallest residuals."""
    keep_N = np.ones(len(x_ND), bool)
    num_keep = max(2, round((1 - trim) * len(x_ND)))
    linear_map = _fit(x_ND, y_NE, moments, options)
    for _ in range(ROBUST_REFITS):
        order = np.argsort(linear_map.squared_errors(x_ND, y_NE), kind="stable")
        next_N = np.zeros_like(keep_N)
        next_N[order[:num_keep]] = True
        if (next_N == keep_N).all():
            break
        keep_N = next_N
        kept = x_ND[keep_N], y_NE[keep_N]
        linear_map = _fit(*kept, Moments.of(*kept), options)
    return linear_map
