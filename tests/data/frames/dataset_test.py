"""Recordings: frames of one moment together, states beside them, blocks of time held out."""

import dataclasses
import pathlib

import numpy as np
import pytest

from socialjepa_jax.data import FramesData
from socialjepa_jax.data.base import Splits
from socialjepa_jax.errors import InputError
from tests.data.frames import drive


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return drive.write(tmp_path_factory.mktemp("drive"))


def test_a_state_is_a_moment_of_all_cameras(data):
    found = data.load(pathlib.Path())
    assert found.images.shape == (2, found.num_states, 4, 8, 3)
    for n, t in enumerate(found.state_ids):  # f_10 comes after f_9
        for k in range(2):
            np.testing.assert_array_equal(found.images[k, n], drive.frame(k, t))
        np.testing.assert_allclose(found.states[n], (np.sin(t), t / 10), rtol=1e-6)
    assert found.state_names == ("turn", "far")
    stream = dataclasses.replace(data, read="stream").load(pathlib.Path())
    np.testing.assert_array_equal(np.asarray(stream.images), found.images)


def test_blocks_of_time_are_held_out_and_their_edges_left_out(data):
    seen = set()
    for seed in range(4):
        splits = dataclasses.replace(drive.SPLITS, seed=seed)
        found = dataclasses.replace(data, splits=splits).load(pathlib.Path())
        test = set(found.state_ids[found.split_state == 1].tolist())
        train = set(found.state_ids[found.split_state == 0].tolist())
        blocks = {t // 10 for t in test}
        assert test == {t for t in range(60) if t // 10 in blocks} and len(blocks) == 2
        apart = min(abs(a - b) for a in test for b in train)
        assert apart == 3 and found.num_dropped == 60 - len(test | train) > 0
        assert f"{found.num_dropped} moments within 2 of them" in dict(found.facts)["Split"]
        np.testing.assert_array_equal(found.instance_ids, found.state_ids // 10)
        seen.add(tuple(sorted(blocks)))
    assert len(seen) > 1


def test_what_is_missing_is_left_out_and_counted(tmp_path):
    data = drive.write(tmp_path, margin=0)
    (tmp_path / "right" / "f_7.png").unlink()
    lines = (tmp_path / "states.csv").read_text().splitlines()
    kept = [line for line in lines if ",f_9," not in line]
    (tmp_path / "states.csv").write_text("\n".join([*kept, "0,later,1"]))
    found = data.load(tmp_path)
    assert set(range(60)) - set(found.state_ids.tolist()) == {7, 9} and found.num_dropped == 2
    facts = dict(found.facts)
    assert facts["Moments without a camera"] == "1 of 60 are left out."
    assert facts["Moments without states"] == "1 of 60 are left out."
    assert facts["Rows without a frame"] == "1 of states.csv are left out."


def test_frames_with_names_of_their_own_belong_together_by_order(tmp_path):
    data = drive.write(tmp_path, table="", states=())
    for t in range(60):
        old = tmp_path / "right" / f"f_{t}.png"
        old.rename(tmp_path / "right" / f"1532_{900 + t}.png")
    with pytest.raises(InputError, match="no moment has a frame of every camera"):
        data.load(tmp_path)
    by_order = dataclasses.replace(data, match="order")
    found = by_order.load(tmp_path)
    assert found.states is None
    for n, t in enumerate(found.state_ids):
        assert found.images[1, n, 0, 0].tolist() == [t, 1, 0]
    (tmp_path / "left" / "f_3.png").unlink()
    with pytest.raises(InputError, match=r"equally many frames, here \{'left': 59, 'right': 60\}"):
        by_order.load(tmp_path)


def test_the_central_square_is_read_if_asked_for(data):
    square = dataclasses.replace(data, image_size=4, fit="centre").load(pathlib.Path())
    whole = data.load(pathlib.Path())
    np.testing.assert_array_equal(square.images, whole.images[:, :, :, 2:6])
    assert "central" in dict(square.facts)["Images"]


def _spoil(name, content):
    def change(root):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)

    return change


TABLE = "frame,turn,far\n"
WRONG = {
    "no camera": ({"cameras": ("left", "up")}, None, "up: no such folder, of cameras='up'"),
    "not an image": ({}, _spoil("left/notes.txt", b""), r"notes\.txt: is no \.jpg"),
    "two of a name": ({}, _spoil("left/f_3.jpg", b""), r"f_3\.png: f_3\.jpg has the same name"),
    "an empty camera": ({"cameras": ("left", "none")}, lambda r: (r / "none").mkdir(), "holds no"),
    "no table": ({"table": "other.csv"}, None, r"other\.csv: cannot be read"),
    "no column": ({"states": ("speed",)}, None, "no column 'speed', it has turn, frame, far"),
    "no number": ({}, _spoil("states.csv", f"{TABLE}f_1,x,1".encode()), "row 1: turn='x' must be"),
    "no finite one": ({}, _spoil("states.csv", f"{TABLE}f_1,1,inf".encode()), "far='inf' must be"),
    "a frame twice": (
        {}, _spoil("states.csv", f"{TABLE}f_1,1,1\nf_1,1,1".encode()), "'f_1' occurs twice"),
    "one block": ({"block": 60}, None, "of 1 blocks of 60 of 60 moments leaves one side empty"),
    "a broken image": ({}, _spoil("left/f_3.png", b"x"), r"left/f_3\.png: cannot identify"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_in_one_line(tmp_path, name):
    fields, change, words = WRONG[name]
    data = dataclasses.replace(drive.write(tmp_path, margin=0), **fields)
    if change:
        change(tmp_path)
    with pytest.raises(InputError, match=words) as caught:
        data.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"cameras": ()}, r"cameras=\(\) must be one or more"),
     ({"cameras": ("a", "a")}, "must be one or more distinct"),
     ({"cameras": ("../a",)}, r"cameras='\.\./a' must be the name of a folder"),
     ({"match": "time"}, "match='time'"), ({"transition": "slow"}, "transition='slow'"),
     ({"delta": 0}, "delta=0"), ({"block": 0}, "block=0"), ({"margin": -1}, "margin=-1"),
     ({"table": "t.csv"}, r"table='t\.csv' and states=\(\) must both"),
     ({"image_size": (8, 0)}, "image_size=0"), ({"read": "some"}, "read='some'"),
     ({"splits": Splits(1, 0.5)}, "splits.test_instances=1 must be 0")],
)  # fmt: skip
def test_settings_that_cannot_work_are_named(fields, words):
    with pytest.raises(InputError, match=words):
        FramesData(**fields)


def test_a_folder_that_is_not_there(tmp_path):
    for path in ("", str(tmp_path / "none")):
        with pytest.raises(InputError, match="no such folder"):
            FramesData(path=path).load(tmp_path)
