"""A trace of some steps, and a table of the operations that took most of the time.

The trace itself opens in Perfetto or TensorBoard; the table needs neither.
"""

import collections
import gzip
import json
import pathlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import jax
from absl import logging

from socialjepa_jax.errors import InputError
from socialjepa_jax.performance.compilation import Compiled

Span = tuple[float, float, str]  # start and end in microseconds, operation


@dataclass(frozen=True)
class Window:
    """Steps first + 1 ... last of a run are traced, rounded out to whole compiled calls."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Window":
        """From "100:110".

        Raises:
            InputError: it is not FIRST:LAST with 0 <= FIRST < LAST.
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
        """Says that a run which goes on at `step` has the window behind it."""
        if step >= self.last:
            logging.warning(
                "Nothing will be traced: --profile_steps=%d:%d ends before step %d, where the run "
                "goes on.", self.first, self.last, step,
            )  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """What the operations of one kind took in a trace.

    Attributes:
        name: the scopes and the primitive they come from; where that is not known, their name in
            the optimised program without its number.
        count: how often such an operation ran.
        seconds: of all these runs, without operations inside them.
        share: of the time of all operations.
    """

    name: str
    count: int
    seconds: float
    share: float


class Profiler:
    """Traces a window of a run's steps into `folder`, with the table in `top.txt`.

    Args:
        window: which steps; None: none.
        folder: where to.
        program: what runs, for the sources of operations.
    """

    def __init__(
        self, window: Window | None, folder: pathlib.Path, program: Compiled | None
    ) -> None:
        self._window, self._folder, self._program = window, folder, program
        self._running = False

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def before(self, done: int, count: int) -> None:
        """To be called with the steps done before a call of `count` steps."""
        if self._window and done < self._window.last and done + count > self._window.first:
            if not self._running:
                jax.profiler.start_trace(str(self._folder))
            self._running = True

    def after(self, done: int, results: Any) -> None:
        """To be called with the steps done after a call, and what it returned."""
        if self._running and self._window and done >= self._window.last:
            jax.block_until_ready(results)
            self.close()

    def close(self) -> None:
        """Ends a trace, if one is running, and makes the table."""
        if not self._running:
            return
        self._running, self._window = False, None
        try:
            jax.profiler.stop_trace()
            text = table(operations(self._folder, self._program.text() if self._program else ""))
            (self._folder / "top.txt").write_text(text + "\n")
            logging.info("Trace in %s; where the time goes:\n%s", self._folder, text)
        except Exception as error:  # a run, or the save that ends it, matters more than its trace
            logging.warning("The trace in %s is not complete: %s", self._folder, error)


def operations(folder: pathlib.Path, program_text: str = "") -> list[Operation]:
    """The operations of the newest trace below a folder by their kind, most time first.

    `program_text` is the optimised HLO of what ran, which tells where operations come from; those
    of other programs, as of evaluations, are left out. Without it all are counted.
    """
    files = sorted(folder.rglob("*.trace.json.gz"), key=lambda path: path.stat().st_mtime)
    if not files:
        return []
    origin = sources(program_text)
    seconds: dict[str, float] = collections.defaultdict(float)
    counts: collections.Counter[str] = collections.Counter()
    module = re.match(r"HloModule ([\w.-]+)", program_text)
    for spans in _spans(files[-1], module[1] if module else None):
        for name, own in _own_times(spans):
            kind = origin.get(name) or re.sub(r"[.\d]+$", "", name)
            seconds[kind] += own
            counts[kind] += 1
    total = sum(seconds.values()) or 1.0
    return [
        Operation(name, counts[name], taken * 1e-6, taken / total)
        for name, taken in sorted(seconds.items(), key=lambda item: -item[1])
    ]


def _spans(path: pathlib.Path, module: str | None) -> list[list[Span]]:
    """The operations of each thread or stream of a trace, in order; of one program, if named."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event.get("ph") == "M" and event.get("name") == "thread_name"
    }
    lines: dict[tuple[int, int], list[Span]] = collections.defaultdict(list)
    for event in events:
        if event.get("ph") != "X":
            continue
        if module and event.get("args", {}).get("hlo_module", module) != module:
            continue
        line = (event["pid"], event["tid"])
        name = event.get("args", {}).get("hlo_op")
        if name is None and names.get(line) == "XLA Ops":  # of a TPU
            name = event["name"]
        if name is not None:
            start = float(event["ts"])
            lines[line].append((start, start + float(event.get("dur", 0.0)), str(name)))
    return [sorted(spans, key=lambda span: (span[0], -span[1])) for spans in lines.values()]


def _own_times(spans: Iterable[Span]) -> list[tuple[str, float]]:
    """Each operation's time without that of those inside it (the body of a loop)."""
    own: list[tuple[str, float]] = []
    open_: list[tuple[float, int]] = []  # (end, place in `own`) of those around
    for start, end, name in spans:
        while open_ and open_[-1][0] <= start:
            open_.pop()
        if open_:
            around = open_[-1][1]
            own[around] = (own[around][0], own[around][1] - (end - start))
        own.append((name, end - start))
        open_.append((end, len(own) - 1))
    return own


def sources(program_text: str) -> dict[str, str]:
    """Operation -> scopes and primitive, from an optimised program's text."""
    found = re.findall(r"%?([\w.-]+) = [^\n]*?metadata=\{op_name=\"([^\"]*)\"", program_text)
    return {name: _short(source) for name, source in found}


def _short(source: str) -> str:
    """Without what every operation has in common: the program, its loops and its devices."""
    noise = re.compile(r"(jit\([^()]*\)|shard_map|while|body|closed_call|checkpoint)$")
    return "/".join(part for part in source.split("/") if not noise.match(part))


def table(found: list[Operation], rows: int = 10) -> str:
    """The operations that took most, as text."""
    lines = [f"{'share':>6} {'ms':>9} {'runs':>6}  operation"]
    lines += [
        f"{op.share:6.1%} {1e3 * op.seconds:9.2f} {op.count:6d}  {op.name}" for op in found[:rows]
    ]
    return "\n".join(lines)
