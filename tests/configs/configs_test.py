"""Every configuration builds, and runs one step when it is made small."""

import contextlib
import io
import itertools
import math
import pathlib
import re

import chex
import jax
import numpy as np
import pytest
from PIL import Image

from configs import (
    eth80_ijepa,
    eth80_lejepa,
    folder_ijepa,
    imagenet_ijepa,
    imagenet_lejepa,
    imagenet_lejepa_resnet50,
    motion_conv,
    motion_lejepa,
    motion_migration,
    motion_mutual,
    motion_vits,
    nuscenes_ijepa,
    reacher_lejepa,
    smallnorb_ijepa,
    smoke,
    toys_ijepa,
    toys_ijepa_vits,
    toys_lejepa,
    toys_mae,
)
from experiments.bench import input_files
from socialjepa_jax import build
from socialjepa_jax import config as config_lib
from socialjepa_jax.data import prefetch
from socialjepa_jax.data.toys import moving
from socialjepa_jax.errors import InputError, sides
from socialjepa_jax.evaluation.encoders import Encoders
from tests.configs import recipes_test
from tests.data.image_folder import encoded, random_image
from tests.data.nuscenes import rig
from tests.data.reacher import arm

CONFIGS = {
    "toys_ijepa": toys_ijepa,
    "toys_ijepa_vits": toys_ijepa_vits,
    "smallnorb_ijepa": smallnorb_ijepa,
    "nuscenes_ijepa": nuscenes_ijepa,
    "eth80_ijepa": eth80_ijepa,
    "toys_lejepa": toys_lejepa,
    "toys_mae": toys_mae,
    "eth80_lejepa": eth80_lejepa,
    "folder_ijepa": folder_ijepa,
    "imagenet_ijepa": imagenet_ijepa,
    "imagenet_lejepa": imagenet_lejepa,
    "imagenet_lejepa_resnet50": imagenet_lejepa_resnet50,
    "motion_lejepa": motion_lejepa,
    "motion_conv": motion_conv,
    "motion_vits": motion_vits,
    "motion_migration": motion_migration,
    "motion_mutual": motion_mutual,
    "reacher_lejepa": reacher_lejepa,
    "smoke": smoke,
}


def _write_smallnorb(folder: pathlib.Path) -> str:
    """Writes files of the published layout with 8x8 images."""
    for part, code in (("training", "46789"), ("testing", "01235")):
        grid = itertools.product(range(5), (int(i) for i in code), (0, 8), (0, 16), (0, 5))
        factors = np.array(list(grid), np.int32)
        images = np.random.default_rng(0).integers(0, 256, (len(factors), 2, 8, 8), np.uint8)
        matrices = {"dat": images, "cat": factors[:, 0], "info": factors[:, 1:]}
        for name, matrix in matrices.items():
            magic = 0x1E3D4C55 if name == "dat" else 0x1E3D4C54
            shape = [*matrix.shape, 1, 1][: max(3, matrix.ndim)]
            head = np.array([magic, matrix.ndim, *shape], "<i4").tobytes()
            path = folder / f"smallnorb-5x{code}x9x18x6x2x96x96-{part}-{name}.mat"
            path.write_bytes(head + np.ascontiguousarray(matrix).tobytes())
    return str(folder)


def _write_photographs(folder: pathlib.Path) -> str:
    """Writes a file with the arrays that eth80_ijepa names."""
    grid = list(itertools.product(range(2), range(4), (30, 60), (0, 90, 180, 270)))
    category, instance, polar, azimuth = np.array(grid, np.int16).T
    rng, blobs = np.random.default_rng(0), []
    for _ in grid:
        stream = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (12, 12, 3), np.uint8)).save(stream, "JPEG")
        blobs.append(stream.getvalue())
    np.savez(
        folder / "photographs.npz",
        jpeg=np.frombuffer(b"".join(blobs), np.uint8),
        offset=np.cumsum([0, *map(len, blobs)]),
        category=category,
        instance=instance,
        polar=polar,
        azimuth=azimuth,
        category_names=np.array(["cup", "dog"]),
    )
    return str(folder / "photographs.npz")


