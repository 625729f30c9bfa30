"""Projectors and predictors on single vectors: short MLPs with batch normalisation.

Shape key: B batch, D features.
"""

import itertools

import jax
from flax import nnx

from socialjepa_jax.models.batchnorm import BatchNorm, Mean, Normalizer, Statistics, local_mean
from socialjepa_jax.models.transformer import Dense


class Projector(nnx.Module):
    """Linear, batch normalisation and ReLU, `layers - 1` times, then linear."""

    def __init__(
        self, inputs: int, hidden: int, outputs: int, layers: int, *, dtype: str, rngs: nnx.Rngs
    ) -> None:
        widths = [inputs, *[hidden] * (layers - 1), outputs]
        self.num_layers = layers
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            # At this scale the output starts out with about the variance of the input.
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
        """[B, inputs] -> [B, outputs], and the statistics used; arguments as those of `ResNet`."""
        norm = Normalizer(statistics, mean)
        for i in range(self.num_layers - 1):
            x_BD = getattr(self, f"fc_{i}")(x_BD)
            x_BD = jax.nn.relu(norm(f"norm_{i}", getattr(self, f"norm_{i}"), x_BD))
        return getattr(self, f"fc_{self.num_layers - 1}")(x_BD), norm.used
