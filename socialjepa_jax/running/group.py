"""Group: the processes of a run agree on the step to stop at, and they end together.

Messages are keys in the coordination service of `jax.distributed`, which process 0 hosts. A thread
of every process reads them ten times a second, also while the process waits inside a collective:

    host/<k>           host name of process k
    barrier/<n>/<k>    process k has reached barrier n
    value/<n>          a value that process 0 has broadcast
    event/stop         a process has received a signal
    passed/<k>         stop checks that process k had passed when it read event/stop
    event/failure      index, exit code and message of the first process that failed
    received/<k>       process k has read event/failure

Stop: on event/stop every process publishes its number of passed checks and blocks at the next one.
When all numbers are known, all processes stop at check 1 + max(passed), which is the same step.
Failure: the other processes print the last line of the message and exit with the same code.

`jax.experimental.multihost_utils` does not replace this: `sync_global_devices` has no time-out and
cannot name a late process; `reached_preemption_sync_point` reacts to SIGTERM alone.
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
from typing import Any, NoReturn

import jax
import numpy as np
from jax.experimental import multihost_utils

from socialjepa_jax.errors import Stopped

PyTree = Any

_POLL_S = 0.1
_RECEIPTS_S = 3.0  # time that a failed process 0 gives the others to read its message
_ROOT = "socialjepa"


class Group:
    """The processes of a run, seen from one of them. `hosts.joined` makes it.

    All processes call `barrier`, `from_first` and `arrays_from_first` in the same order.

    Args:
        index: index of this process.
        size: number of processes.
        client: client of the coordination service; None if the process is alone.
        wait_s: seconds to wait for another process.

    Attributes:
        index: index of this process.
        size: number of processes.
    """

    def __init__(
        self, index: int = 0, size: int = 1, client: Any = None, wait_s: float = 0
    ) -> None:
        self.index, self.size = index, size
        self._client, self._wait_s = client, wait_s
        self._numbers = itertools.count()  # of barriers and values
        self._unblocked = threading.Condition()
        self._blocked, self._passed = False, 0
        self._stop_at: int | None = None
        self._requested: Callable[[], bool] = lambda: False
        self._left = threading.Event()
        self._reader = threading.Thread(target=self._read_messages, name="group", daemon=True)
        if client is not None:
            self._send(f"host/{index}", socket.gethostname())
            self._reader.start()

    @property
    def is_first(self) -> bool:
        """True for process 0, the only one that writes files."""
        return self.index == 0

    def barrier(self, name: str) -> None:
        """Returns once every process has called it; `name` is for the message.

        Raises:
            Stopped: the time is over. The message names the missing processes and their hosts.
        """
        if self.size == 1:
            return
        number = next(self._numbers)
        self._send(f"barrier/{number}/{self.index}", name)
        try:
            self._client.wait_at_barrier(f"{_ROOT}/{number}", int(1000 * self._wait_s))
        except Exception as error:  # the service documents no exception types
            arrived = self._received(f"barrier/{number}/").keys()
            late = [k for k in range(self.size) if str(k) not in arrived]
            if not late:
                raise Stopped(f"waiting for {name!r} failed: {error}") from None
            raise self._late(late, name) from None

    def _late(self, late: list[int], name: str) -> Stopped:
        hosts = self._received("host/")
        named = ", ".join(f"process {k} on {hosts.get(str(k), 'an unknown host')}" for k in late)
        return Stopped(f"{named} did not reach {name!r} within {self._wait_s:g} s")

    def from_first(self, value: Any) -> Any:
        """Broadcasts a JSON-able value of process 0 to every process.

        Raises:
            Stopped: process 0 did not send it in time.
        """
        if self.size == 1:
            return value
        key = f"value/{next(self._numbers)}"
        if self.is_first:
            self._send(key, json.dumps(value))
            return value
        milliseconds = int(1000 * self._wait_s)
        try:
            return json.loads(self._client.blocking_key_value_get(f"{_ROOT}/{key}", milliseconds))
        except Exception:  # the service documents no exception types
            raise self._late([0], "a decision") from None

    def arrays_from_first(self, tree: PyTree) -> PyTree:
        """Broadcasts the NumPy arrays of process 0 to every process, bit for bit.

        Args:
            tree: pytree of arrays, with the same shapes and dtypes in every process.
        """
        if self.size == 1:
            return tree
        leaves, structure = jax.tree.flatten(tree)
        # As bytes, because the broadcast adds zeros, and -0.0 + 0.0 is 0.0.
        flat = [np.ascontiguousarray(leaf).reshape(-1).view(np.uint8) for leaf in leaves]
        sent = np.asarray(multihost_utils.broadcast_one_to_all(np.concatenate(flat)))
        parts = np.split(sent, np.cumsum([len(part) for part in flat])[:-1])
        same = [p.view(x.dtype).reshape(x.shape) for p, x in zip(parts, leaves)]
        return jax.tree.unflatten(structure, same)

    @contextlib.contextmanager
    def first_before_others(self, name: str) -> Iterator[None]:
        """Runs the body in process 0 and then in the others, which find the files it wrote."""
        if not self.is_first:
            self.barrier(name)
        yield
        if self.is_first:
            self.barrier(name)

    def listen(self, requested: Callable[[], bool]) -> None:
        """Sets the function that returns True once this process was asked to stop."""
        self._requested = requested

    def stops_here(self) -> bool:
        """True if the run stops at this check.

        Every process calls it at the same steps and gets the same answers, so all of them stop at
        the same step.
        """
        if self.size == 1:
            return self._requested()
        with self._unblocked:
            self._unblocked.wait_for(lambda: not self._blocked)
            self._passed += 1
            return self._stop_at is not None and self._passed >= self._stop_at

    def leave(self) -> None:
        """Waits for every process to leave and closes the connection."""
        self.barrier("the end")
        self._left.set()
        self._reader.join()
        jax.distributed.shutdown()

    def fail(self, code: int, message: str) -> NoReturn:
        """Exits at once with this code and message, and makes the other processes exit with them.

        An error (code 1) may follow from the failure of another process; then that one's code and
        message are used.
        """
        if code == 1:  # perhaps a collective failed because another process is gone
            time.sleep(5 * _POLL_S)
            self._obey_failure(self._received("event/"))
        print(message, file=sys.stderr)
        failure = {"index": self.index, "code": code, "message": message.strip()}
        with contextlib.suppress(Exception):  # the service may be gone with process 0
            self._send("event/failure", json.dumps(failure))
            # The service ends with process 0, so process 0 waits for the receipts.
            deadline = time.monotonic() + (_RECEIPTS_S if self.is_first else 0)
            while len(self._received("received/")) < self.size - 1 and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        _exit(code)

    def _send(self, key: str, value: str) -> None:
        self._client.key_value_set(f"{_ROOT}/{key}", value)

    def _received(self, folder: str) -> dict[str, str]:
        """Returns the messages of a folder: key without the folder -> value."""
        pairs = self._client.key_value_dir_get(f"{_ROOT}/{folder}")
        return {key.rpartition("/")[2]: value for key, value in pairs}

    def _read_messages(self) -> None:
        """Obeys events until `leave`; the body of the reader thread."""
        while not self._left.wait(_POLL_S):
            try:
                self._obey(self._received("event/"))
            except Exception:
                if self._left.is_set():
                    return
                print("stopped: process 0 is gone", file=sys.stderr)
                _exit(1)

    def _obey(self, events: Mapping[str, str]) -> None:
        self._obey_failure(events)
        if "stop" not in events and self._requested():
            with contextlib.suppress(Exception):  # another process may have set the key
                self._send("event/stop", str(self.index))
        if "stop" in events and self._stop_at is None:
            self._agree_to_stop()

    def _agree_to_stop(self) -> None:
        """Publishes the passed checks and, once all processes have, sets the check to stop at.

        A process that waits for the others inside a step has passed the check before that step, and
        this thread publishes it, so nobody waits for ever.
        """
        with self._unblocked:
            if not self._blocked:
                self._blocked = True
                self._send(f"passed/{self.index}", str(self._passed))
            passed = self._received("passed/")
            if len(passed) == self.size:
                self._stop_at = 1 + max(map(int, passed.values()))
                self._blocked = False
                self._unblocked.notify_all()

    def _obey_failure(self, events: Mapping[str, str]) -> None:
        if "failure" not in events:
            return
        failure = json.loads(events["failure"])
        if failure["index"] == self.index:
            return
        last = failure["message"].splitlines()[-1]
        print(f"process {failure['index']} ended: {last}", file=sys.stderr)
        with contextlib.suppress(Exception):
            self._send(f"received/{self.index}", "")
        _exit(failure["code"])


ALONE = Group()


def _exit(code: int) -> NoReturn:
    """Ends the process without its exit handlers, which would wait for the other processes."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
