import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.models import encoders
from socialjepa_jax.models.cnn import CNNConfig
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.models.vit import ViT, ViTConfig

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


@pytest.mark.parametrize(
    "config",
    [VIT, RESNET, PatchNetConfig(image_size=8, channels=1, patches=(2, 2), widths=(4, 4)),
     CNNConfig(image_size=8, channels=1, widths=(4, 4), hidden=8)],
    ids=lambda config: config.kind,
)  # fmt: skip
def test_rectangles_are_encoded(config):
    """A square given as two sides is a square."""

    def shapes(size):
        chosen = dataclasses.replace(config, image_size=size)
        sides = size if isinstance(size, tuple) else (size, size)
        images = jax.ShapeDtypeStruct((3, *sides, 1), jnp.float32)
        params = jax.eval_shape(lambda key: encoders.init(chosen, key), jax.random.key(0))
        encode = lambda params, images: encoders.apply(chosen, params, images)[0]  # noqa: E731
        return params, jax.eval_shape(encode, params, images)

    assert shapes((8, 16))[1]["mean"].shape == (3, config.width)
    assert shapes((8, 8)) == shapes(8)
    if config.kind != "resnet":
        with pytest.raises(InputError, match="image_size=9 must be a multiple of 4"):
            dataclasses.replace(config, image_size=(8, 9))


def drawn(config):
    """Random parameters of an encoder; nothing is compiled."""
    shapes = jax.eval_shape(lambda key: encoders.init(config, key), jax.random.key(0))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), shapes)


def test_a_patch_network_reads_every_patch_of_a_rectangle():
    config = PatchNetConfig(image_size=(4, 8), channels=1, patches=(2, 2), widths=(3, 4), hidden=5)
    params = drawn(config)
    assert params["fc"]["kernel"].shape == (1 * 2 * 4, 5)
    images = np.tile(np.random.default_rng(1).normal(size=(1, 4, 8, 1)), (9, 1, 1, 1))
    images[np.arange(1, 9), np.repeat([0, 2], 4), np.arange(8)] += 1.0
    encode = jax.jit(lambda images: encoders.apply(config, params, images)[0]["mean"])
    latents = np.asarray(encode(images.astype(np.float32)))
    assert (np.abs(latents[1:] - latents[:1]).max(1) > 1e-4).all()


def test_a_rectangle_has_the_positions_of_its_own_rows_and_columns():
    """The same patch at row r and column c is the same token, whatever the width of the grid."""
    params = drawn(VIT)
    params["block_00"] = jax.tree.map(np.zeros_like, params["block_00"])  # the identity
    tokens = {}
    for size in ((8, 8), (8, 16), (16, 8)):
        config = dataclasses.replace(VIT, image_size=size)
        network = functional(lambda rngs, c=config: ViT(c, rngs))
        rows, columns = config.grid
        assert (rows, columns) == (size[0] // 4, size[1] // 4)
        apply = jax.jit(lambda images, n=network: n.apply(params, images)[1]["tokens"])
        found = apply(np.ones((1, *size, 1), np.float32))
        tokens[size] = np.asarray(found).reshape(rows, columns, -1)
    np.testing.assert_allclose(tokens[8, 16][:, :2], tokens[8, 8], atol=1e-5)
    np.testing.assert_allclose(tokens[16, 8][:2], tokens[8, 8], atol=1e-5)
    assert np.abs(tokens[8, 16][:, 2:] - tokens[8, 8]).max() > 1e-2
