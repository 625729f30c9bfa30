"""Profiler: traces some steps of a run and writes a table of the slowest operations.

The trace opens in Perfetto or TensorBoard; the table is text.
"""

import contextlib
import pathlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
from absl import logging

from socialjepa_jax.errors import InputError
from socialjepa_jax.performance import traces


@dataclass(frozen=True)
class Window:
    """Steps first + 1 ... last of a run are traced, rounded out to whole compiled calls."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Window":
        """Parses "FIRST:LAST".

        Raises:
            InputError: the text has another form, or FIRST >= LAST.
        """
        match = re.fullmatch(r"(\d{1,12}):(\d{1,12})", text)
        if not match or int(match[1]) >= int(match[2]):
            raise InputError(f"--profile_steps={text} must be FIRST:LAST, as in 100:110")
        return cls(int(match[1]), int(match[2]))

    def check(self, steps: int) -> None:
        """Raises `InputError` if the window begins after the end of a run of `steps` steps."""
        if self.first >= steps:
            raise InputError(
                f"--profile_steps={self.first}:{self.last} begins after the last of "
                f"config.run.steps={steps}"
            )

    def warn_if_past(self, step: int) -> None:
        """Logs a warning if the window ends before `step`, where the run resumes."""
        if step >= self.last:
            logging.warning(
                "Nothing will be traced: --profile_steps=%d:%d ends before step %d, where the run "
                "goes on.", self.first, self.last, step,
            )  # fmt: skip


class HasText(Protocol):
    """A compiled program that can print its optimised HLO."""

    @property
    def text(self) -> Callable[[], str]:
        """Returns the HLO."""
        ...


class Profiler(contextlib.AbstractContextManager["Profiler"]):
    """Traces a window of steps into `folder` and writes the table to `folder/top.txt`.

    Args:
        window: steps to trace; None for none.
        folder: folder of the trace.
        compiled: the compiled step, whose operations are listed; None to list all.
    """

    def __init__(
        self, window: Window | None, folder: pathlib.Path, compiled: HasText | None
    ) -> None:
        self._window, self._folder, self._compiled = window, folder, compiled
        self._running = False

    def __exit__(self, *error: object) -> None:
        self.close()

    def before(self, done: int, count: int) -> None:
        """Starts the trace if the next call, `count` steps after `done`, is in the window."""
        if self._window and done < self._window.last and done + count > self._window.first:
            if not self._running:
                jax.profiler.start_trace(str(self._folder))
            self._running = True

    def after(self, done: int, results: Any) -> None:
        """Ends the trace if the window ends at or before step `done`, once `results` are ready."""
        if self._running and self._window and done >= self._window.last:
            jax.block_until_ready(results)
            self.close()

    def close(self) -> None:
        """Ends a running trace and writes the table."""
        if not self._running:
            return
        self._running, self._window = False, None
        try:
            jax.profiler.stop_trace()
            hlo = self._compiled.text() if self._compiled else ""
            text = traces.table(traces.operations(self._folder, hlo))
            (self._folder / "top.txt").write_text(text + "\n")
            logging.info("Trace in %s; where the time goes:\n%s", self._folder, text)
        except Exception as error:  # a failed trace must not end the run
            logging.warning("The trace in %s is not complete: %s", self._folder, error)
