"""Workdirs: the lock, and what is refused before a run starts."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

from configs import toys_ijepa
from socialjepa_jax import config as config_lib
from socialjepa_jax.errors import InputError
from socialjepa_jax.running import workdir
from socialjepa_jax.running.checkpoint import Checkpoints

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def experiment():
    return config_lib.from_config_dict(toys_ijepa.get_config())


def _prepare(folder, experiment):
    workdir.prepare(folder, config_lib.to_plain(experiment), {"jax": "0"})


def _checkpoint(folder, step):
    (folder / "checkpoints" / str(step) / "state").mkdir(parents=True)


def test_a_new_folder_is_created_and_described(tmp_path, experiment):
    with workdir.locked(tmp_path / "a" / "b"):
        _prepare(tmp_path / "a" / "b", experiment)
    found = json.loads((tmp_path / "a" / "b" / "config.json").read_text())
    assert config_lib.from_config_dict(found) == experiment
    assert json.loads((tmp_path / "a" / "b" / "environment.json").read_text()) == {"jax": "0"}


def test_a_second_process_is_refused(tmp_path):
    with (
        workdir.locked(tmp_path),
        pytest.raises(InputError, match=rf"is in use by process {os.getpid()} on"),
        workdir.locked(tmp_path),
    ):
        pass
    with workdir.locked(tmp_path):  # the lock is free again
        pass


_HOLDER = """
import pathlib, sys, time
from socialjepa_jax.running import workdir
from socialjepa_jax.running.checkpoint import Checkpoints
with workdir.locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "locked\n"
    with (
        pytest.raises(InputError, match=f"process {holder.pid} "),
        workdir.locked(tmp_path),
    ):
        pass
    holder.kill()
    holder.communicate()
    with workdir.locked(tmp_path):
        assert str(os.getpid()) in (tmp_path / "lock").read_text()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, experiment):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", pathlib.Path("/proc/none")):
        with pytest.raises(InputError, match="cannot be written"), workdir.locked(folder):
            pass


def test_foreign_folders_with_numbers_are_refused_and_checkpoints_are_not(tmp_path, experiment):
    _prepare(tmp_path, experiment)
    _checkpoint(tmp_path, 20)
    (tmp_path / "checkpoints" / "10.damaged").mkdir()
    _prepare(tmp_path, experiment)
    for name in ("99", "best/7"):
        foreign = tmp_path / "checkpoints" / name
        foreign.mkdir(parents=True)
        with pytest.raises(InputError, match=f"{name} is not a checkpoint"):
            _prepare(tmp_path, experiment)
        foreign.rmdir()


def _with_run(experiment, **changes):
    return dataclasses.replace(experiment, run=dataclasses.replace(experiment.run, **changes))


def test_settings_of_the_trained_state_may_not_change_and_others_may(tmp_path, experiment):
    _prepare(tmp_path, experiment)
    _prepare(tmp_path, dataclasses.replace(experiment, seed=1))  # no checkpoint would be lost
    _prepare(tmp_path, experiment)
    _checkpoint(tmp_path, 25)
    _prepare(tmp_path, _with_run(experiment, log_every=25, save_every=50, steps_per_call=5))
    _prepare(tmp_path, _with_run(experiment, keep_checkpoints=9, eval_every=50, agent_map="vmap"))
    _prepare(tmp_path, dataclasses.replace(experiment, monitors=config_lib.Monitors(3, 1, "stop")))
    _prepare(tmp_path, dataclasses.replace(experiment, checkpoint=config_lib.Checkpoint("r2")))
    _prepare(tmp_path, experiment)
    optim = dataclasses.replace(experiment.optim, beta2=0.9)
    for other, message in (
        (dataclasses.replace(experiment, optim=optim), "config.optim.beta2: 0.95 -> 0.9"),
        (_with_run(experiment, batch_size=32), "config.run.batch_size: 64 -> 32"),
        (dataclasses.replace(experiment, pretrain_on="all"), "'train' -> 'all'"),
    ):
        with pytest.raises(InputError, match=f"holds another run .*{message}"):
            _prepare(tmp_path, other)
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == experiment.seed


def test_a_run_older_than_a_setting_resumes(tmp_path, experiment):
    _prepare(tmp_path, experiment)
    _checkpoint(tmp_path, 25)
    record = json.loads((tmp_path / "config.json").read_text())
    del record["pretrain_on"], record["optim"]["kind"]
    (tmp_path / "config.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"config\.pretrain_on: 'train' -> 'all'"):
        _prepare(tmp_path, dataclasses.replace(experiment, pretrain_on="all"))
    _prepare(tmp_path, experiment)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"name": 3}', "\x00\xff"])
def test_a_damaged_configuration_is_refused(tmp_path, experiment, text):
    _checkpoint(tmp_path, 25)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"no config.json that can be read|holds another run"):
        _prepare(tmp_path, experiment)


