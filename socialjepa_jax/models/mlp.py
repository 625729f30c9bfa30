"""Multilayer perceptrons: the encoder of low-dimensional worlds, and the projector of JEPA losses.

Shape key: B batch, D features.
"""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax.errors import check_in_range, check_positive
from socialjepa_jax.models.batchnorm import BatchNorm, Mean, Normalizer, Statistics, local_mean
from socialjepa_jax.models.transformer import Dense, gelu


def uniform(rngs: nnx.Rngs, shape: tuple[int, ...], fan_in: int) -> nnx.Param:
    """Draws a parameter uniformly from +-fan_in^(-1/2), the default of PyTorch."""
    bound = fan_in**-0.5
    return nnx.Param(jax.random.uniform(rngs.params(), shape, minval=-bound, maxval=bound))


class Linear(nnx.Module):
    """`x @ kernel + bias` with PyTorch's initial weights."""

    def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs) -> None:
        self.kernel = uniform(rngs, (inputs, outputs), inputs)
        self.bias = uniform(rngs, (outputs,), inputs)

    def __call__(self, x_BD: jax.Array) -> jax.Array:
        """Applies the layer: [B, inputs] -> [B, outputs]."""
        return jnp.dot(x_BD, self.kernel[...]) + self.bias[...][None]


@dataclass(frozen=True)
class MLPConfig:
    """Sizes of an MLP with GELU between its linear layers.

    Attributes:
        inputs: features of the observation.
        outputs: features of the latent.
        hidden: width of the hidden layers.
        layers: linear layers, >= 2. "When Does LeJEPA Learn a World Model?" prints 4 (appendix
            "Network architecture and training"); its code has 5, 198,658 parameters in 2-D.
    """

    inputs: int = 2
    outputs: int = 2
    hidden: int = 256
    layers: int = 5

    def __post_init__(self) -> None:
        check_positive(inputs=self.inputs, outputs=self.outputs, hidden=self.hidden)
        check_in_range(2, float("inf"), layers=self.layers)


class MLP(nnx.Module):
    """Encoder of observations: linear layers with exact GELU between them."""

    def __init__(self, config: MLPConfig, rngs: nnx.Rngs) -> None:
        widths = [config.inputs, *[config.hidden] * (config.layers - 1), config.outputs]
        self.num_layers = config.layers
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            setattr(self, f"linear_{i}", Linear(before, after, rngs))

    def __call__(self, x_BD: jax.Array) -> jax.Array:
        """Encodes observations: f32[B, inputs] -> f32[B, outputs]."""
        for i in range(self.num_layers - 1):
            x_BD = gelu(getattr(self, f"linear_{i}")(x_BD))
        return getattr(self, f"linear_{self.num_layers - 1}")(x_BD)


class Projector(nnx.Module):
    """Projector of latents: `layers - 1` times linear, batch normalisation, ReLU; then linear."""

    def __init__(
        self, inputs: int, hidden: int, outputs: int, layers: int, *, dtype: str, rngs: nnx.Rngs
    ) -> None:
        widths = [inputs, *[hidden] * (layers - 1), outputs]
        self.num_layers = layers
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            # At this scale the output starts with about the variance of the input.
            fc = Dense(before, after, std=before**-0.5, dtype=dtype, rngs=rngs)
            setattr(self, f"fc_{i}", fc)
            if i < layers - 1:
                setattr(self, f"norm_{i}", BatchNorm(after))

    def __call__(
        self,
        x_BD: jax.Array,
        statistics: Statistics | None = None,
        mean: Mean = local_mean,
    ) -> tuple[jax.Array, Statistics]:
        """Projects latents: [B, inputs] -> [B, outputs], and the statistics used; see `ResNet`."""
        norm = Normalizer(statistics, mean)
        for i in range(self.num_layers - 1):
            x_BD = getattr(self, f"fc_{i}")(x_BD)
            x_BD = jax.nn.relu(norm(f"norm_{i}", getattr(self, f"norm_{i}"), x_BD))
        return getattr(self, f"fc_{self.num_layers - 1}")(x_BD), norm.used
