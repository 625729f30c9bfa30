"""Detection of the processes of a run from flags and from the scheduler's environment."""

import socket

import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.running.hosts import ProcessSpec, bind_address, detect_process

SLURM = {"SLURM_JOB_ID": "4097", "SLURM_PROCID": "3", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("environment", "expected"),
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
        (  # a batch script, outside a step
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
def test_a_process_is_detected_from_the_environment(environment, expected):
    assert detect_process(None, None, None, environment) == expected


def test_flags_take_precedence_over_the_environment():
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
def test_incomplete_and_invalid_settings_are_refused(flags, environment, message):
    with pytest.raises(InputError, match=message):
        detect_process(*flags, environment)


@pytest.mark.parametrize(
    ("coordinator", "address"),
    [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("localhost:8476", "127.0.0.1:8476"),
        ("198.51.100.7:9", None),  # of documentation, and of no machine
        ("nosuch.invalid:9", None),
    ],
)
def test_the_coordinator_listens_at_its_own_address_alone(monkeypatch, coordinator, address):
    known = {"localhost": "127.0.0.1", "own-name": "127.0.1.1"}

    def resolve(host, port, type):
        if host.endswith(".invalid"):
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, type, 0, "", (known.get(host, host), port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert bind_address(coordinator) == address
    # A machine's name for itself cannot be reached by others.
    assert bind_address("own-name:9") is None
