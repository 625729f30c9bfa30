"""A small ray caster over analytic primitives, in pure JAX: `vmap` over images, any resolution.

A scene is one body (a union of rigidly posed ellipsoids, boxes, cylinders and capsules) on the
ground plane z = 0, one distant light with a cast shadow, and a pinhole camera that looks at the
body's centre. Rays are tested in each primitive's local coordinates (the affine map `to_local`),
in which it is a unit shape. Slots of one kind are contiguous, and the loop over a kind ends at the
last used slot, so no ray is tested against the wrong formula or an empty slot.

Shape letters: B images, R rays, S primitive slots, C colour channels. Vectors in the inner loops
are tuples of three arrays, which XLA fuses into one pass over the rays.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
Vector = tuple[Array, Array, Array]

KINDS = ("ellipsoid", "box", "cylinder", "capsule")
SLOTS = (10, 12, 8, 12)  # largest number of primitives of each kind in a body
NUM_SLOTS = sum(SLOTS)

CAMERA_DISTANCE = 5.0  # from the centre of the body, which fits into the unit ball around it
HALF_WIDTH = 0.225  # of the image at depth 1; the unit ball projects to 0.204, 91 % of it
SHADOW_BIAS = 1e-3  # shadow rays ignore hits before this distance
GROUND_ALBEDO = 0.8
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601 weights of grey


class Bodies(NamedTuple):
    """Bodies as padded arrays with any leading axes (written [] here); see `KINDS`, `SLOTS`.

    Attributes:
        used: i32[4], number of used slots of each kind; they are the first of the kind's slots.
        center: f32[S, 3], the primitive's centre; z = 0 is the ground, x forward, y left.
        to_local: f32[S, 3, 3], maps (point - center) to the unit shape: the unit ball; the cube
            [-1, 1]^3; the cylinder x^2 + y^2 <= 1, |z| <= 1; a capsule of radius 1 round |z| <= h.
        half_length: f32[S], h of capsules.
        albedo: f32[S, 2, 3], two RGB colours in [0, 1].
        pattern: f32[S, 5], (k, q, phase): the second colour shows at the local point p where
            sin(k . p + q (p_x^2 + p_y^2) + phase) > 0.
        height: f32[], height of the body's centre above the ground: the camera's target.
    """

    used: Array
    center: Array
    to_local: Array
    half_length: Array
    albedo: Array
    pattern: Array
    height: Array


class Light(NamedTuple):
    """A distant lamp and the sky; any leading axes.

    Attributes:
        direction: f32[3], unit vector towards the lamp.
        lamp: f32[], radiance of a white surface that faces the lamp.
        sky: f32[], radiance that the shadowless sky adds to a white surface that faces up.
    """

    direction: Array
    lamp: Array
    sky: Array


def _dot(a: Vector, b: Vector) -> Array:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _reciprocal(x: Array) -> Array:
    return 1.0 / jnp.where(jnp.abs(x) < 1e-9, 1e-9, x)


def _slab(o: Array, d: Array) -> tuple[Array, Array]:
    """Returns the interval of ray parameters within |coordinate| <= 1."""
    r = _reciprocal(d)
    return -o * r - jnp.abs(r), -o * r + jnp.abs(r)


def _first_root(a: Array, b: Array, c: Array) -> Array:
    """Returns the smaller root of a t^2 + 2 b t + c, inf if it has none."""
    discriminant = b * b - a * c
    root = (-b - jnp.sqrt(jnp.maximum(discriminant, 0.0))) / a
    return jnp.where(discriminant > 0.0, root, jnp.inf)


def _enter_ellipsoid(o: Vector, d: Vector, half_length: Array) -> Array:
    return _first_root(_dot(d, d), _dot(o, d), _dot(o, o) - 1.0)


def _enter_box(o: Vector, d: Vector, half_length: Array) -> Array:
    slabs = [_slab(o[i], d[i]) for i in range(3)]
    near = functools.reduce(jnp.maximum, [slab[0] for slab in slabs])
    far = functools.reduce(jnp.minimum, [slab[1] for slab in slabs])
    return jnp.where(near < far, near, jnp.inf)


def _side(o: Vector, d: Vector) -> tuple[Array, Array, Array]:
    """Coefficients (a, b, c) of `_first_root` for the infinite unit cylinder around z."""
    a = jnp.maximum(d[0] * d[0] + d[1] * d[1], 1e-12)
    return a, o[0] * d[0] + o[1] * d[1], o[0] * o[0] + o[1] * o[1] - 1.0


def _enter_cylinder(o: Vector, d: Vector, half_length: Array) -> Array:
    a, b, c = _side(o, d)
    discriminant = b * b - a * c
    root = jnp.sqrt(jnp.maximum(discriminant, 0.0))
    near, far = _slab(o[2], d[2])
    near, far = jnp.maximum(near, (-b - root) / a), jnp.minimum(far, (-b + root) / a)
    return jnp.where((discriminant > 0.0) & (near < far), near, jnp.inf)


def _enter_capsule(o: Vector, d: Vector, half_length: Array) -> Array:
    a, b, c = _side(o, d)
    side = _first_root(a, b, c)
    z = o[2] + side * d[2]
    # A ray that misses the infinite cylinder has z = +-inf (or nan) and side = inf: no cap either.
    cap = o[2] - jnp.where(z > 0.0, half_length, -half_length)
    ends = _first_root(a + d[2] * d[2], b + cap * d[2], c + cap * cap)
    return jnp.where(jnp.isinf(side) | (jnp.abs(z) <= half_length), side, ends)


_ENTER = (_enter_ellipsoid, _enter_box, _enter_cylinder, _enter_capsule)


def _geometry(body: Bodies) -> Array:
    """Concatenates (center, to_local, half_length) of every slot: f32[S, 13]."""
    to_local = body.to_local.reshape(NUM_SLOTS, 9)
    return jnp.concatenate([body.center, to_local, body.half_length[:, None]], axis=1)


def _point_to_local(row: Array, p: Vector) -> Vector:
    """Maps a point to the local coordinates of a slot, given its row of `_geometry`."""
    return _direction_to_local(row, (p[0] - row[0], p[1] - row[1], p[2] - row[2]))


def _direction_to_local(row: Array, d: Vector) -> Vector:
    x, y, z = (_dot((row[3 + i], row[4 + i], row[5 + i]), d) for i in (0, 3, 6))
    return x, y, z


def _try_slot(
    rows: Array, enter: Callable[..., Array], ray: tuple[Vector, Vector, float], end: Array,
    slot: Array, nearest: tuple[Array, Array],
) -> tuple[Array, Array]:  # fmt: skip
    """Updates the nearest hit (t, slot) with the entry into a slot; slots from `end` are unused."""
    o, d, minimum = ray
    row = rows[slot]
    t = enter(_point_to_local(row, o), _direction_to_local(row, d), row[12])
    hit = (t > minimum) & (t < nearest[0]) & (slot < end)
    return jnp.where(hit, t, nearest[0]), jnp.where(hit, slot, nearest[1])


def trace(
    body: Bodies, slots: Array, o: Vector, d: Vector, minimum: float = 0.0
) -> tuple[Array, Array]:
    """Follows rays o + t d to the first primitive they enter.

    Args:
        body: one body (no leading axes).
        slots: i32[4], number of slots of each kind to try, at least `body.used`. It must not be
            mapped by `vmap`, so that the loops of a batch of images have one bound.
        o: origins, three arrays [R] or [].
        d: directions, three arrays [R] or []; any length, t is in units of it.
        minimum: entries at t <= minimum do not count.

    Returns:
        (t, slot): f32[R] and i32[R]; t is inf and slot 0 for rays that hit nothing.
    """
    rows = _geometry(body)
    # Inside `shard_map` a loop's carry must vary over devices as rays and bodies do from the start.
    never = jnp.isnan(o[0] + d[0] + rows[0, 0]) & False
    nearest = (jnp.where(never, 0.0, jnp.inf), never.astype(jnp.int32))
    for kind, enter in enumerate(_ENTER):
        start = sum(SLOTS[:kind])
        test = functools.partial(_try_slot, rows, enter, (o, d, minimum), start + body.used[kind])
        nearest = jax.lax.fori_loop(start, start + slots[kind], test, nearest)
    return nearest


def _local_normal(kind: Array, p: Vector, half_length: Array) -> Vector:
    """Returns outward normals of any length at surface points of the unit shapes."""
    x, y, z = p
    ax, ay, az = jnp.abs(x), jnp.abs(y), jnp.abs(z)
    on_x, on_y = (ax >= ay) & (ax >= az), (ay > ax) & (ay >= az)
    box = (jnp.where(on_x, x, 0.0), jnp.where(on_y, y, 0.0), jnp.where(on_x | on_y, 0.0, z))
    on_end = z * z > x * x + y * y
    cylinder = (jnp.where(on_end, 0.0, x), jnp.where(on_end, 0.0, y), jnp.where(on_end, z, 0.0))
    capsule = (x, y, z - jnp.clip(z, -half_length, half_length))
    choices = (p, box, cylinder, capsule)
    return tuple(jax.lax.select_n(kind, *(c[i] for c in choices)) for i in range(3))  # type: ignore[return-value]


def _surface(body: Bodies, slot: Array, p: Vector) -> tuple[Vector, Array]:
    """Returns unit normals (three [R]) and albedo f32[C, R] of the slots' surfaces at points p."""
    kinds = jnp.asarray(np.repeat(np.arange(4), SLOTS), jnp.float32)[:, None]
    columns = [_geometry(body), body.pattern, kinds, body.albedo.reshape(NUM_SLOTS, -1)]
    row = jnp.concatenate(columns, axis=1)[slot].T  # one gather of a whole row per ray
    x, y, z = _point_to_local(row, p)
    local = _local_normal(row[18].astype(jnp.int32), (x, y, z), row[12])
    # Normals are covariant: gradients of f(M p) are M^T (grad f)(M p).
    normal = [_dot(local, (row[3 + j], row[6 + j], row[9 + j])) for j in range(3)]
    scale = jax.lax.rsqrt(_dot(normal, normal) + 1e-20)  # type: ignore[arg-type]
    wave = row[13] * x + row[14] * y + row[15] * z + row[16] * (x * x + y * y) + row[17]
    second = jax.nn.sigmoid(16.0 * jnp.sin(wave))[None]
    first_albedo, second_albedo = jnp.split(row[19:], 2)
    albedo = first_albedo + (second_albedo - first_albedo) * second
    return (normal[0] * scale, normal[1] * scale, normal[2] * scale), albedo


