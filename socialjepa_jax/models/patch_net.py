"""A small encoder of small images: patches of patches, then a hidden layer.

Strided convolutions whose kernel is their stride are one matrix product each, which a CPU does an
order of magnitude faster than overlapping ones.

Shape key: B batch, H height, W width, C channels, D features.
"""

import math
from dataclasses import dataclass

import jax
from flax import nnx

from socialjepa_jax.errors import (
    ImageSize,
    check_divides,
    check_one_of,
    check_positive,
    sides,
)
from socialjepa_jax.models.batchnorm import BatchNorm, Mean, Normalizer, Statistics, local_mean
from socialjepa_jax.models.mlp import Linear
from socialjepa_jax.models.transformer import gelu


@dataclass(frozen=True)
class PatchNetConfig:
    """Sizes of a patch network; 2.2 MFLOP for an RGB image of 32 pixels.

    Attributes:
        kind: names this encoder in a configuration.
        image_size: side or (height, width), pixels; multiples of the product of the patches.
        channels: channels of the image.
        patches: side of a patch of each layer: pixels, then outputs of the layer before.
        widths: channels after each layer.
        hidden: features D of the hidden layer, which is the output.
        normalize: True: layers are batch normalised.
        dtype: "float32", the only type.
    """

    kind: str = "patch_net"
    image_size: ImageSize = 32
    channels: int = 3
    patches: tuple[int, ...] = (4, 2)
    widths: tuple[int, ...] = (32, 64)
    hidden: int = 128
    normalize: bool = True
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_one_of(("patch_net",), kind=self.kind)
        check_one_of(("float32",), dtype=self.dtype)
        check_positive(channels=self.channels, hidden=self.hidden)
        check_positive(patches=min(self.patches, default=0), widths=min(self.widths, default=0))
        check_one_of((len(self.patches),), number_of_widths=len(self.widths))
        for side in sides(self.image_size):
            check_divides(math.prod(self.patches), image_size=side)

    @property
    def width(self) -> int:
        """Features D of the output."""
        return self.hidden


class PatchNet(nnx.Module):
    """Patch-Linear-BN-GELU blocks, flattened, Linear-BN-GELU; BN where it is asked for."""

    def __init__(self, config: PatchNetConfig, rngs: nnx.Rngs) -> None:
        self.patches = config.patches
        channels, total = config.channels, math.prod(config.patches)
        for i, (patch, width) in enumerate(zip(config.patches, config.widths)):
            setattr(self, f"fc_{i}", Linear(patch * patch * channels, width, rngs))
            setattr(self, f"norm_{i}", BatchNorm(width) if config.normalize else None)
            channels = width
        height, width = (side // total for side in sides(config.image_size))
        self.fc = Linear(height * width * channels, config.hidden, rngs)
        self.norm_fc = BatchNorm(config.hidden) if config.normalize else None

    def __call__(
        self,
        images_BHWC: jax.Array,
        statistics: Statistics | None = None,
        mean: Mean = local_mean,
    ) -> tuple[jax.Array, Statistics]:
        """Encodes images: f32[B, H, W, C] -> [B, D], and the statistics used; see `ResNet`."""
        norm = Normalizer(statistics, mean)
        x = images_BHWC
        for i, patch in enumerate(self.patches):
            x = _split(x, patch)
            x = getattr(self, f"fc_{i}")(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)
            x = gelu(norm(f"norm_{i}", getattr(self, f"norm_{i}"), x))
        return gelu(norm("norm_fc", self.norm_fc, self.fc(x.reshape(len(x), -1)))), norm.used


def _split(x_BHWC: jax.Array, side: int) -> jax.Array:
    """Flattens patches: [B, H, W, C] -> [B, H / side, W / side, side^2 C]."""
    batch, height, width, channels = x_BHWC.shape
    x = x_BHWC.reshape(batch, height // side, side, width // side, side, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height // side, width // side, -1)
