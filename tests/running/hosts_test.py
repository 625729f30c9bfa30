"""Several processes: who they are, and that two of them with two devices are one with four."""

import os

import pytest

from experiments.reliability import groups, streams
from experiments.reliability.checks import Lab
from socialjepa_jax.errors import InputError
from socialjepa_jax.running.hosts import ALONE, ProcessSpec, detect_process

SLURM = {"SLURM_JOB_ID": "4097", "SLURM_PROCID": "3", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, None),
        (
            {
                "JAX_COORDINATOR_ADDRESS": "job-0.job:1234",
                "JAX_NUM_PROCESSES": "4",
                "JOB_COMPLETION_INDEX": "2",
            },
            ProcessSpec("job-0.job:1234", 4, 2),
        ),
        (  # the batch script, outside a step
            {**SLURM, "SLURM_NTASKS": "8", "SLURM_PROCID": "0"},
            None,
        ),
        (
            {
                **SLURM,
                "SLURM_STEP_NUM_TASKS": "8",
                "SLURM_STEP_NODELIST": "gpu[007-009],other",
                "SLURM_STEP_TASKS_PER_NODE": "2(x4)",
            },
            ProcessSpec("gpu007:61441", 8, 3, (1,)),
        ),
        (
            {**SLURM, "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "a1,a[2-4]"},
            ProcessSpec("a1:61441", 4, 3),
        ),
        (
            {"TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2", "TPU_WORKER_ID": "1"},
            ProcessSpec("10.0.0.1:8476", 2, 1),
        ),
        ({"TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0"}, None),
    ],
)
def test_the_scheduler_says_where_a_process_is(environment, place):
    assert detect_process(None, None, None, environment) == place


def test_flags_come_before_the_environment():
    found = detect_process("here:9", 2, 1, {"JAX_NUM_PROCESSES": "7"})
    assert found == ProcessSpec("here:9", 2, 1)


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        (("here:9", None, None), {}, "--coordinator also needs --num_processes"),
        (("here", 2, 0), {}, "coordinator='here' must be host:port"),
        (("here:9", 2, 2), {}, "process_id=2"),
        ((None, None, None), {"JAX_NUM_PROCESSES": "many"}, "JAX_NUM_PROCESSES='many'"),
    ],
)
def test_half_a_place_is_refused(flags, environment, message):
    with pytest.raises(InputError, match=message):
        detect_process(*flags, environment)


def test_alone_there_is_nothing_to_wait_for():
    ALONE.barrier("anything")
    assert ALONE.from_first(3) == 3 and ALONE.is_first


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
        yield Lab(tmp_path_factory.mktemp("lab"))


def test_two_processes_of_two_devices_are_one_of_four(lab):
    seen, passed = groups.equal(lab)
    assert passed, seen


def test_their_devices_are_given_the_streamed_batches_of_one(lab):
    seen, passed = streams.ways(lab, ((groups.TWO_BY_TWO, 0),))
    assert passed, seen


def test_a_process_that_is_late_is_named(lab):
    seen, passed = groups.names_the_late(lab)
    assert passed, seen


@pytest.mark.nightly
def test_processes_stop_and_fail_as_one(lab):
    seen, passed = groups.processes(lab)
    assert passed, seen


@pytest.mark.nightly
def test_streams_of_several_processes_stop_and_fail_as_one(lab):
    seen, passed = streams.stream_groups(lab)
    assert passed, seen
