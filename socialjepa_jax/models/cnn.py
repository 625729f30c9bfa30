"""The small convolutional encoder of the Reacher experiment.

"When Does LeJEPA Learn a World Model?" trains it on 64x64 images of a two-joint arm, whose two
angles are the true latents; the layers are those of its code, 757,922 parameters.

Shape key: B batch, H height, W width, C channels, D features.
"""

from dataclasses import dataclass

import jax
from flax import nnx

from socialjepa_jax.errors import (
    ImageSize,
    check_divides,
    check_non_negative,
    check_one_of,
    check_positive,
    sides,
)
from socialjepa_jax.models.batchnorm import BatchNorm, Mean, Normalizer, Statistics, local_mean
from socialjepa_jax.models.mlp import Linear, uniform
from socialjepa_jax.models.resnet import convolve
from socialjepa_jax.models.transformer import gelu


@dataclass(frozen=True)
class CNNConfig:
    """Four convolutions of stride 2, average pooling, two linear layers; 757,922 parameters.

    Attributes:
        kind: names this encoder in a configuration.
        image_size: side or (height, width), pixels; multiples of 16, which four strides of 2
            divide.
        channels: channels of the image.
        widths: channels after each convolution.
        hidden: width of the hidden linear layer.
        outputs: features of the latent; 0: the hidden layer is the output, for objectives whose
            own linear head follows.
        normalize: True: layers are batch normalised.
        dtype: "float32", the only type.
    """

    kind: str = "cnn"
    image_size: ImageSize = 64
    channels: int = 3
    widths: tuple[int, ...] = (32, 64, 128, 256)
    hidden: int = 256
    outputs: int = 2
    normalize: bool = True
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_one_of(("cnn",), kind=self.kind)
        check_one_of(("float32",), dtype=self.dtype)
        check_positive(channels=self.channels, hidden=self.hidden)
        check_non_negative(outputs=self.outputs)
        check_positive(**{f"widths[{i}]": w for i, w in enumerate(self.widths)})
        for side in sides(self.image_size):
            check_divides(2 ** len(self.widths), image_size=side)

    @property
    def width(self) -> int:
        """Features D of the output."""
        return self.outputs or self.hidden


class Conv(nnx.Module):
    """4x4 convolution of stride 2 and padding 1, with PyTorch's initial weights."""

    def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs) -> None:
        self.kernel = uniform(rngs, (4, 4, inputs, outputs), 16 * inputs)
        self.bias = uniform(rngs, (outputs,), 16 * inputs)

    def __call__(self, x_BHWC: jax.Array) -> jax.Array:
        """Convolves: [B, H, W, inputs] -> [B, H / 2, W / 2, outputs]."""
        y_BHWC = convolve(x_BHWC, self.kernel[...], stride=2, pad=1)
        return y_BHWC + self.bias[...][None, None, None]


class CNN(nnx.Module):
    """Conv-BN-GELU blocks, average pooling over space, Linear-BN-GELU, Linear; BN if asked for."""

    def __init__(self, config: CNNConfig, rngs: nnx.Rngs) -> None:
        self.num_blocks = len(config.widths)
        inputs = [config.channels, *config.widths[:-1]]
        for i, (before, after) in enumerate(zip(inputs, config.widths)):
            setattr(self, f"conv_{i}", Conv(before, after, rngs))
            setattr(self, f"norm_{i}", BatchNorm(after) if config.normalize else None)
        self.fc = Linear(config.widths[-1], config.hidden, rngs)
        self.norm_fc = BatchNorm(config.hidden) if config.normalize else None
        self.head = Linear(config.hidden, config.outputs, rngs) if config.outputs else None

    def __call__(
        self,
        images_BHWC: jax.Array,
        statistics: Statistics | None = None,
        mean: Mean = local_mean,
    ) -> tuple[jax.Array, Statistics]:
        """Encodes images.

        Args:
            images_BHWC: f32[B, H, W, C].
            statistics: means and (biased) variances to normalise with, from an earlier call or an
                average of calls; None: those of this batch.
            mean: mean over the leading axis of the global batch (`Reduce.mean` on several devices).

        Returns:
            The latent [B, D] and the statistics used.
        """
        norm = Normalizer(statistics, mean)
        x = images_BHWC
        for i in range(self.num_blocks):
            x = getattr(self, f"conv_{i}")(x)
            x = gelu(norm(f"norm_{i}", getattr(self, f"norm_{i}"), x))
        x = gelu(norm("norm_fc", self.norm_fc, self.fc(x.mean((1, 2)))))
        return self.head(x) if self.head else x, norm.used
