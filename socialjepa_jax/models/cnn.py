"""The small convolutional encoder of the Reacher experiments (identifiability paper's code).

Shape key: B batch, H height, W width, C channels, D features.

Batch normalisation has no state here: the statistics are given or computed, and returned, so that
the caller decides what to carry between steps and over which devices a batch extends.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax import validate
from socialjepa_jax.models.mlp import Linear
from socialjepa_jax.models.transformer import gelu

Statistics = dict[str, tuple[jax.Array, jax.Array]]  # layer name -> (mean [C], variance [C])


@dataclass(frozen=True)
class CNNConfig:
    """Four convolutions of stride 2, average pooling, two linear layers; 757,922 parameters.

    Attributes:
        image_size: height and width in pixels; a multiple of 16, since four strides halve it.
        channels: of the image.
        widths: channels after each convolution.
        hidden: width of the hidden linear layer.
        outputs: features of the latent.
    """

    image_size: int = 64
    channels: int = 3
    widths: tuple[int, ...] = (32, 64, 128, 256)
    hidden: int = 256
    outputs: int = 2

    def __post_init__(self) -> None:
        validate.positive(channels=self.channels, hidden=self.hidden, outputs=self.outputs)
        validate.positive(
            image_size=self.image_size, **{f"widths[{i}]": w for i, w in enumerate(self.widths)}
        )
        validate.divides(2 ** len(self.widths), image_size=self.image_size)


class Conv(nnx.Module):
    """4x4 convolution of stride 2 and padding 1, uniform initial weights as in PyTorch."""

    def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs) -> None:
        bound = (16 * inputs) ** -0.5
        self.kernel = nnx.Param(
            jax.random.uniform(rngs.params(), (4, 4, inputs, outputs), minval=-bound, maxval=bound)
        )
        self.bias = nnx.Param(
            jax.random.uniform(rngs.params(), (outputs,), minval=-bound, maxval=bound)
        )

    def __call__(self, x_BHWC: jax.Array) -> jax.Array:
        """[B, H, W, inputs] -> [B, H / 2, W / 2, outputs]."""
        y_BHWC = jax.lax.conv_general_dilated(
            x_BHWC,
            self.kernel[...],
            window_strides=(2, 2),
            padding=((1, 1), (1, 1)),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return y_BHWC + self.bias[...][None, None, None]


class BatchNorm(nnx.Module):
    """Normalises every channel over batch and space, then scales and shifts it."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        self.scale = nnx.Param(jnp.ones(channels))
        self.bias = nnx.Param(jnp.zeros(channels))
        self.eps = eps

    def __call__(self, x: jax.Array, mean_C: jax.Array, var_C: jax.Array) -> jax.Array:
        """[..., C] -> [..., C] with the given statistics."""
        gain_C = self.scale[...] * jax.lax.rsqrt(var_C + self.eps)
        shape = (1,) * (x.ndim - 1) + (-1,)
        return x * gain_C.reshape(shape) + (self.bias[...] - mean_C * gain_C).reshape(shape)


def _local_mean(x: jax.Array) -> jax.Array:
    return x.mean(0)


class CNN(nnx.Module):
    """Conv-BN-GELU blocks, average pooling over what is left, Linear-BN-GELU, Linear."""

    def __init__(self, config: CNNConfig, rngs: nnx.Rngs) -> None:
        self.num_blocks = len(config.widths)
        inputs = [config.channels, *config.widths[:-1]]
        for i, (before, after) in enumerate(zip(inputs, config.widths)):
            setattr(self, f"conv_{i}", Conv(before, after, rngs))
            setattr(self, f"norm_{i}", BatchNorm(after))
        self.fc = Linear(config.widths[-1], config.hidden, rngs)
        self.norm_fc = BatchNorm(config.hidden)
        self.head = Linear(config.hidden, config.outputs, rngs)

    def __call__(
        self,
        images_BHWC: jax.Array,
        statistics: Statistics | None = None,
        mean: Callable[[jax.Array], jax.Array] = _local_mean,
    ) -> tuple[jax.Array, Statistics]:
        """Encodes images.

        Args:
            images_BHWC: f32[B, H, W, C].
            statistics: means and (biased) variances to normalise with, as returned by an earlier
                call or averaged over such; None: those of this batch.
            mean: mean over the leading axis of the global batch (`Reduce.mean` on several devices).

        Returns:
            The latent [B, outputs] and the statistics used.
        """
        used: Statistics = {}

        def norm(name: str, x: jax.Array) -> jax.Array:
            used[name] = _moments(x, mean) if statistics is None else statistics[name]
            return gelu(getattr(self, name)(x, *used[name]))

        x = images_BHWC
        for i in range(self.num_blocks):
            x = norm(f"norm_{i}", getattr(self, f"conv_{i}")(x))
        x = norm("norm_fc", self.fc(x.mean((1, 2))))
        return self.head(x), used


def _moments(x: jax.Array, mean: Callable[[jax.Array], jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Mean and biased variance of every channel over the global batch."""
    space = tuple(range(1, x.ndim - 1))
    mean_C = mean(x.mean(space))
    centred = x - mean_C.reshape((1,) * (x.ndim - 1) + (-1,))
    return mean_C, mean(jnp.square(centred).mean(space))
