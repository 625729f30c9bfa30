"""nuScenes as a data set: cameras, splits, conditions, and what is said about them."""

import contextlib
import dataclasses
import pathlib
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from configs import nuscenes_ijepa, smoke
from socialjepa_jax import build, loop
from socialjepa_jax.config import from_config_dict
from socialjepa_jax.data.base import Splits
from socialjepa_jax.data.nuscenes import CHANNELS, PAIRS, NuScenesData
from socialjepa_jax.errors import InputError
from socialjepa_jax.report.papers.social_jepa import SOCIAL_JEPA
from tests.data.nuscenes import rig

HALF = Splits(test_instances=0, test_states=0.5)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return rig.write(tmp_path_factory.mktemp("nuscenes"))


def made(root, **fields):
    given = {"image_size": 6, "splits": HALF, "read": "resident", **fields}
    return NuScenesData(path=str(root), version=rig.VERSION, **given)


def loaded(root, **fields):
    return made(root, **fields).load(pathlib.Path())


def test_an_image_is_that_of_its_camera_and_sample(root):
    for pair in ("front_rear", "all"):
        data = loaded(root, pair=pair)
        assert data.images.shape == (len(PAIRS[pair]), 24, 6, 6, 3)
        for k, channel in enumerate(PAIRS[pair]):
            for n in (0, 7, 23):
                shown = rig.image(n // 4, n % 4, CHANNELS.index(channel))[0, 0].astype(int)
                assert np.abs(data.images[k, n].astype(int) - shown[None, None]).max() <= 4
    stream = loaded(root, pair="all", read="stream")
    np.testing.assert_array_equal(np.asarray(stream.images), data.images)


def test_the_central_square_or_the_whole(root, tmp_path):
    ramp = np.repeat(np.arange(16, dtype=np.uint8)[None, :, None] * 16, 9, axis=0).repeat(3, -1)
    folder = rig.write(tmp_path)
    Image.fromarray(ramp).save(folder / "samples/CAM_FRONT/0_0.jpg", "PNG")
    square = loaded(folder, image_size=9).images[0, 0]
    np.testing.assert_array_equal(square, ramp[:, 3:12])
    whole = loaded(folder, image_size=(9, 16), fit="stretch").images
    assert whole.shape == (2, 24, 9, 16, 3)
    np.testing.assert_array_equal(whole[0, 0], ramp)


def test_conditions_scenes_and_logs_are_factors(root):
    data = loaded(root)
    assert data.label_names == ("day", "rain", "night", "night and rain")
    assert data.domain == "day"
    assert data.labels[::4].tolist() == [1, 1, 0, 2, 3, 0]
    assert data.instance_ids.tolist() == np.repeat(np.arange(6), 4).tolist()
    assert data.factor("log")[::4].tolist() == [0, 0, 1, 2, 2, 1]
    assert data.state_ids.tolist() == list(range(24)) and data.num_dropped == 0


@pytest.mark.parametrize(("split_by", "groups"), [("scene", 6), ("log", 3), ("token", 24)])
def test_what_is_held_out_is_held_out_whole(root, split_by, groups):
    seen = set()
    for seed in range(5):
        splits = dataclasses.replace(HALF, seed=seed)
        data = loaded(root, split_by=split_by, splits=splits, read="stream")
        by_token = split_by == "token"
        held, other = data.split_instance, data.split_state
        if by_token:
            held, other = other, held
        assert not other.any() and set(held.tolist()) == {0, 1}
        ids = {"scene": data.instance_ids, "log": data.factor("log"), "token": data.state_ids}
        sides = [set(ids[split_by][held == side].tolist()) for side in (0, 1)]
        assert not sides[0] & sides[1] and len(sides[1]) == round(0.5 * groups)
        assert ("LEAKS" in dict(data.facts)["Split"]) == by_token
        seen.add(tuple(held.tolist()))
        if by_token:  # the neighbour in time of a held-out sample was trained on
            assert any(held[n] != held[n + 1] for n in range(23) if n % 4 < 3)
    assert len(seen) > 1


def test_the_facts_name_offsets_and_scenes(root):
    facts = dict(loaded(root, pair="front_rear").facts)
    assert "CAM_BACK +25.1 ms (+25.1 to +25.1)" in facts["Timestamps"]
    assert facts["Scenes: day (2)"] == "scene-0003, scene-0006"
    assert facts["Scenes: rain (2)"] == "scene-0001, scene-0002 (after rain)"
    assert facts["Scenes: night (1)"] == "scene-0004"
    assert facts["Scenes: night and rain (1)"] == "scene-0005"
    assert "6 scenes of 3 logs" in facts["Split"] and "central" in facts["Images"]


def test_a_sample_without_a_camera_is_left_out_and_counted(tmp_path):
    def lose(tables):
        lost = ("data-0-1-CAM_BACK-True", "data-3-0-CAM_FRONT_LEFT-True")
        tables["sample_data"] = [r for r in tables["sample_data"] if r["token"] not in lost]

    root = rig.write(tmp_path, lose)
    data = loaded(root)
    assert (data.num_states, data.num_dropped) == (23, 1)
    assert 1 not in data.state_ids and len(data.images[0]) == 23
    assert dict(data.facts)["Samples without a camera"] == "1 are left out: sample-0-1."
    assert loaded(root, pair="all").num_dropped == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"pair": "front_side"}, "pair='front_side' must be one of 'front_rear'"),
     ({"split_by": "day"}, "split_by='day' must be one of 'scene'"),
     ({"fit": "pad"}, "fit='pad' must be"), ({"channels": 2}, "channels=2"),
     ({"image_size": (4, 0)}, "image_size=0 must be > 0"), ({"workers": -1}, "workers=-1"),
     ({"splits": Splits(1, 0.5)}, "splits.test_instances=1 must be 0"),
     ({"splits": Splits(0, 0.01)}, "test_states=0.01 of 6 scenes leaves one side empty")],
)  # fmt: skip
def test_settings_that_cannot_work_are_named(root, fields, words):
    with pytest.raises(InputError, match=words):
        loaded(root, **fields)


