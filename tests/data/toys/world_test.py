"""Objects of the toy world: distinct, reproducible, within the frame and differently lit."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data import base
from socialjepa_jax.data.toys import raycast, world
from socialjepa_jax.errors import InputError
from tests.data.toys.small import small


@pytest.fixture(scope="module")
def observed():
    """The images of 50 objects from 9 azimuths and 2 elevations under one lighting."""
    data = small(lightings=(3,))
    return data.observations(), data.render(data.observations())


@pytest.mark.nightly
def test_every_object_is_in_the_frame_and_fills_it():
    """Under the sky alone, so without shadows, the borders show the empty scene."""
    factors = jnp.asarray(small(lightings=(0,), protocol=base.Protocol(
        azimuths=tuple(range(0, 360, 20)))).observations())  # fmt: skip
    bodies = jax.tree.map(lambda x: x[factors[:, 0], factors[:, 1]], world.all_bodies(10, seed=3))
    count = len(factors)
    sky = raycast.Light(
        jnp.tile(jnp.array([[0.0, 0.0, 1.0]]), (count, 1)), jnp.zeros(count), jnp.ones(count)
    )
    angles = jnp.radians(30.0 + 5.0 * factors[:, 2]), jnp.radians(factors[:, 3] * 1.0)
    render = functools.partial(raycast.render, image_size=32)
    seen = np.asarray(render(bodies, *angles, sky))
    empty = np.asarray(render(bodies._replace(used=jnp.zeros_like(bodies.used)), *angles, sky))
    changed = (seen != empty).any(-1)
    border = np.ones((32, 32), bool)
    border[1:-1, 1:-1] = False
    assert not changed[:, border].any()
    assert changed.mean((1, 2)).min() > 0.03
    for category in range(5):
        assert changed[factors[:, 0] == category].mean() > 0.08


def test_instances_differ_from_one_another(observed):
    factors, images = observed
    images = images.reshape(5, 10, -1).astype(float)
    for first, second in itertools.combinations(range(10), 2):
        difference = np.abs(images[:, first] - images[:, second]).mean(-1)
        assert (difference > 3).all(), (first, second)  # grey levels, over the whole image
    assert len(np.unique(images.reshape(50, -1), axis=0)) == 50
    assert factors.shape == (900, 5)


def test_another_seed_makes_other_objects_and_the_same_seed_the_same():
    for category in range(5):
        few, many = (world.make_bodies(category, n, seed=5) for n in (3, 13))
        other = world.make_bodies(category, 3, seed=6)
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[:3]), few, many)
        shapes = np.asarray(jnp.concatenate([many.to_local, other.to_local])).reshape(16, -1)
        assert len(np.unique(shapes, axis=0)) == 16


def test_plans_fit_their_slots_and_draws_for_many_seeds():
    for category, seed in itertools.product(range(5), range(8)):
        bodies = world.make_bodies(category, 10, seed)
        assert (np.asarray(bodies.used).sum(-1) > 10).all()
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(bodies))


def test_bodies_stand_on_the_ground_within_the_unit_ball():
    """Against distances sampled over each primitive's surface in float64."""
    rng = np.random.default_rng(0)
    sphere = rng.normal(size=(4000, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    for category in range(5):
        bodies = jax.tree.map(np.asarray, world.make_bodies(category, 4, seed=2))
        for i in range(4):
            points = []
            for kind, used in enumerate(bodies.used[i]):
                start = sum(raycast.SLOTS[:kind])
                for slot in range(start, start + used):
                    z = np.sign(sphere[:, 2:]) * np.array([[0, 0, bodies.half_length[i, slot]]])
                    local = {0: sphere, 1: np.sign(sphere), 3: sphere + z}.get(kind)
                    if kind == 2:
                        local = sphere / np.hypot(sphere[:, :1], sphere[:, 1:2])
                        local[:, 2] = np.sign(local[:, 2])
                    inverse = np.linalg.inv(bodies.to_local[i, slot].astype(float))
                    points.append(local @ inverse.T + bodies.center[i, slot])
            points = np.concatenate(points)
            radius = np.linalg.norm(points - [0, 0, bodies.height[i]], axis=1).max()
            # The assembled hull of round parts is inscribed: up to 2 % of a part's own size.
            assert 0.97 < radius < 1.02 and -0.02 < points[:, 2].min() < 0.01


@pytest.mark.nightly
def test_a_full_turn_changes_nothing_and_half_a_turn_does(observed):
    factors, images = observed
    turned = small().render(factors + np.array([[0, 0, 0, 360, 0]], np.int32))
    np.testing.assert_array_equal(turned, images)
    apart = small().render((factors + np.array([[0, 0, 0, 180, 0]])).astype(np.int32))
    assert (np.abs(apart.astype(float) - images).mean((1, 2, 3)) > 1).all()


def test_lightings_and_elevations_give_different_images():
    factors = small(instances=1, lightings=tuple(range(6)), elevations=(0, 4)).observations()
    images = small().render(np.resize(factors, (540, 5))).astype(float)
    scenes = images.reshape(5, 2, 9, 6, -1)
    for first, second in itertools.combinations(range(6), 2):
        assert (np.abs(scenes[:, :, :, first] - scenes[:, :, :, second]).mean(-1) > 1).all()
    assert (np.abs(scenes[:, 0] - scenes[:, 1]).mean(-1) > 1).all()
    assert images.min() < 20 and images.max() > 180


def test_the_contact_sheet_has_a_row_per_category():
    sheet = world.contact_sheet(instances=2, seed=4, image_size=24, samples=1)
    assert sheet.shape == (5 * 24, 2 * 24, 3) and sheet.dtype == np.uint8
    assert (
        len(np.unique(sheet.reshape(5, 24, 2, 24, 3).swapaxes(1, 2).reshape(10, -1), axis=0)) == 10
    )


def test_make_bodies_refuses_unknown_categories():
    with pytest.raises(InputError, match="category=5"):
        world.make_bodies(5, 1, 0)
