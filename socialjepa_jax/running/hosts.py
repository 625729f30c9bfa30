"""Several processes that run one program: how they find each other, agree, and end together.

Collectives carry numbers between devices and know neither time-outs nor reasons. What the hosts
have to say to each other (I am here; stop; I failed, because) goes through the coordination service
of `jax.distributed` instead, as small messages that a thread of every process looks for.
"""

import contextlib
import itertools
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import numpy as np
from absl import logging
from jax.experimental import multihost_utils

from socialjepa_jax.errors import InputError, Interrupted, Stopped, check_in_range, check_positive
from socialjepa_jax.running import launch

PyTree = Any

_HEARTBEAT_S = 8  # a process that is silent for longer is dead, and jax ends the others
_POLL_S = 0.1
_FAREWELL_S = 3.0  # how long the first process, which carries the messages, waits to be heard
_ROOT = "socialjepa"


class Late(Stopped):
    """A process did not arrive in time."""


@dataclass(frozen=True)
class ProcessSpec:
    """Which of several processes this is.

    Attributes:
        coordinator: "host:port" of process 0.
        size: number of processes.
        index: of this one, from 0.
        local_devices: which of the host's devices are this process's; None: all.
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
    """Finds this process's place from flags, or else from the scheduler's environment.

    Known are JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID (or the
    JOB_COMPLETION_INDEX of an indexed Kubernetes job); a SLURM step (`srun`); a TPU slice of
    several hosts (TPU_WORKER_HOSTNAMES and TPU_WORKER_ID).

    Returns:
        The place; None if the process is alone.

    Raises:
        InputError: only a part of what is needed is there, or it contradicts itself.
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
    for find in (_from_jax, _from_slurm, _from_tpu):
        place = find(environment)
        if place is not None:
            return place if place.size > 1 else None
    return None


def _number(environment: Mapping[str, str], name: str) -> int:
    value = environment.get(name, "")
    if not value.isdigit():
        raise InputError(f"the environment's {name}={value!r} must be a number")
    return int(value)


def _from_jax(environment: Mapping[str, str]) -> ProcessSpec | None:
    """jax's own names, as a Kubernetes manifest sets them."""
    if "JAX_NUM_PROCESSES" not in environment:
        return None
    address = environment.get("JAX_COORDINATOR_ADDRESS", "")
    index = "JAX_PROCESS_ID" if "JAX_PROCESS_ID" in environment else "JOB_COMPLETION_INDEX"
    size = _number(environment, "JAX_NUM_PROCESSES")
    return ProcessSpec(address, size, _number(environment, index))


def _from_slurm(environment: Mapping[str, str]) -> ProcessSpec | None:
    """A step that `srun` started; the batch script itself is alone."""
    if environment.get("SLURM_STEP_NUM_TASKS", "1") == "1" or "SLURM_PROCID" not in environment:
        return None
    # 'node7', 'node7,node9', 'node[007-009],other' or 'node[7,9]': the first host
    head, _, rest = environment.get("SLURM_STEP_NODELIST", "").partition("[")
    host = head.split(",")[0]
    if "," not in head:
        host += rest.replace("-", ",").replace("]", ",").split(",")[0]
    port = 61440 + _number(environment, "SLURM_JOB_ID") % 4096
    # Several tasks on a host share its devices out, one each.
    several = environment.get("SLURM_STEP_TASKS_PER_NODE", "1").split("(")[0].split(",")[0] != "1"
    local = (_number(environment, "SLURM_LOCALID"),) if several else None
    size, index = (_number(environment, f"SLURM_{n}") for n in ("STEP_NUM_TASKS", "PROCID"))
    return ProcessSpec(f"{host}:{port}", size, index, local)


def _from_tpu(environment: Mapping[str, str]) -> ProcessSpec | None:
    """One slice of several hosts."""
    hosts = [host for host in environment.get("TPU_WORKER_HOSTNAMES", "").split(",") if host]
    if len(hosts) < 2:
        return None
    return ProcessSpec(f"{hosts[0]}:8476", len(hosts), _number(environment, "TPU_WORKER_ID"))


