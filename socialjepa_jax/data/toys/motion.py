"""Scenes whose state moves: latents z -> posed bodies and a lamp -> the image of each camera.

A latent is squashed smoothly into the range of what it moves: a position, a heading within a
sector, a height, a size, the azimuth of the lamp, a joint of a two-link arm. A camera is a fixed
point of view, so an image is a deterministic function of the state (`render`), except for flicker:
the exposure and colour cast of every image, drawn independently for each image and camera.

Shape key: B images, L latents, O moving objects, S primitive slots, H height, W width, C channels.
"""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.data.toys import parts, raycast
from socialjepa_jax.data.toys.parts import Part
from socialjepa_jax.errors import InputError, check_in_range, check_positive

SOFTNESS = 2.5  # standard deviations of z at which a latent has moved 76 % of its range
RANGES = {  # of each kind of latent, on both sides of its middle
    "x": 0.55,  # position, in units of the half width of the image
    "y": 0.55,
    "yaw": np.radians(75.0),  # heading
    "height": 0.22,  # above the ground; the middle is as high
    "size": 0.35,  # relative
    "lamp": np.radians(60.0),  # azimuth of the lamp
    "shoulder": np.radians(150.0),
    "elbow": np.radians(120.0),
}
PER_OBJECT = ("x", "y", "yaw", "height", "size")
ARM = ("shoulder", "elbow")
MAX_LATENTS, MAX_OBJECTS, MAX_OCCLUDERS = 8, 4, 3
_NAME = re.compile(r"([a-z]+)([2-4]?)")
_HIDDEN = -50.0  # below the ground, where no ray arrives
_LAMP_ELEVATION, _LAMP_AZIMUTH = np.radians(55.0), 0.0
_TARGET_HEIGHT = 0.2
_UPPER, _LOWER = 0.42, 0.36  # lengths of the arm's links
_BODIES = (  # body, cabin and nose of each object
    ((0.80, 0.16, 0.12), (0.12, 0.25, 0.75), (0.98, 0.85, 0.10)),
    ((0.10, 0.55, 0.25), (0.85, 0.45, 0.10), (0.95, 0.95, 0.95)),
    ((0.45, 0.15, 0.60), (0.10, 0.65, 0.65), (0.95, 0.75, 0.70)),
    ((0.20, 0.20, 0.22), (0.90, 0.85, 0.80), (0.90, 0.15, 0.25)),
)


def toy(number: int, twin: bool = False) -> list[Part]:
    """Returns the parts of a toy car, 0.74 long, that differs from itself under every rotation.

    Args:
        number: 0 to 3, its colours.
        twin: colours of toy 0, so that objects look alike.
    """
    body, cabin, nose = (np.array(colour) for colour in _BODIES[0 if twin else number])
    return [
        Part("box", (0.0, 0.0, 0.12), (0.34, 0.17, 0.11), body),
        Part("box", (-0.13, 0.0, 0.31), (0.15, 0.14, 0.09), cabin),
        Part("ellipsoid", (0.31, 0.0, 0.16), (0.10, 0.10, 0.10), nose),
    ]


def cube() -> list[Part]:
    """Returns a plain cube; a quarter turn maps it to itself, so its heading is lost."""
    return [Part("box", (0.0, 0.0, 0.22), (0.22, 0.22, 0.22), np.array(_BODIES[0][0]))]


def _arm() -> tuple[list[Part], list[Part]]:
    """Returns the links of the arm, each lying along x from its own joint at the origin."""
    upper, lower = np.array((0.80, 0.16, 0.12)), np.array((0.12, 0.25, 0.75))
    hand = Part("ellipsoid", (_LOWER, 0.0, 0.12), (0.09, 0.09, 0.09), np.array((0.98, 0.85, 0.1)))
    return (
        [parts.limb((0.0, 0.0, 0.12), (_UPPER, 0.0, 0.12), 0.07, upper)],
        [parts.limb((0.0, 0.0, 0.12), (_LOWER, 0.0, 0.12), 0.055, lower), hand],
    )


