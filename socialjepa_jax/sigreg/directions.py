"""Unit directions onto which embeddings are projected: Gaussian or Sobol (LeJEPA, appendix D)."""

from functools import cache
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from socialjepa_jax import validate

_BITS = 32


def sample_directions(
    key: jax.Array, dim: int, num_slices: int, *, sampler: str = "gaussian"
) -> jax.Array:
    """Random directions, each uniform on the sphere.

    Every shard and every view must use the same directions, so `key` must not depend on them.

    Args:
        key: random key.
        dim: embedding features D.
        num_slices: directions M.
        sampler: "gaussian": independent normalised Gaussian columns; "sobol": a randomly shifted
            Sobol sequence mapped to Gaussians, which covers the sphere more evenly where D is
            small against M (at most 2,048 features).

    Returns:
        f32[D, M] with unit columns, never NaN.
    """
    validate.positive(dim=dim, num_slices=num_slices)
    validate.one_of(("gaussian", "sobol"), sampler=sampler)
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
    """Directions of one training step, a function of (key, step) alone.

    Args:
        key: the run's key; not folded with anything that differs between shards.
        step: global step, may be traced.
        dim: embedding features D.
        num_slices: directions M.
        sampler: see `sample_directions`.
        resample: draw new ones at every step, so that all directions are met in time (LeJEPA,
            figure 7); False keeps those of step 0.

    Returns:
        f32[D, M] with unit columns.
    """
    key = jax.random.fold_in(key, step if resample else 0)
    return sample_directions(key, dim, num_slices, sampler=sampler)


def sobol_points(key: jax.Array, dim: int, num_points: int) -> jax.Array:
    """The first points of a Sobol sequence under a random digital shift.

    Direction numbers are those of Joe and Kuo (2008, new-joe-kuo-6.21201; licence beside the data).
    Each coordinate alone puts one of the first 2^m points in each of 2^m equal intervals.

    Returns:
        f32[num_points, dim] inside (0, 1), each point uniform.
    """
    digits_DB = _sobol_digits(dim)
    index_N1 = jnp.arange(num_points, dtype=jnp.uint32)[:, None]
    points_ND = jax.random.bits(key, (1, dim), jnp.uint32)
    for bit in range(max(1, (num_points - 1).bit_length())):
        is_set_N1 = (index_N1 >> bit) & 1
        points_ND = points_ND ^ (is_set_N1 * digits_DB[None, :, bit])
    return ((points_ND >> 9).astype(jnp.float32) + 0.5) * 2.0**-23


@cache
def _sobol_digits(dim: int) -> np.ndarray:
    """u32[dim, 32]: what each binary digit of a point's index adds (xor) to its coordinates."""
    with resources.files(__package__).joinpath("joe_kuo.npz").open("rb") as file:
        table = np.load(file)
        polynomials, initial = table["polynomials"].tolist(), table["initial"].tolist()
    if dim > len(polynomials) + 1:
        raise validate.InputError(f"dim={dim}: Sobol directions have at most 2048 features")
    rows, start = [[1] * _BITS], 0
    for polynomial in polynomials[: dim - 1]:
        degree = polynomial.bit_length() - 1
        rows.append(_extend(polynomial, initial[start : start + degree]))
        start += degree
    shifts = np.arange(_BITS - 1, -1, -1, dtype=np.uint32)
    return np.asarray(rows, np.uint32) << shifts[None]


def _extend(polynomial: int, initial: list[int]) -> list[int]:
    """Direction numbers m_1 ... m_32 by the recurrence of a primitive polynomial over GF(2)."""
    degree, numbers = len(initial), list(initial)
    while len(numbers) < _BITS:
        number = numbers[-degree] ^ (numbers[-degree] << degree)
        for k in range(1, degree):
            if polynomial >> (degree - k) & 1:
                number ^= numbers[-k] << k
        numbers.append(number)
    return numbers


def _unit_columns(columns_DM: jax.Array) -> jax.Array:
    """Columns of norm one; a column of zeros becomes the first axis."""
    norm_1M = jnp.linalg.norm(columns_DM, axis=0, keepdims=True)
    first_axis_D1 = jnp.zeros((columns_DM.shape[0], 1)).at[0].set(1.0)
    is_zero_1M = norm_1M == 0.0
    return jnp.where(is_zero_1M, first_axis_D1, columns_DM / jnp.where(is_zero_1M, 1.0, norm_1M))
