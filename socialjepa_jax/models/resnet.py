"""Residual networks with batch normalisation over the global batch (He et al., 2016).

The layout is that of common implementations ("v1.5": the 3x3 convolution of a bottleneck has the
stride), so that parameter counts and FLOPs are comparable.

Shape key: B batch, H height, W width, C channels, D features.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax.errors import ImageSize, check_one_of, check_positive, sides
from socialjepa_jax.models.batchnorm import BatchNorm, Mean, Normalizer, Statistics, local_mean

BLOCKS: dict[int, tuple[int, ...]] = {  # depth -> blocks in each of the four stages
    10: (1, 1, 1, 1),
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
}


@dataclass(frozen=True)
class ResNetConfig:
    """Sizes of a ResNet; the defaults are ResNet-50 at 224.

    Attributes:
        kind: names this encoder in a configuration.
        image_size: side or (height, width) of the input, pixels. The network takes any size.
        channels: channels of the input.
        depth: 10, 18, 34 (basic blocks) or 50 (bottlenecks).
        stem_width: channels of the first stage; 64 is the published width.
        stem: "imagenet": 7x7 convolution of stride 2 and 3x3 max pooling of stride 2 | "small": 3x3
            convolution of stride 1, for images of about 32 pixels.
        dtype: type of the convolutions, "float32" or "bfloat16"; parameters and the statistics of
            the batch are float32.
    """

    kind: str = "resnet"
    image_size: ImageSize = 224
    channels: int = 3
    depth: int = 50
    stem_width: int = 64
    stem: str = "imagenet"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_one_of(("resnet",), kind=self.kind)
        sides(self.image_size)
        check_positive(channels=self.channels, stem_width=self.stem_width)
        check_one_of(tuple(BLOCKS), depth=self.depth)
        check_one_of(("imagenet", "small"), stem=self.stem)
        check_one_of(("float32", "bfloat16"), dtype=self.dtype)

    @property
    def expansion(self) -> int:
        """Channels after a block over the channels inside it."""
        return 4 if self.depth >= 50 else 1

    @property
    def width(self) -> int:
        """Features D of the latent."""
        return self.stem_width * 8 * self.expansion


def convolve(x_BHWC: jax.Array, kernel: jax.Array, stride: int, pad: int) -> jax.Array:
    """Convolves images with a kernel [height, width, inputs, outputs] and zero padding."""
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x_BHWC, kernel, (stride, stride), ((pad, pad), (pad, pad)), dimension_numbers=layout
    )


class Conv(nnx.Module):
    """Square convolution without bias, padded to preserve the size at stride 1.

    The initial kernel is normal with variance 2 / (size^2 outputs) (He et al., 2015).
    """

    def __init__(
        self, inputs: int, outputs: int, size: int, *, stride: int, dtype: str, rngs: nnx.Rngs
    ) -> None:
        std = (2 / (size**2 * outputs)) ** 0.5
        shape = (size, size, inputs, outputs)
        self.kernel = nnx.Param(std * jax.random.normal(rngs.params(), shape))
        self.stride, self.pad, self.dtype = stride, size // 2, dtype

    def __call__(self, x_BHWC: jax.Array) -> jax.Array:
        """Convolves: [B, H, W, inputs] -> [B, ceil(H / stride), ceil(W / stride), outputs]."""
        kernel = self.kernel[...].astype(self.dtype)
        return convolve(x_BHWC.astype(self.dtype), kernel, self.stride, self.pad)


class Block(nnx.Module):
    """Residual block ReLU(shortcut + branch), a branch of convolutions with batch normalisation.

    A basic block is 3x3, 3x3; a bottleneck (`expansion` 4) is 1x1, 3x3, 1x1.
    """

    def __init__(
        self, inputs: int, inner: int, expansion: int, *, stride: int, dtype: str, rngs: nnx.Rngs
    ) -> None:
        outputs = inner * expansion
        layers = (
            [(inputs, inner, 3, stride), (inner, outputs, 3, 1)]
            if expansion == 1
            else [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, outputs, 1, 1)]
        )
        self.num_layers = len(layers)
        for i, (before, after, size, step) in enumerate(layers):
            conv = Conv(before, after, size, stride=step, dtype=dtype, rngs=rngs)
            setattr(self, f"conv_{i}", conv)
            setattr(self, f"norm_{i}", BatchNorm(after))
        self.projects = stride > 1 or inputs != outputs
        if self.projects:
            self.shortcut = Conv(inputs, outputs, 1, stride=stride, dtype=dtype, rngs=rngs)
            self.norm_shortcut = BatchNorm(outputs)

    def __call__(self, x: jax.Array, name: str, norm: Normalizer) -> jax.Array:
        """Applies the block; `name` and the layer's name are the keys of the statistics."""
        branch = x
        for i in range(self.num_layers):
            branch = getattr(self, f"conv_{i}")(branch)
            branch = norm(f"{name}/norm_{i}", getattr(self, f"norm_{i}"), branch)
            branch = jax.nn.relu(branch) if i < self.num_layers - 1 else branch
        if self.projects:
            x = norm(f"{name}/norm_shortcut", self.norm_shortcut, self.shortcut(x))
        return jax.nn.relu(x + branch)


class ResNet(nnx.Module):
    """Stem, four stages of which all but the first halve the image, mean over space."""

    def __init__(self, config: ResNetConfig, rngs: nnx.Rngs) -> None:
        c = config
        self.config = config
        size, stride = (7, 2) if c.stem == "imagenet" else (3, 1)
        self.stem = Conv(c.channels, c.stem_width, size, stride=stride, dtype=c.dtype, rngs=rngs)
        self.norm_stem = BatchNorm(c.stem_width)
        self.names: list[str] = []
        width = c.stem_width
        for stage, count in enumerate(BLOCKS[c.depth]):
            inner = c.stem_width * 2**stage
            for i in range(count):
                stride = 2 if stage and not i else 1
                name = f"stage_{stage}_block_{i}"
                block = Block(width, inner, c.expansion, stride=stride, dtype=c.dtype, rngs=rngs)
                setattr(self, name, block)
                self.names.append(name)
                width = inner * c.expansion

    def __call__(
        self,
        images_BHWC: jax.Array,
        statistics: Statistics | None = None,
        mean: Mean = local_mean,
    ) -> tuple[jax.Array, dict[str, jax.Array], Statistics]:
        """Encodes images.

        Args:
            images_BHWC: f32[B, H, W, C].
            statistics: means and variances to normalise with, from an earlier call or an average of
                calls; None: those of this batch.
            mean: mean over the leading axis of the global batch (`Reduce.mean` on several devices).

        Returns:
            The latent f32[B, D], the intermediates by name ("stage_0" [B, H', W', C'] and so on
            after each stage, "mean" [B, D], the latent), and the statistics used.
        """
        norm = Normalizer(statistics, mean)
        x = jax.nn.relu(norm("norm_stem", self.norm_stem, self.stem(images_BHWC)))
        if self.config.stem == "imagenet":
            x = _max_pool(x)
        out: dict[str, jax.Array] = {}
        for name in self.names:
            x = out[name.split("_block")[0]] = getattr(self, name)(x, name, norm)
        out["mean"] = x.mean((1, 2))
        return out["mean"], out, norm.used


def _max_pool(x_BHWC: jax.Array) -> jax.Array:
    """Applies 3x3 max pooling of stride 2."""
    return jax.lax.reduce_window(
        x_BHWC, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))
    )
