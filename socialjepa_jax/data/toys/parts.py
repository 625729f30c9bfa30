"""Posed primitives, bodies assembled from them, and stratified random choices of body plans."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from socialjepa_jax.data.toys import raycast

NUM_DRAWS = 64  # largest number of choices of a body plan
STRATA = 10  # instances in a block of the Latin hypercube
Point = Sequence[float] | np.ndarray  # three coordinates, three extents or a pattern

SIDES = (-1.0, 1.0)  # right and left, the sign of y
PLAIN = (0.0, 0.0, 0.0, 0.0, -np.pi / 2)  # pattern that shows the first colour only


class Draws:
    """Random choices of one instance, in the order in which a body plan draws them.

    Within a block of ten instances each choice takes ten different tenths of its range (Latin
    hypercube sampling), so that even a few instances differ clearly. An instance depends on (seed,
    category, its number) and not on the number of instances.
    """

    def __init__(self, seed: int, category: int, instance: int) -> None:
        block, place = divmod(instance, STRATA)
        rng = np.random.default_rng([seed, category, block])
        strata = rng.permuted(np.tile(np.arange(STRATA), (NUM_DRAWS, 1)), axis=1)
        self._values = iter(((strata + rng.random(strata.shape)) / STRATA)[:, place])

    def uniform(self, low: float, high: float) -> float:
        """Draws a number in [low, high)."""
        return float(low + (high - low) * next(self._values))

    def flag(self, probability: float) -> bool:
        """Draws true with the given probability."""
        return self.uniform(0, 1) < probability

    def choice(self, options: int) -> int:
        """Draws one of 0 ... options - 1."""
        return int(self.uniform(0, options))

    def colour(
        self, low: float, high: float, hues: tuple[float, float] = (0, 360), vivid: float = 0.6
    ) -> np.ndarray:
        """Draws an RGB colour.

        Args:
            low, high: range of the luma; a channel that saturates at 1 lowers it.
            hues: range of the hue in degrees; 0 is red, 60 yellow, 120 green.
            vivid: distance of the most saturated colours from grey.

        Returns:
            f64[3] in [0, 1].
        """
        luma, hue = self.uniform(low, high), np.radians(self.uniform(*hues))
        wave = np.cos(hue - np.radians([0, 120, 240]))
        tint = 1 + self.uniform(0.4, 1) * vivid * wave
        return np.clip(luma * tint / (tint @ np.array(raycast.LUMA)), 0, 1)


@dataclasses.dataclass(frozen=True)
class Part:
    """One primitive of a body, in any unit of length; x is forward, y left, z up.

    Attributes:
        kind: one of `raycast.KINDS`.
        center: three coordinates.
        size: half extents along the part's own axes. Round sections lie in its x-y plane; the
            size of a capsule is (r, r, half length of the straight piece + r).
        colour: RGB in [0, 1].
        rotation: f64[3, 3]; its columns are the part's own axes.
        second: RGB of the second colour of a pattern.
        pattern: see `raycast.Bodies`, in the part's own coordinates divided by its size.
    """

    kind: str
    center: Point
    size: Point
    colour: np.ndarray
    rotation: np.ndarray = dataclasses.field(default_factory=lambda: np.eye(3))
    second: np.ndarray | None = None
    pattern: Point = PLAIN


def spot(radius: float) -> tuple[float, ...]:
    """Pattern of the second colour within `radius` (0 to 1) of the local z axis."""
    return (0.0, 0.0, 0.0, -3.0, 3.0 * radius**2)


def stripes(x: float = 0.0, y: float = 0.0, z: float = 0.0, phase: float = 0.0) -> Point:
    """Pattern of alternating colours, period 2 pi / (x, y, z) in the part's own coordinates."""
    return (x, y, z, 0.0, phase)


def turn(yaw: float = 0.0, pitch: float = 0.0, roll: float = 0.0) -> np.ndarray:
    """Rotation f64[3, 3]: roll (left side up), then pitch (nose up), then yaw (left); degrees."""
    (cy, cp, cr), (sy, sp, sr) = (f(np.radians([yaw, pitch, roll])) for f in (np.cos, np.sin))
    yaw_m = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    pitch_m = np.array([[cp, 0, -sp], [0, 1, 0], [sp, 0, cp]])
    roll_m = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    return yaw_m @ pitch_m @ roll_m


