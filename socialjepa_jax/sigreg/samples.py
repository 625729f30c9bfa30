"""Samples [..., N, M] whose N rows may be spread over the devices of a mesh axis."""

import jax
import jax.numpy as jnp
import numpy as np


def as_float(x: jax.Array) -> jax.Array:
    """Returns `x` in float32, or in float64 if it has that type."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def count(u: jax.Array, axis_name: str | None) -> int:
    """Returns the global number of samples N."""
    return u.shape[-2] * (1 if axis_name is None else jax.lax.psum(1, axis_name))


def mean(x: jax.Array, axis_name: str | None) -> jax.Array:
    """Returns the mean over the samples of all shards: [..., N, M] -> [..., M]."""
    local = jnp.mean(x, axis=-2)
    return local if axis_name is None else jax.lax.pmean(local, axis_name)


def gather(u: jax.Array, axis_name: str | None) -> jax.Array:
    """Returns the samples of all shards, in floating point: [..., N, M]."""
    u = as_float(u)
    if axis_name is None:
        return u
    return jax.lax.all_gather(u, axis_name, axis=u.ndim - 2, tiled=True)


def column(values: np.ndarray, like: jax.Array) -> jax.Array:
    """Returns constants as [..., K, 1], with the rank and type of the array that they multiply."""
    return jnp.asarray(values, like.dtype).reshape((1,) * (like.ndim - 2) + (-1, 1))


def replicated(value: jax.Array, axis_name: str | None) -> jax.Array:
    """Marks a value that all shards computed identically as replicated.

    The type system of `shard_map` needs the mark, and it makes the gradient that of one shard.
    """
    return value if axis_name is None else jax.lax.pmean(value, axis_name)
