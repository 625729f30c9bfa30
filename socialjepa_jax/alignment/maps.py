"""The map between two latent spaces: how it is fitted, what is known of it, how it is kept.

Shape suffixes: N paired samples, D features of x (d1), E features of y (d2).
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import solve
from socialjepa_jax.alignment.moments import (
    Float64,
    Moments,
    as_latents,
    checked_pairs,
    float64_blocks,
)
from socialjepa_jax.alignment.similarity import entropy_rank
from socialjepa_jax.errors import (
    DAMAGED_ARCHIVE,
    InputError,
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
)

METHODS = ("ridge", "lstsq", "procrustes", "reduced_rank", "robust")
AUTO_FOLDS = 10
ROBUST_REFITS = 10


@dataclass(frozen=True, eq=False)
class LinearMap:
    """y ~ W x between standardised latents, with what is needed to go both ways. All float64.

    Attributes:
      w: [E, D].
      w_back: [D, E], the reverse regression y -> x by the same method and strength.
      x_mean, x_scale, y_mean, y_scale: [D] and [E], training statistics that standardise.
      method, ridge: how W was fitted; the absolute lambda of eq. (4).
      n_train: pairs used.
      kappa_max: singular values of W at or below s1 / kappa_max are dropped in `w_inv`.
    """

    w: Float64
    w_back: Float64
    x_mean: Float64
    x_scale: Float64
    y_mean: Float64
    y_scale: Float64
    method: str
    ridge: float
    n_train: int
    kappa_max: float

    def __post_init__(self) -> None:
        e, d = self.w.shape
        shapes = {"w_back": (d, e), "x_mean": (d,), "x_scale": (d,), "y_mean": (e,)}
        for name, shape in {**shapes, "y_scale": (e,)}.items():
            if getattr(self, name).shape != shape:
                raise InputError(f"{name} has shape {getattr(self, name).shape}, not {shape}")

    @cached_property
    def _svd(self) -> tuple[Float64, Float64, Float64]:
        return np.linalg.svd(self.w, full_matrices=False)

    @property
    def singular_values(self) -> Float64:
        """The min(D, E) singular values of W, largest first."""
        return self._svd[1]

    @cached_property
    def kappa(self) -> float:
        """s1 / s_min without any cut-off; infinite where W is singular."""
        s = self.singular_values
        return float(s[0] / s[-1]) if s[-1] > 0 else float("inf")

    @cached_property
    def rank(self) -> int:
        """The number of singular values above s1 / kappa_max."""
        s = self.singular_values
        return int(np.sum(s > s[0] / self.kappa_max))

    @cached_property
    def kappa_effective(self) -> float:
        """s1 / s_rank: the condition number of what the inverse keeps."""
        s = self.singular_values
        return float(s[0] / s[self.rank - 1]) if self.rank else float("inf")

    @property
    def used_pinv(self) -> bool:
        """Whether `w_inv` had to drop singular values."""
        return self.rank < len(self.singular_values)

    @cached_property
    def w_inv(self) -> Float64:
        """[D, E]: the pseudoinverse of W at rcond 1 / kappa_max; W^-1 where W has full rank."""
        u, s, vt = self._svd
        r = self.rank
        return (vt[:r].T / s[:r]) @ u[:, :r].T

    @cached_property
    def w_orthogonal(self) -> Float64:
        """[E, D]: the orthogonal matrix nearest to W (its polar factor)."""
        u, _, vt = self._svd
        return u @ vt

    @cached_property
    def effective_rank(self) -> float:
        """exp(entropy of s / sum s) of W's spectrum."""
        return entropy_rank(self.singular_values)

    @cached_property
    def orthogonality(self) -> float:
        """Eq. (17): ||W^T W - I||_F / ||I||_F; at least sqrt(1 - E/D) where D > E."""
        d = self.w.shape[1]
        return float(np.linalg.norm(self.w.T @ self.w - np.eye(d)) / np.sqrt(d))

    def standardize_x(self, x: ArrayLike) -> Float64:
        """Raw latents of x [N, D] in training units."""
        return (as_latents(x, "x") - self.x_mean) / self.x_scale

    def standardize_y(self, y: ArrayLike) -> Float64:
        """Raw latents of y [N, E] in training units."""
        return (as_latents(y, "y") - self.y_mean) / self.y_scale

    def forward(self, x: ArrayLike, *, standardized: bool = False) -> Float64:
        """Carries x [N, D] into the space of y: W x; [N, E].

        Args:
          x: raw latents, or standardised ones.
          standardized: what is given and returned is standardised.
        """
        if standardized:
            return as_latents(x, "x") @ self.w.T
        return self.standardize_x(x) @ self.w.T * self.y_scale + self.y_mean

    def backward(
        self, y: ArrayLike, back: str = "inverse", *, standardized: bool = False
    ) -> Float64:
        """Carries y [N, E] into the space of x, eq. (5); [N, D].

        Args:
          y: raw latents, or standardised ones.
          back: "inverse" (the paper), "regression" (w_back) or "procrustes" (w_orthogonal^T).
          standardized: what is given and returned is standardised.
        """
        w_DE = self.back_matrix(back)
        if standardized:
            return as_latents(y, "y") @ w_DE.T
        return self.standardize_y(y) @ w_DE.T * self.x_scale + self.x_mean

    def back_matrix(self, back: str = "inverse") -> Float64:
        """The [D, E] matrix that `backward` applies to standardised latents."""
        check_one_of(("inverse", "regression", "procrustes"), back=back)
        if back == "procrustes":
            return self.w_orthogonal.T
        return self.w_inv if back == "inverse" else self.w_back

    def affine(self) -> tuple[Float64, Float64]:
        """`forward` on raw latents as x @ matrix + offset: [D, E] and [E]."""
        matrix_DE = self.w.T * self.y_scale / self.x_scale[:, None]
        return matrix_DE, self.y_mean - self.x_mean @ matrix_DE

    def affine_back(self, back: str = "inverse") -> tuple[Float64, Float64]:
        """`backward` on raw latents as y @ matrix + offset: [E, D] and [D]."""
        matrix_ED = self.back_matrix(back).T * self.x_scale / self.y_scale[:, None]
        return matrix_ED, self.x_mean - self.y_mean @ matrix_ED

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the map to an .npz without pickles."""
        with Path(path).open("wb") as file:
            np.savez(file, **dataclasses.asdict(self))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> LinearMap:
        """Reads a map written by `save`.

        Raises:
          InputError: if the file is not one.
        """
        names = [field.name for field in dataclasses.fields(LinearMap)]
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                stored = {name: file[name] for name in names}
        except (OSError, EOFError, LookupError, ValueError, TypeError, *DAMAGED_ARCHIVE) as error:
            raise InputError(f"{path} is not a saved map: {error}") from error
        arrays = {name: value for name, value in stored.items() if value.ndim}
        plain = {name: value.item() for name, value in stored.items() if not value.ndim}
        return LinearMap(**arrays, **plain)


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
      x, y: raw latents [N, D] and [N, E] of the same N states, row by row; memory-mapped
        arrays are streamed ("robust" and "auto" read them into memory).
      method: "ridge" (eq. 4; ridge=0 is "lstsq"), "lstsq" (eq. 3, minimum norm by SVD),
        "procrustes" (orthogonal), "reduced_rank" (at most `rank`), "robust" (ridge, refitted
        without the worst `trim` of the pairs until these no longer change).
      ridge: the absolute lambda of eq. (4) on standardised latents, or "auto": the best of a
        grid by 10-fold cross-validation over groups.
      standardize: "full" (train mean and population standard deviation; constant features
        keep scale 1) or "center".
      groups: [N] labels of what must stay together in a fold (objects); None: rows.
      kappa_max: conditioning threshold of the inverse.
      rank: for "reduced_rank".
      trim: for "robust", share of pairs left out.
      scale: for "procrustes", also fit one global scale.

    Returns:
      The map.

    Raises:
      InputError: for latents or options that cannot be used.
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
    if method == "robust":
        return _fit_robust(x_ND, y_NE, trim, options)
    return _fit(x_ND, y_NE, options)


def choose_ridge(
    x_ND: np.ndarray,
    y_NE: np.ndarray,
    *,
    groups: ArrayLike | None = None,
    standardize: str = "full",
) -> float:
    """The lambda with the least held-out error over 10 group folds.

    The grid has four values a decade from 1e-8 N to 10 N, N pairs.
    """
    n = len(x_ND)
    groups_N = np.arange(n) if groups is None else np.asarray(groups)
    if groups_N.shape != (n,):
        raise InputError(f"groups has shape {groups_N.shape}, not ({n},)")
    fold_N = solve.group_folds(groups_N, AUTO_FOLDS)
    folds = [Moments.of(x_ND[fold_N == f], y_NE[fold_N == f]) for f in range(fold_N.max() + 1)]
    lambdas = n * np.logspace(-8, 1, 37)
    return float(lambdas[np.argmin(solve.ridge_by_folds(folds, lambdas, standardize))])


@dataclass(frozen=True)
class _Options:
    method: str
    ridge: float
    standardize: str
    kappa_max: float
    rank: int
    scale: bool


def _fit(x_ND: np.ndarray, y_NE: np.ndarray, options: _Options) -> LinearMap:
    moments = Moments.of(x_ND, y_NE)
    x_scale, y_scale = moments.scales()
    if options.standardize == "center":
        x_scale, y_scale = np.ones_like(x_scale), np.ones_like(y_scale)
    if options.method == "lstsq":
        w_ED = _least_squares(x_ND, y_NE, moments.mean_x, x_scale, moments.mean_y, y_scale)
        w_back_DE = _least_squares(y_NE, x_ND, moments.mean_y, y_scale, moments.mean_x, x_scale)
    else:
        scaled = moments.scaled(x_scale, y_scale)
        w_ED, w_back_DE = _solve(scaled, options), _solve(scaled.swapped(), options)
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


def _least_squares(
    x_ND: np.ndarray,
    y_NE: np.ndarray,
    x_mean: Float64,
    x_scale: Float64,
    y_mean: Float64,
    y_scale: Float64,
) -> Float64:
    root = solve.triangular(
        np.concatenate([(x - x_mean) / x_scale, (y - y_mean) / y_scale], axis=1)
        for x, y in zip(float64_blocks(x_ND), float64_blocks(y_NE))
    )
    d = x_ND.shape[1]
    return solve.lstsq(root[:d, :d], root[:d, d:])


def _solve(moments: Moments, options: _Options) -> Float64:
    if options.method == "procrustes":
        scale_by = float(np.trace(moments.xx)) if options.scale else None
        return solve.procrustes(moments.xy, scale_by=scale_by)
    if options.method == "reduced_rank":
        return solve.reduced_rank(moments.xx, moments.xy, options.ridge, options.rank)
    return solve.ridge(moments.xx, moments.xy, options.ridge)


def _fit_robust(x_ND: np.ndarray, y_NE: np.ndarray, trim: float, options: _Options) -> LinearMap:
    keep_N = np.ones(len(x_ND), bool)
    num_keep = max(2, round((1 - trim) * len(x_ND)))
    linear_map = _fit(x_ND, y_NE, options)
    for _ in range(ROBUST_REFITS):
        residual_NE = linear_map.standardize_y(y_NE) - linear_map.forward(
            linear_map.standardize_x(x_ND), standardized=True
        )
        order = np.argsort(np.sum(residual_NE**2, axis=1), kind="stable")
        next_N = np.zeros_like(keep_N)
        next_N[order[:num_keep]] = True
        if (next_N == keep_N).all():
            break
        keep_N = next_N
        linear_map = _fit(x_ND[keep_N], y_NE[keep_N], options)
    return linear_map
