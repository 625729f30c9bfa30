"""The toy world: smallNORB's factor grid over rendered objects, so there is nothing to download.

Five categories of objects that a seed makes, 9 elevations, any azimuth, 6 lightings. The lamp
stands still in the object's frame: a state is one scene, and cameras look at it from around.
"""

import dataclasses
import functools
import hashlib
import inspect
import itertools
import json
import pathlib
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from socialjepa_jax.data import base, cache
from socialjepa_jax.data.toys import creatures, parts, raycast, vehicles, world
from socialjepa_jax.data.toys.parts import Draws, Part, assemble
from socialjepa_jax.errors import (
    InputError,
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
)

FACTOR_NAMES = ("category", "instance", "elevation", "azimuth", "lighting")
ELEVATIONS = tuple(range(30, 75, 5))  # degrees, by level
LIGHTINGS = (  # by level: azimuth and elevation of the lamp in degrees, its radiance, the sky's
    (30, 60, 0.70, 0.38),
    (150, 50, 0.70, 0.38),
    (270, 55, 0.70, 0.38),
    (210, 75, 0.85, 0.25),
    (90, 80, 0.40, 0.60),
    (330, 50, 0.50, 0.22),
)
_BLOCK = 512  # pictures rendered by one call


@dataclasses.dataclass(frozen=True)
class ToysData:
    """A rendered dataset of objects under smallNORB's factors.

    Attributes:
        kind: "toys".
        instances: objects in each of the five categories.
        image_size: side of the pictures in pixels.
        channels: 1 (grey) or 3 (RGB).
        protocol: how states and cameras are made; only the azimuths it needs are rendered.
        splits: what is held out.
        seed: of the objects; another seed is another world of the same kind.
        elevations: levels of `ELEVATIONS`, 30 to 70 degrees in steps of 5.
        lightings: levels of `LIGHTINGS`.
        azimuth_step: "rig" protocol: degrees between the pose azimuths in the sector.
        samples_per_pixel_side: a pixel is the mean of this number squared of rays.
        baseline: if above 0, each camera is a stereo pair at this distance (in units of the
            object's radius; the camera stands 5 away); the right picture's channels follow the
            left picture's.
    """

    kind: str = "toys"
    instances: int = 10
    image_size: int = 96
    channels: int = 1
    protocol: base.Protocol = base.Protocol()
    splits: base.Splits = base.Splits()
    seed: int = 0
    elevations: tuple[int, ...] = tuple(range(len(ELEVATIONS)))
    lightings: tuple[int, ...] = tuple(range(len(LIGHTINGS)))
    azimuth_step: int = 20
    samples_per_pixel_side: int = 2
    baseline: float = 0.0

    def __post_init__(self) -> None:
        check_one_of(("toys",), kind=self.kind)
        check_positive(instances=self.instances, image_size=self.image_size)
        check_one_of((1, 3), channels=self.channels)
        check_non_negative(seed=self.seed)
        for name, levels in (("elevations", ELEVATIONS), ("lightings", LIGHTINGS)):
            chosen = getattr(self, name)
            if not chosen or len(set(chosen)) < len(chosen):
                raise InputError(f"{name}={chosen} must be one or more distinct levels")
            for level in chosen:
                check_in_range(0, len(levels) - 1, **{name: level})
        check_in_range(1, 360, azimuth_step=self.azimuth_step)
        check_in_range(1, 16, samples_per_pixel_side=self.samples_per_pixel_side)
        check_in_range(0, 2, baseline=self.baseline)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Renders the pictures, or reads them from the cache, and pairs the views.

        Args:
            cache_dir: folder for the rendered pictures; made where needed.
        """
        factors = self.observations()
        path = pathlib.Path(cache_dir) / f"toys-{self._digest(factors)}.npy"
        images = cache.cached_array(path, functools.partial(self.render, factors))
        table = base.ObservationTable(images, factors, FACTOR_NAMES, world.CATEGORIES)
        return base.pair_views(table, self.protocol, self.splits, self.kind)

    def observations(self) -> np.ndarray:
        """Factors i32[M, 5] (`FACTOR_NAMES`) of the pictures that the protocol needs, sorted."""
        grid = itertools.product(
            range(len(world.CATEGORIES)),
            range(self.instances),
            sorted(self.elevations),
            self._azimuths(),
            sorted(self.lightings),
        )
        return np.array(list(grid), np.int32)

    def render(self, factors: np.ndarray) -> np.ndarray:
        """Renders uint8 [M, H, W, C] of the given factors i32[M, 5], any rows of the grid."""
        start = time.perf_counter()
        bodies = _all_bodies(self.instances, self.seed)
        blocks = []
        for first in range(0, len(factors), _BLOCK):
            block = factors[first : first + _BLOCK]
            # The last block repeats its last picture, so that all have one shape: one compilation.
            full = np.pad(block, ((0, min(_BLOCK, len(factors)) - len(block)), (0, 0)), "edge")
            images = render_factors(
                bodies,
                jnp.asarray(full),
                image_size=self.image_size,
                channels=self.channels,
                samples=self.samples_per_pixel_side,
                baseline=self.baseline,
            )
            blocks.append(np.asarray(images)[: len(block)])
        seconds = time.perf_counter() - start
        logging.info("toys: %d pictures rendered in %.1f s", len(factors), seconds)
        return np.concatenate(blocks)

    def _azimuths(self) -> list[int]:
        """Degrees of all views that the protocol needs."""
        if self.protocol.kind == "norb":
            return sorted(self.protocol.azimuths)
        low, high = self.protocol.sector
        poses = [pose for pose in range(0, 360, self.azimuth_step) if low <= pose < high]
        return sorted({(pose + turn) % 360 for pose in poses for turn in self.protocol.azimuths})

    def _digest(self, factors: np.ndarray) -> str:
        """Of everything that the pictures depend on, the rendering code included."""
        modules = [raycast, parts, world, creatures, vehicles]
        modules.append(sys.modules[__name__])
        names = ("seed", "image_size", "channels", "samples_per_pixel_side", "baseline")
        values = {name: getattr(self, name) for name in names}
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
        digest.update(factors.tobytes())
        for module in modules:
            digest.update(inspect.getsource(module).encode())
        return digest.hexdigest()[:32]


@functools.partial(jax.jit, static_argnames=("image_size", "channels", "samples", "baseline"))
def render_factors(
    bodies: raycast.Bodies,
    factors: jax.Array,
    *,
    image_size: int,
    channels: int = 1,
    samples: int = 2,
    baseline: float = 0.0,
) -> jax.Array:
    """Renders uint8 [M, H, W, C] of the factors i32[M, 5] of one batch, on the device.

    Args:
        bodies: leading axes [categories, instances].
        factors: rows of `FACTOR_NAMES`.
        image_size, channels, samples, baseline: see `raycast.render`.
    """
    category, instance, elevation, azimuth, lighting = factors.T
    images = raycast.render(
        jax.tree.map(lambda leaf: leaf[category, instance], bodies),
        jnp.radians(jnp.asarray(ELEVATIONS, jnp.float32))[elevation],
        jnp.radians((azimuth % 360).astype(jnp.float32)),
        jax.tree.map(lambda leaf: leaf[lighting], _lights()),
        image_size=image_size,
        channels=channels,
        samples=samples,
        baseline=baseline,
    )
    return (images * 255.0 + 0.5).astype(jnp.uint8)


def contact_sheet(
    instances: int = 10,
    seed: int = 0,
    *,
    image_size: int = 96,
    channels: int = 3,
    elevation: int = 1,
    azimuth: int = 40,
    lighting: int = 0,
    samples: int = 4,
) -> np.ndarray:
    """One picture of all objects: a row a category, a column an instance.

    Args:
        instances: objects in each category.
        seed: of the objects.
        image_size: side of one object's picture.
        channels: 1 (grey) or 3 (RGB).
        elevation: level.
        azimuth: degrees.
        lighting: level.
        samples: a pixel is the mean of samples x samples rays.

    Returns:
        uint8 [5 image_size, instances image_size, channels].
    """
    categories = len(world.CATEGORIES)
    views = itertools.product(
        range(categories), range(instances), [elevation], [azimuth], [lighting]
    )
    images = render_factors(
        _all_bodies(instances, seed),
        jnp.array(list(views), jnp.int32),
        image_size=image_size,
        channels=channels,
        samples=samples,
    )
    grid = np.asarray(images).reshape(categories, instances, image_size, image_size, channels)
    return grid.transpose(0, 2, 1, 3, 4).reshape(-1, instances * image_size, channels)


def _all_bodies(instances: int, seed: int) -> raycast.Bodies:
    """Leading axes [categories, instances]."""
    kinds = range(len(world.CATEGORIES))
    made = [world.make_bodies(category, instances, seed) for category in kinds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)


def _lights() -> raycast.Light:
    """All of `LIGHTINGS`, a leading axis [6]."""
    azimuth, elevation, lamp, sky = jnp.array(LIGHTINGS, jnp.float32).T
    azimuth, elevation = jnp.radians(azimuth), jnp.radians(elevation)
    level = jnp.cos(elevation)
    direction = jnp.stack(
        [level * jnp.cos(azimuth), level * jnp.sin(azimuth), jnp.sin(elevation)], axis=-1
    )
    return raycast.Light(direction, lamp, sky)


PLANS: dict[str, Callable[[Draws], list[Part]]] = {
    "four-legged animal": creatures.animal,
    "human": creatures.human,
    "airplane": vehicles.airplane,
    "truck": vehicles.truck,
    "car": vehicles.car,
}
CATEGORIES = tuple(PLANS)


def make_bodies(category: int, instances: int, seed: int) -> raycast.Bodies:
    """Makes the first objects of a category.

    Args:
        category: index into `CATEGORIES`.
        instances: how many; object i is the same however many there are.
        seed: another seed gives other objects.

    Returns:
        Bodies with a leading axis [instances], on the default device.

    Raises:
        InputError: an argument is out of range.
    """
    check_in_range(0, len(CATEGORIES) - 1, category=category)
    check_positive(instances=instances)
    check_non_negative(seed=seed)
    plan = PLANS[CATEGORIES[category]]
    return assemble([plan(Draws(seed, category, instance)) for instance in range(instances)])
