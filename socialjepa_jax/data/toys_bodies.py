"""The objects of the toy world: five categories, each a body plan driven by random choices."""

from collections.abc import Callable

from socialjepa_jax import validate
from socialjepa_jax.data import raycast, toys_creatures, toys_vehicles
from socialjepa_jax.data.toys_parts import Draws, Part, assemble

PLANS: dict[str, Callable[[Draws], list[Part]]] = {
    "four-legged animal": toys_creatures.animal,
    "human": toys_creatures.human,
    "airplane": toys_vehicles.airplane,
    "truck": toys_vehicles.truck,
    "car": toys_vehicles.car,
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
    validate.in_range(0, len(CATEGORIES) - 1, category=category)
    validate.positive(instances=instances)
    validate.non_negative(seed=seed)
    plan = PLANS[CATEGORIES[category]]
    return assemble([plan(Draws(seed, category, instance)) for instance in range(instances)])
