"""Scenes in motion: what a state shows, to which camera, and how smoothly; flicker."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import spatial

from socialjepa_jax.data.toys import motion
from socialjepa_jax.data.toys.motion import Scene
from socialjepa_jax.errors import InputError

SIDE, BATCH = 16, 16
QUARTER = float(motion.SOFTNESS * np.arctanh(np.radians(45.0) / motion.RANGES["yaw"]))


@functools.cache
def stage(scene):
    """Two cameras, 4 x 4 rays a pixel, so that edges move by fractions of a pixel."""
    return motion.Stage(scene, (-80.0, 80.0), 45.0, SIDE, 3, 4)


def render(scene, states, camera=0):
    """Images f64[N, H W C]; always 16 are rendered, so that a scene is compiled once."""
    states = np.atleast_2d(np.asarray(states, np.float32))
    shown = []
    for first in range(0, len(states), BATCH):
        rows = np.minimum(np.arange(first, first + BATCH), len(states) - 1)
        shown.append(np.asarray(stage(scene).render(states[rows], jnp.int32(camera)), np.float64))
    return np.concatenate(shown)[: len(states)].reshape(len(states), -1)


def jacobian(scene, state, camera, step=0.1):
    """The numerical derivative of an image by the latents: f64[L, H W C]."""
    offsets = step * np.eye(len(state))
    shown = render(scene, np.concatenate([state + offsets, state - offsets]), camera)
    return (shown[: len(state)] - shown[len(state) :]) / (2 * step)


@functools.partial(jax.jit, static_argnums=0)
def poses(scene, z):
    """Rotation, scale and translation of every object."""
    return scene.poses(z, jnp.int32(0), 2)


TOY = Scene()
SCENES = {
    "all that moves a toy": Scene(("x", "y", "yaw", "height", "size", "lamp")),
    "arm": Scene(("shoulder", "elbow")),
}


@pytest.mark.parametrize("name", SCENES)
def test_images_change_smoothly_with_the_state(name):
    """The mean change is proportional to the step; no pixel jumps by more than two of its rays."""
    scene, rng = SCENES[name], np.random.default_rng(0)
    states = rng.normal(size=(BATCH, len(scene.latents)))
    ways = rng.normal(size=states.shape)
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    rest = render(scene, states)
    steps = np.array([0.4, 0.2, 0.1, 0.05, 0.025])
    changes = [np.abs(render(scene, states + step * ways) - rest) for step in steps]
    means = np.array([change.mean(1) for change in changes])
    assert (means <= 0.12 * steps[:, None]).all()
    slope = np.polyfit(np.log(steps), np.log(means.mean(1)), 1)[0]
    assert 0.8 < slope < 1.1
    tiny = np.abs(render(scene, states + 0.005 * ways) - rest)
    assert tiny.max() < 2.01 / 16


@pytest.mark.parametrize("camera", [0, 1])
@pytest.mark.parametrize("name", SCENES)
def test_no_direction_of_the_state_is_lost(name, camera):
    """The numerical Jacobian has full rank: images are locally injective, of either camera."""
    scene, rng = SCENES[name], np.random.default_rng(1)
    for state in rng.normal(size=(4, len(scene.latents))):
        values = np.linalg.svd(jacobian(scene, state, camera), compute_uv=False)
        assert len(values) == len(scene.latents) and values[-1] > 0.05 * values[0] > 0.05


def test_cameras_have_no_image_in_common():
    """Not even the nearest image of the other camera, over 48 states, is near."""
    states = np.random.default_rng(2).normal(size=(48, 3))
    first, second = (render(TOY, states, camera) for camera in (0, 1))
    gaps = spatial.distance.cdist(first, second, "cityblock") / first.shape[1]
    assert gaps.min() > 5 * np.abs(render(TOY, states + 0.02) - first).mean(1).max()


def test_a_quarter_turn_of_a_cube_shows_nothing_and_of_a_toy_much():
    states = [[0.3, -0.2, QUARTER], [0.3, -0.2, -QUARTER]]
    for camera in (0, 1):
        cube = render(Scene(shape="cube"), states, camera)
        toy = render(TOY, states, camera)
        assert np.abs(cube[0] - cube[1]).mean() < 1e-4 < 0.02 < np.abs(toy[0] - toy[1]).mean()


def test_a_private_latent_moves_the_image_of_its_own_camera_alone():
    scene = Scene(("x", "y"), private=True)
    rest = np.array([0.4, -0.3, 0.2, -0.1])
    own = rest + np.diag([0.0, 0.0, 1.0, 1.0])[2:]
    for camera in (0, 1):
        shown = render(scene, np.stack([rest, *own]), camera)
        change = np.abs(shown[1:] - shown[0]).mean(1)
        assert change[camera] > 1e-3 and change[1 - camera] == 0
        values = np.linalg.svd(jacobian(scene, rest, camera), compute_uv=False)
        assert values[2] > 0.1 * values[0] and values[3] == 0


def test_occluders_stand_in_every_image():
    states = np.random.default_rng(3).normal(size=(BATCH, 3))
    plain, pillars = render(TOY, states), render(Scene(occluders=3), states)
    always = (np.abs(plain - pillars) > 0.05).all(0)
    assert 0.01 < always.mean() < 0.5
    cylinders = [int(Scene(occluders=n).template(2)[0].used[2]) for n in range(4)]
    assert cylinders == [0, 1, 2, 3]


def colours(scene):
    return {tuple(np.round(c, 3)) for c in np.asarray(scene.template(2)[0].albedo)[:, 0]}


def test_twins_look_alike_and_toys_do_not():
    assert len(colours(Scene(("x", "x2"), "twins"))) < len(colours(Scene(("x", "x2"))))


@pytest.mark.parametrize("latents", [("x", "x2"), ("x2", "x3"), ("x2", "x4"), ("x", "x4")])
def test_objects_have_places_of_their_own(latents):
    scene = Scene(latents)
    places = np.asarray(poses(scene, jnp.zeros(2))[2])[:-1]
    assert len(places) == len({"x", *(name.replace("x1", "x") for name in latents)})
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1) + np.eye(len(places))
    assert gaps.min() > 0.5


def test_every_latent_moves_what_it_names():
    scene = Scene(("x", "y2", "yaw", "height2", "size"))
    z, rest = np.arange(1.0, 6.0) / 5, np.zeros(5)
    turn, scale, place = (np.asarray(p) for p in poses(scene, z))
    home = np.asarray(poses(scene, rest)[2])
    reach = lambda kind, i: motion.RANGES[kind] * np.tanh(z[i] / motion.SOFTNESS)  # noqa: E731
    moved = np.zeros((3, 3))
    moved[0, 0], moved[1, 1], moved[1, 2] = reach("x", 0), reach("y", 1), reach("height", 3)
    np.testing.assert_allclose(place - home, moved, atol=1e-6)
    np.testing.assert_allclose(scale, [1 + reach("size", 4), 1, 1], rtol=1e-6)
    c, s = np.cos(reach("yaw", 2)), np.sin(reach("yaw", 2))
    np.testing.assert_allclose(turn[0], [[c, -s, 0], [s, c, 0], [0, 0, 1]], atol=1e-6)
    np.testing.assert_array_equal(turn[1:], [np.eye(3)] * 2)
    lamp = Scene(("lamp",)).light(jnp.array([1.0]))
    azimuth = np.arctan2(*np.asarray(lamp.direction)[[1, 0]])
    assert azimuth == pytest.approx(motion.RANGES["lamp"] * np.tanh(0.4), rel=1e-5)
    assert np.linalg.norm(lamp.direction) == pytest.approx(1.0, rel=1e-5)


def test_the_forearm_begins_where_the_upper_arm_ends():
    turn, _, place = poses(Scene(("shoulder", "elbow")), np.array([0.7, -1.1]))
    first = motion.RANGES["shoulder"] * np.tanh(0.7 / motion.SOFTNESS)
    second = first + motion.RANGES["elbow"] * np.tanh(-1.1 / motion.SOFTNESS)
    np.testing.assert_allclose(
        place[1], 0.42 * np.array([np.cos(first), np.sin(first), 0]), atol=1e-6
    )
    for angle, found in zip((first, second), np.asarray(turn)):
        np.testing.assert_allclose(found[:2, 0], [np.cos(angle), np.sin(angle)], atol=1e-6)


def test_joints_without_limits_turn_in_proportion_and_a_full_turn_shows_nothing():
    scene = Scene(("elbow", "lamp", "shoulder"), radians=(0.5, 2.0))  # in the order of the latents
    states = np.array([-1.1, 9.0, 0.7]) + 2 * np.pi * np.array([[0, 0, 0], [2, 0, 0], [0, 0, -0.5]])
    for state in states:
        for angle, found in zip((1.4, 1.4 - 0.55), np.asarray(poses(scene, state)[0])):
            np.testing.assert_allclose(found[:2, 0], [np.cos(angle), np.sin(angle)], atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"latents": ()}, r"latents=\(\) must be 1 to 8"),
        ({"latents": tuple("x y yaw height size x2 y2 yaw2 size2".split())}, "must be 1 to 8"),
        ({"latents": ("x", "y", "x")}, "must be distinct"),
        ({"latents": ("roll",)}, "latents='roll' is not one of x, y, yaw"),
        ({"latents": ("x1",)}, "latents='x1'"),
        ({"latents": ("x5",)}, "latents='x5'"),
        ({"latents": ("lamp2",)}, "latents='lamp2'"),
        ({"latents": ("X",)}, "latents='X'"),
        ({"latents": ("",)}, "latents=''"),
        ({"latents": ("shoulder", "x2")}, "an arm is alone"),
        ({"latents": ("shoulder", "x")}, "an arm is alone"),
        ({"shape": "ball"}, "shape='ball'"),
        ({"radians": (1.0,)}, r"radians=\(1.0,\) must be \(\) or one angle for each joint"),
        ({"latents": ("shoulder", "elbow"), "radians": (1.0,)}, "one angle for each joint"),
        ({"latents": ("shoulder",), "radians": (0.0,)}, "radians=0.0"),
        ({"occluders": 4}, "occluders=4"),
        ({"occluders": -1}, "occluders=-1"),
    ],
)
def test_scenes_that_cannot_be_are_refused(fields, message):
    with pytest.raises(InputError, match=message) as refused:
        Scene(**fields)
    assert "\n" not in str(refused.value)


flicker = jax.jit(motion.flicker)


def test_flicker_has_the_stated_variance_half_of_it_shared():
    count, strength = 4000, 0.2
    keys = jax.random.split(jax.random.key(0), count)
    grey = np.full((count, 1, 1, 3), 0.01, np.float32)  # far from the limits of an image
    gains = np.log(np.asarray(flicker(grey, keys, strength), np.float64)[:, 0, 0] / 0.01)
    expected = strength**2 * (np.eye(3) + 1) / 2
    np.testing.assert_allclose(np.cov(gains.T), expected, atol=5 * strength**2 * (2 / count) ** 0.5)
    np.testing.assert_allclose(gains.mean(0), 0.0, atol=5 * strength / count**0.5)
    follow = np.mean(gains[1:] * gains[:-1], 0) / strength**2
    assert np.abs(follow).max() < 5 / count**0.5  # white in time
    one = flicker(grey[..., :1], keys, strength)
    assert np.log(np.asarray(one) / 0.01).std() == pytest.approx(strength, rel=0.06)


def test_flicker_acts_on_a_whole_image_and_keeps_it_in_range():
    images = np.random.default_rng(1).random((5, 6, 7, 3), np.float32)
    keys = jax.random.split(jax.random.key(2), 5)
    np.testing.assert_array_equal(flicker(images, keys, 0.0), images)
    shown = np.asarray(flicker(images, keys, 0.5))
    ratio = np.where(shown < 1, shown / images, np.nan)
    spread = np.nanmax(ratio, (1, 2)) - np.nanmin(ratio, (1, 2))
    assert np.nanmax(spread) < 1e-5 and shown.max() <= 1 and shown.min() >= 0
    turned = flicker(images[::-1], keys[::-1], 0.5)  # a function of each image and its own key
    np.testing.assert_array_equal(turned, shown[::-1])


def test_images_are_rounded_to_bytes():
    values = jnp.array([0.0, 0.4 / 255, 0.6 / 255, 254.4 / 255, 254.6 / 255, 1.0])
    np.testing.assert_array_equal(motion.quantise(values), [0, 0, 1, 254, 255, 255])
