"""Facts of compiled programs: bytes moved, collectives and their place, talk with the host.

XLA's `cost_analysis` is not used for bytes: on GPUs it says nothing, and it counts loops once.
"""

import collections
import dataclasses
import itertools
import math
import re
from collections.abc import Iterator

from experiments.aot.hlo import Array, Instruction, Program

_KINDS = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip
_HOST = ("infeed", "outfeed", "send", "recv")
_HOST_MEMORY = 5  # the space of arrays that lie there
_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional",
    "call", "after-all", "partition-id", "replica-id", "iota", "opt-barrier", "async-start",
    "async-update",
}  # fmt: skip
_SLICES = ("slice-start", "dynamic-slice-start")

Neighbours = dict[str, Instruction]


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective of a compiled program.

    Attributes:
        kind: "all-reduce" | ...
        size: bytes that it returns.
        group: chips that take part.
        types: element types, sorted.
        asynchronous: whether other work may run before it is done.
        times: how often a call of the program runs it.
        before: share of its computation's instructions that the schedule places before it.
        beside: bytes of main memory that are moved between its start and its end.
    """

    kind: str
    size: int
    group: int
    types: tuple[str, ...]
    asynchronous: bool
    times: int = 1
    before: float = 0.0
    beside: int = 0


def collectives(program: Program) -> list[Collective]:
    """Returns the collectives of a program.

    TPUs split one into a chain of fusions with other work, which counts once.
    """
    found = []
    wrapped = {c for each in _all(program) if each.opcode == "async-start" for c in each.called}
    for name in sorted(program.flow - wrapped):
        instructions = program.computations.get(name, [])
        chains: dict[str, list[int]] = collections.defaultdict(list)
        held: dict[str, Instruction] = {}
        for place, holder in enumerate(instructions):
            for each in (holder, *_inside(program, holder)):
                if _kind(each) in _KINDS:
                    chain = re.search(r'chain_id="(\d+)"', each.attributes)
                    key = f"chain {chain[1]}" if chain else each.name
                    chains[key].append(place)
                    held[key] = each
        names = {each.name: each for each in instructions} if chains else {}
        moved = [_moved(program, each, names) for each in names.values()]
        works = [0, *itertools.accumulate(not _idle(each) for each in names.values())]
        for key, places in chains.items():
            each, first = held[key], places[0]
            waits = '"is_sync":true' in each.attributes
            last = places[-1] if len(places) > 1 else _end(instructions, first)
            runs_beside = not waits and (
                len(places) > 1 or instructions[first].opcode.endswith("-start")
            )
            found.append(
                Collective(
                    _kind(each),
                    sum(a.size for a in each.outputs),
                    group_size(each.attributes),
                    tuple(sorted({a.kind for a in each.outputs})),
                    runs_beside,
                    program.times[name],
                    works[first] / (works[-1] or 1),
                    sum(moved[first + 1 : last]) if runs_beside else 0,
                )
            )
    return found


def _all(program: Program) -> Iterator[Instruction]:
    return itertools.chain.from_iterable(program.computations.values())


def _inside(program: Program, holder: Instruction) -> Iterator[Instruction]:
    """Yields the instructions of a fusion or of an asynchronous wrapper."""
    if holder.opcode in ("fusion", "async-start"):
        for name in holder.called:
            yield from program.computations.get(name, ())


def _kind(each: Instruction) -> str:
    return each.opcode.removesuffix("-start")


def _end(instructions: list[Instruction], start: int) -> int:
    """Place of the instruction that waits for what begins at `start`."""
    done = f"{_kind(instructions[start])}-done"
    for place in range(start + 1, len(instructions)):
        each = instructions[place]
        if each.opcode == done and instructions[start].name in each.operands:
            return place
    return start


def group_size(attributes: str) -> int:
    """Returns the chips of a group, from any form of the attribute `replica_groups`.

    {{0,1},{2,3}}, [2,2]<=[4], mesh['a'=2,'b'=2] {'b'}.
    """
    if match := re.search(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}", attributes):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", match[2]))
    if match := re.search(r"replica_groups=\[\d+,(\d+)\]", attributes):
        return int(match[1])
    match = re.search(r"replica_groups=\{\{([\d,]*)\}", attributes)
    return len(match[1].split(",")) if match else 0


def host_transfers(program: Program) -> list[str]:
    """Returns the instructions that talk to the host: transfers, callbacks, host memory."""
    found = []
    for each in _all(program):
        target = re.search(r'custom_call_target="([^"]*)"', each.attributes)
        calls_back = target and "callback" in target[1].lower()
        beyond = any(a.space == _HOST_MEMORY for a in each.results)
        if each.opcode.partition("-")[0] in _HOST or calls_back or beyond:
            found.append(f"{each.opcode} {each.op_name}")
    return found


def traffic(program: Program) -> dict[str, int]:
    """Returns the bytes that instructions read and write in main memory, by operation.

    Every instruction reads its operands and writes its results once, with the padding of their
    tiles: an upper bound, as caches may serve some. What is sliced or gathered counts by the rows
    that are taken, what is updated in place by the rows that are written. Keys are "opcode
    op_name", "copy ..." for copies and transposes inside one memory, "move ..." between memories.
    """
    found: dict[str, int] = collections.Counter()
    for times, each, names in _each(program):
        moved = _moved(program, each, names)
        if moved:
            found[f"{_label(each, names)} {each.op_name}"] += times * moved
    return dict(found)


def padding(program: Program) -> float:
    """Returns the share of the results' bytes in main memory that only fill tiles."""
    written = filled = 0
    for times, each, _ in _each(program):
        if not _idle(each):
            held = [a for a in each.outputs if not a.space]
            written += times * sum(a.size for a in held)
            filled += times * sum(a.padding for a in held)
    return filled / (written + filled or 1)