def _camera(height: Array, elevation: Array, azimuth: Array, offset: float) -> tuple[Array, ...]:
    """Returns origin, forward, right and up (f32[3] each) of a camera moved right by `offset`."""
    ce, se = jnp.cos(elevation), jnp.sin(elevation)
    back = jnp.stack([ce * jnp.cos(azimuth), ce * jnp.sin(azimuth), se])
    right = jnp.stack([-jnp.sin(azimuth), jnp.cos(azimuth), jnp.zeros_like(se)])
    shift = CAMERA_DISTANCE * back + offset * right
    forward = -shift / jnp.linalg.norm(shift)  # a moved camera still looks at the target
    right = jnp.cross(forward, jnp.array([0.0, 0.0, 1.0]))
    right = right / jnp.linalg.norm(right)
    target = jnp.stack([jnp.zeros_like(height), jnp.zeros_like(height), height])
    return target + shift, forward, right, jnp.cross(right, forward)


def _primary_rays(
    height: Array, elevation: Array, azimuth: Array, side: int, offset: float
) -> tuple[Vector, Vector]:
    """Returns the camera rays of a side x side image, row by row; t is depth along the axis."""
    origin, forward, right, up = _camera(height, elevation, azimuth, offset)
    grid = HALF_WIDTH * ((jnp.arange(side) + 0.5) * (2.0 / side) - 1.0)
    x_R, y_R = jnp.tile(grid, side), jnp.repeat(-grid, side)
    d = tuple(forward[i] + x_R * right[i] + y_R * up[i] for i in range(3))
    return (origin[0], origin[1], origin[2]), d  # type: ignore[return-value]


