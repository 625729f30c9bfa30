"""Batch normalisation over the global batch, without hidden state (Ioffe and Szegedy, 2015).

The statistics are given or computed, and returned. The caller decides which statistics to keep
between steps and over which devices a batch extends.

Shape key: B batch, C channels.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

Statistics = dict[str, tuple[jax.Array, jax.Array]]  # layer name -> (mean [C], variance [C])
Mean = Callable[[jax.Array], jax.Array]  # over the leading axis of the global batch


def local_mean(x: jax.Array) -> jax.Array:
    """Returns the mean over the leading axis of a batch on one device; see `Reduce.mean`."""
    return x.mean(0)


class BatchNorm(nnx.Module):
    """Normalises every channel over batch and space, then scales and shifts it, where it does.

    The parameters are "scale" and "bias"; a layer without one has no such parameter.
    """

    def __init__(
        self, channels: int, eps: float = 1e-5, *, scales: bool = True, shifts: bool = True
    ) -> None:
        if scales:
            self.scale = nnx.Param(jnp.ones(channels))
        if shifts:
            self.bias = nnx.Param(jnp.zeros(channels))
        self.eps, self.scales, self.shifts = eps, scales, shifts

    def __call__(self, x: jax.Array, mean_C: jax.Array, var_C: jax.Array) -> jax.Array:
        """Normalises with the given statistics: [..., C] -> [..., C]."""
        gain_C = jax.lax.rsqrt(var_C + self.eps)
        if self.scales:
            gain_C = self.scale[...] * gain_C
        shift_C = -mean_C * gain_C
        if self.shifts:
            shift_C = self.bias[...] + shift_C
        shape = (1,) * (x.ndim - 1) + (-1,)
        return x * gain_C.reshape(shape) + shift_C.reshape(shape)


class Normalizer:
    """Applies the batch normalisations of one forward pass and records their statistics.

    Attributes:
        used: the statistics of every layer applied so far.
    """

    def __init__(self, statistics: Statistics | None = None, mean: Mean = local_mean) -> None:
        self.given = statistics
        self.mean = mean
        self.used: Statistics = {}

    def __call__(self, name: str, layer: BatchNorm | None, x: jax.Array) -> jax.Array:
        """Normalises with the given statistics or those of the batch: [..., C] -> f32[..., C].

        Without a layer x stays as it is, and no statistics are recorded.
        """
        if layer is None:
            return x
        x = x.astype(jnp.float32)
        self.used[name] = moments(x, self.mean) if self.given is None else self.given[name]
        return layer(x, *self.used[name])


def moments(x: jax.Array, mean: Mean) -> tuple[jax.Array, jax.Array]:
    """Returns mean and biased variance of each channel over the global batch."""
    space = tuple(range(1, x.ndim - 1))
    mean_C = mean(x.mean(space))
    centred = x - mean_C.reshape((1,) * (x.ndim - 1) + (-1,))
    return mean_C, mean(jnp.square(centred).mean(space))
