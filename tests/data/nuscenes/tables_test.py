"""The tables of nuScenes: key frames alone, by channel; every contradiction is named."""

import json
import os

import numpy as np
import pytest

from socialjepa_jax.data.nuscenes import CHANNELS, tables
from socialjepa_jax.errors import InputError
from tests.data.nuscenes import rig


def test_key_frames_in_order_of_scene_and_time(tmp_path):
    frames = tables.read(rig.write(tmp_path), rig.VERSION)
    expected = [f"sample-{s}-{k}" for s in range(len(rig.SCENES)) for k in range(rig.SAMPLES)]
    assert frames.token.tolist() == expected
    assert frames.scene.tolist() == [name for name in rig.SCENES for _ in range(rig.SAMPLES)]
    assert frames.log.tolist()[:5] == ["t-log-a"] * 5
    for k, channel in enumerate(CHANNELS):
        assert frames.files[k].tolist()[5] == f"samples/{channel}/1_1.jpg"
    late = frames.timestamps - frames.timestamps[0]
    assert (late == np.array(list(rig.OFFSETS_US.values()))[:, None]).all()


def test_the_pair_table_takes_the_place_of_the_tables_until_they_change(tmp_path, monkeypatch):
    root = rig.write(tmp_path)
    first = tables.read(root, rig.VERSION)
    assert (root / f"pairs_{rig.VERSION}.parquet").stat().st_size < 20_000

    def forbidden(*_):
        raise AssertionError

    monkeypatch.setattr(tables, "_from_tables", forbidden)
    again = tables.read(root, rig.VERSION)
    for name in vars(first):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    (root / f"pairs_{rig.VERSION}.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(AssertionError):
        tables.read(root, rig.VERSION)
    monkeypatch.undo()
    tables.read(root, rig.VERSION)  # made anew
    path = root / rig.VERSION / "scene.json"
    rows = json.loads(path.read_text())
    rows[0]["name"] = "renamed"
    path.write_text(json.dumps(rows))
    assert tables.read(root, rig.VERSION).scene[0] == "renamed"


def test_a_folder_that_cannot_be_written_is_read_all_the_same(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables.pq, "write_table", full)
    frames = tables.read(rig.write(tmp_path), rig.VERSION)
    assert len(frames.token) == 24 and sorted(os.listdir(tmp_path)) == ["samples", rig.VERSION]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Parked cars", "day"), ("Night, ped", "night"), ("Heavy RAIN", "rain"),
     ("sunny after rain", "rain"), ("Night, difficult lighting, after rain", "night and rain")],
)  # fmt: skip
def test_conditions_by_the_words_of_the_description(text, expected):
    assert tables.condition(text) == expected


def _first(tables, name, **changes):
    tables[name][0] |= changes


def _first_key(tables, **changes):
    rows = tables["sample_data"]
    next(r for r in rows if r["is_key_frame"] and "CAM_FRONT-" in r["token"]).update(changes)


WRONG = {
    "two samples of one token": (
        lambda t: t["sample"].append(dict(t["sample"][0])), r"sample\.json: the token '.*' occurs"),
    "two sensors of one token": (
        lambda t: t["sensor"].append(t["sensor"][0]), r"sensor\.json: the token .sensor-CAM"),
    "two key frames of one camera": (
        lambda t: t["sample_data"].append(
            next(r for r in t["sample_data"] if "CAM_BACK-True" in r["token"]) | {"token": "twin"}),
        r"sample 'sample-5-3' has two key frames of CAM_BACK$"),
    "an unknown sample": (
        lambda t: _first_key(t, sample_token="x"), "names the sample 'x', which is missing"),
    "an unknown calibration": (
        lambda t: _first_key(t, calibrated_sensor_token="x"), "names the calibrated_sensor 'x'"),
    "an unknown sensor": (
        lambda t: t.update(sensor=t["sensor"][1:]), "names the sensor 'sensor-CAM_FRONT'"),
    "an unknown scene": (
        lambda t: _first(t, "sample", scene_token="x"), r"sample\.json: .* names the scene 'x'"),
    "an unknown log": (lambda t: _first(t, "scene", log_token="x"), "names the log 'x'"),
    "a timestamp that is a text": (
        lambda t: _first(t, "sample", timestamp="9"), "a row has timestamp='9', must be int"),
    "no description": (
        lambda t: t["scene"][0].pop("description"), "a row has description=None, must be str"),
    "a file elsewhere": (
        lambda t: _first_key(t, filename="../x.jpg"), r"'\.\./x\.jpg' leaves the folder"),
    "no rows": (lambda t: t["log"].clear(), r"log\.json: has no rows"),
    "no list": (
        lambda t: t.update(log={"token": "x"}), r"log\.json: must be a list of rows"),
    "a list of numbers": (lambda t: t.update(log=[1]), r"log\.json: must be a list of rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_contradiction_is_named_in_one_line(tmp_path, name):
    change, words = WRONG[name]
    found = rig.tables()
    change(found)
    rig.write_tables(tmp_path, found)
    with pytest.raises(InputError, match=words) as caught:
        tables.read(tmp_path, rig.VERSION)
    assert "\n" not in str(caught.value) and not list(tmp_path.glob("pairs*"))


@pytest.mark.parametrize("table", tables.TABLES)
def test_a_missing_table_is_named(tmp_path, table):
    (tmp_path / rig.VERSION).mkdir()
    for name in tables.TABLES:
        if name != table:
            (tmp_path / rig.VERSION / f"{name}.json").write_text("[]")
    with pytest.raises(InputError, match=rf"{table}\.json: cannot be read \(No such file"):
        tables.read(tmp_path, rig.VERSION)


@pytest.mark.parametrize("text", ["[{", "[" * 100_000, "\xff"])
def test_a_damaged_table_is_named(tmp_path, text):
    root = rig.write(tmp_path)
    (root / rig.VERSION / "log.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"log\.json: is no JSON"):
        tables.read(root, rig.VERSION)
