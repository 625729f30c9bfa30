"""Unit directions onto which embeddings are projected."""

import jax
import jax.numpy as jnp


def _unit_columns(columns_DM: jax.Array) -> jax.Array:
    """Columns of norm one; a column of zeros becomes the first axis."""
    norm_1M = jnp.linalg.norm(columns_DM, axis=0, keepdims=True)
    first_axis_D1 = jnp.zeros((columns_DM.shape[0], 1)).at[0].set(1.0)
    is_zero_1M = norm_1M == 0.0
    return jnp.where(is_zero_1M, first_axis_D1, columns_DM / jnp.where(is_zero_1M, 1.0, norm_1M))


def sample_directions(key: jax.Array, dim: int, num_slices: int) -> jax.Array:
    """Directions uniform on the sphere: normalised Gaussian columns.

    Every shard and every view must use the same directions, so `key` must not depend on them.

    Args:
        key: random key; see `step_key` for new directions at each step.
        dim: embedding features D.
        num_slices: directions M.

    Returns:
        f32[D, M] with unit columns, never NaN.
    """
    return _unit_columns(jax.random.normal(key, (dim, num_slices), jnp.float32))
