"""Released encoders: those that are named are there, small, and give what was measured."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

import socialjepa_jax as sj
from configs import motion_lejepa, toys_ijepa, toys_lejepa
from experiments import release
from socialjepa_jax import artefacts, config
from socialjepa_jax.errors import InputError

STORED = json.loads(artefacts.MEASURED.read_text())
PRESETS = {"motion_lejepa": motion_lejepa, "toys_ijepa": toys_ijepa, "toys_lejepa": toys_lejepa}
MOST_BYTES = 5_000_000
TOYS = ("toys_ijepa", "toys_lejepa")


def test_every_name_has_its_files_and_they_are_small():
    files = {path.name: path.stat().st_size for path in artefacts.FOLDER.iterdir() if path.suffix}
    names = {f"{name}.{end}" for name in artefacts.RELEASED for end in ("json", "safetensors")}
    assert set(files) == names | {"__init__.py", "measured.json"}
    assert sum(files.values()) < MOST_BYTES
    assert set(STORED) == set(artefacts.RELEASED) == set(PRESETS)


@pytest.mark.parametrize("name", artefacts.RELEASED)
def test_the_encoders_are_those_of_the_preset(name):
    preset = config.from_config_dict(PRESETS[name].get_config())
    found = sj.load(name).config
    assert found.agents.cameras == preset.agents.cameras[:2] == (0, 1)
    assert list(found.agents.seeds) == list(preset.agents.seeds[:2]) == STORED[name]["seeds"]
    assert dataclasses.replace(found, agents=preset.agents) == preset
    assert f"--name={name} " in STORED[name]["command"]


@pytest.mark.parametrize(
    "name",
    ["motion_lejepa", *(pytest.param(toys, marks=pytest.mark.nightly) for toys in TOYS)],
)
def test_fresh_states_give_what_was_measured(name):
    encoders = sj.load(name)
    found = release.measure(encoders, release.fresh(encoders.config.data))
    assert found == pytest.approx(STORED[name]["fresh"], abs=5e-3)
    assert all(np.isfinite(encoders.mean).ravel()) and encoders.num_agents == 2


def test_the_head_states_what_was_measured():
    motion, ijepa, lejepa = (STORED[name]["fresh"] for name in ("motion_lejepa", *TOYS))
    expected = (
        f"R2 of W {motion['r2']:.2f}, of the state {motion['state_r2']:.2f} for motion_lejepa; "
        f"R2 of W {ijepa['r2']:.2f} for toys_ijepa and {lejepa['r2']:.2f} for toys_lejepa."
    )
    assert expected in " ".join(release.__doc__.split()) and min(motion.values()) > 0.95
    assert f"{release.STATES} states of the world in motion" in " ".join(release.__doc__.split())


def test_a_wrong_name_is_told_the_right_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=r"motion_lejap: .* motion_lejepa, toys_ijepa, toys_lejepa"
    ):
        sj.load("motion_lejap")


def test_files_of_the_user_go_before_released_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    encoders = sj.load("motion_lejepa")
    mine = dataclasses.replace(encoders.config, name="mine")
    dataclasses.replace(encoders, config=mine).save("motion_lejepa")
    assert sj.load("motion_lejepa").config.name == "mine"
    pathlib.Path("motion_lejepa.json").unlink()
    with pytest.raises(InputError, match=r"motion_lejepa\.json"):  # half of them is damage
        sj.load("motion_lejepa")
    pathlib.Path("motion_lejepa.safetensors").unlink()
    assert sj.load("motion_lejepa").config == encoders.config
