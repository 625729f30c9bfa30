"""Cameras at other angles: the run, the claims and the table on rows whose values are known."""

import dataclasses
import pathlib

import numpy as np
import pytest

from experiments.rivals.predictions import cross_view
from experiments.rivals.tables.trained import World
from socialjepa_jax.config import from_config_dict, to_config_dict
from socialjepa_jax.data.base import Protocol, Splits
from tests.experiments.rivals.tables.made import cell

R2 = {0: 0.97, 40: 0.95, 80: 0.90, 120: 0.88, 160: 0.90}
AREA = {0: 0.60, 40: 0.40, 80: 0.37, 120: 0.36, 160: 0.38}
BEYOND = {0: 0.8, 40: 0.6, 80: 0.5, 120: 0.4, 160: 0.4}
PIXELS = {40: 0.50, 80: 0.40, 120: 0.40, 160: 0.45}


def table(r2=R2, area=AREA, beyond=BEYOND, pixels=PIXELS, gain=0.1):
    """Rows of all angles; untrained agents have the measures of trained ones less the gain."""
    rows = []
    for azimuth in R2:
        for row, less in (("untrained", gain), ("trained", 0.0)):
            own = {"r2": r2[azimuth] - less, "area": area[azimuth] - less, "dsc": 0.7,
                   "r2_beyond": beyond[azimuth], "nos@10": 0.6}  # fmt: skip
            made = {name: cell(value) for name, value in own.items()}
            rows.append({"azimuth": azimuth, "row": row, **made})
        if azimuth:
            made = {name: cell(pixels[azimuth], 1) for name in ("r2", "area")}
            rows.append({"azimuth": azimuth, "row": "pixel_pca", **made})
    return rows


def judged(rows):
    return {claim.id: claim for claim in cross_view.claims(rows)}


def test_claims_hold_where_the_rows_say_so():
    found = judged(table())
    assert len(found) == 14
    verdicts = {id: claim.agrees for id, claim in found.items()}
    assert verdicts == {id: None if id.startswith("paper/") else True for id in found}
    assert found["persists"].ours == pytest.approx(0.90 / 0.95)
    assert found["mirror"].ours == pytest.approx(0.02)
    assert found["adds/80"].ours == pytest.approx(0.1)
    assert found["pixels"].ours == pytest.approx(0.05)
    norb = found["paper/smallNORB (Viewpoint 0° vs 160°)"]
    assert (norb.paper, norb.ours) == (0.891, pytest.approx(0.90))
    assert found["paper/ImageNet (Data Augmentation)"].ours == pytest.approx(0.97)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"r2": {**R2, 160: 0.85}}, "persists"),
        ({"area": {**AREA, 160: 0.355, 120: 0.35}}, "persists/area"),
        ({"area": {**AREA, 80: 0.381, 120: 0.382}}, "mirror"),
        ({"area": {**AREA, 0: 0.40}}, "ceiling"),
        ({"pixels": {**PIXELS, 160: 0.49}}, "pixels"),
        ({"beyond": {**BEYOND, 160: 0.55}}, "beyond"),
    ],
)
def test_each_claim_fails_where_the_rows_say_so(change, claim):
    found = judged(table(**change))
    assert [id for id, each in found.items() if each.agrees is False] == [claim]


def test_training_adds_only_if_the_interval_is_above_0():
    found = judged(table(gain=0.0))
    assert [id for id, each in found.items() if each.agrees is False] == [
        f"adds/{azimuth}" for azimuth in cross_view.AZIMUTHS
    ]


def test_the_table_has_every_angle_and_pixels_of_two_cameras_alone():
    cells = {row.label: row.cells for row in cross_view.table(table()).rows}
    assert list(cells) == ["0", "40", "80", "120", "160"]
    assert cells["80"]["area_pixels"] == pytest.approx(0.40)
    assert cells["160"]["gain"].value == pytest.approx(0.1)
    assert "pixels" not in cells["0"]
    curves = cross_view.plot(table()).figure.axes[0].get_lines()
    assert [len(line.get_xdata()) for line in curves] == [5, 5, 4]


def test_agents_between_the_cameras_are_new_ones(tmp_path):
    world = World("cpu", tmp_path)
    ends, chosen = world.experiment("ijepa", 12), cross_view.experiment(world)
    assert from_config_dict(to_config_dict(chosen)) == chosen
    assert chosen.agents.cameras == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    assert not set(chosen.agents.seeds) & set(ends.agents.seeds)
    assert (chosen.run, chosen.objective) == (ends.run, ends.objective)


@pytest.mark.nightly
def test_all_cameras_see_the_same_objects(tmp_path):
    world = World("cpu", tmp_path)
    ends, chosen = world.experiment("ijepa", 12), cross_view.experiment(world)
    small = {"image_size": 8, "elevations": (0, 4), "lightings": (0, 3), "instances": 3,
             "splits": Splits(test_instances=1)}  # fmt: skip
    first, second = (
        dataclasses.replace(each.data, **small).load(pathlib.Path(tmp_path))
        for each in (ends, chosen)
    )
    assert first.split_instance.any()
    for name in ("state_ids", "instance_ids", "labels", "split_instance"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    protocol = Protocol("norb", azimuths=(0, *cross_view.AZIMUTHS))
    whole = dataclasses.replace(ends.data, protocol=protocol, **small).load(tmp_path)
    expected = [first.images[0], *second.images, first.images[1]]
    for ours, theirs in zip(expected, whole.images, strict=True):
        np.testing.assert_array_equal(ours, theirs)
