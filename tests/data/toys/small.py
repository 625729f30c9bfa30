"""A small toy dataset, so that all tests share one compiled renderer."""

import functools

from socialjepa_jax.data import base
from socialjepa_jax.data.toys import ToysData

# 512 images or more of this size.
SMALL = functools.partial(ToysData, image_size=32, samples_per_pixel_side=1)
WIDE = base.Protocol(azimuths=tuple(range(0, 360, 40)))


def small(**kwargs):
    return SMALL(**{"instances": 10, "protocol": WIDE, "elevations": (0, 8)} | kwargs)
