"""Crops against Pillow, their distribution against torchvision's rule, keys and identity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from scipy import stats

from socialjepa_jax.data.augment import Augment, augment, geometry
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.errors import InputError

augment_batch = jax.jit(augment, static_argnums=2)


def _images(batch: int = 4, height: int = 24, width: int = 32, channels: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.random((batch, height, width, channels)).astype(np.float32)


def _pillow(image_HWC: np.ndarray, box: tuple[float, ...], size: tuple[int, int]) -> np.ndarray:
    top, left, height, width = box
    corners = (left, top, left + width, top + height)
    channels = [
        Image.fromarray(channel).resize(size[::-1], Image.Resampling.BILINEAR, box=corners)
        for channel in np.moveaxis(image_HWC, -1, 0)
    ]
    return np.stack([np.asarray(channel) for channel in channels], axis=-1)


@pytest.mark.parametrize("size", [(24, 32), (7, 40), (48, 5)])
def test_resized_crop_is_pillows(size):
    image = _images(1)[0]
    crop = jax.jit(geometry.resized_crop, static_argnums=2)
    for box in [
        (0.0, 0.0, 24.0, 32.0),  # everything
        (3.0, 5.0, 12.0, 16.0),
        (2.3, 7.9, 9.1, 20.6),  # no whole pixels
        (23.0, 31.0, 1.0, 1.0),  # the last pixel alone
        (0.0, 30.0, 24.0, 2.0),
    ]:
        cropped = crop(image, jnp.array(box), size)
        np.testing.assert_allclose(cropped, _pillow(image, box, size), atol=2e-6)


def test_everything_off_is_the_identity_bit_for_bit():
    images = _images() * 300 - 100
    keys = jax.random.split(jax.random.key(0), 4)
    np.testing.assert_array_equal(augment_batch(images, keys, Augment()), images)


def test_flip_mirrors_about_half_of_the_images():
    images = _images(512, 2, 3, 1)
    keys = jax.random.split(jax.random.key(0), 512)
    flipped = np.asarray(augment_batch(images, keys, Augment(flip=True)))
    mirrored = (flipped == images[:, :, ::-1]).all(axis=(1, 2, 3))
    same = (flipped == images).all(axis=(1, 2, 3))
    assert (mirrored ^ same).all()
    assert abs(mirrored.mean() - 0.5) < 4 * 0.5 / np.sqrt(512)


def test_a_sample_depends_on_its_own_key_and_image_only():
    images = _images(6)
    keys = jax.random.split(jax.random.key(3), 6)
    together = augment_batch(images, keys, geometry.VIEW_B)
    others = images.copy()
    others[[0, 1, 2, 3, 5]] = 0.5  # and other keys beside the same one
    alone = augment_batch(others, keys[jnp.array([1, 0, 5, 2, 4, 3])], geometry.VIEW_B)
    np.testing.assert_array_equal(together[4], alone[4])
    same = augment_batch(np.repeat(images[4:5], 6, axis=0), keys, geometry.VIEW_B)
    np.testing.assert_array_equal(together[4], same[4])
    assert np.abs(np.asarray(same[3]) - np.asarray(same[4])).max() > 0.1
    assert together.dtype == jnp.float32
    assert together.shape == images.shape


def test_flip_and_colours_are_drawn_apart():
    """Flip, grey and solarize each happen to half of the images, in all eight combinations."""
    image = np.array([[[0.9, 0.6, 0.7], [0.1, 0.3, 0.2]]], np.float32)  # brighter on the left
    config = Augment(flip=True, colours=Colour(grey=0.5, solarize=0.5))
    keys = jax.random.split(jax.random.key(0), 4000)
    found = np.asarray(augment_batch(image[None].repeat(4000, axis=0), keys, config))[:, 0]
    left, right = found.sum(axis=-1).T  # of the two pixels; both changes of colour keep the order
    draws = left < right, np.ptp(found, axis=-1).max(axis=-1) < 1e-6, found.max(axis=(1, 2)) < 0.5
    counts = np.bincount(np.array([4, 2, 1]) @ np.array(draws), minlength=8)
    assert np.abs(counts - 500).max() < 4 * np.sqrt(500 * 7 / 8)


def test_each_part_of_an_augmentation_draws_from_its_own_key():
    """The draws of a run depend on this; a key used twice would make them dependent."""
    config = Augment(crop_scale=(0.3, 0.6), flip=True, colours=Colour(jitter=(0.4, 0.0, 0.0, 0.0)))
    images, keys = _images(8), jax.random.split(jax.random.key(1), 8)

    @jax.jit
    @jax.vmap
    def expected(image, key):
        crop_key, flip_key, colour_key = jax.random.split(key, 3)
        box = geometry.random_box(crop_key, (24, 32), (0.3, 0.6), (3 / 4, 4 / 3))
        mirrored = jax.random.uniform(flip_key) < 0.5
        factor = jax.random.uniform(jax.random.split(colour_key, 8)[0], minval=0.6, maxval=1.4)
        crop = geometry.resized_crop(image, box, (24, 32))
        return jnp.where(mirrored, jnp.fliplr(crop), crop) * factor

    found = np.asarray(augment_batch(images, keys, config))
    np.testing.assert_allclose(found, np.clip(expected(images, keys), 0, 1), atol=1e-5)


def _torchvision_boxes(count: int, size: tuple[int, int], scale, ratio) -> np.ndarray:
    """The published algorithm in float64, without rounding to whole pixels."""
    rng = np.random.default_rng(1)
    boxes = []
    for _ in range(count):
        for _ in range(10):
            area = size[0] * size[1] * rng.uniform(*scale)
            aspect = np.exp(rng.uniform(*np.log(ratio)))
            height, width = np.sqrt(area / aspect), np.sqrt(area * aspect)
            if height <= size[0] and width <= size[1]:
                top, left = rng.uniform(0, size[0] - height), rng.uniform(0, size[1] - width)
                break
        else:
            aspect = np.clip(size[1] / size[0], *ratio)
            height, width = min(size[0], size[1] / aspect), min(size[1], size[0] * aspect)
            top, left = (size[0] - height) / 2, (size[1] - width) / 2
        boxes.append((top, left, height, width))
    return np.array(boxes)


@pytest.mark.parametrize(
    "size, scale", [((32, 32), (0.2, 1.0)), ((20, 60), (0.5, 1.0)), ((16, 16), (1.0, 1.0))]
)
def test_boxes_follow_torchvisions_distribution(size, scale):
    ratio = (3 / 4, 4 / 3)
    keys = jax.random.split(jax.random.key(0), 4000)
    draw = jax.jit(jax.vmap(lambda key: geometry.random_box(key, size, scale, ratio)))
    boxes = np.asarray(draw(keys), np.float64)
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= np.array(size)[None] * (1 + 1e-6)).all()
    expected = _torchvision_boxes(4000, size, scale, ratio)
    for ours, theirs in zip(boxes.T, expected.T):
        assert stats.ks_2samp(ours.round(3), theirs.round(3)).pvalue > 1e-4


def test_a_ratio_is_width_over_height():
    keys = jax.random.split(jax.random.key(1), 50)
    draw = jax.vmap(lambda key: geometry.random_box(key, (40, 30), (0.1, 0.2), (1.5, 2.0)))
    heights, widths = np.asarray(draw(keys), np.float64)[:, 2:].T
    assert 1.5 - 1e-5 < (widths / heights).min() < 1.6 and 1.9 < (widths / heights).max() < 2 + 1e-5
    assert 0.1 - 1e-6 < (widths * heights / 1200).min() and (widths * heights / 1200).max() < 0.2001


@pytest.mark.parametrize(
    "fields",
    [
        {"crop_scale": (0.0, 1.0)},
        {"crop_scale": (0.5, 1.1)},
        {"crop_scale": (0.9, 0.5)},
        {"crop_scale": (float("nan"), 1.0)},
        {"crop_ratio": (-1.0, 1.0)},
        {"crop_ratio": (1.0, float("inf"))},
    ],
)
def test_bad_ranges_are_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        Augment(**fields)
