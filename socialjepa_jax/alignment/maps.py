"""A linear map between two latent spaces: both directions, its spectrum, and its file.

Shape suffixes: N samples, D features of x (d1), E features of y (d2).
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.moments import Float64, as_latents
from socialjepa_jax.alignment.similarity import entropy_rank
from socialjepa_jax.errors import DAMAGED_ARCHIVE, InputError, check_one_of
from socialjepa_jax.npz import open_archive

# Number of axes and kinds of dtype of what is no vector in the file of a map.
_STORED = {"w": (2, "f"), "w_back": (2, "f"), "method": (0, "U")}
_STORED |= dict.fromkeys(("ridge", "n_train", "kappa_max"), (0, "iuf"))


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A map y ~ W x between standardised latents, with its reverse and statistics, all float64.

    Attributes:
        w: W [E, D].
        w_back: [D, E], the reverse regression y -> x by the same method and strength.
        x_mean, x_scale, y_mean, y_scale: [D] and [E], training statistics for standardisation.
        method: method of `fit`.
        ridge: the absolute lambda of eq. (4).
        n_train: number of training pairs.
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
        """Singular values of W, largest first: [min(D, E)]."""
        return self._svd[1]

    @cached_property
    def kappa(self) -> float:
        """Condition number s1 / s_min of W without cut-off; infinite if W is singular."""
        s = self.singular_values
        return float(s[0] / s[-1]) if s[-1] > 0 else float("inf")

    @cached_property
    def rank(self) -> int:
        """Number of singular values of W above s1 / kappa_max."""
        s = self.singular_values
        return int(np.sum(s > s[0] / self.kappa_max))

    @cached_property
    def kappa_effective(self) -> float:
        """Condition number s1 / s_rank over the singular values that `w_inv` keeps."""
        s = self.singular_values
        return float(s[0] / s[self.rank - 1]) if self.rank else float("inf")

    @property
    def used_pinv(self) -> bool:
        """True if `w_inv` drops singular values."""
        return self.rank < len(self.singular_values)

    @cached_property
    def w_inv(self) -> Float64:
        """Pseudoinverse of W at rcond 1 / kappa_max, [D, E]; W^-1 if W has full rank."""
        u, s, vt = self._svd
        r = self.rank
        return (vt[:r].T / s[:r]) @ u[:, :r].T

    @cached_property
    def w_orthogonal(self) -> Float64:
        """Orthogonal matrix nearest to W (its polar factor), [E, D]."""
        u, _, vt = self._svd
        return u @ vt

    @cached_property
    def effective_rank(self) -> float:
        """Effective rank of W, exp(entropy of s / sum s)."""
        return entropy_rank(self.singular_values)

    @cached_property
    def orthogonality(self) -> float:
        """Distance from orthogonality, eq. (17): ||W^T W - I||_F / ||I||_F.

        At least sqrt(1 - E/D) for D > E.
        """
        d = self.w.shape[1]
        return float(np.linalg.norm(self.w.T @ self.w - np.eye(d)) / np.sqrt(d))

    def standardize_x(self, x: ArrayLike) -> Float64:
        """Standardises raw latents of x [N, D] by training statistics."""
        return (as_latents(x, "x") - self.x_mean) / self.x_scale

    def standardize_y(self, y: ArrayLike) -> Float64:
        """Standardises raw latents of y [N, E] by training statistics."""
        return (as_latents(y, "y") - self.y_mean) / self.y_scale

    def standardize(self, x: ArrayLike, y: ArrayLike) -> tuple[Float64, Float64]:
        """Standardises raw latents of x [N, D] and of y [N, E]."""
        return self.standardize_x(x), self.standardize_y(y)

    def forward(self, x: ArrayLike, *, standardized: bool = False) -> Float64:
        """Maps x [N, D] into the space of y by W: [N, E].

        Args:
            x: raw latents, or standardised ones.
            standardized: True if x and the result are standardised.
        """
        if standardized:
            return as_latents(x, "x") @ self.w.T
        return self.standardize_x(x) @ self.w.T * self.y_scale + self.y_mean

    def squared_errors(self, x: ArrayLike, y: ArrayLike) -> Float64:
        """Squared error of W x per row, standardised and summed over features: [N]."""
        x_ND, y_NE = self.standardize(x, y)
        return np.sum((y_NE - x_ND @ self.w.T) ** 2, axis=1)

    def backward(
        self, y: ArrayLike, back: str = "inverse", *, standardized: bool = False
    ) -> Float64:
        """Maps y [N, E] into the space of x, eq. (5): [N, D].

        Args:
            y: raw latents, or standardised ones.
            back: "inverse" (the paper), "regression" (w_back) or "procrustes" (w_orthogonal^T).
            standardized: True if y and the result are standardised.
        """
        w_DE = self.back_matrix(back)
        if standardized:
            return as_latents(y, "y") @ w_DE.T
        return self.standardize_y(y) @ w_DE.T * self.x_scale + self.x_mean

    def back_matrix(self, back: str = "inverse") -> Float64:
        """Returns the matrix [D, E] that `backward` applies to standardised latents."""
        check_one_of(("inverse", "regression", "procrustes"), back=back)
        if back == "procrustes":
            return self.w_orthogonal.T
        return self.w_inv if back == "inverse" else self.w_back

    def affine(self) -> tuple[Float64, Float64]:
        """Returns `forward` on raw latents as x @ matrix + offset: [D, E] and [E]."""
        matrix_DE = self.w.T * self.y_scale / self.x_scale[:, None]
        return matrix_DE, self.y_mean - self.x_mean @ matrix_DE

    def affine_back(self, back: str = "inverse") -> tuple[Float64, Float64]:
        """Returns `backward` on raw latents as y @ matrix + offset: [E, D] and [D]."""
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
            InputError: if the file is not a saved map.
        """
        try:
            with open_archive(path) as archive:
                stored = {
                    field.name: archive.read(field.name) for field in dataclasses.fields(LinearMap)
                }
        except FileNotFoundError:
            raise InputError(f"{path} does not exist") from None
        except (OSError, EOFError, ValueError, *DAMAGED_ARCHIVE) as error:
            raise InputError(f"{path} is not a saved map: {error}") from error
        for name, value in stored.items():
            ndim, kinds = _STORED.get(name, (1, "f"))
            if value.ndim != ndim or value.dtype.kind not in kinds:
                raise InputError(f"{path} is not a saved map: {name} is {value.dtype}{value.shape}")
        fields: dict[str, Any] = {
            name: value if value.ndim else value.item() for name, value in stored.items()
        }
        return LinearMap(**fields)
