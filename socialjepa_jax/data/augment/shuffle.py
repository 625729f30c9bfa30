"""Images whose pixels or patches are put in another order: worlds with a broken structure.

The structure ablation of Social-JEPA's table 1, which does not say how its permutations are drawn.
A fixed permutation loses no information, only locality; one of its own for every image leaves two
agents a bag of patches or pixels.

Shape letters: B batch, H height, W width, C channels, P pixels of an image, N patches.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.errors import check_divides, check_one_of, check_positive

UNITS = ("none", "patch", "pixel", "inner")


@dataclass(frozen=True)
class Shuffle:
    """The order of an image's parts, after crops and colours and before normalisation.

    An agent sees the same order in training and evaluation. Two agents have orders of their own.
    An encoder with a patch embedding is not affected by "inner" beyond the draw of its initial
    kernels, nor is any linear map of pixels by any order that is the same for all images.

    Attributes:
        unit: what changes places: "none" | whole "patch"es | every "pixel", within the whole image
            | "inner", pixels within their patch, alike in all patches.
        per: "agent": one order for all its images | "image": every image has its own, the same in
            every epoch.
        patch_size: height and width of a patch, pixels; "pixel" does not need it.
    """

    unit: str = "none"
    per: str = "agent"
    patch_size: int = 8

    def __post_init__(self) -> None:
        check_one_of(UNITS, unit=self.unit)
        check_one_of(("agent", "image"), per=self.per)
        check_positive(patch_size=self.patch_size)

    def check_size(self, height: int, width: int) -> None:
        """Raises `InputError` if patches do not fill images of this size."""
        if self.unit in ("patch", "inner"):
            for side in (height, width):
                check_divides(self.patch_size, image_size=side)


def shuffled(
    images_BHWC: jax.Array, config: Shuffle, key: jax.Array, index_B: jax.Array
) -> jax.Array:
    """Puts the parts of images in another order; any type of pixels.

    Args:
        images_BHWC: the images.
        config: static.
        key: typed key of the agent.
        index_B: i32, number of each image; with "image" an order depends on (key, number) alone.

    Returns:
        The images, the input itself if `config.unit` is "none".
    """
    if config.unit == "none":
        return images_BHWC
    shape = images_BHWC.shape
    flat_BPC = images_BHWC.reshape(shape[0], -1, shape[-1])
    if config.per == "agent":
        return flat_BPC[:, sources(config, key, *shape[1:3])].reshape(shape)

    def one(flat_PC: jax.Array, index: jax.Array) -> jax.Array:
        return flat_PC[sources(config, jax.random.fold_in(key, index), *shape[1:3])]

    return jax.vmap(one)(flat_BPC, index_B).reshape(shape)


def sources(config: Shuffle, key: jax.Array, height: int, width: int) -> jax.Array:
    """Draws an order.

    Args:
        config: its `unit` is not "none".
        key: of the order.
        height, width: of the image.

    Returns:
        i32[P]: for each pixel in raster order, the pixel that takes its place.
    """
    if config.unit == "pixel":
        return jax.random.permutation(key, height * width)
    side = config.patch_size
    pixels = np.arange(height * width).reshape(height // side, side, width // side, side)
    table_NP = pixels.swapaxes(1, 2).reshape(-1, side * side)  # pixels of each patch
    axis = 0 if config.unit == "patch" else 1
    order = jax.random.permutation(key, table_NP.shape[axis])
    taken_NP = jnp.take(jnp.asarray(table_NP), order, axis=axis)
    return jnp.zeros(table_NP.size, taken_NP.dtype).at[table_NP.ravel()].set(taken_NP.ravel())
