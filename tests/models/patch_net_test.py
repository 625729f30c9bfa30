"""The patch network against convolutions whose stride is their kernel."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from socialjepa_jax.errors import InputError
from socialjepa_jax.models import encoders
from socialjepa_jax.models.patch_net import PatchNetConfig

TINY = PatchNetConfig(image_size=12, channels=2, patches=(3, 2), widths=(4, 6), hidden=5)


@pytest.fixture(scope="module")
def network():
    """Parameters with scales and biases of the normalisations drawn, images, outputs."""
    shapes = jax.eval_shape(lambda key: encoders.init(TINY, key), jax.random.key(0))
    rng = np.random.default_rng(1)
    params = jax.tree.map(lambda x: 0.4 * rng.normal(size=x.shape).astype(np.float32), shapes)
    images = rng.normal(size=(7, 12, 12, 2)).astype(np.float32)
    apply = jax.jit(lambda images, used: encoders.apply(TINY, params, images, used))
    return params, images, apply, apply(images, None)


def test_layers_are_strided_convolutions(network):
    params, images, _, (latents, used) = network
    exact = jax.tree.map(lambda x: np.asarray(x, np.float64), params)

    def norm(name, x):
        axes = tuple(range(x.ndim - 1))
        mean, variance = x.mean(axes), x.var(axes)
        np.testing.assert_allclose(used[name][0], mean, atol=1e-5)
        np.testing.assert_allclose(used[name][1], variance, rtol=1e-4)
        x = (x - mean) / np.sqrt(variance + 1e-5) * exact[name]["scale"] + exact[name]["bias"]
        return x * 0.5 * special.erfc(-x / 2**0.5)

    x = np.asarray(images, np.float64)
    for i, patch in enumerate(TINY.patches):
        layer = exact[f"fc_{i}"]
        kernel = layer["kernel"].reshape(patch, patch, x.shape[-1], -1)
        x = jax.lax.conv_general_dilated(
            jnp.asarray(x, jnp.float32), jnp.asarray(kernel, jnp.float32), (patch, patch), "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest",
        )  # fmt: skip
        x = norm(f"norm_{i}", np.asarray(x, np.float64) + layer["bias"])
    x = x.reshape(7, -1) @ exact["fc"]["kernel"] + exact["fc"]["bias"]
    np.testing.assert_allclose(latents["mean"], norm("norm_fc", x), atol=1e-4)
    assert set(used) == {"norm_0", "norm_1", "norm_fc"} and set(latents) == {"mean"}


def test_given_statistics_make_rows_independent(network):
    _, images, apply, (latents, used) = network
    again, same = apply(images, used)
    np.testing.assert_allclose(again["mean"], latents["mean"], atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, same, used)
    alone, _ = apply(images[:1], used)
    np.testing.assert_allclose(alone["mean"], latents["mean"][:1], atol=1e-5)


def test_it_is_an_encoder_with_one_latent():
    assert encoders.ENCODERS["patch_net"] is PatchNetConfig
    assert encoders.latent_kinds(TINY) == ("mean",) and TINY.width == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "cnn"}, "kind='cnn'"),
        ({"dtype": "bfloat16"}, "dtype='bfloat16'"),
        ({"image_size": 20}, "image_size=20 must be a multiple of 8"),
        ({"widths": (4,)}, "number_of_widths=1"),
        ({"patches": (), "widths": ()}, "patches=0"),
        ({"patches": (4, 0)}, "patches=0"),
        ({"widths": (4, -1)}, "widths=-1"),
        ({"hidden": 0}, "hidden=0"),
        ({"channels": 0}, "channels=0"),
    ],
)
def test_refuses_sizes_that_cannot_be(fields, message):
    with pytest.raises(InputError, match=message):
        PatchNetConfig(**fields)


def test_without_normalisation_layers_are_affine_maps_and_gelu():
    plain = dataclasses.replace(TINY, normalize=False)
    params = encoders.init(plain, jax.random.key(0))
    assert set(params) == {"fc_0", "fc_1", "fc"}
    images = np.random.default_rng(2).normal(size=(3, 12, 12, 2)).astype(np.float32)
    latents, used = encoders.apply(plain, params, images)
    assert used == {}

    def layer(name, x):
        y = x @ np.asarray(params[name]["kernel"]) + np.asarray(params[name]["bias"])
        return y * 0.5 * special.erfc(-y / 2**0.5)

    x = images
    for i, side in enumerate(TINY.patches):
        x = np.stack([
            [[x[n, r : r + side, c : c + side].ravel() for c in range(0, x.shape[2], side)]
             for r in range(0, x.shape[1], side)] for n in range(3)
        ])  # fmt: skip
        x = layer(f"fc_{i}", x)
    np.testing.assert_allclose(latents["mean"], layer("fc", x.reshape(3, -1)), atol=1e-5)
