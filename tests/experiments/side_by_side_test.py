"""Runs side by side have a core each; errors are raised; shared devices take one run at a time."""

import os

import jax
import pytest

from experiments import side_by_side

LINUX = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux's affinity")


@LINUX
def test_every_run_has_a_core_of_its_own(tmp_path):
    allowed = sorted(os.sched_getaffinity(0))
    at = [allowed[0], allowed[-1]]
    files = [tmp_path / str(number) for number in range(3)]
    shown = "grep Cpus_allowed_list /proc/self/status"
    names = [f"{shown} > {file}; sleep 1" for file in files]  # no process is idle meanwhile
    side_by_side.run(os.system, names, at, tmp_path / "cache")
    found = [int(file.read_text().split()[1]) for file in files]
    assert set(found) == set(at) and found[0] in at and found[1] in at
    assert (tmp_path / "cache").is_dir()


@LINUX
def test_an_error_of_a_run_is_raised(tmp_path):
    names = [str(tmp_path / "made"), str(tmp_path)]
    with pytest.raises(FileExistsError):
        side_by_side.run(os.mkdir, names, sorted(os.sched_getaffinity(0))[:1], tmp_path / "cache")
    assert (tmp_path / "made").is_dir()


@LINUX
def test_devices_that_are_shared_take_one_run_at_a_time(monkeypatch):
    allowed = sorted(os.sched_getaffinity(0))
    assert side_by_side.cores() == allowed[:1]  # tests have several virtual devices
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    assert side_by_side.cores() == allowed
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert side_by_side.cores() == allowed[:1]
