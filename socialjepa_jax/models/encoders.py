"""Image encoders by their `kind` in configurations, behind `init` and `apply`.

Shape key: B batch, H height, W width, C channels, D features.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from socialjepa_jax.models.batchnorm import Mean, Statistics, local_mean
from socialjepa_jax.models.cnn import CNN, CNNConfig
from socialjepa_jax.models.functional import Functional, Params, functional
from socialjepa_jax.models.patch_net import PatchNet, PatchNetConfig
from socialjepa_jax.models.resnet import ResNet, ResNetConfig
from socialjepa_jax.models.vit import ViT, ViTConfig

EncoderConfig = ViTConfig | ResNetConfig | PatchNetConfig | CNNConfig
ENCODERS: dict[str, type] = {
    "vit": ViTConfig,
    "resnet": ResNetConfig,
    "patch_net": PatchNetConfig,
    "cnn": CNNConfig,
}
_NETWORKS: dict[type, Callable[..., Any]] = {
    ViTConfig: ViT,
    ResNetConfig: ResNet,
    PatchNetConfig: PatchNet,
    CNNConfig: CNN,
}


@functools.cache
def _network(config: EncoderConfig) -> Functional:
    return functional(lambda rngs: _NETWORKS[type(config)](config, rngs))


def latent_kinds(config: EncoderConfig) -> tuple[str, ...]:
    """Returns the outputs that can be the latent: "mean", and "cls" with a CLS token."""
    return ("cls", "mean") if getattr(config, "cls_token", False) else ("mean",)


def init(config: EncoderConfig, key: jax.Array) -> Params:
    """Draws initial parameters; they do not depend on the image size."""
    return _network(config).init(key)


def apply(
    config: EncoderConfig,
    params: Params,
    images_BHWC: jax.Array,
    statistics: Statistics | None = None,
    mean: Mean = local_mean,
) -> tuple[dict[str, jax.Array], Statistics]:
    """Encodes images of any size that the patch size divides; a patch network has one size.

    The positions of a ViT count patches from the upper left corner of the image, so a small crop
    has the positions of the corner of a large one.

    Args:
        config: configuration of the encoder.
        params: parameters of the encoder.
        images_BHWC: f32[B, H, W, C].
        statistics, mean: arguments of batch normalisation, see `ResNet`; a ViT ignores them.

    Returns:
        {"mean": f32[B, D]}, with a CLS token also "cls", and the statistics used.
    """
    height, width = images_BHWC.shape[1:3]
    size = height if height == width else (height, width)  # one network for both spellings
    network = _network(dataclasses.replace(config, image_size=size))
    if isinstance(config, ResNetConfig):
        _, out, used = network.apply(params, images_BHWC, statistics, mean)
    elif isinstance(config, ViTConfig):
        (_, out), used = network.apply(params, images_BHWC), {}
    else:
        latent_BD, used = network.apply(params, images_BHWC, statistics, mean)
        out = {"mean": latent_BD}
    return _latents(config, out), used


def apply_packed(
    config: ViTConfig, params: Params, images: tuple[jax.Array, ...]
) -> list[dict[str, jax.Array]]:
    """Returns the latents of `apply` for images f32[B, H, W, C] of each size, in one pass."""
    outputs = _network(config).apply(params, images, method="packed")
    return [_latents(config, out) for out in outputs]


def _latents(config: EncoderConfig, out: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return {kind: out[kind].astype(jnp.float32) for kind in latent_kinds(config)}
