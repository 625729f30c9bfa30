"""Writers of measurements: JSON lines, TensorBoard and the console.

One line of `metrics.jsonl` is `{"step", "time", "kind": "train" | "eval", name: value, ...}`.
"""

import json
import pathlib
import time
from collections.abc import Mapping
from types import TracebackType

from absl import logging
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from socialjepa_jax.performance import hardware


def truncate(path: pathlib.Path, step: int) -> None:
    """Drops the lines after `step` (and a line cut short by a kill), so that a resumed run's
    file equals that of an uninterrupted one."""
    if not path.exists():
        return
    if step == 0:  # nothing was saved: the run starts anew, its evaluation of step 0 included
        path.unlink()
        return
    kept = []
    for line in path.read_text().splitlines():
        try:
            if json.loads(line)["step"] > step:
                break
        except (json.JSONDecodeError, KeyError, TypeError):
            break
        kept.append(line + "\n")
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("".join(kept))
    temporary.replace(path)


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
        self._file = self._path.open("a")
        self._events = EventFileWriter(str(workdir / "tensorboard"))
        self._start_step, self._total_steps = start_step, total_steps
        self._start = time.monotonic()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._events.close()

    def holds(self, step: int, kind: str) -> bool:
        """True if the file has a line of this kind and step, from an earlier process."""
        lines = map(json.loads, self._path.read_text().splitlines())
        return any((line["step"], line["kind"]) == (step, kind) for line in lines)

    def write(self, step: int, kind: str, scalars: Mapping[str, float]) -> None:
        """Appends one line; `kind` is "train" or "eval"."""
        elapsed = time.monotonic() - self._start
        line = {"step": step, "time": round(elapsed, 3), "kind": kind, **scalars}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        values = [Summary.Value(tag=f"{kind}/{k}", simple_value=v) for k, v in scalars.items()]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=values))
        self._events.add_event(event)

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
