import functools
import itertools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data import base
from socialjepa_jax.data.toys import ToysData, parts, raycast
from socialjepa_jax.data.toys import world as world_lib
from socialjepa_jax.errors import InputError

# 512 pictures or more of this size, so that all tests share one compiled renderer.
SMALL = functools.partial(ToysData, image_size=32, samples_per_pixel_side=1)
WIDE = base.Protocol(azimuths=tuple(range(0, 360, 40)))


def world(**kwargs):
    return SMALL(**{"instances": 10, "protocol": WIDE, "elevations": (0, 8)} | kwargs)


@pytest.fixture(scope="module")
def pictures():
    """The float pictures of 50 objects from 9 azimuths and 2 elevations without shadows."""
    data = world(lightings=(3,))
    return data.observations(), data.render(data.observations())


def test_every_object_is_in_the_frame_and_fills_it():
    """Under the sky alone, so without shadows, the borders show the empty scene."""
    factors = jnp.asarray(world(lightings=(0,), protocol=base.Protocol(
        azimuths=tuple(range(0, 360, 20)))).observations())  # fmt: skip
    bodies = jax.tree.map(
        lambda x: x[factors[:, 0], factors[:, 1]], world_lib._all_bodies(10, seed=3)
    )
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


def test_instances_differ_from_one_another(pictures):
    factors, images = pictures
    images = images.reshape(5, 10, -1).astype(float)
    for first, second in itertools.combinations(range(10), 2):
        difference = np.abs(images[:, first] - images[:, second]).mean(-1)
        assert (difference > 3).all(), (first, second)  # grey levels, over the whole picture
    assert len(np.unique(images.reshape(50, -1), axis=0)) == 50
    assert factors.shape == (900, 5)


def test_another_seed_makes_other_objects_and_the_same_seed_the_same():
    for category in range(5):
        few, many = (world_lib.make_bodies(category, n, seed=5) for n in (3, 13))
        other = world_lib.make_bodies(category, 3, seed=6)
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[:3]), few, many)
        shapes = np.asarray(jnp.concatenate([many.to_local, other.to_local])).reshape(16, -1)
        assert len(np.unique(shapes, axis=0)) == 16


def test_choices_of_ten_instances_take_ten_different_tenths():
    draws = [parts.Draws(seed=1, category=2, instance=i) for i in range(20)]
    for _ in range(5):
        values = np.array([draw.uniform(0, 10) for draw in draws])
        for block in (values[:10], values[10:]):
            assert sorted(block.astype(int)) == list(range(10))


def test_plans_fit_their_slots_and_draws_for_many_seeds():
    for category, seed in itertools.product(range(5), range(8)):
        bodies = world_lib.make_bodies(category, 10, seed)
        assert (np.asarray(bodies.used).sum(-1) > 10).all()
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(bodies))


