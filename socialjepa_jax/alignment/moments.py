"""First and second moments of paired latents, sufficient for every closed-form fit.

Moments of disjoint sets of rows can be added and subtracted exactly (Chan, Golub & LeVeque 1983),
so data can be streamed, sharded, or left out fold by fold without a second pass.

Shape suffixes: N paired samples, D features of x, E features of y.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike, NDArray

from socialjepa_jax.errors import InputError, as_array, check_divides, check_positive

Float64 = NDArray[np.floating[Any]]  # always float64; NumPy's stubs of linalg know only floating

# A feature whose standard deviation is below this fraction of max(1, |mean|) counts as constant.
CONSTANT_FEATURE = 1e-12
# One below this fraction of the median deviation is too faint to be divided by its own: float16
# keeps 11 bits of a number and none below 6e-8, so a stored copy would differ by many deviations.
FAINT_FEATURE = 1e-4
BLOCK_ROWS = 8192  # rows that are converted to float64 at once


def checked(value: ArrayLike, name: str) -> np.ndarray:
    """Returns a latent matrix [N, D] as an array, checked block by block and not copied.

    Raises:
        InputError: unless it is a finite two-dimensional array of real numbers without masked
            entries; the message names the first row and column that are not finite.
    """
    array = as_array(value, name)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must be samples x features, got shape {array.shape}")
    if not np.can_cast(array.dtype, np.float64, casting="same_kind"):
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    for start in range(0, len(array), BLOCK_ROWS):
        finite = np.isfinite(array[start : start + BLOCK_ROWS])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise InputError(f"{name} is not finite at row {start + row}, column {column}")
    return array


def check_rows(rows_x: int, rows_y: int, name_x: str, name_y: str) -> None:
    """Raises `InputError` unless x and y have the same number of rows."""
    if rows_x != rows_y:
        raise InputError(f"{name_x} has {rows_x} rows but {name_y} has {rows_y}")


def checked_pairs(
    x: ArrayLike, y: ArrayLike, name_x: str, name_y: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns two latent matrices [N, D] and [N, E] of the same states as checked arrays."""
    x_ND, y_NE = checked(x, name_x), checked(y, name_y)
    check_rows(len(x_ND), len(y_NE), name_x, name_y)
    return x_ND, y_NE


def float64_blocks(z_ND: np.ndarray) -> Iterator[Float64]:
    """Yields the rows of a matrix, possibly memory-mapped, as float64 blocks of `BLOCK_ROWS`."""
    for start in range(0, len(z_ND), BLOCK_ROWS):
        yield np.asarray(z_ND[start : start + BLOCK_ROWS]).astype(np.float64)


def as_latents(value: ArrayLike, name: str) -> Float64:
    """Returns a checked latent matrix as float64 [N, D], in memory."""
    return np.asarray(checked(value, name)).astype(np.float64, copy=False)


