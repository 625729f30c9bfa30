"""Certificates as tables: bounds and needs, and the properties that every step must have."""

import collections
from typing import Any

from experiments.aot import parts

Entry = dict[str, Any]

HEAD = (
    "preset", "target", "batch of an agent", "TFLOP a chip and step",
    "ms by compute / memory / network", "predicted MFU", "needed GB", "largest batch",
    "FLOPs in tiles", "bytes that fill tiles", "compile s",
)  # fmt: skip
PROPERTIES = (
    "preset", "target", "state MB, donated", "host", "products",
    "sums over chips: MB, place in the schedule", "copies above 1 %",
)  # fmt: skip


PARTS = (
    "part", "target", "GFLOP a chip", "ms by compute / memory / network", "arguments MB",
    "temporaries MB", "products", "sums over chips: MB, place in the schedule", "host", "compile s",
)  # fmt: skip


HEADLINE = (
    "ViT-S/16, 224 px, bfloat16", "images/s", "MFU", "bound by", "memory",
    "largest batch of an agent",
)  # fmt: skip


def headline(name: str, entry: Entry) -> list[str]:
    """Returns the cells of a step in a short table, under a name that a reader knows."""
    seconds = [entry["seconds"]["compute"] / share for share in entry["mfu"]]
    images = entry["batch_size"] * entry["agents"]
    low, high = entry["mfu"]
    return [
        f"{name}, {entry['agents']} agents of batch {entry['batch_size']}",
        " - ".join(f"{images / time:,.0f}" for time in seconds),
        f"{low:.0%} - {high:.0%}",
        entry["bound_by"],
        f"{entry['needed_bytes'] / 1e9:.1f} GB a chip",
        f"{entry['largest_batch']:,}" if "largest_batch" in entry else "not searched",
    ]


def summary(entry: Entry) -> str:
    """Returns a line for the log."""
    return " | ".join(row(entry) if _is_step(entry) else part(entry))


def part(entry: Entry) -> list[str]:
    """Returns the cells of a program beside the steps."""
    cells = [entry["preset"], entry["target"]]
    if "fits" not in entry:
        why = f"refused: {entry['refused']}" if "refused" in entry else "not compiled"
        return [*cells, why, *[""] * (len(PARTS) - 3)]
    return [
        *cells,
        f"{entry['flops_per_chip'] / 1e9:.3g}",
        _milliseconds(entry),
        f"{entry['argument_bytes'] / 1e6:.1f}",
        f"{entry['temporary_bytes'] / 1e6:.1f}",
        _products(entry),
        sums(entry["collectives"]),
        ", ".join(entry["host_transfers"]) or "none",
        f"{entry['compile_seconds']:.0f}",
    ]


def _is_step(entry: Entry) -> bool:
    return entry["preset"] not in parts.PARTS


def _milliseconds(entry: Entry) -> str:
    return " / ".join(f"{1e3 * t:.3g}" for t in entry["seconds"].values())


def _products(entry: Entry) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in sorted(entry["products"].items()))


def row(entry: Entry) -> list[str]:
    """Returns the cells of an entry's bounds and needs."""
    cells = [entry["preset"], entry["target"]]
    if "refused" in entry:
        return [*cells, f"refused: {entry['refused']}", *[""] * (len(HEAD) - 3)]
    cells += [str(entry["batch_size"]), f"{entry['flops_per_chip'] / 1e12:.3g}"]
    if "fits" not in entry:
        return [*cells, "not compiled", *[""] * (len(HEAD) - len(cells) - 1)]
    low, high = entry["mfu"]
    return [
        *cells,
        _milliseconds(entry),
        f"{low:.0%} - {high:.0%} ({entry['bound_by']})",
        f"{entry['needed_bytes'] / 1e9:.2f}{'' if entry['fits'] else ' (too much)'}",
        str(entry.get("largest_batch", "")),
        f"{entry['flops_in_tiles']:.2f} x",
        f"{entry['padding']:.0%}",
        f"{entry['compile_seconds']:.0f}",
    ]


def properties(entry: Entry) -> list[str]:
    """Returns the cells of a compiled entry's properties."""
    donated = "all" if entry["aliased_leaves"] >= entry["state_leaves"] else "not all"
    copied = sum(entry["copies"].values()) / entry["traffic_bytes"]
    return [
        entry["preset"],
        entry["target"],
        f"{entry['state_bytes'] / 1e6:.1f}, {donated}",
        ", ".join(entry["host_transfers"]) or "none",
        _products(entry),
        sums(entry["collectives"]),
        f"{len(entry['copies'])}, {copied:.0%} of the bytes" if entry["copies"] else "none",
    ]


def sums(collectives: list[dict[str, Any]]) -> str:
    """Describes the collectives of more than one chip, by kind, type and way."""
    sizes: dict[str, int] = collections.Counter()
    for found in collectives:
        if found["group"] > 1:
            way = "beside other work" if found["asynchronous"] else "alone"
            sizes[f"{found['kind']} {'+'.join(found['types'])} {way}"] += found["size"]
    if not sizes:
        return "none"
    most = max(collectives, key=lambda found: found["size"])
    parts = [f"{kind} {size / 1e6:.3g}" for kind, size in sorted(sizes.items())]
    return f"{', '.join(parts)}; the largest after {most['before']:.0%}"


def markdown(entries: list[Entry]) -> str:
    """Returns the tables of all entries: compiled and bounded, not run."""
    steps = [entry for entry in entries if _is_step(entry)]
    compiled = [entry for entry in steps if "fits" in entry]
    tables = [
        (HEAD, map(row, steps)),
        (PROPERTIES, map(properties, compiled)),
        (PARTS, [part(entry) for entry in entries if not _is_step(entry)]),
    ]
    return "\n".join(_table(head, list(rows)) for head, rows in tables)


def line(cells: list[str]) -> str:
    """Returns a row of a table."""
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    return "".join(map(line, [list(head), ["---"] * len(head), *rows])) if rows else ""
