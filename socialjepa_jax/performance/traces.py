"""Reads a trace that `jax.profiler` wrote, and sums the time of its operations by origin."""

import collections
import gzip
import json
import pathlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

Span = tuple[float, float, str]  # start and end in microseconds, name of the operation


@dataclass(frozen=True)
class Operation:
    """Operations of one origin in a trace.

    Attributes:
        name: scopes and primitive of the source; where they are unknown, the name of the HLO
            operation without its number.
        count: number of executions.
        seconds: time of all executions, without the operations nested inside them.
        share: fraction of the time of all operations.
    """

    name: str
    count: int
    seconds: float
    share: float


def operations(folder: pathlib.Path, hlo: str = "") -> list[Operation]:
    """Returns the operations of the newest trace below a folder, most time first.

    Args:
        folder: folder of the trace; a folder without one gives an empty list.
        hlo: text of an optimised HLO module. It tells the source of each operation, and operations
            of other modules are left out; without it all operations are counted.
    """
    files = sorted(folder.rglob("*.trace.json.gz"), key=lambda path: path.stat().st_mtime)
    if not files:
        return []
    origin = sources(hlo)
    seconds: dict[str, float] = collections.defaultdict(float)
    counts: collections.Counter[str] = collections.Counter()
    module = re.match(r"HloModule ([\w.-]+)", hlo)
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
    """Returns the sorted operations of each thread or stream, of one module or of all."""
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
        if name is None and names.get(line) == "XLA Ops":  # on a TPU
            name = event["name"]
        if name is not None:
            start = float(event["ts"])
            lines[line].append((start, start + float(event.get("dur", 0.0)), str(name)))
    return [sorted(spans, key=lambda span: (span[0], -span[1])) for spans in lines.values()]


def _own_times(spans: Iterable[Span]) -> list[tuple[str, float]]:
    """Returns each operation's time without operations nested inside it (the body of a loop)."""
    own: list[tuple[str, float]] = []
    enclosing: list[tuple[float, int]] = []  # (end, index in `own`) of the operations around
    for start, end, name in spans:
        while enclosing and enclosing[-1][0] <= start:
            enclosing.pop()
        if enclosing:
            index = enclosing[-1][1]
            own[index] = (own[index][0], own[index][1] - (end - start))
        own.append((name, end - start))
        enclosing.append((end, len(own) - 1))
    return own


def sources(hlo: str) -> dict[str, str]:
    """Returns scopes and primitive of each operation, from the text of an optimised HLO module."""
    pairs = re.findall(r"%?([\w.-]+) = [^\n]*?metadata=\{op_name=\"([^\"]*)\"", hlo)
    return {name: _short(source) for name, source in pairs}


def _short(source: str) -> str:
    """Removes the scopes that all operations share: the jitted function, its loops and shards."""
    noise = re.compile(r"(jit\([^()]*\)|shard_map|while|body|closed_call|checkpoint)$")
    return "/".join(part for part in source.split("/") if not noise.match(part))


def table(listed: list[Operation], rows: int = 10) -> str:
    """Formats the first `rows` operations as text."""
    lines = [f"{'share':>6} {'ms':>9} {'runs':>6}  operation"]
    lines += [
        f"{op.share:6.1%} {1e3 * op.seconds:9.2f} {op.count:6d}  {op.name}" for op in listed[:rows]
    ]
    return "\n".join(lines)
