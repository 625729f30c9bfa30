"""The ray caster against float64 oracles: convex search, closed forms, a second tracer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from socialjepa_jax.data.toys import raycast
from socialjepa_jax.data.toys.parts import stripes

trace = jax.jit(raycast.trace)
EMPTY_PATTERN = (0, 0, 0, 0, -np.pi / 2)


def make_body(
    kind, center, size, rotation=None, colours=(1.0, 1.0), pattern=EMPTY_PATTERN, height=None
):
    """One primitive as a batch of one body; `size` are half extents (a capsule's with caps)."""
    slots = raycast.NUM_SLOTS
    index = raycast.KINDS.index(kind)
    slot = sum(raycast.SLOTS[:index])
    rotation = np.eye(3) if rotation is None else rotation
    half = np.array([size[0]] * 3 if kind == "capsule" else size)
    used = np.zeros(4, np.int32)
    used[index] = 1
    center_S3, to_local = np.zeros((slots, 3)), np.zeros((slots, 3, 3))
    half_length, albedo, patterns = np.zeros(slots), np.zeros((slots, 2, 3)), np.zeros((slots, 5))
    center_S3[slot], to_local[slot] = center, rotation.T / half[:, None]
    half_length[slot] = size[2] / size[0] - 1
    albedo[slot] = np.broadcast_to(np.reshape(colours, (2, -1)), (2, 3))
    patterns[slot] = pattern
    height = center[2] if height is None else height
    fields = (center_S3, to_local, half_length, albedo, patterns, np.array(height))
    return raycast.Bodies(
        jnp.asarray(used)[None], *(jnp.asarray(f, jnp.float32)[None] for f in fields)
    )


def make_light(direction=(0, 0, 1), lamp=0.0, sky=1.0):
    return raycast.Light(jnp.array([direction], jnp.float32), jnp.array([lamp]), jnp.array([sky]))


def rendered(body, elevation=50.0, azimuth=0.0, light=None, **kwargs):
    angles = (jnp.radians(jnp.array([float(a)])) for a in (elevation, azimuth))
    kwargs = {"image_size": 64} | kwargs
    return np.asarray(raycast.render(body, *angles, light or make_light(), **kwargs))[0]


def emptied(body):
    return body._replace(used=jnp.zeros_like(body.used))


def camera_f64(height, elevation, azimuth, offset=0.0):
    """Position and (right, up, forward) rows of a camera, by its definition."""
    e, a = np.radians([elevation, azimuth])
    target = np.array([0, 0, height])
    back = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    position = target + 5.0 * back + offset * np.array([-np.sin(a), np.cos(a), 0])
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    return position, np.stack([right, np.cross(right, forward), forward])


def project_f64(point, size, *camera):
    """(column, row) in pixels, pixel centres at half-integers."""
    position, axes = camera_f64(*camera)
    x, y, depth = axes @ (np.array(point) - position)
    half = raycast.HALF_WIDTH
    return size * (0.5 + 0.5 * x / depth / half), size * (0.5 - 0.5 * y / depth / half)


GAUGES = {  # convex functions of the own coordinates, negative inside
    "ellipsoid": lambda p, s: np.linalg.norm(p / s, axis=-1) - 1,
    "box": lambda p, s: (np.abs(p) / s).max(-1) - 1,
    "cylinder": lambda p, s: np.maximum(
        np.hypot(p[:, 0] / s[0], p[:, 1] / s[1]), np.abs(p[:, 2]) / s[2]
    ) - 1,
    "capsule": lambda p, s: np.linalg.norm(
        p - np.clip(p[:, 2:], s[0] - s[2], s[2] - s[0]) * np.array([[0, 0, 1]]), axis=-1
    ) / s[0] - 1,
}  # fmt: skip


def entry_f64(gauge, origins, directions):
    """Least value of a convex gauge along each ray, t = 0 ... 20, and where it turns negative."""
    at = lambda t: gauge(origins + t[:, None] * directions)  # noqa: E731
    low, high = np.zeros(len(origins)), np.full(len(origins), 20.0)
    for _ in range(70):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        left = at(first) < at(second)
        low, high = np.where(left, low, first), np.where(left, second, high)
    deepest = (low + high) / 2
    outside, inside = np.zeros_like(deepest), deepest.copy()
    for _ in range(80):
        middle = (outside + inside) / 2
        within = at(middle) < 0
        outside, inside = np.where(within, outside, middle), np.where(within, middle, inside)
    return at(deepest), inside


@pytest.mark.parametrize("kind", raycast.KINDS)
def test_entries_equal_a_float64_search(kind):
    rng = np.random.default_rng(7)
    for _ in range(4):
        size = rng.uniform(0.2, 0.8, 3)
        if kind == "capsule":
            size = np.array([size[0], size[0], size[0] + size[2]])
        rotation = Rotation.random(random_state=rng).as_matrix()
        center = rng.normal(size=3)
        origins = center + 5 * Rotation.random(400, random_state=rng).as_matrix()[:, 0]
        directions = center + rng.normal(scale=0.6, size=(400, 3)) - origins
        directions[:3] = [2.0, 0.5, 1.0] * np.sign((center - origins)[:3, :1]) * rotation[:, 2]
        origins[:3] = center - 4 * directions[:3] + 0.1 * rotation[:, :1].T  # along the axis
        own = lambda p: GAUGES[kind]((p - center) @ rotation, size)  # noqa: B023, E731
        least, expected = entry_f64(own, origins, directions)
        body = jax.tree.map(lambda x: x[0], make_body(kind, center, size, rotation))
        t, slot = trace(
            body, body.used, *(tuple(jnp.asarray(v.T, jnp.float32)) for v in (origins, directions))
        )
        clear = np.abs(least) > 1e-4  # float32 cannot tell on which side a grazing ray passes
        hit = clear & (least < 0)
        assert clear.sum() > 390 and hit.sum() > 50 and (~hit & clear).sum() > 50
        np.testing.assert_array_equal(np.isfinite(t)[clear], hit[clear])
        grazing = least > -0.02  # ill-conditioned: the root's error is that of its square's root
        np.testing.assert_allclose(t[hit & ~grazing], expected[hit & ~grazing], rtol=0, atol=2e-4)
        assert (slot[hit] == sum(raycast.SLOTS[: raycast.KINDS.index(kind)])).all()


def trace_rows(body, origins, directions):
    """`trace` of a few rays, filled up to the number of rays that is already compiled."""
    rays = (np.resize(np.array(v, np.float32), (400, 3)).T for v in (origins, directions))
    t, slot = trace(body, body.used, *(tuple(jnp.asarray(v)) for v in rays))
    return t[: len(origins)], slot[: len(origins)]


def test_rays_away_from_a_shape_or_from_within_it_do_not_enter():
    for kind in raycast.KINDS:
        body = jax.tree.map(lambda x: x[0], make_body(kind, (0, 0, 0), (0.5, 0.5, 0.8)))
        t, _ = trace_rows(body, [(2.0, 0.1, 0.1), (0.0, 0.1, 0.1)], [(1.0, 0.2, 0.1)] * 2)
        assert np.isinf(t).all()


def test_the_nearest_of_several_primitives_wins():
    parts = [make_body(kind, (x, 0, 0), (0.2, 0.2, 0.3)) for x, kind in enumerate(raycast.KINDS)]
    body = jax.tree.map(lambda *leaves: sum(leaf[0] for leaf in leaves), *parts)
    t, slot = trace_rows(body, [(-5, 0, 0), (8, 0, 0)], [(1, 0, 0), (-1, 0, 0)])
    np.testing.assert_allclose(t, [4.8, 4.8], rtol=1e-6)
    assert slot.tolist() == [0, sum(raycast.SLOTS[:3])]


def test_a_ball_stands_at_its_depth():
    body = jax.tree.map(lambda x: x[0], make_body("ellipsoid", (0, 0, 1.5), [0.4] * 3))
    position, axes = camera_f64(1.5, 40, 120)
    t, _ = trace_rows(body, [position], [axes[2]])
    np.testing.assert_allclose(t, [5 - 0.4], rtol=1e-6)


@pytest.mark.parametrize("radius", [0.3, 0.8])
def test_a_ball_covers_the_area_of_its_projection(radius):
    body = make_body("ellipsoid", (0, 0, 1.5), [radius] * 3, colours=(0.0, 0.0))
    dark, bright = rendered(body, samples=4), rendered(emptied(body), samples=4)
    disc = radius / np.sqrt(25 - radius**2) / raycast.HALF_WIDTH  # of half the image's width
    # Counting samples errs by less than one ring of them.
    assert abs((1 - dark / bright).mean() - np.pi / 4 * disc**2) < 2 * np.pi * disc / (2 * 256)


@pytest.mark.parametrize("sun", [(0.0, 0.0, 1.0), (0.48, 0.36, 0.8), (-0.6, 0.5, 0.62449980)])
def test_images_equal_a_float64_tracer(sun):
    """A ball over the ground: Lambert's law on the ball, its cast shadow, the sky, the vignette."""
    size, radius, height, lamp, sky = 64, 0.35, 0.6, 0.6, 0.3
    position, axes = camera_f64(height, 40, 100)
    grid = raycast.HALF_WIDTH * ((np.arange(size) + 0.5) / size * 2 - 1)
    x, y = np.meshgrid(grid, -grid)
    d = np.stack([x, y, np.ones_like(x)], -1) @ axes
    to_center = np.array([0, 0, height]) - position
    along, square = d @ to_center, (d * d).sum(-1)
    gap = along**2 - square * (to_center @ to_center - radius**2)
    on_ball = gap > 0
    t = np.where(on_ball, (along - np.sqrt(np.abs(gap))) / square, -position[2] / d[..., 2])
    p = position + t[..., None] * d
    normal = np.where(on_ball[..., None], (p - [0, 0, height]) / radius, [0, 0, 1.0])
    from_ray = np.cross(np.array([0, 0, height]) - p, sun)  # distance of the centre to the sun ray
    distance = np.linalg.norm(from_ray, axis=-1)
    shadow = ~on_ball & (distance < radius)
    direct = np.where(shadow, 0, np.maximum(normal @ sun, 0))
    albedo = np.where(on_ball, 0.9, 0.8 / (1 + 0.02 * (p[..., :2] ** 2).sum(-1)))
    expected = albedo * (lamp * direct + sky * (0.7 + 0.3 * normal[..., 2]))
    body = make_body("ellipsoid", (0, 0, height), [radius] * 3, colours=(0.9, 0.9))
    actual = rendered(body, 40, 100, make_light(sun, lamp, sky))[..., 0]
    sharp = (np.abs(gap) < 1e-4) | (~on_ball & (np.abs(distance - radius) < 1e-4))
    assert shadow.sum() > 50 and on_ball.sum() > 200 and sharp.sum() < 10
    np.testing.assert_allclose(actual[~sharp], expected[~sharp], rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", raycast.KINDS)
def test_every_kind_casts_a_shadow_and_is_lit_on_top_alone(kind):
    body = make_body(kind, (0, 0, 1.0), (0.3, 0.3, 0.4))
    lit = rendered(body, 70, 0, make_light(lamp=1.0, sky=0.0))
    ground = rendered(emptied(body), 70, 0, make_light(lamp=1.0, sky=0.0))
    spots = {"top": (0.1, 0.0, 1.4), "under": (0.2, 0.15, 0), "beside": (0.8, 0.0, 0)}
    column, row = (
        np.array([project_f64(spot, 64, 1.0, 70, 0)[axis] for spot in spots.values()], int)
        for axis in (0, 1)
    )
    top, under, beside = lit[row, column, 0]
    assert top > 0.8 and under == 0 and beside == ground[row[2], column[2], 0] > 0.7


@pytest.mark.parametrize("kind", raycast.KINDS)
def test_normals_are_the_gauge_s_gradient(kind):
    rng = np.random.default_rng(3)
    size = np.array([0.4, 0.4, 0.9]) if kind == "capsule" else np.array([0.4, 0.6, 0.9])
    rotation = Rotation.random(random_state=rng).as_matrix()
    origins = 4 * Rotation.random(200, random_state=rng).as_matrix()[:, 0]
    directions = rng.normal(scale=0.15, size=(200, 3)) - origins
    gauge = lambda p: GAUGES[kind](p @ rotation, size)  # noqa: E731
    least, t = entry_f64(gauge, origins, directions)
    p = (origins + t[:, None] * directions)[least < -0.05]
    steps = 1e-6 * np.eye(3)
    gradient = np.stack([gauge(p + h) - gauge(p - h) for h in steps], axis=-1)
    gradient /= np.linalg.norm(gradient, axis=-1, keepdims=True)
    body = jax.tree.map(lambda x: x[0], make_body(kind, (0, 0, 0), size, rotation))
    slot = jnp.full(len(p), sum(raycast.SLOTS[: raycast.KINDS.index(kind)]))
    normal, _ = raycast._surface(body, slot, tuple(jnp.asarray(p.T, jnp.float32)))
    assert len(p) > 100
    np.testing.assert_allclose(np.stack(normal, -1), gradient, rtol=0, atol=1e-4)


def test_cameras_see_points_where_a_pinhole_puts_them():
    rng = np.random.default_rng(1)
    for _ in range(5):
        point = rng.uniform(-0.5, 0.5, 3) + np.array([0, 0, 1])
        elevation, azimuth = rng.uniform(30, 70), rng.uniform(0, 360)
        body = make_body("ellipsoid", point, [0.06] * 3, colours=(0.0, 0.0), height=1.0)
        scenes = (
            rendered(b, elevation, azimuth, samples=4, baseline=0.6) for b in (body, emptied(body))
        )
        seen, empty = (np.moveaxis(scene, -1, 0) for scene in scenes)
        for dark, offset in zip(1 - seen / empty, (0.0, 0.6)):
            rows, columns = np.mgrid[:64, :64] + 0.5
            centroid = ((columns * dark).sum() / dark.sum(), (rows * dark).sum() / dark.sum())
            expected = project_f64(point, 64, 1.0, elevation, azimuth, offset)
            np.testing.assert_allclose(centroid, expected, rtol=0, atol=0.25)  # one sample's width


def test_the_second_eye_leaves_the_first_unchanged():
    body = make_body("box", (0.2, 0, 0.5), (0.3, 0.2, 0.5), colours=(0.2, 0.2))
    pair, alone = rendered(body, samples=4, baseline=0.6), rendered(body, samples=4)
    assert pair.shape == (64, 64, 2)
    # Equal but for rounding, which may move a sample on an edge to its other side.
    assert (np.abs(pair[..., :1] - alone) > 1e-5).mean() < 1e-3
    assert np.abs(pair[..., 1:] - alone).max() > 0.3


def test_patterns_show_the_second_colour_where_the_wave_is_positive():
    colours = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    body = make_body("ellipsoid", (0, 0, 1), [0.8] * 3, colours=colours, pattern=stripes(y=2.0))
    red, _, blue = np.moveaxis(rendered(body, channels=3), -1, 0)[:, 32]
    assert (red[16:28] > 0.5).all() and (blue[16:28] < 0.02).all()  # y < 0 is left of the front
    assert (blue[36:48] > 0.5).all() and (red[36:48] < 0.02).all()


def test_grey_is_the_luma_of_rgb():
    colours = ((0.9, 0.4, 0.1), (0.1, 0.3, 0.8))
    body = make_body("box", (0, 0, 0.5), (0.6, 0.4, 0.5), colours=colours, pattern=stripes(z=4.0))
    light = make_light((0.6, 0.0, 0.8), 0.5, 0.3)
    rgb = rendered(body, azimuth=30, light=light, channels=3)
    grey = rendered(body, azimuth=30, light=light)
    np.testing.assert_allclose(grey[..., 0], rgb @ np.array(raycast.LUMA), rtol=0, atol=2e-6)


def test_images_do_not_depend_on_how_many_are_traced_at_once():
    kinds = ("ellipsoid", "box", "cylinder", "capsule", "box")
    made = [make_body(kind, (0.1, 0, 0.6), (0.4, 0.4, 0.6), colours=(0.3, 0.6)) for kind in kinds]
    bodies = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *made)
    elevations, azimuths, light = [35, 40, 50, 60, 70], [0, 80, 160, 240, 320], (0.6, 0, 0.8)
    one = [
        rendered(body, elevation, azimuth, make_light(light, 0.5, 0.3))
        for body, elevation, azimuth in zip(made, elevations, azimuths)
    ]
    lights = jax.tree.map(lambda x: jnp.repeat(x, 5, axis=0), make_light(light, 0.5, 0.3))
    angles = (jnp.radians(jnp.array(a, jnp.float32)) for a in (elevations, azimuths))
    together = raycast.render(bodies, *angles, lights, image_size=64, rays=2 * 64 * 64)
    assert (np.abs(np.stack(one) - together) > 1e-5).mean() < 1e-3  # rounding at edges, as above
    assert all(np.abs(one[0] - other).mean() > 0.01 for other in one[1:])


def test_samples_are_averaged_within_pixels():
    body = make_body("capsule", (0, 0, 0.6), (0.3, 0.3, 0.6), colours=(0.2, 0.2))
    fine = rendered(body)
    coarse = rendered(body, image_size=16, samples=4)
    averaged = fine.reshape(16, 4, 16, 4, 1).mean((1, 3))
    np.testing.assert_allclose(coarse, averaged, rtol=0, atol=1e-5)
