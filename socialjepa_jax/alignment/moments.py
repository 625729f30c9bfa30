"""First and second moments of paired latents: enough for every closed-form fit.

Moments of disjoint rows merge exactly (Chan, Golub & LeVeque 1983) and can be taken away again,
so data can be streamed, sharded, or left out fold by fold without a second pass.

Shape suffixes: N paired samples, D features of x, E features of y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from socialjepa_jax.validate import InputError

Float64 = NDArray[np.floating[Any]]  # always float64; the linear algebra stubs say no more

# A feature whose standard deviation is below this fraction of max(1, |mean|) counts as constant.
CONSTANT_FEATURE = 1e-12


def as_latents(value: ArrayLike, name: str) -> Float64:
    """Checks a latent matrix and returns it as float64 [N, D].

    Raises:
      InputError: unless it is a finite two-dimensional array of real numbers; names the first
        bad row and column.
    """
    array = np.asarray(value)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must be samples x features, got shape {array.shape}")
    if not np.can_cast(array.dtype, np.float64, casting="same_kind"):
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise InputError(f"{name} is not finite at row {row}, column {column}")
    return array


def as_pairs(x: ArrayLike, y: ArrayLike, name_x: str, name_y: str) -> tuple[Float64, Float64]:
    """Checks two latent matrices of the same states: float64 [N, D] and [N, E]."""
    x_ND, y_NE = as_latents(x, name_x), as_latents(y, name_y)
    if len(x_ND) != len(y_NE):
        raise InputError(f"{name_x} has {len(x_ND)} rows but {name_y} has {len(y_NE)}")
    return x_ND, y_NE


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, means and centred scatter sums of pairs, all float64.

    Attributes:
      count: number of pairs N.
      mean_x, mean_y: [D], [E].
      xx, xy, yy: sums over pairs of centred outer products, [D, D], [D, E], [E, E].
    """

    count: int
    mean_x: Float64
    mean_y: Float64
    xx: Float64
    xy: Float64
    yy: Float64

    @staticmethod
    def of(x_ND: Float64, y_NE: Float64) -> Moments:
        """The moments of the rows given: float64 [N, D] and [N, E], N >= 1."""
        mean_x, mean_y = x_ND.mean(axis=0), y_NE.mean(axis=0)
        x_ND, y_NE = x_ND - mean_x, y_NE - mean_y
        return Moments(len(x_ND), mean_x, mean_y, x_ND.T @ x_ND, x_ND.T @ y_NE, y_NE.T @ y_NE)

    def __add__(self, other: Moments) -> Moments:
        """The moments of the union of two disjoint sets of rows."""
        return self._combine(other, 1)

    def __sub__(self, part: Moments) -> Moments:
        """The moments of the rows left when `part`, a proper subset of them, is taken away."""
        return self._combine(part, -1)

    def _combine(self, other: Moments, sign: int) -> Moments:
        count = self.count + sign * other.count
        dx_D, dy_E = other.mean_x - self.mean_x, other.mean_y - self.mean_y
        share = sign * other.count / count
        between = self.count * share
        return Moments(
            count,
            self.mean_x + share * dx_D,
            self.mean_y + share * dy_E,
            self.xx + sign * other.xx + between * np.outer(dx_D, dx_D),
            self.xy + sign * other.xy + between * np.outer(dx_D, dy_E),
            self.yy + sign * other.yy + between * np.outer(dy_E, dy_E),
        )

    def about(self, mean_x: Float64, mean_y: Float64) -> Moments:
        """The same rows with scatter sums taken about another point."""
        dx_D, dy_E = self.mean_x - mean_x, self.mean_y - mean_y
        return Moments(
            self.count,
            mean_x,
            mean_y,
            self.xx + self.count * np.outer(dx_D, dx_D),
            self.xy + self.count * np.outer(dx_D, dy_E),
            self.yy + self.count * np.outer(dy_E, dy_E),
        )

    def scales(self) -> tuple[Float64, Float64]:
        """Population standard deviations of x and y, [D] and [E]; 1 for constant features."""
        return (
            _scale(np.diag(self.xx), self.mean_x, self.count),
            _scale(np.diag(self.yy), self.mean_y, self.count),
        )

    def scaled(self, scale_x: Float64, scale_y: Float64) -> Moments:
        """The moments after every feature is divided by its scale, [D] and [E]."""
        return Moments(
            self.count,
            self.mean_x / scale_x,
            self.mean_y / scale_y,
            self.xx / np.outer(scale_x, scale_x),
            self.xy / np.outer(scale_x, scale_y),
            self.yy / np.outer(scale_y, scale_y),
        )

    def swapped(self) -> Moments:
        """The moments of (y, x)."""
        return Moments(self.count, self.mean_y, self.mean_x, self.yy, self.xy.T, self.xx)


def _scale(scatter_D: Float64, mean_D: Float64, count: int) -> Float64:
    deviation_D = np.sqrt(np.maximum(scatter_D, 0.0) / count)
    constant_D = deviation_D <= CONSTANT_FEATURE * np.maximum(1.0, np.abs(mean_D))
    return np.where(constant_D, 1.0, deviation_D)
