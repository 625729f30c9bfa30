"""Multi-crop views: sizes, independence of the batch, recipes, and refusals."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import InputError

NOTHING = Augment()
DEFAULT = MultiCrop(global_views=2, local_views=3, local_size=8)


def batch(size=4):
    pixels = jax.random.uniform(jax.random.key(0), (size, 16, 16, 3))
    mean, std = jnp.array([0.4, 0.5, 0.6]), jnp.array([0.2, 0.3, 0.4])
    images = (pixels - mean[None, None, None]) / std[None, None, None]
    return {"image": images, "index": jnp.arange(size) + 7, "mean": mean, "std": std}


@functools.cache
def default_views():
    run = jax.jit(lambda batch, key: DEFAULT(batch, key))
    return run, run(batch(), jax.random.key(1))


def test_sizes_and_difference():
    _, (large, small) = default_views()
    assert large.shape == (4, 2, 16, 16, 3) and small.shape == (4, 3, 8, 8, 3)
    for views in (large, small):
        pixels = np.asarray(views) * np.asarray(batch()["std"]) + np.asarray(batch()["mean"])
        assert pixels.min() > -1e-5 and pixels.max() < 1 + 1e-5
        flat = pixels.reshape(4 * views.shape[1], -1)
        distance = np.abs(flat[:, None] - flat[None]).max(-1) + np.eye(len(flat))
        assert distance.min() > 0.05  # no two views of any two samples are the same


def test_a_samples_views_depend_on_nothing_but_its_index_and_the_key():
    run, views = default_views()
    order = jnp.array([2, 0, 3, 1])
    data = batch()
    reordered = data | {"image": data["image"][order], "index": data["index"][order]}
    for ours, theirs in zip(run(reordered, jax.random.key(1)), views):
        np.testing.assert_allclose(ours, theirs[order], atol=1e-6)
    for ours, theirs in zip(run(data, jax.random.key(2)), views):
        assert np.abs(ours - theirs).max((1, 2, 3, 4)).min() > 0.05
    assert run._cache_size() == 1


def test_which_recipe_makes_which_view():
    """The recipes leave nothing to chance and differ, so that every view shows which one it had."""
    inverted = Augment(colours=Colour(solarize=1.0))
    grey = Augment(colours=Colour(grey=1.0))
    config = MultiCrop(3, 1, 8, view_a=NOTHING, view_b=inverted, local=grey)
    data = batch()
    large, small = map(np.asarray, jax.jit(config.__call__)(data, jax.random.key(0)))
    mean, std = np.asarray(data["mean"]), np.asarray(data["std"])
    pixels = np.asarray(data["image"]) * std + mean
    expected = np.where(pixels < 0.5, pixels, 1 - pixels)
    for view, values in enumerate((pixels, pixels, expected)):
        np.testing.assert_allclose(large[:, view] * std + mean, values, atol=1e-5)
    luma = Image.fromarray((pixels[0] @ np.array([0.299, 0.587, 0.114])).astype(np.float32))
    resized = np.asarray(luma.resize((8, 8), Image.Resampling.BILINEAR))[..., None]
    np.testing.assert_allclose(small[0, 0] * std + mean, resized.repeat(3, -1), atol=1e-5)


def test_colours_act_on_pixels_not_on_normalised_values():
    """Full brightness jitter keeps black black: the scale is that of the image."""
    bright = Augment(colours=Colour(jitter=(1.0, 0.0, 0.0, 0.0)))
    config = MultiCrop(2, 0, view_a=bright, view_b=bright)
    data = batch()
    black = -(data["mean"] / data["std"])[None, None, None]
    data["image"] = jnp.broadcast_to(black, (4, 16, 16, 3))
    (views,) = jax.jit(config.__call__)(data, jax.random.key(0))
    np.testing.assert_allclose(views, jnp.broadcast_to(black[:, None], views.shape), atol=1e-5)


def test_the_second_half_shows_the_next_image_of_a_pair():
    """Augmentations that are off leave both frames as they are, and small crops the first."""
    data = batch()
    data["next"] = data["image"][::-1]
    config = MultiCrop(3, 1, 16, view_a=NOTHING, view_b=NOTHING, local=NOTHING, second="next")
    large, small = jax.jit(config.__call__)(data, jax.random.key(0))
    shown = ("image", "image", "next")
    for view, name in enumerate(shown):
        np.testing.assert_allclose(large[:, view], data[name], atol=1e-5)
    np.testing.assert_allclose(small[:, 0], data["image"], atol=1e-5)


def test_a_batch_without_pairs_has_no_next_image():
    with pytest.raises(InputError, match=r"views.second='next' needs config.data.kind='motion'"):
        MultiCrop(2, 0, second="next")(batch(), jax.random.key(0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"second": "last"}, "second='last'"),
        ({"global_views": 0}, "global_views=0"),
        ({"global_views": 1, "local_views": 0}, "views=1"),
        ({"local_size": 0}, "local_size=0"),
        ({"local_views": -1}, "local_views=-1"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        MultiCrop(**fields)
