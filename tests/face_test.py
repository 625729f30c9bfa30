"""The public face: lazy names that the launchers do not hide, trained encoders, and plugins."""

import dataclasses
import json
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import socialjepa_jax as sj
from configs import smoke, toys_ijepa
from socialjepa_jax import config as config_lib
from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives.ijepa import IJepa


@pytest.mark.parametrize(
    "order",
    [("train", "align"), pytest.param(("align", "train"), marks=pytest.mark.nightly)],
)
def test_the_launchers_hide_no_name(order):
    first, second = order
    code = f"""
import socialjepa_jax as sj
def check():
    assert sj.train.__name__ == "fit" and callable(sj.train)
    assert sj.align.__name__ == "socialjepa_jax.alignment" and callable(sj.align.fit)
    assert sj.sigreg.sigreg and sj.Experiment and sj.load and sj.align.retrieval
    assert sj.align.LinearMap and sj.align.evaluate
check()
import socialjepa_jax.{first}
check()
import socialjepa_jax.{second}
check()
from socialjepa_jax.train import cli
from socialjepa_jax.align import define_flags
check()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, socialjepa_jax; assert not {'jax', 'numpy', 'flax'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"align", "sigreg", "train", "load", "Experiment"} <= set(dir(sj))
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = sj.fitt


def test_importing_the_alignment_imports_nothing_heavy():
    """All names resolve later, to what their modules hold; a name that hides a module would not."""
    code = """
import sys
import socialjepa_jax.alignment
assert not {'jax', 'scipy', 'numpy'} & sys.modules.keys()
from socialjepa_jax import alignment
assert set(alignment.__all__) <= set(dir(alignment)) and 'maps' in dir(alignment)
assert alignment.maps.LinearMap is alignment.LinearMap and alignment.study.__path__
from socialjepa_jax.alignment import *
assert fit is alignment.fitting.fit and callable(alignment.compare)
for name in alignment.__all__:
    value = getattr(alignment, name)
    assert value.__name__ == name and value.__module__.startswith(alignment.__name__)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in ("fitt", "__path"):
        with pytest.raises(AttributeError, match=f"'socialjepa_jax.alignment' has no .* '{name}'"):
            getattr(sj.align, name)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run: (workdir, result)."""
    config = smoke.shrink(toys_ijepa.get_config(), steps=2)
    workdir = tmp_path_factory.mktemp("runs") / "run"
    return workdir, sj.train(config_lib.from_config_dict(config), str(workdir))


def test_loaded_encoders_give_the_latents_of_the_run(run, tmp_path):
    workdir, result = run
    encoders = sj.load(workdir)
    cameras = result.dataset.images
    assert encoders.num_agents == 3 and encoders.config.name
    for agent, camera in enumerate((0, 1, 0)):
        found = encoders.encode(agent, cameras[camera], batch_size=7)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, result.latents[agent], rtol=1e-4, atol=1e-5)
    encoders.save(tmp_path / "shipped.v0.1")
    assert (tmp_path / "shipped.v0.1.safetensors").exists()
    again = sj.load(tmp_path / "shipped.v0.1")
    np.testing.assert_array_equal(
        again.encode(1, cameras[1][:5]), encoders.encode(1, cameras[1][:5])
    )
    assert encoders.encode(0, cameras[0][:0]).shape == (0, found.shape[1])


def test_encoders_can_be_kept_without_what_encoding_does_not_read(run, tmp_path):
    """I-JEPA's latents are the target encoder's: trained encoder and predictor are dropped."""
    workdir, result = run
    encoders, images = sj.load(workdir), result.dataset.images[1][:5]
    encoders.save(tmp_path / "small", encoding=images)
    encoders.save(tmp_path / "whole")
    sizes = {name: (tmp_path / f"{name}.safetensors").stat().st_size for name in ("small", "whole")}
    assert sizes["small"] < 0.6 * sizes["whole"]
    again = sj.load(tmp_path / "small")
    np.testing.assert_array_equal(again.encode(1, images), encoders.encode(1, images))
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(again.params))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(again.aux["target"]))
    file = tmp_path / "small.safetensors"
    arrays = load_file(file)
    save_file(dict(list(arrays.items())[:-4]), file)  # damage is no omission
    with pytest.raises(InputError, match="has no array"):
        sj.load(tmp_path / "small")


def test_loading_changes_nothing_in_the_folder(run):
    workdir, _ = run
    partial = workdir / "checkpoints" / "9.orbax-checkpoint-tmp-1"
    partial.mkdir()
    before = sorted(workdir.rglob("*"))
    sj.load(workdir)
    assert sorted(workdir.rglob("*")) == before
    partial.rmdir()


def test_encoders_can_be_differentiated_through(run):
    workdir, result = run
    encoders = sj.load(workdir)
    images = jnp.asarray(result.dataset.images[0][:2], jnp.float32) / 255
    latents = encoders.apply(0, images)
    np.testing.assert_allclose(latents, result.latents[0][:2], rtol=1e-4, atol=1e-5)
    weight_D = jax.random.normal(jax.random.key(0), latents.shape[1:])
    direction = jax.random.normal(jax.random.key(1), images.shape)

    def value(x):
        return (encoders.apply(0, x) @ weight_D).sum()

    slope = (jax.grad(value)(images) * direction).sum()
    step = 1e-3
    difference = value(images + step * direction) - value(images - step * direction)
    assert abs(slope) > 0.1
    np.testing.assert_allclose(slope, difference / (2 * step), rtol=2e-2)


def test_wrong_images_agents_and_folders_are_refused(run, tmp_path):
    encoders = sj.load(run[0])
    with pytest.raises(InputError, match=r"agent=3 must be in \[0, 2\]"):
        encoders.encode(3, np.zeros((1, 8, 8, 1), np.uint8))
    with pytest.raises(InputError, match=r"images float32\[1, 8, 8, 1\] must be uint8"):
        encoders.encode(0, np.zeros((1, 8, 8, 1), np.float32))
    with pytest.raises(InputError, match="is not the workdir of a run"):
        sj.load(tmp_path)
    with pytest.raises(InputError, match="nothing"):
        sj.load(tmp_path / "nothing")


@pytest.mark.nightly  # by day the loss of the README trains
def test_what_is_registered_from_outside_trains_resumes_and_loads(tmp_path):
    """An objective, a source and an optimiser, in a program of their own."""
    plugin = pathlib.Path(__file__).parent / "plugin.py"
    done = subprocess.run(
        [sys.executable, str(plugin), str(tmp_path / "run")],
        capture_output=True, text=True, cwd=pathlib.Path(__file__).parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["steps"] == [8, 8] and found["resumed_at"] == [4]
    assert found["equal"] and found["kinds"] == ["stripes", "pca", "momentum"]
    assert found["unit_rows"] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("loss", "x", sj.Experiment), "group='loss' must be one of 'data', 'objective', 'optim'"),
        (("objective", "ijepa", sj.Experiment), "kind='ijepa' is IJepa already"),
        (("objective", "x", dict), "dict must be a dataclass"),
        (("objective", "x", config_lib.Run), "Run must have a field kind: str = 'x'"),
        (("optim", "ijepa", IJepa), "IJepa must have apply"),
    ],
)
def test_what_cannot_be_registered_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        sj.register(*arguments)
    assert dataclasses.is_dataclass(sj.Experiment)
