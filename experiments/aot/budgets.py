"""Budgets: stored certificates, whose numbers may only get better.

A file per target, `v5e_2x2.json`, holds a list of entries of `experiments.certificates`.
"""

import json
import pathlib
from typing import Any

from socialjepa_jax import records
from socialjepa_jax.errors import InputError

Entry = dict[str, Any]
COSTS = (
    "argument_bytes", "temporary_bytes", "traffic_bytes", "flops_in_tiles", "padding",
    "needed_bytes",
)  # fmt: skip
SLACK = 0.01  # what another version of a compiler may change


def path_of(folder: pathlib.Path, target: str) -> pathlib.Path:
    """Returns the file of a target."""
    return folder / f"{target.replace(':', '_')}.json"


def read(folder: pathlib.Path, target: str) -> dict[str, Entry]:
    """Returns the stored entries of a target by preset; none if it has no file.

    Raises:
        InputError: the file is damaged.
    """
    path = path_of(folder, target)
    if not path.exists():
        return {}
    try:
        return {entry["preset"]: entry for entry in json.loads(path.read_text())}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"--budgets: {path} cannot be read: {error}") from None


def write(entries: list[Entry], folder: pathlib.Path) -> None:
    """Stores entries in the files of their targets, in place of those of the same presets."""
    for target in dict.fromkeys(entry["target"] for entry in entries):
        own = {entry["preset"]: entry for entry in entries if entry["target"] == target}
        records.write_json(path_of(folder, target), list({**read(folder, target), **own}.values()))


def worse(entry: Entry, budget: Entry) -> list[str]:
    """Returns what is worse in an entry than in its budget, a line each.

    Programs beside the steps (`parts`) carry no state.
    """
    name = f"{entry['preset']} for {entry['target']}"
    if "refused" in entry:
        return [] if "refused" in budget else [f"{name} is refused: {entry['refused']}"]
    if "refused" in budget:
        return []
    found = [
        f"{name}: {cost} {entry[cost]:.6g} instead of {budget[cost]:.6g}"
        for cost in COSTS
        if entry[cost] > (1 + SLACK) * budget[cost]
    ]
    if entry["aliased_leaves"] < entry.get("state_leaves", 0):
        kept = f"{entry['aliased_leaves']} of {entry['state_leaves']}"
        found.append(f"{name}: {kept} leaves of the state are donated")
    if entry["host_transfers"]:
        found.append(f"{name}: talks to the host: {', '.join(entry['host_transfers'])}")
    if entry["float32_outside"]:
        found.append(f"{name}: float32 products of {', '.join(entry['float32_outside'])}")
    low = {kind for c in entry["collectives"] for kind in c["types"]} & {"bf16", "f16"}
    if low - {kind for c in budget["collectives"] for kind in c["types"]}:
        found.append(f"{name}: sums in {', '.join(sorted(low))}")
    return found


def check(entries: list[Entry], folder: pathlib.Path) -> None:
    """Compares entries with the stored ones; what has no budget passes.

    Raises:
        InputError: a number is worse.
    """
    found = []
    for entry in entries:
        budget = read(folder, entry["target"]).get(entry["preset"])
        found += worse(entry, budget) if budget else []
    if found:
        raise InputError("worse than the budget: " + "; ".join(found))
