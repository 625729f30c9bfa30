"""The processes of a run: detected from flags or the scheduler's environment, and joined.

Detection is not left to `jax.distributed.initialize`: on SLURM it gives every process one device,
also where a process has a host to itself; on Kubernetes it needs a client package and permissions;
and it does not name the variable that is missing or wrong.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jax
from absl import logging

from socialjepa_jax.errors import InputError, Interrupted, Stopped, check_in_range, check_positive
from socialjepa_jax.running import launch
from socialjepa_jax.running.group import ALONE, Group

_HEARTBEAT_S = 8  # jax ends the run if a process is silent for longer


@dataclass(frozen=True)
class ProcessSpec:
    """One of several processes.

    Attributes:
        coordinator: "host:port" of process 0.
        size: number of processes.
        index: index of this process, from 0.
        local_devices: indices of the host's devices that this process uses; None for all.
    """

    coordinator: str
    size: int
    index: int
    local_devices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_positive(num_processes=self.size)
        check_in_range(0, self.size - 1, process_id=self.index)
        host, _, port = self.coordinator.rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"coordinator={self.coordinator!r} must be host:port")


def detect_process(
    coordinator: str | None,
    num_processes: int | None,
    process_id: int | None,
    environment: Mapping[str, str],
) -> ProcessSpec | None:
    """Returns the spec of this process from flags or, without flags, from the environment.

    Three schedulers are known: jax's own variables JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
    JAX_PROCESS_ID (or the JOB_COMPLETION_INDEX of an indexed Kubernetes job); a SLURM step started
    by `srun`; a TPU slice of several hosts (TPU_WORKER_HOSTNAMES and TPU_WORKER_ID).

    Args:
        coordinator: "host:port" of process 0; None if the flag is not given.
        num_processes: number of processes; None if the flag is not given.
        process_id: index of this process; None if the flag is not given.
        environment: environment variables.

    Returns:
        The spec, or None if the process is alone.

    Raises:
        InputError: a flag or variable is missing or invalid.
    """
    flags = {
        "coordinator": coordinator,
        "num_processes": num_processes,
        "process_id": process_id,
    }
    given = [name for name, value in flags.items() if value is not None]
    if given:
        if missing := sorted(flags.keys() - given):
            raise InputError(f"--{given[0]} also needs --{missing[0]}")
        assert coordinator is not None and num_processes is not None and process_id is not None
        return ProcessSpec(coordinator, num_processes, process_id)
    for detect in (_from_jax, _from_slurm, _from_tpu):
        spec = detect(environment)
        if spec is not None:
            return spec if spec.size > 1 else None
    return None


def _number(environment: Mapping[str, str], name: str) -> int:
    value = environment.get(name, "")
    if not value.isdigit():
        raise InputError(f"the environment's {name}={value!r} must be a number")
    return int(value)


def _from_jax(environment: Mapping[str, str]) -> ProcessSpec | None:
    """Reads jax's own variables, as a Kubernetes manifest sets them."""
    if "JAX_NUM_PROCESSES" not in environment:
        return None
    address = environment.get("JAX_COORDINATOR_ADDRESS", "")
    index = "JAX_PROCESS_ID" if "JAX_PROCESS_ID" in environment else "JOB_COMPLETION_INDEX"
    size = _number(environment, "JAX_NUM_PROCESSES")
    return ProcessSpec(address, size, _number(environment, index))


def _from_slurm(environment: Mapping[str, str]) -> ProcessSpec | None:
    """Reads the variables of a step that `srun` started. A batch script is alone."""
    if environment.get("SLURM_STEP_NUM_TASKS", "1") == "1" or "SLURM_PROCID" not in environment:
        return None
    # The first host of 'node7', 'node7,node9', 'node[007-009],other' or 'node[7,9]'.
    head, _, rest = environment.get("SLURM_STEP_NODELIST", "").partition("[")
    host = head.split(",")[0]
    if "," not in head:
        host += rest.replace("-", ",").replace("]", ",").split(",")[0]
    port = 61440 + _number(environment, "SLURM_JOB_ID") % 4096
    # Tasks that share a host use one of its devices each.
    tasks = environment.get("SLURM_STEP_TASKS_PER_NODE", "1").split("(")[0].split(",")[0]
    local = None if tasks == "1" else (_number(environment, "SLURM_LOCALID"),)
    size, index = (_number(environment, f"SLURM_{n}") for n in ("STEP_NUM_TASKS", "PROCID"))
    return ProcessSpec(f"{host}:{port}", size, index, local)


def _from_tpu(environment: Mapping[str, str]) -> ProcessSpec | None:
    """Reads the variables of a TPU slice of several hosts."""
    hosts = [host for host in environment.get("TPU_WORKER_HOSTNAMES", "").split(",") if host]
    if len(hosts) < 2:
        return None
    return ProcessSpec(f"{hosts[0]}:8476", len(hosts), _number(environment, "TPU_WORKER_ID"))


def bind_address(coordinator: str) -> str | None:
    """Returns the address at which process 0 listens: that of the given host, and no other.

    The service has neither passwords nor encryption, so that it listens at no more than it must.

    Args:
        coordinator: "host:port".

    Returns:
        "address:port"; None, at all addresses, if the host is not one of this machine's addresses
        (that of a Kubernetes service, say) or is its name for itself alone.
    """
    host, _, port = coordinator.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address[0], 0))
    except OSError:
        return None
    numeric = ipaddress.ip_address(str(address[0]).partition("%")[0])
    # Some systems give a machine's own name a loopback address, which others cannot reach.
    if numeric.is_loopback and host not in ("localhost", str(numeric), f"[{numeric}]"):
        return None
    return f"[{numeric}]:{port}" if numeric.version == 6 else f"{numeric}:{port}"


@contextlib.contextmanager
def joined(spec: ProcessSpec | None, wait_s: float) -> Iterator[Group]:
    """Joins the processes of a run; an error in one of them ends all of them.

    Enter it before jax uses any device; changes of `jax.config` may come earlier.

    Args:
        spec: this process; None if it is alone.
        wait_s: seconds to wait for another process at a barrier.
    """
    if spec is None:
        yield ALONE
        return
    group = _connect(spec, wait_s)
    try:
        try:
            yield group
        except Interrupted:
            group.leave()
            raise
        group.leave()
    except Interrupted:
        raise
    except BaseException as error:
        group.fail(*launch.exit_status(error))


def _connect(spec: ProcessSpec, wait_s: float) -> Group:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # jax's preemption service would install its own handler of SIGTERM; see `Group.stops_here`.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            spec.coordinator,
            spec.size,
            spec.index,
            local_device_ids=spec.local_devices,
            coordinator_bind_address=bind_address(spec.coordinator),
            initialization_timeout=max(1, int(wait_s)),
            heartbeat_timeout_seconds=_HEARTBEAT_S,
            shutdown_timeout_seconds=_HEARTBEAT_S,
        )
    except Exception as error:
        raise Stopped(
            f"process {spec.index} of {spec.size} cannot reach the others at "
            f"{spec.coordinator}: {str(error).splitlines()[0]}"
        ) from None
    if spec.index:
        logging.set_verbosity(logging.WARNING)
    from jax._src import distributed  # private API: the key-value client has no public one

    return Group(spec.index, spec.size, distributed.global_state.client, wait_s)
