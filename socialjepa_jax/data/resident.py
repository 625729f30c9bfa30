"""Small datasets that live on the device as uint8; batches are gathered inside `jit`, by step.

The rows of a batch are a pure function of (key, step): every epoch is a permutation of all rows,
whatever the number of devices and wherever a run resumes. The permutation is a keyed bijection
that is evaluated only at the batch's positions, so a step costs O(batch), where sorting random
numbers costs O(N log N) a step (N = a million rows: tens of milliseconds) or an epoch's state.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from socialjepa_jax import sharding
from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.errors import InputError, check_in_range, check_positive

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
    """The global batch of one step.

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


def round_keys(key: jax.Array) -> jax.Array:
    """u32[16]: all that `epoch_permutation` draws from the key of an epoch."""
    return jax.random.bits(key, (_ROUNDS,), jnp.uint32)


def permute_on_host(keys: np.ndarray, positions: np.ndarray, num_rows: int) -> np.ndarray:
    """`epoch_permutation` in NumPy, where there is no device: in processes that read files.

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
    """Where a keyed pseudo-random permutation of range(N) sends some positions.

    A Feistel network over Z_a x Z_b, a = ceil(sqrt N), b = ceil(N / a), permutes a * b < N + a
    numbers; walking its cycles until they return below N permutes range(N) (Black and Rogaway,
    2002). Fewer than one in sqrt(N) numbers needs a second step.

    Args:
        key: typed key.
        positions: i32[B] in [0, N).
        num_rows: N, static, below 2^31.

    Returns:
        i32[B], the positions' images.
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
    """A bijection of range(a * b): either half is shifted by a hash of the other, in turn.

    Of JAX or of NumPy arrays, u32[16] and u32[B].
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


def gather(images: jax.Array, rows: jax.Array, mean: jax.Array, std: jax.Array) -> jax.Array:
    """Takes rows out of uint8 [N, H, W, C] and normalises them: f32[B, H, W, C].

    `mean` and `std` are f32[C] on the scale [0, 1], as `channel_statistics` gives them.
    """
    return normalize(images[rows].astype(jnp.float32) / 255, mean, std)


def channel_statistics(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation of each channel on the scale [0, 1].

    Args:
        images: uint8 [M, H, W, C], of training rows.

    Returns:
        f32[C] twice, from exact counts. A constant channel gets the deviation 1.
    """
    return moments(channel_counts(images))


def channel_counts(images: np.ndarray) -> np.ndarray:
    """How often each value occurs in each channel of uint8 [M, H, W, C]: i64[C, 256]."""
    counts = np.zeros((images.shape[-1], 256), np.int64)
    for image in images:  # counting needs eight bytes a pixel, so one picture at a time
        for channel, count in enumerate(counts):
            count += np.bincount(image[..., channel].ravel(), minlength=256)
    return counts


def moments(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`channel_statistics` from `channel_counts` i64[C, 256], which may be a sum of many."""
    values, total = np.arange(256.0) / 255, counts.sum(axis=1)
    mean = counts @ values / total
    std = np.sqrt((counts * (values[None] - mean[:, None]) ** 2).sum(axis=1) / total)
    return mean.astype(np.float32), np.where(std > 0, std, 1).astype(np.float32)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["images", "rows", "mean", "std"],
    meta_fields=[],
)
@dataclass(frozen=True)
class AgentData:
    """What an agent sees: its own camera's pictures and nothing else.

    Attributes:
        images: u8[A, N, H, W, C].
        rows: i32[A, R], the states it may train on.
        mean, std: f32[A, C], pixel statistics of its training pictures.
    """

    images: jax.Array
    rows: jax.Array
    mean: jax.Array
    std: jax.Array


def put_on_devices(
    images_KNHWC: np.ndarray,
    cameras: tuple[int, ...],
    train_rows: np.ndarray,
    statistics: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    mesh: Mesh,
) -> AgentData:
    """Puts each agent's own pictures on its devices.

    Args:
        images_KNHWC: u8[K, N, H, W, C], all cameras' pictures.
        cameras: the camera of each agent.
        train_rows: i64[R], states that may be trained on.
        statistics: (u8[R, H, W, C]) -> (mean [C], std [C]).
        mesh: where to.
    """
    pixel = [statistics(images_KNHWC[camera][train_rows]) for camera in cameras]
    put = functools.partial(sharding.put, sharding=sharding.by_agent(mesh))
    return AgentData(
        images=put(np.stack([images_KNHWC[camera] for camera in cameras])),
        rows=put(np.tile(train_rows.astype(np.int32), (len(cameras), 1))),
        mean=put(np.stack([mean for mean, _ in pixel]).astype(np.float32)),
        std=put(np.stack([std for _, std in pixel]).astype(np.float32)),
    )