def _shade(body: Bodies, slots: Array, light: Light, o: Vector, d: Vector) -> Array:
    """Returns the radiance f32[C, R] of camera rays: Lambert's law, one shadow ray, a sky."""
    t, slot = trace(body, slots, o, d)
    t_ground = -o[2] / d[2]
    on_ground = ~(t < t_ground)
    t = jnp.where(on_ground, t_ground, t)
    p = (o[0] + t * d[0], o[1] + t * d[1], o[2] + t * d[2])
    normal, albedo = _surface(body, slot, p)
    normal = tuple(jnp.where(on_ground, float(i == 2), normal[i]) for i in range(3))  # type: ignore[assignment]
    ground = GROUND_ALBEDO / (1.0 + 0.02 * (p[0] * p[0] + p[1] * p[1]))  # a soft vignette
    albedo = jnp.where(on_ground[None], ground[None], albedo)
    towards = (light.direction[0], light.direction[1], light.direction[2])
    blocked, _ = trace(body, slots, p, towards, SHADOW_BIAS)
    direct = jnp.where(jnp.isinf(blocked), jnp.maximum(_dot(normal, towards), 0.0), 0.0)
    return albedo * (light.lamp * direct + light.sky * (0.7 + 0.3 * normal[2]))[None]


def _image(
    scene: tuple[Bodies, Array, Array, Light], slots: Array, size: int, samples: int, offset: float
) -> Array:
    """Renders one image f32[size, size, C] in [0, 1]; a pixel averages samples x samples rays."""
    body, elevation, azimuth, light = scene
    rays = _primary_rays(body.height, elevation, azimuth, size * samples, offset)
    colour = _shade(body, slots, light, *rays)
    fine = jnp.clip(colour, 0.0, 1.0).reshape(-1, size, samples, size, samples)
    return fine.mean((2, 4)).transpose(1, 2, 0)