def _write_folder(folder: pathlib.Path) -> str:
    """Writes the same images as files, with the table that folder_ijepa names."""
    with np.load(_write_photographs(folder)) as arrays:
        columns = {name: arrays[name] for name in ("category", "instance", "polar", "azimuth")}
        blobs = np.split(arrays["jpeg"], arrays["offset"][1:-1])
    lines = [",".join(("file", *columns))]
    for number, blob in enumerate(blobs):
        (folder / f"{number}.jpg").write_bytes(blob.tobytes())
        lines.append(",".join([f"{number}.jpg", *(str(c[number]) for c in columns.values())]))
    (folder / "factors.csv").write_text("\n".join(lines))
    return str(folder)


def test_no_configuration_is_forgotten():
    files = {path.stem for path in pathlib.Path(smoke.__file__).parent.glob("*.py")}
    assert files - {"__init__"} == set(CONFIGS)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_says_what_it_is(name):
    text = CONFIGS[name].__doc__
    heads = re.findall(r"^\w+:", text, re.MULTILINE)
    assert heads == ["Paper:", "Command:", "Cost:", "Expected:"]
    assert re.search(r"^Expected: .*\d", text, re.MULTILINE | re.DOTALL)
    config_lib.from_config_dict(CONFIGS[name].get_config())


def _gigabytes_ahead(experiment):
    """What a stream of a configuration may hold in memory, 10^9 bytes; 0 of other data."""
    data, run = experiment.data, experiment.run
    if getattr(data, "read", "") != "stream":
        return 0
    images = len(experiment.agents.seeds) * run.steps_per_call * run.batch_size
    size = images * math.prod(sides(data.image_size)) * data.channels
    return size * prefetch.elements_held(data.workers) / 1e9


def test_what_is_read_ahead_fits_in_memory():
    """The machines that these are for have hundreds of gigabytes."""
    modules = {**CONFIGS, **recipes_test.MODULES}
    configs = {name: module.get_config() for name, module in modules.items()}
    found = {n: _gigabytes_ahead(config_lib.from_config_dict(c)) for n, c in configs.items()}
    assert sum(size > 1 for size in found.values()) >= 10
    assert not {name: size for name, size in found.items() if size > 40}


def _convolutional_flops(channels, side, widths, hidden, outputs):
    """FLOPs of an image and its gradient; the first layer has no gradient of its input."""
    layers = []
    for before, after in zip((channels, *widths), widths):
        side //= 2
        layers.append(2 * side**2 * 16 * before * after)
    layers += [2 * widths[-1] * hidden, 2 * hidden * outputs]
    return 3 * sum(layers) - layers[0]


def _vit_flops(patches, pixels, width, depth, outputs):
    first = 2 * patches * pixels * width
    tokens = patches + 1
    block = 2 * tokens * 12 * width**2 + 2 * 2 * tokens**2 * width
    return 3 * (first + depth * block + 2 * width * outputs) - first


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("motion_conv", _convolutional_flops(3, 64, (32, 64, 128, 256), 256, 2)),
        ("motion_vits", _vit_flops(64, 8 * 8 * 3, 384, 12, 3)),
    ],
)
def test_the_stated_flops_are_those_of_the_layers(name, image):
    text, config = " ".join(CONFIGS[name].__doc__.split()), CONFIGS[name].get_config()
    stated = re.search(
        r"Cost: ([\d.]+) PFLOP: ([\d.]+) GFLOP a pair, (\d) agents, ([\d,]+) steps", text
    )
    steps = config.run.steps
    assert (int(stated[3]), int(stated[4].replace(",", ""))) == (len(config.agents.seeds), steps)
    assert float(stated[2]) == pytest.approx(2 * image / 1e9, rel=2e-3)
    total = 2 * image * steps * config.run.batch_size * len(config.agents.seeds)
    assert float(stated[1]) == pytest.approx(total / 1e15, rel=2e-3)


