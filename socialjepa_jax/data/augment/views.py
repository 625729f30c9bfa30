"""Multi-crop views of a batch, made on device inside the step (Caron et al., 2020).

A sample's views depend on (key, sample index) alone, whatever batch or device it is in.

Shape key: B batch, V views, H height, W width, C channels.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.data.augment import Augment, augment
from socialjepa_jax.data.augment.colour import Colour, normalize
from socialjepa_jax.errors import InputError, check_in_range, check_non_negative, check_positive

_COLOURS = Colour(jitter=(0.4, 0.4, 0.4, 0.1), grey=0.2)
_COLOURS_B = Colour(jitter=(0.4, 0.4, 0.4, 0.1), grey=0.2, blur=0.5, solarize=0.2)


@dataclass(frozen=True)
class MultiCrop:
    """How many views there are, and what is done to a picture to make one.

    The run's own augmentation comes before; leave it off where the views are all there is to be.

    Attributes:
        global_views: large crops, of the picture's own size.
        local_views: small crops.
        local_size: height and width of a small crop, pixels.
        view_a: makes the first half of the global views; colours as in Social-JEPA A.3.
        view_b: makes the other half.
        local: makes the local views.
    """

    global_views: int = 2
    local_views: int = 6
    local_size: int = 96
    view_a: Augment = Augment(crop_scale=(0.3, 1.0), flip=True, colours=_COLOURS)
    view_b: Augment = Augment(crop_scale=(0.3, 1.0), flip=True, colours=_COLOURS_B)
    local: Augment = Augment(crop_scale=(0.05, 0.3), flip=True, colours=_COLOURS)

    def __post_init__(self) -> None:
        check_positive(global_views=self.global_views, local_size=self.local_size)
        check_non_negative(local_views=self.local_views)
        check_in_range(2, float("inf"), views=self.global_views + self.local_views)

    def require_pair(self) -> None:
        """Raises `InputError` unless there are two global views and nothing else."""
        if (self.global_views, self.local_views) != (2, 0):
            raise InputError(
                f"views: global_views={self.global_views}, local_views={self.local_views} must be "
                "2 and 0"
            )

    def __call__(self, batch: Mapping[str, jax.Array], key: jax.Array) -> tuple[jax.Array, ...]:
        """The views of a batch, an array for each size.

        Args:
            batch: 'image', 'index', and the 'mean' and 'std' that images were normalised with.
            key: the same for all samples and shards.

        Returns:
            f32[B, global_views, H, W, C] and, where there are local views,
            f32[B, local_views, local_size, local_size, C], normalised like the images.
        """
        mean_C, std_C = batch["mean"], batch["std"]
        pictures = batch["image"] * std_C[None, None, None] + mean_C[None, None, None]
        pictures = jnp.clip(pictures, 0.0, 1.0)  # what rounding put outside
        keys_B = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, batch["index"])

        def crops(first: int, count: int, config: Augment, size: int | None) -> jax.Array:
            """The views with numbers first ... first + count - 1: f32[B, count, H, W, C]."""

            def crop(number: jax.Array) -> jax.Array:
                view_keys_B = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys_B, number)
                shape = None if size is None else (size, size)
                return normalize(augment(pictures, view_keys_B, config, shape), mean_C, std_C)

            return jax.vmap(crop, out_axes=1)(jnp.arange(first, first + count))

        half = (self.global_views + 1) // 2
        large = [crops(0, half, self.view_a, None)]
        if self.global_views > 1:
            large.append(crops(half, self.global_views - half, self.view_b, None))
        small = (self.global_views, self.local_views, self.local, self.local_size)
        locals_ = (crops(*small),) if self.local_views else ()
        return (jnp.concatenate(large, axis=1), *locals_)