class Group:
    """The processes of a run, as one of them sees them. See `ALONE` and `joined`.

    Attributes:
        index: of this process.
        size: number of processes.
    """

    def __init__(
        self, index: int = 0, size: int = 1, client: Any = None, wait_s: float = 0
    ) -> None:
        self.index, self.size = index, size
        self._client, self._wait_s = client, wait_s
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._frozen, self._checks = False, 0
        self._stop_at: int | None = None
        self._requested: Callable[[], bool] = lambda: False
        self._left = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="group", daemon=True)
        if client is not None:
            self._set(f"host/{index}", socket.gethostname())
            self._watcher.start()

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes files."""
        return self.index == 0

    def barrier(self, name: str) -> None:
        """Returns once every process is here; `name` says what for.

        Raises:
            Late: naming the processes that are not, when the time is over.
        """
        if self.size == 1:
            return
        number = next(self._numbers)
        self._set(f"barrier/{number}/{self.index}", name)
        try:
            self._client.wait_at_barrier(f"{_ROOT}/{number}", int(1000 * self._wait_s))
        except Exception as error:  # whatever the service raises
            here = self._all(f"barrier/{number}/").keys()
            late = [k for k in range(self.size) if str(k) not in here]
            if not late:
                raise Late(f"waiting for {name!r} failed: {error}") from None
            raise Late(self._who_is_late(late, name)) from None

    def _who_is_late(self, late: list[int], name: str) -> str:
        hosts = self._all("host/")
        named = ", ".join(f"process {k} on {hosts.get(str(k), 'an unknown host')}" for k in late)
        return f"{named} did not reach {name!r} within {self._wait_s:g} s"

    def from_first(self, value: Any) -> Any:
        """The value that process 0 has, in every process (JSON-able).

        Raises:
            Late: process 0 did not say it in time.
        """
        if self.size == 1:
            return value
        number = next(self._numbers)
        key = f"{_ROOT}/value/{number}"
        if self.is_first:
            self._client.key_value_set(key, json.dumps(value))
            return value
        try:
            return json.loads(self._client.blocking_key_value_get(key, int(1000 * self._wait_s)))
        except Exception:  # whatever the service raises
            raise Late(self._who_is_late([0], "a decision")) from None

    def arrays_from_first(self, tree: PyTree) -> PyTree:
        """The arrays (NumPy) that process 0 has, in every process, bit for bit.

        Args:
            tree: of arrays of the same shapes and dtypes everywhere.
        """
        if self.size == 1:
            return tree
        leaves, structure = jax.tree.flatten(tree)
        # As bytes: broadcasting adds zeros, and -0.0 + 0.0 is 0.0.
        flat = [np.ascontiguousarray(leaf).reshape(-1).view(np.uint8) for leaf in leaves]
        sent = np.asarray(multihost_utils.broadcast_one_to_all(np.concatenate(flat)))
        parts = np.split(sent, np.cumsum([len(part) for part in flat])[:-1])
        same = [p.view(x.dtype).reshape(x.shape) for p, x in zip(parts, leaves)]
        return jax.tree.unflatten(structure, same)

    @contextlib.contextmanager
    def first_before_others(self, what: str) -> Iterator[None]:
        """The body runs in process 0, then in the others: they find the files it left."""
        if not self.is_first:
            self.barrier(what)
        yield
        if self.is_first:
            self.barrier(what)

    def listen(self, requested: Callable[[], bool]) -> None:
        """Sets how to know whether this process was asked to stop."""
        self._requested = requested

    def stops_here(self) -> bool:
        """Whether to stop at this point. Every process asks at the same points, in the same order,
        and gets the same answer, so all of them stop at the same step."""
        if self.size == 1:
            return self._requested()
        with self._changed:
            self._changed.wait_for(lambda: not self._frozen)
            self._checks += 1
            return self._stop_at is not None and self._checks >= self._stop_at

    def leave(self) -> None:
        """Ends the connection when every process is at its end."""
        self.barrier("the end")
        self._left.set()
        self._watcher.join()
        jax.distributed.shutdown()

    def fail(self, code: int, message: str) -> NoReturn:
        """Ends this process at once, and the others with it: with this code and this message.

        If another process failed first and this failure follows from it, with that one's.
        """
        if code == 1:  # an error; perhaps a collective's whose other side is gone
            time.sleep(5 * _POLL_S)
            self._obey_failure(self._all("event/"))
        print(message, file=sys.stderr)
        verdict = {"index": self.index, "code": code, "message": message.strip()}
        with contextlib.suppress(Exception):  # the service may be gone with its process
            self._set("event/failure", json.dumps(verdict))
            deadline = time.monotonic() + (_FAREWELL_S if self.is_first else 0)
            while len(self._all("heard/")) < self.size - 1 and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        _exit(code)

    def _set(self, key: str, value: str) -> None:
        self._client.key_value_set(f"{_ROOT}/{key}", value)

    def _all(self, folder: str) -> dict[str, str]:
        """Key (without the folder) -> value."""
        pairs = self._client.key_value_dir_get(f"{_ROOT}/{folder}")
        return {key.rpartition("/")[2]: value for key, value in pairs}

    def _watch(self) -> None:
        """Looks for what others say, until the end."""
        while not self._left.wait(_POLL_S):
            try:
                self._look()
            except Exception:
                if self._left.is_set():
                    return
                print("stopped: process 0 is gone", file=sys.stderr)
                _exit(1)

    def _look(self) -> None:
        events = self._all("event/")
        self._obey_failure(events)
        if "stop" not in events and self._requested():
            with contextlib.suppress(Exception):  # another process may say it now
                self._set("event/stop", str(self.index))
        if "stop" in events and self._stop_at is None:
            self._agree_to_stop()

    def _agree_to_stop(self) -> None:
        """Every process says how many points it has passed; all stop at the one after the last.

        Nobody passes another point meanwhile; one that waits for the others inside a step has
        passed the point before it, and says so from this thread.
        """
        with self._changed:
            if not self._frozen:
                self._frozen = True
                self._set(f"passed/{self.index}", str(self._checks))
            passed = self._all("passed/")
            if len(passed) == self.size:
                self._stop_at = 1 + max(map(int, passed.values()))
                self._frozen = False
                self._changed.notify_all()

    def _obey_failure(self, events: Mapping[str, str]) -> None:
        if "failure" not in events:
            return
        failure = json.loads(events["failure"])
        if failure["index"] == self.index:
            return
        last = failure["message"].splitlines()[-1]
        print(f"process {failure['index']} ended: {last}", file=sys.stderr)
        with contextlib.suppress(Exception):
            self._set(f"heard/{self.index}", "")
        _exit(failure["code"])


def _exit(code: int) -> NoReturn:
    """Ends the process without its exit handlers, which would wait for the other processes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