def _untrained_teacher():
    """Agents of motion_lejepa as their run would leave them, without the run."""
    config = smoke.shrink(motion_lejepa.get_config(), steps=2)
    experiment = config_lib.from_config_dict(config)
    state = jax.device_get(build.build(experiment).fresh_state())
    ones = np.ones((3, 3), np.float32)
    return Encoders(experiment, state.params, state.aux, 0.5 * ones, 0.2 * ones)


BY_NIGHT = ("toys_ijepa_vits", "motion_conv", "motion_vits", "eth80_lejepa", "imagenet_lejepa")
"""Data and objectives of these are those of others, too; only encoders or both together differ."""


@pytest.fixture
def opened(request, tmp_path, monkeypatch):
    """Parts and feed of a configuration, made small."""
    name = request.param
    monkeypatch.setattr(moving, "_BLOCK", 64)  # images that are rendered at once
    config = smoke.shrink(CONFIGS[name].get_config(), steps=2)
    if name == "smallnorb_ijepa":
        config.data.path = _write_smallnorb(tmp_path)
    if name.startswith("imagenet"):
        pictures = [(f"{n}.png", encoded(random_image(n)), n % 2) for n in range(30)]
        input_files.write_folder(tmp_path, pictures)
        config.data.path, config.data.workers = str(tmp_path), 0
        config.data.splits.test_instances, config.data.splits.test_states = 1, 0.1
    if name == "nuscenes_ijepa":
        config.data.path, config.data.version = str(rig.write(tmp_path / "data")), rig.VERSION
        config.data.workers = 0
    if name.startswith("eth80"):
        config.data.path = _write_photographs(tmp_path)
    if name == "reacher_lejepa":
        arm.stand_in(monkeypatch)
    if name == "folder_ijepa":
        config.data.path, config.data.workers = _write_folder(tmp_path), 0
    experiment = config_lib.from_config_dict(config)
    dataset = experiment.data.load(tmp_path / "cache")
    teacher = _untrained_teacher() if name == "motion_migration" else None
    parts = build.build(experiment, teacher=teacher)
    feed = build.open_feed(experiment, dataset, parts, tmp_path, tmp_path / "cache")
    with contextlib.closing(feed):
        yield parts, feed


@pytest.mark.parametrize(
    "opened",
    [pytest.param(n, marks=[pytest.mark.nightly] * (n in BY_NIGHT)) for n in CONFIGS],
    indirect=True,
)
def test_a_configuration_can_be_trained(opened):
    """Data of the configured kind is opened, and a step of it is traced."""
    parts, feed = opened
    state = parts.abstract_state
    after, metrics = jax.eval_shape(parts.trainer.step, state, feed.at(0), parts.hparams)
    chex.assert_trees_all_equal_shapes_and_dtypes(after, state)
    agents, steps = len(parts.hparams["seed"]), parts.trainer.steps_per_call
    assert {x.shape for x in metrics.values()} == {(agents, steps)}


@pytest.mark.nightly
@pytest.mark.parametrize("opened", CONFIGS, indirect=True)
def test_a_configuration_runs_one_step(opened):
    parts, feed = opened
    before = parts.fresh_state()
    start = jax.device_get(before.params)
    after, metrics = parts.trainer.step(before, feed.at(0), parts.hparams)
    assert np.isfinite(np.asarray(metrics["loss"])).all()
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max() > 0, start, jax.device_get(after.params))
    assert np.mean(jax.tree.leaves(moved)) > 0.8


def test_folders_of_cameras_are_a_layout_of_folder_ijepa():
    data = config_lib.from_config_dict(folder_ijepa.get_config("cameras")).data
    assert (data.cameras, data.table, data.num_cameras) == (("left", "right"), "", 2)
    assert data.image_size == config_lib.from_config_dict(folder_ijepa.get_config()).data.image_size
    with pytest.raises(InputError, match="layout='folders' must be one of"):
        folder_ijepa.get_config("folders")