def moved(point: Point, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    """Returns the point moved by (x, y, z)."""
    return np.asarray(point, float) + np.array([x, y, z])


def along(direction: Point) -> np.ndarray:
    """Returns a rotation f64[3, 3] whose third column points along `direction`."""
    z = np.array(direction, float) / np.linalg.norm(direction)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def limb(start: Point, end: Point, radius: float, colour: np.ndarray) -> Part:
    """Makes a capsule around the segment from `start` to `end`."""
    start, end = np.array(start, float), np.array(end, float)
    size = (radius, radius, float(np.linalg.norm(end - start)) / 2 + radius)
    return Part("capsule", (start + end) / 2, size, colour, along(end - start))


def wheel(center: Point, radius: float, width: float, hub: np.ndarray) -> Part:
    """Makes a black wheel around the y axis with a hub of another colour."""
    tyre, size = np.full(3, 0.07), (radius, radius, width / 2)
    return Part("cylinder", center, size, tyre, along((0, 1, 0)), hub, spot(0.55))


def _surface_points(part: Part) -> np.ndarray:
    """Returns world points [n, 3] whose hull is the part's, up to 2 % for round parts."""
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    height = {"ellipsoid": np.linspace(-1, 1, 17), "capsule": np.linspace(-1, 1, 17)}
    z = height.get(part.kind, np.array([-1.0, 1.0]))[:, None]
    if part.kind == "box":
        points = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=-1).reshape(-1, 3)
    else:
        radius = np.ones_like(z) if part.kind == "cylinder" else np.sqrt(1 - z**2)
        points = np.stack(
            np.broadcast_arrays(radius * np.cos(angle), radius * np.sin(angle), z), axis=-1
        ).reshape(-1, 3)
    if part.kind == "capsule":
        straight = np.sign(points[:, 2:]) * np.array([[0, 0, part.size[2] - part.size[0]]])
        return np.array(part.center) + (points * part.size[0] + straight) @ part.rotation.T
    return np.array(part.center) + (points * np.array(part.size)) @ part.rotation.T


def assemble(objects: Sequence[Sequence[Part]]) -> raycast.Bodies:
    """Assembles objects from their parts, on the default device.

    Each object is moved to stand on the ground below the origin and scaled so that it touches the
    unit ball around the centre of its bounding box.

    Args:
        objects: the parts of each object, at most `raycast.SLOTS` of a kind.

    Returns:
        Bodies with a leading axis [objects].

    Raises:
        ValueError: more parts of a kind than slots.
    """
    fields = [_body_fields(parts) for parts in objects]
    return raycast.Bodies(
        *(jnp.asarray(np.stack([f[name] for f in fields])) for name in raycast.Bodies._fields)
    )


def _body_fields(parts: Sequence[Part]) -> dict[str, np.ndarray]:
    """Returns the fields of `raycast.Bodies` for one body."""
    points = np.concatenate([_surface_points(part) for part in parts])
    low, high = points.min(0), points.max(0)
    middle = (low + high) / 2
    scale = 1 / np.linalg.norm(points - middle, axis=1).max()
    ground = np.array([middle[0], middle[1], low[2]])
    return pack(parts, scale, ground, scale * (middle[2] - low[2]))


def slots_of(parts: Sequence[Part]) -> list[int]:
    """Returns the slot of each part: slots of one kind are contiguous, in the order of the parts.

    Raises:
        ValueError: more parts of a kind than slots.
    """
    free = [sum(raycast.SLOTS[:kind]) for kind in range(len(raycast.KINDS))]
    slots = []
    for part in parts:
        kind = raycast.KINDS.index(part.kind)
        slots.append(free[kind])
        free[kind] += 1
    for kind, (end, size) in enumerate(zip(free, raycast.SLOTS)):
        used = end - sum(raycast.SLOTS[:kind])
        if used > size:
            raise ValueError(f"{used} parts of kind {raycast.KINDS[kind]}, {size} fit")
    return slots


def pack(
    parts: Sequence[Part], scale: float, ground: np.ndarray, height: float
) -> dict[str, np.ndarray]:
    """Returns the fields of `raycast.Bodies` for parts moved by -ground, then scaled.

    Args:
        parts: at most `raycast.SLOTS` of a kind.
        scale: factor on all lengths.
        ground: f64[3], the point that becomes the origin.
        height: of the camera's target.
    """
    fields: dict[str, np.ndarray] = {
        "used": np.zeros(len(raycast.KINDS), np.int32),
        "center": np.zeros((raycast.NUM_SLOTS, 3), np.float32),
        "to_local": np.zeros((raycast.NUM_SLOTS, 3, 3), np.float32),
        "half_length": np.zeros(raycast.NUM_SLOTS, np.float32),
        "albedo": np.zeros((raycast.NUM_SLOTS, 2, 3), np.float32),
        "pattern": np.zeros((raycast.NUM_SLOTS, 5), np.float32),
        "height": np.array(height, np.float32),
    }
    for part, slot in zip(parts, slots_of(parts)):
        fields["used"][raycast.KINDS.index(part.kind)] += 1
        _fill_slot(fields, slot, part, scale, ground)
    return fields


def _fill_slot(
    fields: dict[str, np.ndarray], slot: int, part: Part, scale: float, ground: np.ndarray
) -> None:
    size = np.array(part.size, float)
    if part.kind == "capsule":
        fields["half_length"][slot] = size[2] / size[0] - 1
        size = np.full(3, size[0])
    fields["center"][slot] = scale * (np.array(part.center) - ground)
    fields["to_local"][slot] = part.rotation.T / (scale * size)[:, None]
    fields["albedo"][slot] = [part.colour, part.colour if part.second is None else part.second]
    fields["pattern"][slot] = part.pattern
