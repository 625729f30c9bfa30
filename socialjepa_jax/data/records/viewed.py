"""The fixed views of pictures, as a lazy array.

Shape key: B batch, H height, W width, C channels.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.data.augment import Augment, augment
from socialjepa_jax.keys import Stream, agent_key

_BLOCK = 64  # pictures whose fixed views are made at once


@dataclasses.dataclass(frozen=True, eq=False)
class Views:
    """Lazy uint8 [..., H, W, C]: the fixed views of pictures; indexing is that of `Files`.

    Attributes:
        pictures: u8[..., H, W, C], in memory or `Files`.
        cameras: i64[...], which recipe each is seen through.
        numbers: i64[...], of the pictures; views of equal pictures and cameras are equal.
        recipes: of the cameras.
    """

    pictures: Any
    cameras: np.ndarray
    numbers: np.ndarray
    recipes: tuple[Augment, ...]

    dtype = np.dtype(np.uint8)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of images."""
        return self.pictures.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array of images."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.cameras)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        parts = self.cameras[index], self.numbers[index]
        if np.ndim(parts[0]):
            return dataclasses.replace(
                self, pictures=self.pictures[index], cameras=parts[0], numbers=parts[1]
            )
        image = np.asarray(self.pictures[index])[None]
        return fixed(image, parts[1].reshape(1), int(parts[0]), self.recipes)[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        images = np.array(self.pictures)
        for camera in np.unique(self.cameras):
            seen = self.cameras == camera
            images[seen] = fixed(images[seen], self.numbers[seen], int(camera), self.recipes)
        return images.astype(dtype or self.dtype, copy=False)


def fixed(
    images_BHWC: np.ndarray, numbers_B: np.ndarray, camera: int, recipes: tuple[Augment, ...]
) -> np.ndarray:
    """Returns the fixed views of pictures.

    Args:
        images_BHWC: uint8.
        numbers_B: integers, of the pictures.
        camera: whose recipe, an index into `recipes`.
        recipes: of all cameras.

    Returns:
        uint8 [B, H, W, C], rounded.
    """
    views = np.empty_like(images_BHWC)
    for start in range(0, len(images_BHWC), _BLOCK):
        block = np.minimum(np.arange(start, start + _BLOCK), len(images_BHWC) - 1)
        made = _fixed_block(images_BHWC[block], numbers_B[block], camera, recipes[camera])
        views[start : start + _BLOCK] = np.asarray(made)[: len(images_BHWC) - start]
    return views


@functools.partial(jax.jit, static_argnames="recipe")
def _fixed_block(
    images: jax.Array, numbers: jax.Array, camera: jax.Array, recipe: Augment
) -> jax.Array:
    key = agent_key(camera, Stream.VIEW)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, numbers)
    views = augment(images.astype(jnp.float32) / 255, keys, recipe)
    return jnp.round(255 * jnp.clip(views, 0, 1)).astype(jnp.uint8)
