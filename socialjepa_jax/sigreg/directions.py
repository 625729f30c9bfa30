"""Unit directions onto which embeddings are projected: Gaussian or Sobol (LeJEPA, appendix D)."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from socialjepa_jax.errors import InputError, check_one_of, check_positive

_BITS = 30  # of SciPy's generator


def sample_directions(
    key: jax.Array, dim: int, num_slices: int, *, sampler: str = "gaussian"
) -> jax.Array:
    """Draws random directions, each uniform on the sphere (LeJEPA, appendix D).

    All shards and views must use the same directions, so `key` must not depend on either.

    Args:
        key: random key.
        dim: embedding features D.
        num_slices: directions M.
        sampler: "gaussian": independent normalised Gaussian columns; "sobol": a randomly shifted
            Sobol sequence mapped to Gaussians, which covers the sphere more evenly if D is small
            against M (at most 21,201 features).

    Returns:
        f32[D, M] with unit columns, never NaN.
    """
    check_positive(dim=dim, num_slices=num_slices)
    check_one_of(("gaussian", "sobol"), sampler=sampler)
    if sampler == "gaussian":
        return _unit_columns(jax.random.normal(key, (dim, num_slices), jnp.float32))
    return _unit_columns(ndtri(sobol_points(key, dim, num_slices).T))


def step_directions(
    key: jax.Array,
    step: int | jax.Array,
    dim: int,
    num_slices: int,
    *,
    sampler: str = "gaussian",
    resample: bool = True,
) -> jax.Array:
    """Draws the directions of one training step, a function of (key, step) alone.

    Args:
        key: the run's key; not folded with anything that differs between shards.
        step: global step, may be traced.
        dim: embedding features D.
        num_slices: directions M.
        sampler: see `sample_directions`.
        resample: draw new directions at every step, so that training covers the sphere (LeJEPA,
            figure 7); False keeps the directions of step 0.

    Returns:
        f32[D, M] with unit columns.
    """
    key = jax.random.fold_in(key, step if resample else 0)
    return sample_directions(key, dim, num_slices, sampler=sampler)


def sobol_points(key: jax.Array, dim: int, num_points: int) -> jax.Array:
    """Returns the first points of SciPy's Sobol sequence under a random digital shift.

    In every coordinate, each of 2^m equal intervals holds one of the first 2^m points.

    Returns:
        f32[num_points, dim] inside (0, 1), each point uniform.
    """
    shift_1D = jax.random.bits(key, (1, dim), jnp.uint32)
    points_ND = jnp.asarray(_sobol_integers(dim, num_points)) ^ shift_1D
    return ((points_ND >> 9).astype(jnp.float32) + 0.5) * 2.0**-23


@cache
def _sobol_integers(dim: int, num_points: int) -> np.ndarray:
    """u32[num_points, dim]: the points of the unshifted sequence, times 2^32."""
    from scipy.stats import qmc  # half a second to import, and only this sampler needs it

    if dim > qmc.Sobol.MAXDIM:
        raise InputError(f"dim={dim}: Sobol directions have at most {qmc.Sobol.MAXDIM}")
    whole = 1 << max(0, (num_points - 1).bit_length())
    points = qmc.Sobol(dim, scramble=False, bits=_BITS).random(whole)[:num_points]
    return (points * 2.0**_BITS).astype(np.uint32) << (32 - _BITS)


def _unit_columns(columns_DM: jax.Array) -> jax.Array:
    """Scales columns to norm one; a column of zeros becomes the first axis."""
    norm_1M = jnp.linalg.norm(columns_DM, axis=0, keepdims=True)
    first_axis_D1 = jnp.zeros((columns_DM.shape[0], 1)).at[0].set(1.0)
    is_zero_1M = norm_1M == 0.0
    return jnp.where(is_zero_1M, first_axis_D1, columns_DM / jnp.where(is_zero_1M, 1.0, norm_1M))
