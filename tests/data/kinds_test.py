"""Every kind of image data: one run's batches, whoever reads them and wherever it was interrupted.

A batch is compared by the hash of its states and pixels. Three images of each kind are broken:
their places in batches are taken by the same other images in all of these ways.
"""

import dataclasses

import jax
import pytest

from experiments.reliability import data, runs
from experiments.reliability.hosts import TWO_BY_TWO
from experiments.reliability.runs import Fault
from experiments.reliability.stream_hosts import unequal_calls
from socialjepa_jax import sharding
from tests.data import kinds

CALLS = kinds.STEPS // kinds.STEPS_PER_CALL
BY_DAY = ("class folders",)  # the others have files of their own, which run by day
EVERY = [pytest.param(n, marks=[pytest.mark.nightly] * (n not in BY_DAY)) for n in kinds.KINDS]


def of_processes(calls, processes):
    """The parts of batches that processes of two devices each read."""
    agents, batch = calls.agents[1], calls.batch_size
    devices = jax.devices()[: 2 * processes]
    by_batch = sharding.by_batch(sharding.make_mesh(agents, batch, devices))
    shape = (agents, calls.steps, batch)
    own = (devices[2 * p : 2 * p + 2] for p in range(processes))
    blocks = [sharding.local_block(by_batch, shape, devices) for devices in own]
    return [dataclasses.replace(calls, agents=agents, slots=slots) for agents, _, slots in blocks]


@pytest.mark.parametrize("name", EVERY)
def test_batches_depend_on_neither_processes_nor_the_first_step(name, tmp_path):
    calls = data.calls(kinds.experiment(name, tmp_path / "data"), tmp_path)
    expected = data.batch_digests([calls], 0, 0, CALLS)
    assert len(set(expected)) == CALLS
    assert any(calls[number]["broken"] for number in range(CALLS))
    two, three = of_processes(calls, 2), of_processes(calls, 3)
    assert two[1].agents == (0, 3) and two[1].slots == (4, 8)
    assert three[1].agents == (1, 2) and three[1].slots == (0, 8)
    assert data.batch_digests(two, 2, 0, CALLS - 2) == expected[2:]
    assert data.batch_digests(three, 4, 0, CALLS - 4) == expected[4:]


@pytest.mark.nightly
@pytest.mark.parametrize("name", kinds.KINDS)
def test_batches_do_not_depend_on_workers(name, tmp_path):
    calls = data.calls(kinds.experiment(name, tmp_path / "data"), tmp_path)
    expected = data.batch_digests([calls], 0, 0, CALLS)
    assert data.batch_digests([calls], 1, 2, CALLS - 1) == expected[1:]


@pytest.mark.nightly
@pytest.mark.parametrize("name", kinds.KINDS)
def test_two_processes_stop_and_go_on_with_the_batches_of_one(name, tmp_path):
    """Two processes of two devices, a worker each; one is signalled, then both go on."""
    given, workdir = kinds.experiment(name, tmp_path / "data", workers=1), tmp_path / "run"
    children, records = runs.Children(tmp_path / "xla", daemon=False), Fault(records=True)
    fault = Fault(phase="step", after=1, slow=0.3, records=True)
    assert children.finish_group(given, workdir, TWO_BY_TWO, {0: records, 1: fault}) == [75, 75]
    assert runs.saved(workdir)[-1] < kinds.STEPS
    assert children.finish_group(given, workdir, TWO_BY_TWO, {0: records, 1: records}) == [0, 0]
    assert unequal_calls(given, workdir) == []
    assert len((workdir / "broken_files.txt").read_text().splitlines()) == len(kinds.BROKEN)
