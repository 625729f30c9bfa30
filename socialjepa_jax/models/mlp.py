"""The multilayer perceptron that encodes observations of low-dimensional worlds."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax import validate
from socialjepa_jax.models.transformer import gelu


@dataclass(frozen=True)
class MLPConfig:
    """Sizes of an MLP with GELU between its linear layers.

    Attributes:
        inputs: features of the observation.
        outputs: features of the latent.
        hidden: width of the hidden layers.
        layers: linear layers, >= 2. The identifiability paper prints 4 (its appendix "Network
            architecture and training"); the published code has 5, 198,658 parameters in 2-D.
    """

    inputs: int = 2
    outputs: int = 2
    hidden: int = 256
    layers: int = 5

    def __post_init__(self) -> None:
        validate.positive(inputs=self.inputs, outputs=self.outputs, hidden=self.hidden)
        validate.in_range(2, float("inf"), layers=self.layers)


class Linear(nnx.Module):
    """`x @ kernel + bias`, both uniform in +-inputs^(-1/2) at first (the default of PyTorch)."""

    def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs) -> None:
        bound = inputs**-0.5
        shape = (inputs, outputs)
        self.kernel = nnx.Param(
            jax.random.uniform(rngs.params(), shape, minval=-bound, maxval=bound)
        )
        bias = jax.random.uniform(rngs.params(), (outputs,), minval=-bound, maxval=bound)
        self.bias = nnx.Param(bias)

    def __call__(self, x_BD: jax.Array) -> jax.Array:
        """[B, inputs] -> [B, outputs]."""
        return jnp.dot(x_BD, self.kernel[...]) + self.bias[...][None]


class MLP(nnx.Module):
    """Linear layers with exact GELU between them."""

    def __init__(self, config: MLPConfig, rngs: nnx.Rngs) -> None:
        widths = [config.inputs, *[config.hidden] * (config.layers - 1), config.outputs]
        self.num_layers = config.layers
        for i in range(config.layers):
            setattr(self, f"linear_{i}", Linear(widths[i], widths[i + 1], rngs))

    def __call__(self, x_BD: jax.Array) -> jax.Array:
        """Encodes f32[B, inputs] as f32[B, outputs]."""
        for i in range(self.num_layers - 1):
            x_BD = gelu(getattr(self, f"linear_{i}")(x_BD))
        return getattr(self, f"linear_{self.num_layers - 1}")(x_BD)