ALONE = Group()


@contextlib.contextmanager
def joined(place: ProcessSpec | None, wait_s: float) -> Iterator[Group]:
    """Joins the processes of a run; they end together, whatever happens to one of them.

    Nothing of jax may have been used before, but its configuration.

    Args:
        place: of this process; None: alone.
        wait_s: how long to wait for another process at a barrier.
    """
    if place is None:
        yield ALONE
        return
    group = _start(place, wait_s)
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
        group.fail(*launch.verdict(error))


def _start(place: ProcessSpec, wait_s: float) -> Group:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # It would take SIGTERM for itself; `Group.stops_here` also serves the other signals.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            place.coordinator,
            place.size,
            place.index,
            local_device_ids=place.local_devices,
            initialization_timeout=max(1, int(wait_s)),
            heartbeat_timeout_seconds=_HEARTBEAT_S,
            shutdown_timeout_seconds=_HEARTBEAT_S,
        )
    except Exception as error:
        raise Stopped(
            f"process {place.index} of {place.size} cannot reach the others at "
            f"{place.coordinator}: {str(error).splitlines()[0]}"
        ) from None
    if place.index:
        logging.set_verbosity(logging.WARNING)
    from jax._src import distributed  # the messages have no public door

    return Group(place.index, place.size, distributed.global_state.client, wait_s)
