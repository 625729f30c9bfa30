"""Augmentations that published recipes share, as multi-crop views.

One deviation: colours are always jittered, where the recipes do so with probability 0.8.
"""

from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.colour import Colour
from socialjepa_jax.data.augment.views import MultiCrop

JITTER = (0.4, 0.4, 0.2, 0.1)  # of BYOL and those after it
STRONG = (0.8, 0.8, 0.8, 0.2)  # of SimCLR and SwAV


def byol_views(
    scale: tuple[float, float],
    local_views: int = 0,
    local_scale: tuple[float, float] = (0.05, 0.4),
    local_size: int = 96,
) -> MultiCrop:
    """Returns two unlike global views, the first blurred, and local ones (Grill et al., 2020)."""
    first = Colour(jitter=JITTER, grey=0.2, blur=1.0)
    second = Colour(jitter=JITTER, grey=0.2, blur=0.1, solarize=0.2)
    local = Colour(jitter=JITTER, grey=0.2, blur=0.5)
    return MultiCrop(
        2,
        local_views,
        local_size,
        Augment(crop_scale=scale, flip=True, colours=first),
        Augment(crop_scale=scale, flip=True, colours=second),
        Augment(crop_scale=local_scale, flip=True, colours=local),
    )


def simclr_views(
    scale: tuple[float, float],
    local_views: int = 0,
    local_scale: tuple[float, float] = (0.05, 0.14),
    local_size: int = 96,
) -> MultiCrop:
    """Returns views with one strong augmentation for all (Chen et al., 2020; SwAV)."""
    colours = Colour(jitter=STRONG, grey=0.2, blur=0.5)
    large = Augment(crop_scale=scale, flip=True, colours=colours)
    small = Augment(crop_scale=local_scale, flip=True, colours=colours)
    return MultiCrop(2, local_views, local_size, large, large, small)
