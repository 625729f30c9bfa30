"""Random crops and flips of batches on the device, each image under its own key.

The recipes are those of Social-JEPA A.3. Shape letters: B batch, H height, W width, C channels.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from socialjepa_jax.data.augment import colour
from socialjepa_jax.errors import InputError

SCOPE = "augment"  # named scope of its operations in compiled programs and traces
_ATTEMPTS = 10  # at drawing a box that fits, as in torchvision's RandomResizedCrop


@dataclasses.dataclass(frozen=True)
class Augment:
    """Augmentation of an image, applied in the order of the fields. The default is the identity.

    Attributes:
        crop_scale: range of the random crop's share of the area; (1, 1) switches cropping off. The
            crop is resized to the output size.
        crop_ratio: range of the crop's width over height, drawn log-uniformly.
        flip: mirror left and right with probability 1/2.
        colours: augmentation of the colours.
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
    """Augments each image under its own key.

    Args:
        images_BHWC: f32. Crop and flip accept any values; colours need values in [0, 1], so
            normalise afterwards.
        keys_B: typed keys, one per image.
        config: static.
        size: (height, width) of the output; None: those of the input.

    Returns:
        f32[B, *size, C], the input bit for bit if everything is off.
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
    """Draws area and aspect ratio until the box fits, at most ten times, then its position.

    The distribution is that of torchvision's RandomResizedCrop without its rounding to whole
    pixels. If no draw fits, the box is the largest central one of an allowed ratio.

    Args:
        key: typed key.
        size: (height, width) of the image.
        scale: range of the area, as a share of the image's area.
        ratio: range of width / height.

    Returns:
        f32[4]: top, left, height, width in pixels.
    """
    height, width = size
    area_key, ratio_key, position_key = jax.random.split(key, 3)
    areas = jax.random.uniform(area_key, (_ATTEMPTS,), minval=scale[0], maxval=scale[1])
    areas = areas * (height * width)
    low, high = jnp.log(jnp.array(ratio, jnp.float32))
    ratios = jnp.exp(jax.random.uniform(ratio_key, (_ATTEMPTS,), minval=low, maxval=high))
    shapes = jnp.stack([jnp.sqrt(areas / ratios), jnp.sqrt(areas * ratios)], axis=1)
    limits = jnp.array(size, jnp.float32)
    fits = (shapes <= limits[None]).all(axis=1)
    central = jnp.clip(width / height, *ratio)  # the ratio if no draw fits
    largest = jnp.minimum(limits, jnp.stack([width / central, height * central]))
    shape = jnp.where(fits.any(), shapes[jnp.argmax(fits)], largest)
    position = jnp.where(fits.any(), jax.random.uniform(position_key, (2,)), 0.5)
    return jnp.concatenate([position * (limits - shape), shape])


def resized_crop(image_HWC: jax.Array, box: jax.Array, size: tuple[int, int]) -> jax.Array:
    """Resizes a box of the image, bilinear, antialiased where it shrinks.

    Args:
        image_HWC: f32.
        box: f32[4]: top, left, height, width in pixels; may be traced.
        size: (height, width) of the output.

    Returns:
        f32[*size, C]. As in Pillow's `resize(size, BILINEAR, box=...)`, pixels outside the box
        contribute where the filter extends beyond its edge.
    """
    scale = jnp.array(size, jnp.float32) / box[2:]
    shape = (*size, image_HWC.shape[-1])
    return jax.image.scale_and_translate(
        image_HWC, shape, (0, 1), scale, -box[:2] * scale, "linear",
        precision=jax.lax.Precision.HIGHEST,
    )  # fmt: skip
