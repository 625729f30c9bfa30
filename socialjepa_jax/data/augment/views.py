"""Multi-crop views of a batch (Caron et al., 2020), made on the device inside the step.

An image's views depend on its pixels, its index and the key, not on its batch or device. Shape
letters: B batch, H height, W width, C channels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from socialjepa_jax.data.augment.colour import normalize
from socialjepa_jax.data.augment.geometry import VIEW_A, VIEW_B, Augment, augment
from socialjepa_jax.errors import (
    InputError,
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
)


@dataclass(frozen=True)
class MultiCrop:
    """Numbers and augmentations of the views of an image, or of a pair of images in time.

    The run's own augmentation is applied first; switch it off to have the views alone.

    Attributes:
        global_views: number of large crops, of the image's size.
        local_views: number of small crops.
        local_size: height and width of a small crop in pixels.
        view_a: augmentation of the first half of the global views; colours of Social-JEPA A.3.
        view_b: augmentation of the second half.
        local: augmentation of the local views.
        second: what the second half of the global views shows, the same "image" | the "next" one of
            a pair in time. Augmentations that are off then leave the two frames as they are.
    """

    global_views: int = 2
    local_views: int = 6
    local_size: int = 96
    view_a: Augment = replace(VIEW_A, crop_scale=(0.3, 1.0))
    view_b: Augment = replace(VIEW_B, crop_scale=(0.3, 1.0))
    local: Augment = replace(VIEW_A, crop_scale=(0.05, 0.3))
    second: str = "image"

    def __post_init__(self) -> None:
        check_one_of(("image", "next"), second=self.second)
        check_positive(global_views=self.global_views, local_size=self.local_size)
        check_non_negative(local_views=self.local_views)
        check_in_range(2, float("inf"), views=self.global_views + self.local_views)

    def require_pair(self) -> None:
        """Raises `InputError` unless there are exactly two global views and no local ones."""
        if (self.global_views, self.local_views) != (2, 0):
            raise InputError(
                f"views: global_views={self.global_views}, local_views={self.local_views} must be "
                "2 and 0"
            )

    def __call__(self, batch: Mapping[str, jax.Array], key: jax.Array) -> tuple[jax.Array, ...]:
        """Makes the views of a batch, one array per size.

        Args:
            batch: 'image' f32[B, H, W, C] and 'index' i32[B]; 'mean' and 'std' f32[C], with which
                the images were normalised; 'next' like 'image' if `second` says so.
            key: typed key, the same for all samples and shards.

        Returns:
            f32[B, global_views, H, W, C] and, if there are local views,
            f32[B, local_views, local_size, local_size, C], normalised like the images.

        Raises:
            InputError: `second` is "next", and the batch has no pairs.
        """
        if self.second not in batch:
            raise InputError(
                "config.objective.views.second='next' needs config.data.kind='motion', 'reacher' "
                "or 'frames'"
            )
        mean_C, std_C = batch["mean"], batch["std"]
        keys_B = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, batch["index"])

        def crops(
            first: int, count: int, config: Augment, size: int | None = None, of: str = "image"
        ) -> jax.Array:
            """Makes the views first ... first + count - 1: f32[B, count, H, W, C]."""
            images_BHWC = batch[of] * std_C[None, None, None] + mean_C[None, None, None]
            images_BHWC = jnp.clip(images_BHWC, 0.0, 1.0)  # rounding may leave the unit interval

            def crop(number: jax.Array) -> jax.Array:
                view_keys_B = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys_B, number)
                shape = None if size is None else (size, size)
                return normalize(augment(images_BHWC, view_keys_B, config, shape), mean_C, std_C)

            return jax.vmap(crop, out_axes=1)(jnp.arange(first, first + count))

        half = (self.global_views + 1) // 2
        large = [crops(0, half, self.view_a)]
        if self.global_views > 1:
            large.append(crops(half, self.global_views - half, self.view_b, of=self.second))
        small = (self.global_views, self.local_views, self.local, self.local_size)
        locals_ = (crops(*small),) if self.local_views else ()
        return (jnp.concatenate(large, axis=1), *locals_)
