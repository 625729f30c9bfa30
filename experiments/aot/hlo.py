"""Optimised HLO, read from its text: instructions, arrays in memory, loops and their iterations."""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator

_BITS = {"pred": 8, "bf16": 16, "f16": 16, "s4": 4, "u4": 4, "c64": 64, "c128": 128, "token": 0}
_FLOW = {"while", "conditional", "call", "async-start"}  # run the computations that they name
_CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|called_computations|branch_computations"
    r"|true_computation|false_computation)=\{?((?:%[\w.\-]+(?:, )?)+)"
)


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of a program.

    Attributes:
        kind: element type.
        size: bytes.
        space: memory space of its layout; 0 is the device's main memory.
        padding: bytes that its layout adds, to fill whole tiles.
    """

    kind: str
    size: int
    space: int = 0
    padding: int = 0


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction of optimised HLO.

    Attributes:
        name, opcode: of the instruction.
        results: arrays that it returns, of a tuple all.
        operands: names of its operands; the number of a parameter; the value of a constant.
        attributes: text behind the operands.
        root: whether it is the result of its computation.
    """

    name: str
    opcode: str
    results: tuple[Array, ...]
    operands: tuple[str, ...]
    attributes: str
    root: bool

    @property
    def op_name(self) -> str:
        """Name of the operation that it was made from."""
        match = re.search(r'op_name="([^"]*)"', self.attributes)
        return match[1] if match else re.sub(r"[.\d]+$", "", self.name)

    @property
    def called(self) -> list[str]:
        """Names of the computations that it uses."""
        return re.findall(r"%([\w.\-]+)", " ".join(_CALLED.findall(self.attributes)))

    @property
    def outputs(self) -> tuple[Array, ...]:
        """Arrays that it writes: the start of an asynchronous operation also lists others."""
        count = len(self.operands)
        if self.opcode in ("all-gather-start", "collective-permute-start"):
            return self.results[count : 2 * count]
        if self.opcode in ("slice-start", "dynamic-slice-start"):
            return self.results[count : count + 1]
        return self.results[:1] if self.opcode == "copy-start" else self.results


@dataclasses.dataclass(frozen=True)
class Program:
    """Optimised HLO.

    Attributes:
        computations: name -> instructions, in the order of the schedule.
        times: computation -> how often a call of the program runs it.
        flow: computations whose instructions run one by one, and not inside a fusion.
        aliases: number of outputs that share the buffer of a parameter.
    """

    computations: dict[str, list[Instruction]]
    times: dict[str, int]
    flow: set[str]
    aliases: int


def parse(text: str) -> Program:
    """Reads the text of a compiled program."""
    computations: dict[str, list[Instruction]] = {}
    entry, inside = "", ""
    for line in text.splitlines():
        if line.endswith("{") and (head := re.match(r"\s*(ENTRY )?%?([\w.\-]+) .*-> ", line)):
            inside = head[2]
            computations[inside] = []
            entry = inside if head[1] else entry
        elif inside and (instruction := _instruction(line)):
            computations[inside].append(instruction)
    times, flow = _reached(computations, entry)
    head = re.search(r"^HloModule .*input_output_alias=\{(.*?\)) \}", text, re.MULTILINE)
    return Program(computations, times, flow, head[1].count("alias)") if head else 0)


def _instruction(line: str) -> Instruction | None:
    line = re.sub(r"/\*.*?\*/", "", line)
    match = re.match(r"\s*(ROOT )?%([\w.\-]+) = ", line)
    if not match:
        return None
    rest = line[match.end() :]
    end = _closing(rest, 0) if rest.startswith("(") else rest.find(" ")
    shape, rest = rest[:end], rest[end:].lstrip()
    opcode = re.match(r"[\w\-]+(?=\()", rest)
    if not opcode:
        return None
    end = _closing(rest, opcode.end())
    operands = rest[opcode.end() + 1 : end - 1]
    names = tuple(re.findall(r"%([\w.\-]+)", operands))
    if opcode[0] in ("parameter", "constant"):
        names = (operands,)
    return Instruction(
        match[2], opcode[0], tuple(_arrays(shape)), names, rest[end:], bool(match[1])
    )


def _closing(text: str, start: int) -> int:
    """Returns the place behind the parenthesis that closes the one at `start`."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, start):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.end()
    return len(text)


def _arrays(shape: str) -> Iterator[Array]:
    for kind, sides, layout in re.findall(r"(\w+)\[([^\]]*)\](?:\{([^}]*)\})?", shape):
        lengths = [int(side.lstrip("<=")) for side in sides.split(",") if side]
        space = re.search(r"S\((\d+)\)", layout)
        held = math.prod(lengths) * bits(kind) // 8
        filled = _tiled(lengths, layout) * bits(kind) // 8
        yield Array(kind, held, int(space[1]) if space else 0, filled - held)


def _tiled(lengths: list[int], layout: str) -> int:
    """Elements of an array whose innermost axes fill whole tiles, T(rows,columns)."""
    order, _, tiles = layout.partition(":")
    tile = re.match(r"T\(([\d,]+)\)", tiles)
    if not tile or not math.prod(lengths):
        return math.prod(lengths)
    axes = [int(axis) for axis in order.split(",") if axis]
    sides = [lengths[axis] for axis in reversed(axes)]
    of = [int(side) for side in tile[1].split(",")]
    sides = [1] * (len(of) - len(sides)) + sides
    outer, inner = sides[: len(sides) - len(of)], sides[len(sides) - len(of) :]
    return math.prod(outer) * math.prod(-(-side // t) * t for side, t in zip(inner, of))


def bits(kind: str) -> int:
    """Returns the bits of an element."""
    if kind in _BITS:
        return _BITS[kind]
    digits = re.match(r"[a-z]+(\d+)", kind)  # f8e4m3fn, s32, ...
    return int(digits[1]) if digits else 0


def _reached(
    computations: dict[str, list[Instruction]], entry: str
) -> tuple[dict[str, int], set[str]]:
    times: dict[str, int] = collections.Counter()
    flow: set[str] = set()

    def visit(name: str, count: int, flows: bool) -> None:
        times[name] += count
        flow.update({name} if flows else ())
        for each in computations.get(name, ()):
            inside = count * _iterations(each, computations)
            for called in each.called:
                visit(called, inside, flows and each.opcode in _FLOW)

    visit(entry, 1, True)
    return dict(times), flow


def _iterations(each: Instruction, computations: dict[str, list[Instruction]]) -> int:
    """Iterations of a loop, from its annotation or its condition `counter < constant`; or 1."""
    if each.opcode != "while":
        return 1
    if match := re.search(r'known_trip_count"?:\{"n":"(\d+)"', each.attributes):
        return int(match[1])
    head = re.search(r"condition=%([\w.\-]+)", each.attributes)
    condition = {i.name: i for i in computations.get(head[1] if head else "", ())}
    root = next((i for i in condition.values() if i.root), each)
    if root.opcode != "compare" or "direction=LT" not in root.attributes:
        return 1
    limit = condition.get(root.operands[1], each)
    return int(limit.operands[0]) if limit.opcode == "constant" else 1
