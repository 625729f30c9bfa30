"""Why a run ends early: a monitor, or a signal, which is acted on where the state is whole."""

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from absl import logging

from socialjepa_jax.errors import Interrupted

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class Interruption:
    """Notes SIGTERM, SIGINT (Ctrl-C, a notebook's stop button) and SIGUSR1 while it is entered.

    A second signal ends the process at once, even while the program compiles: Python runs its own
    handlers only between two of its instructions, so a thread listens instead. Outside the main
    thread, where Python allows no handlers, nothing is noted.

    Args:
        stops_here: whether to stop at a point, for runs of several processes, which must agree on
            it; by default where this process has noted a signal.

    Attributes:
        requested: whether a signal has come.
    """

    def __init__(self, stops_here: Callable[[], bool] | None = None) -> None:
        self.requested = False
        self._stops_here = stops_here or (lambda: self.requested)
        self._previous: dict[int, object] = {}
        self._wakeup = -1
        self._ears: tuple[socket.socket, socket.socket] | None = None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            self._ears = reader, writer = socket.socketpair()
            writer.setblocking(False)
            self._previous = {s: signal.signal(s, self._note) for s in SIGNALS}
            self._wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._listen, args=(reader,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ears is not None:
            signal.set_wakeup_fd(self._wakeup)
            for number, handler in self._previous.items():
                signal.signal(number, handler)  # type: ignore[arg-type]
            self._ears[1].close()  # which ends the thread

    def check(self) -> None:
        """Raises `Interrupted` if a signal has come. Call it where nothing is half done."""
        if self._stops_here():
            raise Interrupted("by a signal")

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True

    def _listen(self, reader: socket.socket) -> None:
        """Hears the number of every signal the moment it comes."""
        with reader:
            heard = 0
            while byte := reader.recv(1):
                if byte[0] not in SIGNALS:
                    continue
                heard += 1
                if heard == 2:
                    os._exit(128 + byte[0])
                self.requested = True
                name = signal.Signals(byte[0]).name
                logging.warning("%s: saving and stopping; again to stop at once.", name)