def as_pairs(x: ArrayLike, y: ArrayLike, name_x: str, name_y: str) -> tuple[Float64, Float64]:
    """Returns checked latents of the same states as float64 [N, D] and [N, E], in memory."""
    x_ND, y_NE = checked_pairs(x, y, name_x, name_y)
    return x_ND.astype(np.float64, copy=False), y_NE.astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, means and centred scatter matrices of paired samples, all float64.

    Attributes:
        count: number of pairs N.
        mean_x, mean_y: [D], [E].
        xx, xy, yy: sums of centred outer products over the pairs, [D, D], [D, E], [E, E].
    """

    count: int
    mean_x: Float64
    mean_y: Float64
    xx: Float64
    xy: Float64
    yy: Float64

    @staticmethod
    def of(x_ND: np.ndarray, y_NE: np.ndarray, *, cross: bool = False) -> Moments:
        """Computes the moments of x [N, D] and y [N, E], N >= 1, in one pass over blocks of rows.

        Only one block at a time is in memory as float64, so memory-mapped arrays may be larger
        than memory.

        Args:
            x_ND, y_NE: raw latents.
            cross: True if only `xy` and the diagonals of `xx` and `yy` are needed; the rest of
                these is not to be used. It takes half of the time.
        """
        starts = range(0, len(x_ND), BLOCK_ROWS)
        of_rows = Moments._cross_of_rows if cross else Moments._of_rows
        return functools.reduce(operator.add, (of_rows(x_ND, y_NE, s) for s in starts))

    @staticmethod
    def _cross_of_rows(x_ND: np.ndarray, y_NE: np.ndarray, start: int) -> Moments:
        """Computes the cross moments and the variances of one block."""
        named = (("x", x_ND), ("y", y_NE))
        x, y = (
            as_array(z[start : start + BLOCK_ROWS], name).astype(np.float64) for name, z in named
        )
        mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
        x -= mean_x
        y -= mean_y
        xx, yy = (np.diag(np.einsum("nd,nd->d", z, z)) for z in (x, y))
        return Moments(len(x), mean_x, mean_y, xx, x.T @ y, yy)

    @staticmethod
    def _of_rows(x_ND: np.ndarray, y_NE: np.ndarray, start: int) -> Moments:
        """Computes the moments of one block by a single product of [x y] with itself."""
        named = (("x", x_ND), ("y", y_NE))
        parts = [as_array(z[start : start + BLOCK_ROWS], name) for name, z in named]
        z_NF = np.concatenate(parts, axis=1, dtype=np.float64, casting="unsafe")
        mean_F = z_NF.mean(axis=0)
        z_NF -= mean_F
        scatter_FF, d = z_NF.T @ z_NF, x_ND.shape[1]
        return Moments(
            len(z_NF),
            mean_F[:d],
            mean_F[d:],
            scatter_FF[:d, :d],
            scatter_FF[:d, d:],
            scatter_FF[d:, d:],
        )

    @staticmethod
    def sharded(x_ND: ArrayLike, y_NE: ArrayLike, mesh: Mesh) -> Moments:
        """Computes `of` with the rows sharded over all devices of a mesh, by one psum.

        Arrays on devices stay there; each device converts one block of rows at a time to float64.

        Raises:
            InputError: if x and y differ in N, or N is not a positive multiple of the number of
                devices.
        """
        named = (("x", x_ND), ("y", y_NE))
        pair = [z if isinstance(z, jax.Array) else as_array(z, name) for name, z in named]
        count, other = map(len, pair)
        check_rows(count, other, "x", "y")
        check_positive(rows=count)
        check_divides(mesh.size, rows=count)
        with jax.enable_x64(True):
            rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
            sums = _sharded_sums(*jax.device_put(pair, rows), mesh, BLOCK_ROWS)
            return Moments(count, *(np.asarray(value) for value in sums))

    def __add__(self, other: Moments) -> Moments:
        """Returns the moments of the union of two disjoint sets of rows."""
        return self._combine(other, 1)

    def __sub__(self, part: Moments) -> Moments:
        """Returns the moments of the rows without `part`, a proper subset of them."""
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
        """Returns the moments of the same rows with scatter sums about another point."""
        dx_D, dy_E = self.mean_x - mean_x, self.mean_y - mean_y
        return Moments(
            self.count,
            mean_x,
            mean_y,
            self.xx + self.count * np.outer(dx_D, dx_D),
            self.xy + self.count * np.outer(dx_D, dy_E),
            self.yy + self.count * np.outer(dy_E, dy_E),
        )

    def deviations(self) -> tuple[Float64, Float64]:
        """Returns population standard deviations of x [D] and y [E]."""
        scatters = np.diag(self.xx), np.diag(self.yy)
        x, y = (np.sqrt(np.maximum(scatter, 0.0) / self.count) for scatter in scatters)
        return x, y

    def scales(self) -> tuple[Float64, Float64]:
        """Returns the scales of x [D] and y [E] by `nonzero_scales` of their deviations."""
        x, y = self.deviations()
        return nonzero_scales(x, self.mean_x), nonzero_scales(y, self.mean_y)

    def faint(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Marks the faint features of x [D] and y [E], see `nonzero_scales`."""
        x, y = self.deviations()
        return weak_features(x, self.mean_x)[1], weak_features(y, self.mean_y)[1]

    def scaled(self, scale_x: Float64, scale_y: Float64) -> Moments:
        """Returns the moments of x and y after division by their scales, [D] and [E]."""
        return Moments(
            self.count,
            self.mean_x / scale_x,
            self.mean_y / scale_y,
            self.xx / np.outer(scale_x, scale_x),
            self.xy / np.outer(scale_x, scale_y),
            self.yy / np.outer(scale_y, scale_y),
        )

    def swapped(self) -> Moments:
        """Returns the moments of (y, x)."""
        return Moments(self.count, self.mean_y, self.mean_x, self.yy, self.xy.T, self.xx)


@functools.partial(jax.jit, static_argnames=("mesh", "block"))
def _sharded_sums(
    x_ND: jax.Array, y_NE: jax.Array, mesh: Mesh, block: int
) -> tuple[jax.Array, ...]:
    """Computes mean_x, mean_y, xx, xy and yy over all rows of a mesh."""
    axes = mesh.axis_names
    rows = PartitionSpec(axes)

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(rows, rows), out_specs=PartitionSpec())
    def sums(x_ND: jax.Array, y_NE: jax.Array) -> tuple[jax.Array, ...]:
        means = [jax.lax.pmean(jnp.mean(z, axis=0, dtype=jnp.float64), axes) for z in (x_ND, y_NE)]

        def products(start: int | jax.Array, size: int) -> tuple[jax.Array, ...]:
            pair = (jax.lax.dynamic_slice_in_dim(z, start, size) for z in (x_ND, y_NE))
            a, b = (z - mean[None] for z, mean in zip(pair, means))
            multiply = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
            return multiply(a.T, a), multiply(a.T, b), multiply(b.T, b)

        whole, rest = divmod(len(x_ND), block)
        scatter = products(whole * block, rest)
        if whole:
            # Sliced inside the loop: blocks that are inputs of a scan would be copied first.
            scatter = jax.lax.fori_loop(
                0,
                whole,
                lambda i, total: jax.tree.map(jnp.add, total, products(i * block, block)),
                scatter,
            )
        return *means, *jax.lax.psum(scatter, axes)

    return sums(x_ND, y_NE)


def nonzero_scales(deviation_D: Float64, mean_D: Float64) -> Float64:
    """Returns the scales [D] by which features are divided: mostly their standard deviations.

    Constant features (deviation at most `CONSTANT_FEATURE` of max(1, |mean|)) have scale 1. The
    scale of faint ones (below `FAINT_FEATURE` of the median deviation of those that vary) is raised
    to that median: divided by their own they would weigh as much as others, and rounding in a
    stored copy of the latents would be magnified into errors of many deviations.
    """
    constant_D, faint_D = weak_features(deviation_D, mean_D)
    scale_D = np.where(constant_D, 1.0, deviation_D)
    return np.where(faint_D, np.median(scale_D[~constant_D]), scale_D) if faint_D.any() else scale_D


def weak_features(
    deviation_D: Float64, mean_D: Float64
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Marks constant and faint features, see `nonzero_scales`: bool [D] each."""
    constant_D = deviation_D <= CONSTANT_FEATURE * np.maximum(1.0, np.abs(mean_D))
    if constant_D.all():
        return constant_D, ~constant_D
    faint_D = deviation_D < FAINT_FEATURE * np.median(deviation_D[~constant_D])
    return constant_D, faint_D & ~constant_D
