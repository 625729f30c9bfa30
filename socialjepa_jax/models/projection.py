"""Heads of contrastive and self-distilling objectives: projectors, predictors, prototypes.

Shape key: B batch, D features, K outputs, N patches of the grid, T tokens.
"""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax.models.batchnorm import BatchNorm, Mean, Normalizer, Statistics, local_mean
from socialjepa_jax.models.heads import PixelDecoder
from socialjepa_jax.models.transformer import Dense, gelu, sincos_positions
from socialjepa_jax.models.vit import ViT

TINY = 1e-24  # under the square root of a squared length: the published 1e-12 of the length


@dataclass(frozen=True)
class HeadStyle:
    """Placement of normalisations and biases in a head of linear layers.

    Attributes:
        norm: "batch": batch normalisation and ReLU between the layers | "none": GELU alone.
        bias: the linear layers have biases. Without, that of the normalisation does its work.
        last_norm: batch normalisation after the last layer: "none" | "scale" (with a scale but no
            offset) | "plain" (with neither).
        std: deviation of the initial kernels; None: fan_in^(-1/2).
    """

    norm: str = "batch"
    bias: bool = False
    last_norm: str = "none"
    std: float | None = None


class Kernel(nnx.Module):
    """`x @ kernel` over the last axis, computed in `dtype`."""

    def __init__(
        self, inputs: int, outputs: int, *, std: float, dtype: str, rngs: nnx.Rngs
    ) -> None:
        self.kernel = nnx.Param(std * jax.random.normal(rngs.params(), (inputs, outputs)))
        self.dtype = dtype

    def __call__(self, x_BD: jax.Array) -> jax.Array:
        """Applies the layer: [B, inputs] -> [B, outputs] in `dtype`."""
        return x_BD.astype(self.dtype) @ self.kernel[...].astype(self.dtype)


class Head(nnx.Module):
    """Linear layers with what `HeadStyle` puts between and after them."""

    def __init__(
        self, widths: tuple[int, ...], style: HeadStyle, *, dtype: str, rngs: nnx.Rngs
    ) -> None:
        self.style, self.num_layers = style, len(widths) - 1
        layer = Dense if style.bias else Kernel
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            std = before**-0.5 if style.std is None else style.std
            setattr(self, f"fc_{i}", layer(before, after, std=std, dtype=dtype, rngs=rngs))
            last = i == self.num_layers - 1
            if style.norm == "batch" and not last:
                setattr(self, f"norm_{i}", BatchNorm(after))
            elif last and style.last_norm != "none":
                scales = style.last_norm == "scale"
                setattr(self, f"norm_{i}", BatchNorm(after, scales=scales, shifts=False))

    def __call__(
        self,
        x_BD: jax.Array,
        statistics: Statistics | None = None,
        mean: Mean = local_mean,
    ) -> tuple[jax.Array, Statistics]:
        """Projects [B, inputs] -> [B, outputs], and the statistics used; see `ResNet`."""
        norm = Normalizer(statistics, mean)
        for i in range(self.num_layers):
            x_BD = getattr(self, f"fc_{i}")(x_BD)
            if hasattr(self, f"norm_{i}"):
                x_BD = norm(f"norm_{i}", getattr(self, f"norm_{i}"), x_BD)
            if i < self.num_layers - 1:
                x_BD = gelu(x_BD) if self.style.norm == "none" else jax.nn.relu(x_BD)
        return x_BD, norm.used


class Prototypes(nnx.Module):
    """Weight-normalised linear layer on unit vectors (Caron et al., 2021, appendix C).

    Output k is m_k times the cosine of the input and direction k. The magnitude m is a parameter or
    stays 1. Only the directions' signs and ratios matter to the output; their initial length, that
    of PyTorch's linear layers on average, decides how fast they turn.
    """

    def __init__(
        self, inputs: int, outputs: int, *, magnitude: bool, dtype: str, rngs: nnx.Rngs
    ) -> None:
        std = (3.0 * inputs) ** -0.5
        self.kernel = nnx.Param(std * jax.random.normal(rngs.params(), (inputs, outputs)))
        if magnitude:
            self.magnitude = nnx.Param(jnp.ones(outputs))
        self.scales, self.dtype = magnitude, dtype

    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns the logits f32[..., K] of vectors [..., D] of any length."""
        unit = _unit(x, -1).astype(self.dtype).reshape(-1, x.shape[-1])
        directions_DK = _unit(self.kernel[...], 0).astype(self.dtype)
        logits = (unit @ directions_DK).astype(jnp.float32)
        if self.scales:
            logits = logits * self.magnitude[...][None]
        return logits.reshape(*x.shape[:-1], -1)


def _unit(x: jax.Array, axis: int) -> jax.Array:
    x = x.astype(jnp.float32)
    return x * jax.lax.rsqrt(jnp.maximum(jnp.square(x).sum(axis, keepdims=True), TINY))


class MaskedViT(ViT):
    """A ViT in which a token takes the place of patches, with a ViT's parameters."""

    def __call__(  # type: ignore[override]
        self, images_BHWC: jax.Array, mask_BN: jax.Array | None, token_D: jax.Array
    ) -> dict[str, jax.Array]:
        """Encodes all patches of images, those of the mask unseen.

        Args:
            images_BHWC: f32[B, H, W, C], square images of any size that the patch size divides.
            mask_BN: bool[B, N], True for patches whose embedding `token_D` replaces before the
                positions are added; None: no patch is masked.
            token_D: f32[D].

        Returns:
            "tokens" [B, N, D], "mean" and, with a CLS token, "cls" [B, D], after the final norm.
        """
        patch = self.config.patch_size
        grid = (images_BHWC.shape[1] // patch, images_BHWC.shape[2] // patch)
        x_BTD = self._embed(images_BHWC, None, grid)
        if mask_BN is not None:
            positions_ND = jnp.asarray(sincos_positions(grid, self.config.width))
            unseen_ND = (token_D[None] + positions_ND).astype(x_BTD.dtype)
            prefix, seen = x_BTD[:, : self.num_prefix], x_BTD[:, self.num_prefix :]
            patches = jnp.where(mask_BN[:, :, None], unseen_ND[None], seen)
            x_BTD = jnp.concatenate([prefix, patches], axis=1)
        x_BTD, _ = self.through_blocks(x_BTD)
        out = self._parts(self.norm(x_BTD))
        return out | {"mean": out["tokens"].astype(jnp.float32).mean(1)}


class ImageDecoder(PixelDecoder):
    """Decoder of an autoencoder, from one vector or from all tokens to all pixels."""

    def from_vector(self, latent_BD: jax.Array) -> jax.Array:
        """Predicts the pixels [B, N, E] of all patches from a query for each and one vector."""
        queries_BNP = self.queries(self._patches(len(latent_BD)))
        x_BTP = jnp.concatenate([self.embed(latent_BD)[:, None], queries_BNP], axis=1)
        x_BTP, _ = self.through_blocks(x_BTP)
        return self.project(self.norm(x_BTP[:, 1:]))

    def from_tokens(self, tokens_BND: jax.Array, cls_BD: jax.Array | None) -> jax.Array:
        """Predicts the pixels [B, N, E] of all patches, each from its own token onwards."""
        x_BTP = self.visible(tokens_BND, cls_BD, self._patches(len(tokens_BND)))
        x_BTP, _ = self.through_blocks(x_BTP)
        return self.project(self.norm(x_BTP[:, -tokens_BND.shape[1] :]))

    def _patches(self, batch: int) -> jax.Array:
        count = self.config.num_patches
        return jnp.broadcast_to(jnp.arange(count)[None], (batch, count))
