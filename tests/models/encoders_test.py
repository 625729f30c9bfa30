import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.models import encoders
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.models.vit import ViTConfig

VIT = ViTConfig(image_size=8, patch_size=4, channels=1, width=8, depth=1, heads=2, init_std=0.2)
RESNET = ResNetConfig(image_size=8, channels=1, depth=10, stem_width=4, stem="small")


def test_kinds_of_latents():
    assert encoders.latent_kinds(VIT) == ("cls", "mean")
    assert encoders.latent_kinds(dataclasses.replace(VIT, cls_token=False)) == ("mean",)
    assert encoders.latent_kinds(RESNET) == ("mean",)


def test_parameters_and_small_images_do_not_depend_on_the_configured_size():
    large = dataclasses.replace(VIT, image_size=16)
    params = jax.jit(lambda key: encoders.init(VIT, key))(jax.random.key(0))
    chex.assert_trees_all_equal(
        params, jax.jit(lambda key: encoders.init(large, key))(jax.random.key(0))
    )
    images = jax.random.normal(jax.random.key(1), (3, 8, 8, 1))
    latents, used = encoders.apply(VIT, params, images)
    assert set(latents) == {"cls", "mean"} and used == {}
    chex.assert_trees_all_equal(encoders.apply(large, params, images)[0], latents)


def test_a_resnet_returns_its_statistics_and_takes_them_back():
    params = jax.jit(lambda key: encoders.init(RESNET, key))(jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (4, 8, 8, 1))
    apply = jax.jit(lambda images, used: encoders.apply(RESNET, params, images, used))
    latents, used = apply(images, None)
    assert latents["mean"].shape == (4, RESNET.width) and latents["mean"].dtype == jnp.float32
    alone, _ = apply(images[:1], used)
    np.testing.assert_allclose(alone["mean"], latents["mean"][:1], rtol=1e-4, atol=1e-5)