def rays_at_once() -> int:
    """Number of rays to trace together: as many as fit a CPU's cache or fill an accelerator."""
    return 2**15 if jax.default_backend() == "cpu" else 2**23


@functools.partial(
    jax.jit, static_argnames=("image_size", "channels", "samples", "baseline", "rays")
)
def render(
    bodies: Bodies,
    elevation_B: Array,
    azimuth_B: Array,
    light_B: Light,
    *,
    image_size: int,
    channels: int = 1,
    samples: int = 1,
    baseline: float = 0.0,
    rays: int | None = None,
) -> Array:
    """Renders B images, each of its own body, camera and light.

    Images of bodies of one category should be adjacent: images that are traced together take as
    many steps as the body with the most parts needs.

    Args:
        bodies: with one leading axis [B].
        elevation_B: f32[B], the camera's elevation over the ground in radians.
        azimuth_B: f32[B], the camera's azimuth in radians: 0 looks at the body's front (its +x
            side), growing counter-clockwise as seen from above.
        light_B: with one leading axis [B]; directions are in the body's frame.
        image_size: H = W in pixels.
        channels: 1 (grey: BT.601 luma of the albedo) or 3 (RGB).
        samples: a pixel is the mean of samples x samples rays.
        baseline: if not 0, distance of a second camera to the right of the first, in units of the
            body's radius, looking at the same target; its channels follow the first camera's.
        rays: bound on the rays traced at once (at least one image), `rays_at_once()` by default.

    Returns:
        f32[B, H, W, C] in [0, 1]; C = channels, or 2 channels with a baseline.
    """
    if channels == 1:
        grey = jnp.einsum("bskc,c->bsk", bodies.albedo, jnp.asarray(LUMA), precision="highest")
        bodies = bodies._replace(albedo=grey[..., None])

    def render_chunk(scenes: tuple[Bodies, Array, Array, Light]) -> Array:
        slots = jnp.max(scenes[0].used, axis=0)
        offsets = (0.0, baseline) if baseline else (0.0,)
        one = functools.partial(_image, slots=slots, size=image_size, samples=samples)
        views = [jax.vmap(functools.partial(one, offset=offset))(scenes) for offset in offsets]
        return jnp.concatenate(views, axis=-1)

    scenes = (bodies, elevation_B, azimuth_B, light_B)
    chunk = (rays or rays_at_once()) // (image_size * samples) ** 2
    return _map_chunks(render_chunk, scenes, chunk)


def _map_chunks(function: Callable[..., Array], tree: Any, size: int) -> Array:
    """Applies a function of a batch to chunks of `size`, clipped to [1, B], one after another."""
    total = jax.tree.leaves(tree)[0].shape[0]
    size = max(1, min(size, total))
    chunks = -(-total // size)  # the last one is padded
    rows = jnp.minimum(jnp.arange(chunks * size), total - 1)
    chunked = jax.tree.map(lambda x: x[rows].reshape(chunks, size, *x.shape[1:]), tree)
    result = jax.lax.map(function, chunked)
    return result.reshape(chunks * size, *result.shape[2:])[:total]
