"""Tables of tiny images whose pixels show their factors."""

import itertools

import numpy as np

from socialjepa_jax.data import base

NAMES = ("category", "instance", "azimuth", "elevation", "lighting")


def table(azimuths=range(0, 360, 45), categories=2, instances=3) -> base.ObservationTable:
    """A full grid; every image shows its own factors as pixels."""
    grid = itertools.product(range(categories), range(instances), azimuths, range(2), range(2))
    factors = np.array(list(grid), np.int16)
    return from_factors(factors)


def from_factors(factors: np.ndarray) -> base.ObservationTable:
    images = np.zeros((len(factors), 2, 3, 1), np.uint8)
    images[:, 0, :, 0], images[:, 1, 0, 0] = factors[:, [0, 1, 3]], factors[:, 4]
    images[:, 1, 1, 0], images[:, 1, 2, 0] = factors[:, 2] % 256, factors[:, 2] // 256
    return base.ObservationTable(images, factors, NAMES, ("cup", "dog"))


def factors_of(images: np.ndarray) -> dict[str, np.ndarray]:
    """Reads the factors back out of the pixels [..., 2, 3, 1]."""
    pixels = images[..., 0].astype(int)
    return {
        "category": pixels[..., 0, 0],
        "instance": pixels[..., 0, 1],
        "elevation": pixels[..., 0, 2],
        "lighting": pixels[..., 1, 0],
        "azimuth": pixels[..., 1, 1] + 256 * pixels[..., 1, 2],
    }
