import dataclasses

import chex
import jax
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.models import encoders
from socialjepa_jax.models.cnn import CNN, CNNConfig
from socialjepa_jax.models.functional import functional
from socialjepa_jax.objectives.pairs.frames import FramePairs

TINY = CNNConfig(image_size=8, channels=2, widths=(4, 6), hidden=5, outputs=3)


def test_parameters_of_the_published_encoder():
    init, _ = functional(lambda rngs: CNN(CNNConfig(), rngs))
    shapes = jax.eval_shape(init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 757_922


def test_batch_statistics_normalise_and_can_be_given_back():
    init, apply = functional(lambda rngs: CNN(TINY, rngs))
    params = init(jax.random.key(0))
    images = jax.random.normal(jax.random.key(1), (6, 8, 8, 2))
    latent, statistics = apply(params, images)
    assert latent.shape == (6, 3)
    assert set(statistics) == {"norm_0", "norm_1", "norm_fc"}
    again, _ = apply(params, images, statistics)
    np.testing.assert_array_equal(again, latent)
    one, _ = apply(params, images[:1], statistics)  # frozen statistics: no row sees another
    np.testing.assert_allclose(one, latent[:1], atol=1e-6)


def test_first_convolution_and_its_statistics():
    init, apply = functional(lambda rngs: CNN(TINY, rngs))
    params = init(jax.random.key(2))
    images = np.asarray(jax.random.normal(jax.random.key(3), (4, 8, 8, 2)), np.float64)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    kernel = np.asarray(params["conv_0"]["kernel"], np.float64)
    patches = np.lib.stride_tricks.sliding_window_view(padded, (4, 4), axis=(1, 2))[:, ::2, ::2]
    expected = np.einsum("bijchw,hwco->bijo", patches, kernel) + np.asarray(
        params["conv_0"]["bias"]
    )
    mean_C, var_C = apply(params, images.astype(np.float32))[1]["norm_0"]
    np.testing.assert_allclose(mean_C, expected.mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(var_C, expected.var((0, 1, 2)), rtol=1e-5)


def test_as_an_encoder_its_output_is_the_hidden_layer():
    """What its own head makes of that layer is the latent."""
    trunk = dataclasses.replace(TINY, outputs=0)
    assert (trunk.width, TINY.width) == (5, 3)
    whole = encoders.init(TINY, jax.random.key(4))
    params = {name: part for name, part in whole.items() if name != "head"}
    shapes = jax.eval_shape(lambda key: encoders.init(trunk, key), jax.random.key(4))
    chex.assert_trees_all_equal_shapes(shapes, params)
    images = jax.random.normal(jax.random.key(5), (6, 8, 8, 2))
    latents, statistics = encoders.apply(trunk, params, images)
    again, _ = encoders.apply(trunk, params, images[:2], statistics)
    np.testing.assert_allclose(again["mean"], latents["mean"][:2], atol=1e-6)
    head, hidden = jax.device_get(whole["head"]), np.asarray(latents["mean"], np.float64)
    expected, _ = encoders.apply(TINY, whole, images)
    np.testing.assert_allclose(hidden @ head["kernel"] + head["bias"], expected["mean"], atol=1e-6)


def test_with_the_objectives_head_it_has_the_published_parameters():
    objective = FramePairs(encoder=CNNConfig(outputs=0), outputs=2)
    params, aux = jax.eval_shape(objective.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 757_922
    names = {f"norm_{i}" for i in range(4)} | {"norm_fc"}
    assert set(aux["statistics"]["encoder"]) == names


@pytest.mark.parametrize(
    "fields", [{"image_size": 40}, {"outputs": -1}, {"kind": "vit"}, {"dtype": "bfloat16"}]
)
def test_refuses_sizes_that_cannot_be(fields):
    ((name, value),) = fields.items()
    with pytest.raises(InputError, match=f"{name}={value!r}"):
        CNNConfig(**fields)


def test_without_normalisation_it_is_the_network_whose_statistics_are_those_of_a_unit_normal():
    key, images = jax.random.key(0), jax.random.normal(jax.random.key(1), (3, 8, 8, 2))
    init, apply = functional(lambda rngs: CNN(TINY, rngs))
    params = init(key)
    channels = {"norm_0": 4, "norm_1": 6, "norm_fc": 5}
    unit = {name: (np.zeros(c, "f4"), np.full(c, 1 - 1e-5, "f4")) for name, c in channels.items()}
    expected, _ = apply(params, images, unit)
    init, apply = functional(lambda rngs: CNN(dataclasses.replace(TINY, normalize=False), rngs))
    plain = init(key)
    assert set(plain) == set(params) - set(channels)
    latent, used = apply(plain, images)
    assert used == {}
    np.testing.assert_allclose(latent, expected, atol=1e-6)
