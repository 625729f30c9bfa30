"""Signals that ask a run to stop: noted when they come, acted on at the next step boundary."""

import os
import signal
import threading
from types import FrameType, TracebackType

from absl import logging

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


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