@dataclasses.dataclass(frozen=True)
class Scene:
    """What moves in a world, and what stands in the way.

    Attributes:
        latents: names of what each latent moves, out of `RANGES`; a digit names the second to
            fourth object, as in "x2". "shoulder" and "elbow" move an arm instead of a toy.
        shape: "toy" | "twins" (all toys look alike) | "cube" (headings are symmetric).
        occluders: pillars that stand between the objects, 0 to 3.
        private: for each camera one more latent, whose ball this camera alone sees. Private
            latents follow the shared ones.
        radians: () for joints that end at their `RANGES`, or of each joint the angle at z = 1: it
            turns without end, in proportion to z.
    """

    latents: tuple[str, ...] = ("x", "y", "yaw")
    shape: str = "toy"
    occluders: int = 0
    private: bool = False
    radians: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.latents) <= MAX_LATENTS:
            raise InputError(f"latents={self.latents} must be 1 to {MAX_LATENTS} names")
        if len(set(self.latents)) < len(self.latents):
            raise InputError(f"latents={self.latents} must be distinct")
        for name in self.latents:
            kind, number = self._split(name)
            if kind not in RANGES or (number and kind not in PER_OBJECT):
                known = ", ".join(RANGES)
                raise InputError(f"latents={name!r} is not one of {known}, with 2 to 4 for others")
        if self.has_arm and any(self._split(name)[0] in PER_OBJECT for name in self.latents):
            raise InputError(f"latents={self.latents}: an arm is alone in its scene")
        if self.shape not in ("toy", "twins", "cube"):
            raise InputError(f"shape={self.shape!r} must be one of 'toy', 'twins', 'cube'")
        check_in_range(0, MAX_OCCLUDERS, occluders=self.occluders)
        joints = sum(name in ARM for name in self.latents)
        if len(self.radians) not in (0, joints):
            raise InputError(f"radians={self.radians} must be () or one angle for each joint")
        for radians in self.radians:
            check_positive(radians=radians)

    @staticmethod
    def _split(name: str) -> tuple[str, str]:
        match = _NAME.fullmatch(name)
        return (match[1], match[2]) if match else (name, "")

    @property
    def _toys(self) -> tuple[int, ...]:
        """Numbers of the toys; (0,) without latents of a toy."""
        kinds = [self._split(name) for name in self.latents]
        return tuple(sorted({int(n or 1) - 1 for kind, n in kinds if kind in PER_OBJECT} | {0}))

    @property
    def has_arm(self) -> bool:
        """True if the scene shows an arm."""
        return any(name in ARM for name in self.latents)

    def _objects(self, cameras: int) -> list[list[Part]]:
        """Returns the parts of what moves on its own, then of what stands still."""
        if self.has_arm:
            moving: list[list[Part]] = list(_arm())
        else:
            shape = self.shape
            moving = [cube() if shape == "cube" else toy(i, shape == "twins") for i in self._toys]
        ball = np.array((0.95, 0.55, 0.05))
        balls = [
            [Part("ellipsoid", (0.0, 0.0, 0.1), (0.1, 0.1, 0.1), ball)] for _ in range(cameras)
        ]
        places = np.radians(np.array([200.0, 320.0, 80.0])[: self.occluders])
        pillars = [
            Part("cylinder", (0.35 * np.cos(a), 0.35 * np.sin(a), 0.3), (0.08, 0.08, 0.3),
                 np.full(3, 0.45))
            for a in places
        ]  # fmt: skip
        return [*moving, *(balls if self.private else []), pillars]

    def template(self, cameras: int) -> tuple[raycast.Bodies, np.ndarray]:
        """Returns the bodies at rest and the object i32[S] that each slot belongs to.

        Args:
            cameras: number of cameras, each with a ball if the scene has private latents.
        """
        objects = self._objects(cameras)
        every = [part for each in objects for part in each]
        fields = parts.pack(every, 1.0, np.zeros(3), _TARGET_HEIGHT)
        owner = np.full(raycast.NUM_SLOTS, len(objects) - 1, np.int32)
        owner[parts.slots_of(every)] = [i for i, each in enumerate(objects) for _ in each]
        return raycast.Bodies(**{name: jnp.asarray(field) for name, field in fields.items()}), owner

    def poses(
        self, z_L: jax.Array, camera: jax.Array, cameras: int
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns rotations f32[O, 3, 3], scales f32[O] and translations f32[O, 3] of a state.

        Args:
            z_L: latents, shared ones first.
            camera: i32[], which camera sees its own ball.
            cameras: number of cameras.
        """
        moved = {
            name: RANGES[self._split(name)[0]] * jnp.tanh(z_L[i] / SOFTNESS)
            for i, name in enumerate(self.latents)
        }
        joints = [i for i, name in enumerate(self.latents) if name in ARM]
        moved |= {self.latents[i]: angle * z_L[i] for i, angle in zip(joints, self.radians)}
        rows = (
            self._arm_poses(moved)
            if self.has_arm
            else [self._toy_pose(moved, i, place) for place, i in enumerate(self._toys)]
        )
        if self.private:
            for k in range(cameras):
                along = 0.6 * jnp.tanh(z_L[len(self.latents) + k] / SOFTNESS)
                depth = jnp.where(camera == k, 0.0, _HIDDEN)
                rows.append((_turn(0.0), jnp.float32(1.0), jnp.stack([along, -0.75, depth])))
        rows.append((_turn(0.0), jnp.float32(1.0), jnp.zeros(3)))
        rotation, scale, translation = (jnp.stack(part) for part in zip(*rows))
        return rotation, scale, translation

    def _toy_pose(
        self, moved: dict[str, jax.Array], number: int, place: int
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Returns the pose of a toy, whose home is one of as many places on a circle as toys."""
        end = "" if number == 0 else str(number + 1)
        zero = jnp.zeros(())
        home = 0.0 if len(self._toys) == 1 else 0.35
        angle = 2.0 * np.pi * place / len(self._toys)
        x = home * np.cos(angle) + moved.get(f"x{end}", zero)
        y = home * np.sin(angle) + moved.get(f"y{end}", zero)
        lifted = f"height{end}" in moved
        height = moved.get(f"height{end}", zero) + (RANGES["height"] if lifted else 0.0)
        scale = 1.0 + moved.get(f"size{end}", zero)
        return _turn(moved.get(f"yaw{end}", zero)), scale, jnp.stack([x, y, height])

    def _arm_poses(
        self, moved: dict[str, jax.Array]
    ) -> list[tuple[jax.Array, jax.Array, jax.Array]]:
        shoulder = moved.get("shoulder", jnp.zeros(()))
        both = shoulder + moved.get("elbow", jnp.zeros(()))
        joint = jnp.stack([_UPPER * jnp.cos(shoulder), _UPPER * jnp.sin(shoulder), jnp.zeros(())])
        one = jnp.float32(1.0)
        return [(_turn(shoulder), one, jnp.zeros(3)), (_turn(both), one, joint)]

    def light(self, z_L: jax.Array) -> raycast.Light:
        """Returns the lamp of a state."""
        azimuth = jnp.float32(_LAMP_AZIMUTH)
        if "lamp" in self.latents:
            z = z_L[self.latents.index("lamp")]
            azimuth += RANGES["lamp"] * jnp.tanh(z / SOFTNESS)
        flat, up = np.cos(_LAMP_ELEVATION), np.sin(_LAMP_ELEVATION)
        direction = jnp.stack([flat * jnp.cos(azimuth), flat * jnp.sin(azimuth), jnp.float32(up)])
        return raycast.Light(direction, jnp.float32(0.7), jnp.float32(0.38))


def _turn(yaw: jax.typing.ArrayLike) -> jax.Array:
    """Returns the rotation f32[3, 3] by an angle around the vertical."""
    c, s = jnp.cos(yaw), jnp.sin(yaw)
    zero, one = jnp.zeros_like(c), jnp.ones_like(c)
    return jnp.stack([c, -s, zero, s, c, zero, zero, zero, one]).reshape(3, 3)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A scene and its cameras: the map from states to images.

    Attributes:
        scene: what moves.
        azimuths: of the cameras, degrees.
        elevation: of the cameras, degrees.
        image_size: H = W, pixels.
        channels: 1 or 3.
        samples: a pixel is the mean of samples x samples rays.
    """

    scene: Scene
    azimuths: tuple[float, ...]
    elevation: float
    image_size: int
    channels: int
    samples: int

    @functools.partial(jax.jit, static_argnums=0)
    def render(self, z_BL: jax.Array, camera: jax.Array) -> jax.Array:
        """Renders states as one camera sees them; pure.

        Args:
            z_BL: f32[B, L], standard latents.
            camera: i32[], may be traced.

        Returns:
            f32[B, H, W, C] in [0, 1].
        """
        cameras = len(self.azimuths)
        template, owner = self.scene.template(cameras)

        def place(z_L: jax.Array) -> tuple[raycast.Bodies, raycast.Light]:
            rotation, scale, translation = (
                pose[owner] for pose in self.scene.poses(z_L, camera, cameras)
            )
            # A TPU's default, bfloat16, would round poses to 8 bits: 0.2 % of the pixels differ.
            multiply = functools.partial(jnp.einsum, precision="highest")
            center = multiply("sij,sj->si", rotation, template.center) * scale[:, None]
            to_local = multiply("sij,skj->sik", template.to_local, rotation)
            placed = template._replace(
                center=center + translation, to_local=to_local / scale[:, None, None]
            )
            return placed, self.scene.light(z_L)

        bodies, lights = jax.vmap(place)(z_BL)
        azimuth = jnp.radians(jnp.asarray(self.azimuths, jnp.float32))[camera]
        ones = jnp.ones(len(z_BL))
        return raycast.render(
            bodies,
            ones * np.radians(self.elevation),
            ones * azimuth,
            lights,
            image_size=self.image_size,
            channels=self.channels,
            samples=self.samples,
        )


def flicker(images_BHWC: jax.Array, keys_B: jax.Array, strength: jax.typing.ArrayLike) -> jax.Array:
    """Multiplies each image by its own exposure and each channel by its own colour cast.

    The logarithm of a channel's gain is normal with standard deviation `strength`; half of its
    variance is the exposure, which the channels share.

    Args:
        images_BHWC: f32 in [0, 1].
        keys_B: one key for each image.
        strength: standard deviation; 0 returns the images.
    """

    def gains(key: jax.Array) -> jax.Array:
        draws = jax.random.normal(key, (images_BHWC.shape[-1] + 1,))
        return jnp.exp(strength * np.sqrt(0.5) * (draws[0] + draws[1:]))

    return jnp.clip(images_BHWC * jax.vmap(gains)(keys_B)[:, None, None], 0.0, 1.0)


def quantise(images: jax.Array) -> jax.Array:
    """Rounds images in [0, 1] to uint8."""
    return (images * 255.0 + 0.5).astype(jnp.uint8)