def test_a_disk_too_small_for_the_checkpoints_is_refused(tmp_path, monkeypatch):
    workdir.check_space(tmp_path, 1000, 4)
    little = types.SimpleNamespace(disk_usage=lambda path: types.SimpleNamespace(free=3 * 10**9))
    monkeypatch.setattr(workdir, "shutil", little)
    with pytest.raises(InputError, match=r"room for 3000.0 MB .*; 4000.0 MB are needed \(4 states"):
        workdir.check_space(tmp_path, 10**9, 4)
    # Present checkpoints are replaced and count as free space.
    _checkpoint(tmp_path, 25)
    with (tmp_path / "checkpoints" / "25" / "data").open("wb") as file:
        file.truncate(10**9)  # sparse
    workdir.check_space(tmp_path, 10**9, 4)


def test_the_best_state_of_another_run_is_refused(tmp_path, experiment):
    """A run that was killed before its first save may have kept a best one."""
    _prepare(tmp_path, experiment)
    (tmp_path / "checkpoints" / "best" / "10" / "state").mkdir(parents=True)
    with pytest.raises(InputError, match=r"holds another run \(config\.seed"):
        _prepare(tmp_path, dataclasses.replace(experiment, seed=1))
    _prepare(tmp_path, experiment)


ENVIRONMENT = {
    "jax": "0.10.2", "jaxlib": "0.10.2", "numpy": "2.4", "devices": "1 x cpu (cpu)",
    "xla_flags": "", "x64": "False", "prng_impl": "threefry2x32", "threefry_partitionable": "True",
    "matmul_precision": "None", "python": "3.11",
}  # fmt: skip


def _prepare_under(folder, experiment, **environment):
    workdir.prepare(folder, config_lib.to_plain(experiment), ENVIRONMENT | environment)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x64", "True"),
        ("prng_impl", "rbg"),
        ("threefry_partitionable", "False"),
        ("matmul_precision", "tensorfloat32"),
    ],
)
def test_other_numerics_are_refused_once_there_are_checkpoints(tmp_path, experiment, name, value):
    _prepare_under(tmp_path, experiment, **{name: value})
    _prepare_under(tmp_path, experiment)  # nothing is lost
    _checkpoint(tmp_path, 25)
    with pytest.raises(
        InputError, match=f"other numerics \\({name}: {ENVIRONMENT[name]} -> {value}"
    ):
        _prepare_under(tmp_path, experiment, **{name: value})
    assert json.loads((tmp_path / "environment.json").read_text()) == ENVIRONMENT


@pytest.mark.parametrize("name", ["jax", "jaxlib", "numpy", "devices", "xla_flags"])
def test_another_machine_is_allowed_and_named(tmp_path, experiment, name, caplog):
    _prepare_under(tmp_path, experiment)
    _checkpoint(tmp_path, 25)
    _prepare_under(tmp_path, experiment, python="3.12")
    assert not caplog.text
    _prepare_under(tmp_path, experiment, **{name: "other"})
    assert f"begun elsewhere ({name}: {ENVIRONMENT[name]} -> other)" in caplog.text
    assert json.loads((tmp_path / "environment.json").read_text())[name] == "other"


def test_a_run_older_than_the_record_of_numerics_resumes(tmp_path, experiment, caplog):
    _prepare(tmp_path, experiment)
    _checkpoint(tmp_path, 25)
    _prepare_under(tmp_path, experiment, jax="0")
    assert not caplog.text


@pytest.mark.parametrize("text", ["", "{", None])
def test_a_lost_configuration_is_that_of_the_newest_manifest(tmp_path, experiment, text):
    _prepare_under(tmp_path, experiment)
    plain = config_lib.to_plain(experiment)
    with Checkpoints(tmp_path / "checkpoints", 3) as checkpoints:
        for step, record in ((1, {}), (2, {"config": plain, "versions": ENVIRONMENT}), (3, {})):
            checkpoints.save(step, {"x": np.ones(2, np.float32)}, record)
    (tmp_path / "checkpoints" / "3" / "manifest" / "metadata").write_text("damaged")
    for name in ("config.json", "environment.json"):
        (tmp_path / name).unlink()
        if text is not None:
            (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=r"another run \(config\.seed: 0 -> 1\)"):
        _prepare_under(tmp_path, dataclasses.replace(experiment, seed=1))
    with pytest.raises(InputError, match="other numerics"):
        _prepare_under(tmp_path, experiment, x64="True")
    _prepare_under(tmp_path, experiment)
    assert json.loads((tmp_path / "config.json").read_text()) == json.loads(json.dumps(plain))
    assert json.loads((tmp_path / "environment.json").read_text()) == ENVIRONMENT


def test_files_in_the_place_of_folders_are_refused(tmp_path, experiment):
    for name in ("checkpoints", "tensorboard", "latents", "maps"):
        (tmp_path / name).write_text("")
        with pytest.raises(InputError, match=f"{name} is a file"):
            _prepare(tmp_path, experiment)
        (tmp_path / name).unlink()
