"""The toy dataset: the images that a protocol needs, and their cache."""

import logging

import numpy as np
import pytest

from socialjepa_jax.data import base
from socialjepa_jax.data.toys import ToysData, dataset, world
from socialjepa_jax.errors import InputError
from tests.data.toys.small import SMALL, small


@pytest.mark.nightly
def test_the_norb_protocol_renders_the_cameras_azimuths_alone(tmp_path):
    data = small(protocol=base.Protocol(azimuths=(160, 0)), lightings=(0, 1, 2))
    views = data.load(tmp_path)
    assert views.images.shape == (2, 300, 32, 32, 1) and views.images.dtype == np.uint8
    assert views.factor_names == ("category", "instance", "elevation", "lighting")
    assert views.label_names == world.CATEGORIES
    assert views.overlap == 0 and views.num_dropped == 0
    factors = data.observations()
    np.testing.assert_array_equal(np.unique(factors[:, 3]), [0, 160])
    row = views.factors[100]
    table = np.insert(row, 3, 160)[None]
    expected = data.render(np.concatenate([table, factors]).astype(np.int32)[: len(factors)])[0]
    np.testing.assert_array_equal(views.images[0, 100], expected)


@pytest.mark.nightly
def test_the_rig_protocol_renders_the_poses_of_the_sector(tmp_path):
    protocol = base.Protocol(kind="rig", azimuths=(0, 90), sector=(0, 90))
    data = small(protocol=protocol, azimuth_step=30, lightings=(0, 5))
    views = data.load(tmp_path)
    assert sorted(np.unique(data.observations()[:, 3])) == [0, 30, 60, 90, 120, 150]
    assert views.num_states == 5 * 10 * 2 * 3 * 2
    assert views.overlap == 0 and views.num_dropped == 0


def test_images_come_from_the_cache_the_second_time(tmp_path, monkeypatch, caplog):
    data = small(instances=10, protocol=base.Protocol(), lightings=(0, 1, 2))
    first = data.load(tmp_path)
    (file,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(world, "render_factors", None)  # would fail if it were called
        np.testing.assert_array_equal(data.load(tmp_path).images, first.images)
    file.write_bytes(file.read_bytes()[:-1000])
    np.testing.assert_array_equal(data.load(tmp_path).images, first.images)
    assert sum(record.levelno == logging.WARNING for record in caplog.records) == 1


def test_the_cache_s_name_depends_on_all_that_the_images_depend_on(monkeypatch):
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
    monkeypatch.setattr(dataset.inspect, "getsource", lambda module: module.__name__ + "changed")
    assert name(SMALL()) != before


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
