"""Augmentations of batches on device, each sample under its own key (Social-JEPA A.3).

Geometry is linear and separable, so a crop with its antialiased resize is two small matrix
products an image. B batch, H height, W width, C channels.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from socialjepa_jax.data.augment import colour
from socialjepa_jax.errors import InputError

SCOPE = "augment"  # names its operations in programs and traces
_ATTEMPTS = 10  # at a box that fits, as torchvision's RandomResizedCrop


@dataclasses.dataclass(frozen=True)
class Augment:
    """What is done to a picture, in this order. The default does nothing.

    Attributes:
        crop_scale: range of a random box's share of the area; (1, 1) switches cropping off. The
            box is resized to the whole picture's size, or to the one asked for.
        crop_ratio: range of the box's width over height, drawn log-uniformly.
        flip: mirror left and right with probability 1/2.
        colours: what is done to the colours.
    """

    crop_scale: tuple[float, float] = (1.0, 1.0)
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = False
    colours: colour.Colour = dataclasses.field(default_factory=colour.Colour)

    def __post_init__(self) -> None:
        if len(self.crop_scale) != 2 or not 0 < self.crop_scale[0] <= self.crop_scale[1] <= 1:
            raise InputError(f"crop_scale={self.crop_scale} must be 0 < low <= high <= 1")
        if len(self.crop_ratio) != 2 or not 0 < self.crop_ratio[0] <= self.crop_ratio[1] < jnp.inf:
            raise InputError(f"crop_ratio={self.crop_ratio} must be 0 < low <= high")


# Social-JEPA A.3 on ImageNet-1k; view B adds blur and solarisation to view A.
VIEW_A = Augment(
    crop_scale=(0.2, 1.0), flip=True, colours=colour.Colour(jitter=(0.4, 0.4, 0.4, 0.1), grey=0.2)
)
VIEW_B = dataclasses.replace(
    VIEW_A, colours=dataclasses.replace(VIEW_A.colours, blur=0.5, solarize=0.2)
)


def augment(
    images_BHWC: jax.Array,
    keys_B: jax.Array,
    config: Augment,
    size: tuple[int, int] | None = None,
) -> jax.Array:
    """Augments each picture under its own key.

    Args:
        images_BHWC: f32. Crop and flip take any values; colours need [0, 1], so normalise after.
        keys_B: typed keys, one a picture.
        config: static.
        size: (height, width) of the results; None: those of the pictures.

    Returns:
        f32[B, *size, C]; the very input where everything is off.
    """
    _, height, width, _ = images_BHWC.shape
    shape = (height, width) if size is None else size
    with jax.named_scope(SCOPE):
        one = functools.partial(_augment_one, config=config, size=shape)
        return jax.vmap(one)(images_BHWC, keys_B)


def _augment_one(
    image_HWC: jax.Array, key: jax.Array, config: Augment, size: tuple[int, int]
) -> jax.Array:
    crop_key, flip_key, colour_key = jax.random.split(key, 3)
    height, width, _ = image_HWC.shape
    if config.crop_scale != (1.0, 1.0):
        box = random_box(crop_key, (height, width), config.crop_scale, config.crop_ratio)
        image_HWC = resized_crop(image_HWC, box, size)
    elif size != (height, width):
        image_HWC = resized_crop(image_HWC, jnp.array([0.0, 0.0, height, width]), size)
    if config.flip:
        mirrored = jax.random.bernoulli(flip_key)
        image_HWC = jnp.where(mirrored, image_HWC[:, ::-1], image_HWC)
    return colour.augment_colour(image_HWC, colour_key, config.colours)


def random_box(
    key: jax.Array,
    size: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> jax.Array:
    """Draws area and aspect ratio until the box fits, at most ten times, then a place for it.

    As torchvision's RandomResizedCrop, but for whole-pixel rounding: boxes are real-valued. Where
    no draw fits, it is the largest central box of an allowed ratio.

    Args:
        key: typed key.
        size: (height, width) of the picture.
        scale: range of the area, as a share of the picture's.
        ratio: range of width / height.

    Returns:
        f32[4]: top, left, height, width in pixels.
    """
    height, width = size
    area_key, ratio_key, place_key = jax.random.split(key, 3)
    areas = jax.random.uniform(area_key, (_ATTEMPTS,), minval=scale[0], maxval=scale[1])
    areas = areas * (height * width)
    low, high = jnp.log(jnp.array(ratio, jnp.float32))
    ratios = jnp.exp(jax.random.uniform(ratio_key, (_ATTEMPTS,), minval=low, maxval=high))
    shapes = jnp.stack([jnp.sqrt(areas / ratios), jnp.sqrt(areas * ratios)], axis=1)
    limits = jnp.array(size, jnp.float32)
    fits = (shapes <= limits[None]).all(axis=1)
    central = jnp.clip(width / height, *ratio)  # ratio of the box when nothing fits
    largest = jnp.minimum(limits, jnp.stack([width / central, height * central]))
    shape = jnp.where(fits.any(), shapes[jnp.argmax(fits)], largest)
    place = jnp.where(fits.any(), jax.random.uniform(place_key, (2,)), 0.5)
    return jnp.concatenate([place * (limits - shape), shape])


def resized_crop(image_HWC: jax.Array, box: jax.Array, size: tuple[int, int]) -> jax.Array:
    """Resizes a box of the picture, bilinear, antialiased where it shrinks.

    Args:
        image_HWC: f32.
        box: f32[4]: top, left, height, width in pixels; may be traced.
        size: (height, width) of the result.

    Returns:
        f32[*size, C]. As in Pillow's `resize(size, BILINEAR, box=...)`, pixels beside the box
        count where the filter reaches over its edge.
    """
    height, width, _ = image_HWC.shape
    rows = triangle_weights(box[0], box[2], height, size[0])
    columns = triangle_weights(box[1], box[3], width, size[1])
    return colour.separable(image_HWC, rows, columns)


def triangle_weights(start: jax.Array, length: jax.Array, old: int, new: int) -> jax.Array:
    """Resampling of [start, start + length) to `new` pixels: f32[new, old], rows sum to 1."""
    scale = length / new
    centers = start + (jnp.arange(new) + 0.5) * scale
    distances = (jnp.arange(old) + 0.5)[None] - centers[:, None]
    weights = jnp.maximum(1 - jnp.abs(distances) / jnp.maximum(scale, 1), 0)
    return weights / weights.sum(axis=1, keepdims=True)
