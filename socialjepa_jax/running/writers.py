"""Writers of measurements: JSON lines, TensorBoard and the console.

One line of `metrics.jsonl` is `{"step", "time", "kind": "train" | "eval", name: value, ...}`, where
null stands for a value that is not finite.
"""

import contextlib
import itertools
import json
import os
import pathlib
import socket
import time
from collections.abc import Mapping
from typing import IO, Any

from absl import logging
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from socialjepa_jax.performance import hardware
from socialjepa_jax.records import json_lines, plain, write_atomically
from socialjepa_jax.running.folder import open_own, unused

_COUNT = itertools.count()  # of event files of this process


def truncate(path: pathlib.Path, step: int) -> None:
    """Drops the lines after `step` (and a line cut short by a kill), so that a resumed run's
    file equals that of an uninterrupted one.

    Damaged lines are dropped too; the file with them is kept as `metrics.jsonl.damaged`.
    """
    if not path.exists():
        return
    if step == 0:  # nothing was saved: the run starts anew, its evaluation of step 0 included
        path.unlink()
        return
    kept, damaged = [], 0
    for line, measured in json_lines(path):
        if measured is None:
            damaged += 1
        elif measured["step"] <= step:
            kept.append(line + b"\n")
    if damaged:
        original = unused(path.with_name(f"{path.name}.damaged"))
        write_atomically(original, path.read_bytes())
        logging.warning("%s: damaged lines dropped: %d; see %s.", path, damaged, original.name)
    write_atomically(path, b"".join(kept))


class Silent:
    """Takes a `Writer`'s place in the processes that write nothing."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def holds(self, step: int, kind: str) -> bool:
        """Returns True: no line needs to be written."""
        return True

    def write(self, step: int, kind: str, scalars: Mapping[str, float]) -> None:
        """Writes nothing."""

    def progress(
        self, step: int, scalars: Mapping[str, float], speeds: Mapping[str, float]
    ) -> None:
        """Prints nothing."""


class Writer:
    """Writes scalars of a run to its workdir. Use as a context manager.

    Args:
        workdir: the run's folder.
        start_step: updates done before this process.
        total_steps: length of the run, for the time left.
    """

    def __init__(self, workdir: pathlib.Path, start_step: int, total_steps: int) -> None:
        self._path = workdir / "metrics.jsonl"
        truncate(self._path, start_step)
        with contextlib.ExitStack() as opened:
            log = os.fdopen(open_own(self._path, os.O_APPEND), "ab")
            self._file = opened.enter_context(log)
            self._events = RecordWriter(opened.enter_context(_new_events(workdir)))
            self._opened = opened.pop_all()
        self._add_event(file_version="brain.Event:2")
        self._start_step, self._total_steps = start_step, total_steps
        self._start = time.monotonic()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def holds(self, step: int, kind: str) -> bool:
        """True if the file has a line of this kind and step, from an earlier process."""
        found = (measured for _, measured in json_lines(self._path) if measured)
        return any((line["step"], line["kind"]) == (step, kind) for line in found)

    def write(self, step: int, kind: str, scalars: Mapping[str, float]) -> None:
        """Appends one line; `kind` is "train" or "eval"."""
        elapsed = time.monotonic() - self._start
        line = {"step": step, "time": round(elapsed, 3), "kind": kind, **scalars}
        self._file.write(json.dumps(plain(line), allow_nan=False).encode() + b"\n")
        self._file.flush()
        values = [Summary.Value(tag=f"{kind}/{k}", simple_value=v) for k, v in scalars.items()]
        self._add_event(step=step, summary=Summary(value=values))

    def _add_event(self, **content: Any) -> None:
        self._events.write(Event(wall_time=time.time(), **content).SerializeToString())
        self._events.flush()

    def progress(
        self, step: int, scalars: Mapping[str, float], speeds: Mapping[str, float]
    ) -> None:
        """Prints one line with the speed (see `hardware.SPEEDS`) and the time left."""
        done = step - self._start_step
        elapsed = time.monotonic() - self._start
        left = elapsed / max(done, 1) * (self._total_steps - step)
        shown = "  ".join(f"{name} {value:.4g}" for name, value in scalars.items())
        logging.info(
            "step %d/%d  %s  %s  %.0f s left",
            step,
            self._total_steps,
            shown,
            hardware.shown(speeds),
            left,
        )


def _new_events(workdir: pathlib.Path) -> IO[bytes]:
    """Opens a new file of TensorBoard; each event is on disk once it is written.

    TensorBoard's own writer has a thread that prints a traceback when the disk is full.
    """
    folder = workdir / "tensorboard"
    folder.mkdir(exist_ok=True)
    name = f"{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}.{next(_COUNT)}"
    return os.fdopen(open_own(folder / f"events.out.tfevents.{name}", os.O_EXCL), "wb")