def test_bodies_stand_on_the_ground_within_the_unit_ball():
    """Against distances sampled over each primitive's surface in float64."""
    rng = np.random.default_rng(0)
    sphere = rng.normal(size=(4000, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    for category in range(5):
        bodies = jax.tree.map(np.asarray, world_lib.make_bodies(category, 4, seed=2))
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


def test_a_full_turn_changes_nothing_and_half_a_turn_does(pictures):
    factors, images = pictures
    turned = world().render(factors + np.array([[0, 0, 0, 360, 0]], np.int32))
    np.testing.assert_array_equal(turned, images)
    apart = world().render((factors + np.array([[0, 0, 0, 180, 0]])).astype(np.int32))
    assert (np.abs(apart.astype(float) - images).mean((1, 2, 3)) > 1).all()


def test_lightings_and_elevations_give_different_pictures():
    factors = world(instances=1, lightings=tuple(range(6)), elevations=(0, 4)).observations()
    images = world().render(np.resize(factors, (540, 5))).astype(float)
    scenes = images.reshape(5, 2, 9, 6, -1)
    for first, second in itertools.combinations(range(6), 2):
        assert (np.abs(scenes[:, :, :, first] - scenes[:, :, :, second]).mean(-1) > 1).all()
    assert (np.abs(scenes[:, 0] - scenes[:, 1]).mean(-1) > 1).all()
    assert images.min() < 20 and images.max() > 180


def test_the_norb_protocol_renders_the_cameras_azimuths_alone(tmp_path):
    data = world(protocol=base.Protocol(azimuths=(160, 0)), lightings=(0, 1, 2))
    views = data.load(tmp_path)
    assert views.images.shape == (2, 300, 32, 32, 1) and views.images.dtype == np.uint8
    assert views.factor_names == ("category", "instance", "elevation", "lighting")
    assert views.label_names == world_lib.CATEGORIES
    assert views.overlap == 0 and views.num_dropped == 0
    factors = data.observations()
    np.testing.assert_array_equal(np.unique(factors[:, 3]), [0, 160])
    row = views.factors[100]
    table = np.insert(row, 3, 160)[None]
    expected = data.render(np.concatenate([table, factors]).astype(np.int32)[: len(factors)])[0]
    np.testing.assert_array_equal(views.images[0, 100], expected)


def test_the_rig_protocol_renders_the_poses_of_the_sector(tmp_path):
    protocol = base.Protocol(kind="rig", azimuths=(0, 90), sector=(0, 90))
    data = world(protocol=protocol, azimuth_step=30, lightings=(0, 5))
    views = data.load(tmp_path)
    assert sorted(np.unique(data.observations()[:, 3])) == [0, 30, 60, 90, 120, 150]
    assert views.num_states == 5 * 10 * 2 * 3 * 2
    assert views.overlap == 0 and views.num_dropped == 0


def test_pictures_come_from_the_cache_the_second_time(tmp_path, monkeypatch, caplog):
    data = world(instances=10, protocol=base.Protocol(), lightings=(0, 1, 2))
    first = data.load(tmp_path)
    (file,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(world_lib, "render_factors", None)  # would fail if it were called
        np.testing.assert_array_equal(data.load(tmp_path).images, first.images)
    file.write_bytes(file.read_bytes()[:-1000])
    np.testing.assert_array_equal(data.load(tmp_path).images, first.images)
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 1


def test_the_cache_s_name_depends_on_all_that_the_pictures_depend_on(monkeypatch):
    variants = [
        {}, {"seed": 1}, {"instances": 4}, {"image_size": 16}, {"channels": 3},
        {"samples_per_pixel_side": 2}, {"baseline": 0.1}, {"elevations": (1,)}, {"lightings": (1,)},
        {"protocol": base.Protocol(azimuths=(0, 40))},
    ]  # fmt: skip
    name = lambda data: data._digest(data.observations())  # noqa: E731
    names = {name(SMALL(**{"instances": 3} | variant)) for variant in variants}
    assert len(names) == len(variants)
    same = [{}, {"splits": base.Splits(seed=9)}]
    assert len({name(SMALL(**variant)) for variant in same}) == 1
    before = name(SMALL())
    monkeypatch.setattr(world_lib.inspect, "getsource", lambda module: module.__name__ + "changed")
    assert name(SMALL()) != before


def test_the_contact_sheet_has_a_row_a_category():
    sheet = world_lib.contact_sheet(instances=2, seed=4, image_size=24, samples=1)
    assert sheet.shape == (5 * 24, 2 * 24, 3) and sheet.dtype == np.uint8
    assert (
        len(np.unique(sheet.reshape(5, 24, 2, 24, 3).swapaxes(1, 2).reshape(10, -1), axis=0)) == 10
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "toy"), ("instances", 0), ("image_size", 0), ("channels", 2), ("seed", -1),
        ("elevations", ()), ("elevations", (9,)), ("elevations", (1, 1)), ("lightings", (6,)),
        ("azimuth_step", 0), ("samples_per_pixel_side", 0), ("baseline", -0.1),
        ("baseline", float("nan")),
    ],
)  # fmt: skip
def test_bad_fields_are_named(field, value):
    with pytest.raises(InputError, match=f"^{field}="):
        ToysData(**{field: value})


def test_make_bodies_refuses_unknown_categories():
    with pytest.raises(InputError, match="category=5"):
        world_lib.make_bodies(5, 1, 0)


def test_too_many_parts_are_refused():
    part = parts.Part("box", (0, 0, 0), (1, 1, 1), np.ones(3))
    with pytest.raises(ValueError, match="13 parts of kind box"):
        parts.assemble([[part] * 13])
