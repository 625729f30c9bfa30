"""Why a run ends early: a monitor, or a signal, which is acted on at the next step boundary."""

import os
import signal
import threading
from types import FrameType, TracebackType

from absl import logging

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class Stopped(RuntimeError):
    """A monitor ended the run.

    Attributes:
        exit_code: of the launcher.
    """

    exit_code = 3


class Interrupted(Stopped):
    """A signal ended the run after its state was saved; the same command goes on from there."""

    exit_code = 75


class Interruption:
    """Notes SIGTERM, SIGINT (Ctrl-C, a notebook's stop button) and SIGUSR1 while it is entered.

    A second signal ends the process at once. Outside the main thread, where Python allows no
    handlers, it notes nothing.

    Attributes:
        requested: whether a signal has come.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._note) for s in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            os._exit(128 + number)
        self.requested = True
        name = signal.Signals(number).name
        logging.warning("%s: saving at the next step and stopping; again to stop at once.", name)
