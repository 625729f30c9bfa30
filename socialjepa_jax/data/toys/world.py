"""The toy world: objects of five categories, drawn from a seed, their lightings and their images.

The factors are smallNORB's: 9 elevations, any azimuth, 6 lightings. The lamp is fixed in the
object's frame, so a state is one scene that cameras see from different sides.
"""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.data.toys import creatures, raycast, vehicles
from socialjepa_jax.data.toys.parts import Draws, Part, assemble
from socialjepa_jax.errors import check_in_range, check_non_negative, check_positive

PLANS: dict[str, Callable[[Draws], list[Part]]] = {
    "four-legged animal": creatures.animal,
    "human": creatures.human,
    "airplane": vehicles.airplane,
    "truck": vehicles.truck,
    "car": vehicles.car,
}
CATEGORIES = tuple(PLANS)
FACTOR_NAMES = ("category", "instance", "elevation", "azimuth", "lighting")
ELEVATIONS = tuple(range(30, 75, 5))  # degrees, by level
LIGHTINGS = (  # by level: azimuth and elevation of the lamp in degrees, radiance of lamp and sky
    (30, 60, 0.70, 0.38),
    (150, 50, 0.70, 0.38),
    (270, 55, 0.70, 0.38),
    (210, 75, 0.85, 0.25),
    (90, 80, 0.40, 0.60),
    (330, 50, 0.50, 0.22),
)


def make_bodies(category: int, instances: int, seed: int) -> raycast.Bodies:
    """Makes the first objects of a category.

    Args:
        category: index into `CATEGORIES`.
        instances: number of objects. Object i does not depend on it.
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


def all_bodies(instances: int, seed: int) -> raycast.Bodies:
    """Makes the objects of all categories: leading axes [categories, instances]."""
    made = [make_bodies(category, instances, seed) for category in range(len(CATEGORIES))]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)


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
    """Renders one batch of observations on the device.

    Args:
        bodies: leading axes [categories, instances].
        factors: i32[M, 5], columns `FACTOR_NAMES`; elevation and lighting are levels, azimuth is
            in degrees.
        image_size, channels, samples, baseline: see `raycast.render`.

    Returns:
        uint8 [M, H, W, C].
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


def _lights() -> raycast.Light:
    """Returns `LIGHTINGS` with a leading axis [6]."""
    azimuth, elevation, lamp, sky = jnp.array(LIGHTINGS, jnp.float32).T
    azimuth, elevation = jnp.radians(azimuth), jnp.radians(elevation)
    level = jnp.cos(elevation)
    direction = jnp.stack(
        [level * jnp.cos(azimuth), level * jnp.sin(azimuth), jnp.sin(elevation)], axis=-1
    )
    return raycast.Light(direction, lamp, sky)


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
    """Renders one image of all objects for documents: a row per category, a column per instance.

    Args:
        instances: objects in each category.
        seed: seed of the objects.
        image_size: side of one object's image in pixels.
        channels: 1 (grey) or 3 (RGB).
        elevation: level.
        azimuth: degrees.
        lighting: level.
        samples: a pixel is the mean of samples x samples rays.

    Returns:
        uint8 [5 image_size, instances image_size, channels].
    """
    categories = len(CATEGORIES)
    views = itertools.product(
        range(categories), range(instances), [elevation], [azimuth], [lighting]
    )
    images = render_factors(
        all_bodies(instances, seed),
        jnp.array(list(views), jnp.int32),
        image_size=image_size,
        channels=channels,
        samples=samples,
    )
    grid = np.asarray(images).reshape(categories, instances, image_size, image_size, channels)
    return grid.transpose(0, 2, 1, 3, 4).reshape(-1, instances * image_size, channels)