def test_folders_that_are_not_there(root, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        loaded(tmp_path / "none")
    with pytest.raises(InputError, match=r"v1\.0-mini/sample\.json: cannot be read"):
        loaded(tmp_path)


def experiment(root, **fields):
    config = smoke.shrink(nuscenes_ijepa.get_config(), steps=4)
    small = made(root, **{"read": "stream", "workers": 0, "image_size": 96, **fields})
    return dataclasses.replace(from_config_dict(config), data=small)


@pytest.mark.nightly
def test_broken_images_are_listed_and_replaced(tmp_path):
    root = rig.write(tmp_path / "data")
    cmyk = root / "samples/CAM_BACK/2_1.jpg"
    Image.new("CMYK", (16, 9)).save(cmyk, "JPEG")
    (root / "samples/CAM_FRONT/3_0.jpg").unlink()
    chosen = experiment(root, max_broken=0.5)
    dataset, parts = chosen.data.load(tmp_path), build.build(chosen)
    with contextlib.closing(
        build.open_feed(chosen, dataset, parts, tmp_path, tmp_path / "cache")
    ) as feed:
        assert np.flatnonzero(~feed.good).tolist() == [9, 12]
        window = feed.at(0)
        assert not np.isin(np.asarray(window.rows), [9, 12]).any()
    lines = sorted((tmp_path / "broken_files.txt").read_text().splitlines())
    assert lines == [
        "samples/CAM_BACK/2_1.jpg: mode CMYK is neither grey (L) nor RGB",
        "samples/CAM_FRONT/3_0.jpg: cannot be read (No such file or directory)",
    ]
    with pytest.raises(InputError, match=r"3_0\.jpg: cannot be read"):
        loaded(root)


@pytest.mark.nightly
def test_a_run_ends_with_a_page_that_names_the_scenes(root, tmp_path):
    result = loop.fit(experiment(root, pair="front_left", split_by="log"), tmp_path / "run")
    page = result.report.read_text()
    assert "scene-0002 (after rain)" in page and "-7.6 ms" in page
    assert "instance" in {row["split"] for row in result.rows}


def test_the_preset_has_the_settings_of_table_3():
    paper, config = SOCIAL_JEPA[3], nuscenes_ijepa.get_config()
    row = "nuScenes"
    epochs = config.run.steps / nuscenes_ijepa.STEPS_PER_EPOCH
    assert epochs == paper.value(row, "epochs")
    assert config.run.batch_size == paper.value(row, "batch_size")
    assert config.optim.learning_rate == paper.value(row, "learning_rate")
    assert config.optim.weight_decay == paper.value(row, "weight_decay")
    assert config.optim.final_weight_decay == config.optim.weight_decay
    # 680 of 850 scenes of 34,149 samples; the ten epochs of warm-up.
    assert nuscenes_ijepa.STEPS_PER_EPOCH == int(34_149 * 0.8) // config.run.batch_size
    assert config.optim.warmup_fraction * epochs == 10
    vit = config.objective.vit
    assert (vit.image_size, vit.patch_size, vit.width, vit.depth, vit.heads) == (
        224,
        16,
        384,
        12,
        6,
    )


def _of_one_sample(folder, root):
    """Two scenes whose only sample are six real images; their names hold channel and time."""
    images = {path.name.split("__")[1]: path for path in folder.glob("*__CAM_*.jpg")}
    assert set(images) == set(CHANNELS)
    found = rig.tables()
    for name, rows in found.items():
        if name.startswith("sample"):
            token = "token" if name == "sample" else "sample_token"
            found[name] = [row for row in rows if row[token] in ("sample-0-0", "sample-1-0")]
    for row in found["sample_data"]:
        channel = row["calibrated_sensor_token"].rpartition("-")[2]
        if channel in images:
            row["filename"] = f"samples/{channel}/{images[channel].name}"
            row["timestamp"] = int(images[channel].stem.rpartition("__")[2])
    rig.write_tables(root, found)
    for channel, path in images.items():
        (root / "samples" / channel).mkdir(parents=True)
        shutil.copy(path, root / "samples" / channel)
    return root


@pytest.mark.nightly
def test_real_images_are_read(request, tmp_path):
    """With --nuscenes=DIR: six images of one sample, or a whole data root."""
    if not (given := request.config.getoption("--nuscenes")):
        pytest.skip("needs --nuscenes=DIR")
    folder, version = pathlib.Path(given), rig.VERSION
    if found := sorted(folder.glob("v1.0-*")):
        root, version = folder, found[0].name
    else:
        root = _of_one_sample(folder, tmp_path)
    few = NuScenesData(path=str(root), version=version, pair="all", image_size=48, splits=HALF)
    data = few.load(tmp_path)
    shown = np.asarray(data.images[:, :2])
    assert shown.shape == (6, 2, 48, 48, 3) and shown.std((2, 3, 4)).min() > 20
    offsets = re.findall(r"(CAM_\w+) ([+-][\d.]+) ms", dict(data.facts)["Timestamps"])
    if root == tmp_path:  # as measured on this sample
        assert dict(offsets) == {
            "CAM_FRONT_LEFT": "-7.6", "CAM_FRONT_RIGHT": "+7.9", "CAM_BACK": "+25.1",
            "CAM_BACK_LEFT": "+35.0", "CAM_BACK_RIGHT": "+15.4",
        }  # fmt: skip
    assert all(abs(float(late)) < 80 for _, late in offsets)  # less than a frame at 12 Hz