def _each(program: Program) -> Iterator[tuple[int, Instruction, Neighbours]]:
    """Yields the instructions that run one by one: how often, which, and their neighbours."""
    for name in program.flow:
        names = {each.name: each for each in program.computations.get(name, ())}
        yield from ((program.times[name], each, names) for each in names.values())


def _label(each: Instruction, names: Neighbours) -> str:
    copies = each.opcode in (*_SLICES, "copy", "copy-start", "transpose") or (
        each.opcode == "fusion" and re.search("copy|transpose", each.name)
    )
    if not copies:
        return each.opcode
    source = names[each.operands[0]].results if each.operands[0] in names else ()
    spaces = {a.space for a in (*source[:1], *each.outputs[:1])}
    return "copy" if len(spaces) == 1 or each.opcode == "fusion" else "move"


def _idle(each: Instruction) -> bool:
    return each.opcode in _FREE or each.opcode.endswith("-done")


def _moved(program: Program, each: Instruction, names: Neighbours) -> int:
    return 0 if _idle(each) else _written(program, each, names) + _read(program, each, names)


def _bytes(arrays: tuple[Array, ...]) -> int:
    return sum(a.size + a.padding for a in arrays if not a.space)


def _written(program: Program, each: Instruction, names: Neighbours) -> int:
    update = _update(program, each, names)
    return _bytes(each.outputs) if update is None else min(update, _bytes(each.outputs))


def _update(program: Program, each: Instruction, names: Neighbours) -> int | None:
    """Bytes that an update in place writes; None for other instructions."""
    if each.opcode == "fusion" and each.called:
        inner = program.computations.get(each.called[0], [])
        names, each = {i.name: i for i in inner}, next((i for i in inner if i.root), each)
    if each.opcode != "dynamic-update-slice" or each.operands[1] not in names:
        return None
    return sum(a.size for a in names[each.operands[1]].results)


def _read(program: Program, each: Instruction, names: Neighbours) -> int:
    inner = program.computations.get(each.called[0], []) if each.opcode == "fusion" else None
    total = 0
    for place, held in enumerate(each.operands):
        whole, uses = _bytes(names[held].results) if held in names else 0, [each]
        if inner is not None:
            held = next((i.name for i in inner if _is_parameter(i, place)), "")
            uses = [i for i in inner if held in i.operands]
        total += min(whole, sum(_needed(use, held, whole) for use in uses))
    return total


def _is_parameter(each: Instruction, place: int) -> bool:
    return each.opcode == "parameter" and each.operands == (str(place),)


def _needed(use: Instruction, held: str, whole: int) -> int:
    """Bytes of an operand that one use of it reads."""
    if use.operands[0] != held:
        return whole
    if use.opcode in (*_SLICES, "dynamic-slice", "slice", "gather"):
        return sum(a.size for a in use.outputs)
    return 0 if use.opcode == "dynamic-update-slice" else whole
