"""Colour changes against Pillow and the standard library, identity when off."""

import colorsys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from scipy import ndimage, stats

from socialjepa_jax.data.augment import colour
from socialjepa_jax.errors import InputError


def _image(channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (16, 20, channels), np.uint8)


def _as_uint8(image: jax.Array) -> np.ndarray:
    return np.round(np.asarray(image) * 255)


@pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.4])
@pytest.mark.parametrize(
    "ours, theirs",
    [
        (colour.brightness, ImageEnhance.Brightness),
        (colour.contrast, ImageEnhance.Contrast),
        (colour.saturation, ImageEnhance.Color),
    ],
)
def test_enhancements_are_pillows_to_its_rounding(ours, theirs, factor):
    pixels = _image() // np.array([4, 1, 2], np.uint8)  # luma is not the mean of the channels
    expected = np.asarray(theirs(Image.fromarray(pixels)).enhance(factor)).astype(float)
    changed = ours(jnp.asarray(pixels / 255, jnp.float32), factor)
    # Pillow rounds the luma to 8 bits, then truncates the blend.
    assert np.abs(_as_uint8(changed) - expected).max() <= 1


def test_luma_and_solarize_are_pillows():
    pixels = _image()
    image = jnp.asarray(pixels / 255, jnp.float32)
    grey = np.asarray(Image.fromarray(pixels).convert("L")).astype(float)
    assert np.abs(_as_uint8(colour.luma(image)) - grey[..., None]).max() <= 1
    inverted = np.asarray(ImageOps.solarize(Image.fromarray(pixels), 128))
    np.testing.assert_array_equal(_as_uint8(colour.solarize(image)), inverted)


@pytest.mark.parametrize("turn", [-0.5, -0.1, 0.0, 0.05, 0.5])
def test_hue_turns_hsv(turn):
    pixels = _image()
    pixels[0, :4] = [[0, 0, 0], [255, 255, 255], [9, 9, 9], [255, 0, 0]]
    image = pixels / 255
    expected = np.empty_like(image)
    for index in np.ndindex(image.shape[:2]):
        hue, saturation, value = colorsys.rgb_to_hsv(*image[index])
        expected[index] = colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)
    changed = colour.hue(jnp.asarray(image, jnp.float32), turn)
    np.testing.assert_allclose(changed, expected, atol=5e-6)


def test_blur_is_a_gaussian_filter():
    image = np.random.default_rng(1).random((40, 40, 1)).astype(np.float32)
    blurred = np.asarray(colour.blur(jnp.asarray(image), 1.5))
    expected = ndimage.gaussian_filter(image[..., 0].astype(float), 1.5, truncate=10)
    np.testing.assert_allclose(blurred[15:25, 15:25, 0], expected[15:25, 15:25], atol=1e-6)
    flat = colour.blur(jnp.full((40, 40, 1), 0.3), 2.0)  # edges are neither dark nor bright
    np.testing.assert_allclose(flat, 0.3, atol=1e-6)


def test_grey_images_keep_saturation_and_hue():
    image = jnp.asarray(_image(1) / 255, jnp.float32)
    config = colour.Colour(jitter=(0.0, 0.0, 1.0, 0.5), grey=1.0)
    changed = colour.augment_colour(image, jax.random.key(0), config)
    np.testing.assert_allclose(changed, image, atol=1e-6)


def test_off_is_the_identity_bit_for_bit():
    image = jnp.asarray(_image() / 255, jnp.float32)
    changed = colour.augment_colour(image, jax.random.key(0), colour.Colour())
    np.testing.assert_array_equal(changed, image)


@pytest.mark.parametrize("name, probability", [("grey", 0.2), ("blur", 0.5), ("solarize", 0.2)])
def test_probabilities(name, probability):
    image = jnp.asarray(_image()[:4, :4] / 255, jnp.float32)
    config = colour.Colour(**{name: probability}, blur_sigma=(1.0, 2.0))
    keys = jax.random.split(jax.random.key(0), 2000)
    images = jax.jit(jax.vmap(lambda key: colour.augment_colour(image, key, config)))(keys)
    share = (np.asarray(images) != np.asarray(image)[None]).any(axis=(1, 2, 3)).mean()
    assert abs(share - probability) < 4 * np.sqrt(probability * (1 - probability) / 2000)


@pytest.mark.parametrize("place, low, high", [(0, 0.6, 1.4), (3, -0.1, 0.1)])
def test_strengths_are_uniform_on_both_sides(place, low, high):
    """Brightness by its factor, hue by its turn, read from a picture of one colour."""
    jitter = np.zeros(4)
    jitter[place] = 0.4 if place == 0 else 0.1
    image = jnp.broadcast_to(jnp.array([0.4, 0.2, 0.2]), (2, 2, 3))  # red: hue 0
    config = colour.Colour(jitter=tuple(jitter.tolist()))
    keys = jax.random.split(jax.random.key(3), 400)
    changed = jax.jit(jax.vmap(lambda key: colour.augment_colour(image, key, config)))(keys)
    pixels = np.asarray(changed[:, 0, 0], np.float64)
    hues = np.array([colorsys.rgb_to_hsv(*pixel)[0] for pixel in pixels])
    drawn = pixels[:, 0] / 0.4 if place == 0 else (hues + 0.5) % 1 - 0.5
    assert stats.kstest(drawn, stats.uniform(low, high - low).cdf).pvalue > 1e-3


def test_values_stay_in_the_unit_interval():
    images = jnp.asarray(_image() / 255, jnp.float32)
    config = colour.Colour((0.4, 0.4, 0.4, 0.1), grey=0.2, blur=0.5, solarize=0.2)
    keys = jax.random.split(jax.random.key(0), 64)
    changed = jax.jit(jax.vmap(lambda key: colour.augment_colour(images, key, config)))(keys)
    assert changed.min() > -1e-6
    assert changed.max() < 1 + 1e-6


@pytest.mark.parametrize(
    "fields",
    [
        {"jitter": (0.4, 0.4, 0.4)},
        {"jitter": (-0.1, 0.0, 0.0, 0.0)},
        {"jitter": (0.0, 0.0, 0.0, 0.6)},
        {"grey": 1.5},
        {"blur": float("nan")},
        {"solarize": -0.2},
        {"blur_sigma": (0.0, 1.0)},
    ],
)
def test_bad_strengths_are_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        colour.Colour(**fields)
