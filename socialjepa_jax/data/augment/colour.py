"""Random changes of colour and sharpness of one image with values in [0, 1].

The recipe is SimCLR's (Chen et al., 2020) with the parameters of Social-JEPA A.3, in Pillow's
definitions, which torchvision uses; dm_pix has TensorFlow's (brightness is added, contrast is per
channel, blur pads with zeros). Shape letters: H height, W width, C channels (1 or 3; saturation,
hue and grey leave grey images unchanged).
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError, check_in_range

_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601


@dataclasses.dataclass(frozen=True)
class Colour:
    """Strengths and probabilities, applied in the order of the fields. The default is the identity.

    Attributes:
        jitter: strengths j of brightness, contrast and saturation, whose factors are uniform in
            [1 - j, 1 + j], and of hue, whose shift is uniform in [-j, j] turns. They are applied in
            this order (torchvision shuffles it).
        grey: probability of removing the colours.
        blur: probability of a Gaussian blur; edges are not padded.
        blur_sigma: range of the blur's standard deviation in pixels.
        solarize: probability of inverting values of at least 0.5.
    """

    jitter: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    grey: float = 0.0
    blur: float = 0.0
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    solarize: float = 0.0

    def __post_init__(self) -> None:
        if len(self.jitter) != 4:
            raise InputError(f"jitter={self.jitter} must be four numbers")
        for strength in self.jitter[:3]:
            check_in_range(0, 1, jitter=strength)
        check_in_range(0, 0.5, jitter=self.jitter[3])
        check_in_range(0, 1, grey=self.grey, blur=self.blur, solarize=self.solarize)
        if len(self.blur_sigma) != 2 or not 0 < self.blur_sigma[0] <= self.blur_sigma[1] < jnp.inf:
            raise InputError(f"blur_sigma={self.blur_sigma} must be 0 < low <= high")


def augment_colour(image_HWC: jax.Array, key: jax.Array, config: Colour) -> jax.Array:
    """Applies the recipe to one f32 image in [0, 1]; operations that are off are not traced."""
    keys = jax.random.split(key, 8)
    for change, strength, subkey in zip((brightness, contrast, saturation), config.jitter, keys):
        if strength:
            factor = jax.random.uniform(subkey, minval=1 - strength, maxval=1 + strength)
            image_HWC = change(image_HWC, factor)
    if config.jitter[3] and image_HWC.shape[-1] == 3:
        turn = jax.random.uniform(keys[3], minval=-config.jitter[3], maxval=config.jitter[3])
        image_HWC = hue(image_HWC, turn)
    image_HWC = _maybe(luma, config.grey, keys[4], image_HWC)
    low, high = config.blur_sigma
    sigma = jax.random.uniform(keys[5], minval=low, maxval=high)
    image_HWC = _maybe(lambda image: blur(image, sigma), config.blur, keys[6], image_HWC)
    return _maybe(solarize, config.solarize, keys[7], image_HWC)


def _maybe(
    change: Callable[[jax.Array], jax.Array], probability: float, key: jax.Array, image: jax.Array
) -> jax.Array:
    if not probability:
        return image
    return jnp.where(jax.random.bernoulli(key, probability), change(image), image)


def brightness(image_HWC: jax.Array, factor: jax.Array) -> jax.Array:
    """Blends the image with black; factor 1 is the identity."""
    return jnp.clip(image_HWC * factor, 0, 1)


def contrast(image_HWC: jax.Array, factor: jax.Array) -> jax.Array:
    """Blends the image with its mean luma; factor 1 is the identity."""
    return _blend(luma(image_HWC).mean(), image_HWC, factor)


def saturation(image_HWC: jax.Array, factor: jax.Array) -> jax.Array:
    """Blends the image with its luma; factor 1 is the identity."""
    return _blend(luma(image_HWC), image_HWC, factor)


def _blend(base: jax.Array, image_HWC: jax.Array, factor: jax.Array) -> jax.Array:
    return jnp.clip(base + factor * (image_HWC - base), 0, 1)


def luma(image_HWC: jax.Array) -> jax.Array:
    """Returns the image without its colours, in as many channels."""
    if image_HWC.shape[-1] == 1:
        return image_HWC
    weights = jnp.array(_LUMA, image_HWC.dtype)
    grey_HW1 = (image_HWC * weights[None, None]).sum(axis=-1, keepdims=True)
    return jnp.broadcast_to(grey_HW1, image_HWC.shape)


def hue(image_HW3: jax.Array, turn: jax.Array) -> jax.Array:
    """Turns the hue of HSV by `turn` (1 is the full circle); value and saturation stay."""
    high, low = image_HW3.max(axis=-1), image_HW3.min(axis=-1)
    chroma = high - low
    red, green, blue = jnp.moveaxis(image_HW3, -1, 0)
    divisor = jnp.where(chroma > 0, chroma, 1)
    sextant = jnp.where(
        high == red,
        (green - blue) / divisor,
        jnp.where(high == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    # Smith (1978) in closed form: a channel falls by chroma outside its third of the circle.
    offsets = jnp.array([5.0, 3.0, 1.0])
    k = (offsets[None, None] + (sextant + 6 * turn)[..., None]) % 6
    fall = jnp.clip(jnp.minimum(k, 4 - k), 0, 1)
    return high[..., None] - chroma[..., None] * fall


def blur(image_HWC: jax.Array, sigma: jax.Array) -> jax.Array:
    """Gaussian blur; at the edges the weights of the existing pixels are scaled to sum 1."""
    height, width, _ = image_HWC.shape
    precision = jax.lax.Precision.HIGHEST
    image_HWC = jnp.einsum("ih,hwc->iwc", _gaussian(height, sigma), image_HWC, precision=precision)
    return jnp.einsum("jw,iwc->ijc", _gaussian(width, sigma), image_HWC, precision=precision)


def _gaussian(size: int, sigma: jax.Array) -> jax.Array:
    pixels = jnp.arange(size)
    return jax.nn.softmax(-0.5 * ((pixels[None] - pixels[:, None]) / sigma) ** 2, axis=1)


def solarize(image_HWC: jax.Array) -> jax.Array:
    """Inverts values of at least 0.5."""
    return jnp.where(image_HWC < 0.5, image_HWC, 1 - image_HWC)


def normalize(images: jax.Array, mean: jax.Array, std: jax.Array) -> jax.Array:
    """Returns (images - mean) / std over the last axis of f32[B, H, W, C]."""
    return (images - mean[None, None, None]) / std[None, None, None]
