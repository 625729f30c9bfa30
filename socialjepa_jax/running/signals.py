"""Interruption: a signal ends the run at a point where its state is complete."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

from absl import logging

from socialjepa_jax.errors import Interrupted

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)


class Interruption(contextlib.AbstractContextManager["Interruption"]):
    """Records SIGTERM, SIGINT (Ctrl-C, a notebook's stop button), SIGUSR1 and SIGHUP inside.

    SIGHUP comes when a terminal is closed, and stays ignored in a command started by `nohup`. A
    second signal ends the process at once. Python runs its handlers only between two bytecode
    instructions, and a compilation is one; so a thread reads the signals from Python's wake-up file
    descriptor. Outside the main thread, where Python allows no handlers, signals are not recorded.

    Args:
        stops_here: returns True if the run stops at this check. Processes of one run must agree,
            see `Group.stops_here`; by default, a process stops once it has received a signal.

    Attributes:
        requested: True once a signal was received.
    """

    def __init__(self, stops_here: Callable[[], bool] | None = None) -> None:
        self.requested = False
        self._stops_here = stops_here or (lambda: self.requested)
        self._previous: dict[int, object] = {}
        self._previous_descriptor = -1
        self._writer: socket.socket | None = None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            reader, self._writer = socket.socketpair()
            self._writer.setblocking(False)
            ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            numbers = [s for s in SIGNALS if s != signal.SIGHUP or not ignored]
            self._previous = {s: signal.signal(s, self._record) for s in numbers}
            self._previous_descriptor = signal.set_wakeup_fd(
                self._writer.fileno(), warn_on_full_buffer=False
            )
            threading.Thread(target=self._read_signals, args=(reader,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            signal.set_wakeup_fd(self._previous_descriptor)
            for number, handler in self._previous.items():
                signal.signal(number, handler)  # type: ignore[arg-type]
            self._writer.close()  # ends the thread

    def check(self) -> None:
        """Raises `Interrupted` if the run stops here. Call it where the state is complete."""
        if self._stops_here():
            raise Interrupted("by a signal")

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.requested = True

    def _read_signals(self, reader: socket.socket) -> None:
        """Reads one byte for each signal, its number."""
        with reader:
            count = 0
            while byte := reader.recv(1):
                if byte[0] not in SIGNALS:
                    continue
                count += 1
                if count == 2:
                    os._exit(128 + byte[0])
                self.requested = True
                name = signal.Signals(byte[0]).name
                logging.warning("%s: saving and stopping; again to stop at once.", name)
