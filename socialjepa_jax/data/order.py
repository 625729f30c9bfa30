"""The order of the training rows: every epoch is a permutation of all rows, made from a key.

The rows of a batch are a pure function of (key, step), whatever the number of devices and wherever
a run resumes. The permutation is a keyed bijection that is evaluated only at the positions of the
batch, so a step costs O(batch); sorting random numbers would cost O(N log N) a step, tens of
milliseconds for a million rows, or an epoch's state.

Shape key: A agents, E epochs, N rows, B batch.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.errors import InputError, check_in_range, check_positive
from socialjepa_jax.keys import Stream, agent_key

_ROUNDS = 16  # with 8, small permutations (N = 5) are measurably not uniform


def steps_per_epoch(num_rows: int, batch_size: int) -> int:
    """Whole batches in `num_rows`; the remainder of an epoch is dropped.

    Raises:
        InputError: the rows do not fill one batch.
    """
    check_positive(batch_size=batch_size)
    if batch_size > num_rows:
        raise InputError(f"batch_size={batch_size} exceeds the {num_rows} training rows")
    return num_rows // batch_size


def batch_rows(key: jax.Array, step: int | jax.Array, num_rows: int, batch_size: int) -> jax.Array:
    """Returns the rows of the global batch of one step.

    Args:
        key: typed key of the agent's data order.
        step: i32[], may be traced.
        num_rows: N, static, below 2^31.
        batch_size: B, static.

    Returns:
        i32[B], distinct rows in [0, N); the batches of one epoch do not overlap.

    Raises:
        InputError: B exceeds N.
    """
    steps = steps_per_epoch(num_rows, batch_size)
    step = jnp.asarray(step, jnp.int32)
    positions = step % steps * batch_size + jnp.arange(batch_size, dtype=jnp.int32)
    return epoch_permutation(jax.random.fold_in(key, step // steps), positions, num_rows)


def epoch_keys(seeds: jax.Array, epochs: int) -> jax.Array:
    """Returns u32[A, E, 16], the `round_keys` of every epoch for each seed u32[A]."""

    def of_epoch(seed: jax.Array, epoch: jax.Array) -> jax.Array:
        return round_keys(jax.random.fold_in(agent_key(seed, Stream.ORDER), epoch))

    over_epochs = jax.vmap(of_epoch, in_axes=(None, 0))
    return jax.vmap(over_epochs, in_axes=(0, None))(seeds, jnp.arange(epochs))


def round_keys(key: jax.Array) -> jax.Array:
    """Returns u32[16], the random bits that `epoch_permutation` draws from the key of an epoch."""
    return jax.random.bits(key, (_ROUNDS,), jnp.uint32)


def permute_on_host(keys: np.ndarray, positions: np.ndarray, num_rows: int) -> np.ndarray:
    """Computes `epoch_permutation` in NumPy, for processes that read files and have no device.

    Args:
        keys: u32[16], `round_keys` of the epoch's key.
        positions: integers [B] in [0, N).
        num_rows: N.

    Returns:
        i64[B].
    """
    images = _feistel(keys, positions.astype(np.uint32), num_rows)
    while (outside := images >= num_rows).any():
        images = np.where(outside, _feistel(keys, images, num_rows), images)
    return images.astype(np.int64)


def epoch_permutation(key: jax.Array, positions: jax.Array, num_rows: int) -> jax.Array:
    """Applies a keyed pseudo-random permutation of range(N) to positions.

    A Feistel network over Z_a x Z_b, a = ceil(sqrt N), b = ceil(N / a), permutes a * b < N + a
    numbers; walking its cycles until they return below N permutes range(N) (Black and Rogaway,
    2002). Fewer than one in sqrt(N) numbers needs a second step.

    Args:
        key: typed key.
        positions: i32[B] in [0, N).
        num_rows: N, static, below 2^31.

    Returns:
        i32[B], distinct for distinct positions.
    """
    check_in_range(1, 2**31 - 1, num_rows=num_rows)
    keys = round_keys(key)
    end = jnp.uint32(num_rows)
    images = jax.lax.while_loop(
        lambda images: (images >= end).any(),
        lambda images: jnp.where(images >= end, _feistel(keys, images, num_rows), images),
        _feistel(keys, positions.astype(jnp.uint32), num_rows),
    )
    return images.astype(jnp.int32)


def _feistel(keys: Any, numbers: Any, num_rows: int) -> Any:
    """Bijection of range(a * b): in turn, each half is shifted by a hash of the other.

    Takes JAX or NumPy arrays u32[16] and u32[B].
    """
    a = math.isqrt(num_rows - 1) + 1
    b = -(-num_rows // a)
    left, right = numbers // b, numbers % b
    for index in range(0, _ROUNDS, 2):
        left = (left + _hash(right ^ keys[index]) % a) % a
        right = (right + _hash(left ^ keys[index + 1]) % b) % b
    return left * b + right


def _hash(x: Any) -> Any:
    """Mixes the bits of uint32 (the 32-bit finaliser of MurmurHash3)."""
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
