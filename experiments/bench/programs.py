"""Facts read from the text of a program: products from StableHLO, the rest from optimised HLO.

XLA's `cost_analysis` is not used for bytes: on GPUs it says nothing, and it counts loops once.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator

_BITS = {"pred": 8, "bf16": 16, "f16": 16, "s4": 4, "u4": 4, "c64": 64, "c128": 128, "token": 0}
_KINDS = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip
_HOST = ("infeed", "outfeed", "send", "recv")
_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional",
    "call", "after-all", "partition-id", "replica-id", "iota", "opt-barrier", "async-start",
    "async-update",
}  # fmt: skip
_FLOW = {"while", "conditional", "call", "async-start"}  # run the computations that they name

_NESTED = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_INSTRUCTION = re.compile(rf"^\s*(ROOT )?%([\w.\-]+) = ({_NESTED}|\S+) ([\w\-]+)\((.*)$")
_CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|called_computations|branch_computations"
    r"|true_computation|false_computation)=\{?((?:%[\w.\-]+(?:, )?)+)"
)


@dataclasses.dataclass(frozen=True)
class Product:
    """A matrix product or convolution of a StableHLO program.

    Attributes:
        kind: element type of its operands.
        source: innermost file of this project that it comes from; "" if unknown.
        name: of the operation.
        vectors: whether it is the inner product of two vectors.
    """

    kind: str
    source: str
    name: str
    vectors: bool


def products(text: str, package: str = "socialjepa_jax/") -> list[Product]:
    """Returns the products of a StableHLO program, printed with its locations."""
    places = dict(re.findall(r"^#(loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
    found = []
    for line in text.splitlines():
        if not re.search(r"stablehlo\.(dot_general|dot|convolution)\b", line):
            continue
        types = re.findall(r"tensor<([^>]*)>", line.rpartition(" : ")[2])
        place = re.search(r"loc\(#(loc\d*)\)", line)
        chain = places.get(place[1], "") if place else ""
        name = re.match(r'"([^"]*)"\(', chain)
        contracted = re.search(r"batching_dims = \[([\d, ]*)\]", line)
        batched = len(contracted[1].split(",")) if contracted else 0
        ranks = [len(kind.split("x")) - 1 - batched for kind in types[:2]]
        source = _source(chain, places, package)
        found.append(
            Product(types[0].split("x")[-1], source, name[1] if name else "", ranks == [1, 1])
        )
    return found


def _source(chain: str, places: dict[str, str], package: str) -> str:
    """Follows locations from the innermost call outwards to the first file of the package."""
    if file := re.match(r'"([^"]*)":\d+', chain):
        return file[1].rpartition(package)[2] if package in file[1] else ""
    for place in re.findall(r"#(loc\d*)", chain):
        if found := _source(places.get(place, ""), places, package):
            return found
    return ""


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of a program.

    Attributes:
        kind: element type.
        size: bytes, without padding.
        space: memory space of its layout; 0 is the device's main memory.
    """

    kind: str
    size: int
    space: int = 0


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction of optimised HLO.

    Attributes:
        name, opcode: of the instruction.
        results: arrays that it returns, of a tuple all.
        operands: names of its operands; the number of a parameter.
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
        return match[1] if match else self.name

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
        return self.results[:1] if self.opcode == "copy-start" else self.results

    @property
    def trips(self) -> int:
        """Known iterations of a loop; 1 where they are unknown."""
        match = re.search(r'known_trip_count"?:\{"n":"(\d+)"', self.attributes)
        return int(match[1]) if match and self.opcode == "while" else 1


@dataclasses.dataclass(frozen=True)
class Program:
    """Optimised HLO.

    Attributes:
        computations: name -> instructions.
        times: computation -> how often a call of the program runs it.
        flow: computations whose instructions run one by one, and not inside a fusion.
        aliases: number of outputs that share the buffer of a parameter.
    """

    computations: dict[str, list[Instruction]]
    times: dict[str, int]
    flow: set[str]
    aliases: int

    def each(self) -> Iterator[tuple[int, Instruction, dict[str, Instruction]]]:
        """Yields the instructions that run one by one: how often, which, and their neighbours."""
        for name in self.flow:
            names = {each.name: each for each in self.computations.get(name, ())}
            yield from ((self.times[name], each, names) for each in names.values())


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
    line = re.sub(r"(\w\[[^\]]*\])\{([^}]*)\}", _space, line)
    match = _INSTRUCTION.match(line)
    if not match:
        return None
    depth, end = 1, 0
    while depth and end < len(match[5]):
        depth += {"(": 1, ")": -1}.get(match[5][end], 0)
        end += 1
    operands, attributes = match[5][: end - 1], match[5][end:]
    names = tuple(re.findall(r"%([\w.\-]+)", operands))
    if match[4] == "parameter":
        names = (operands,)
    elif match[4] == "constant":
        names = ()
    return Instruction(
        match[2], match[4], tuple(_arrays(match[3])), names, attributes, bool(match[1])
    )


def _space(match: re.Match[str]) -> str:
    space = re.search(r"S\((\d+)\)", match[2])
    return f"{match[1]}@{space[1]}" if space else match[1]


def _arrays(shape: str) -> Iterator[Array]:
    for kind, sides, space in re.findall(r"(\w+)\[([^\]]*)\](?:@(\d+))?", shape):
        sides = [int(side.lstrip("<=")) for side in sides.split(",") if side]
        yield Array(kind, math.prod(sides) * bits(kind) // 8, int(space or 0))


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
            for called in each.called:
                visit(called, count * each.trips, flows and each.opcode in _FLOW)

    visit(entry, 1, True)
    return dict(times), flow


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
    """

    kind: str
    size: int
    group: int
    types: tuple[str, ...]
    asynchronous: bool
    times: int = 1


def collectives(program: Program) -> list[Collective]:
    """Returns the collectives of a program."""
    overlapped = {
        called
        for instructions in program.computations.values()
        for each in instructions
        if each.opcode == "async-start" or each.name.startswith("async-collective")
        for called in each.called
    }
    found = []
    for name, instructions in program.computations.items():
        for each in instructions:
            kind = each.opcode.removesuffix("-start")
            if kind not in _KINDS or name not in program.times:
                continue
            waits = '"is_sync":true' in each.attributes
            runs_beside = (each.opcode != kind or name in overlapped) and not waits
            found.append(
                Collective(
                    kind,
                    sum(a.size for a in each.outputs),
                    group_size(each.attributes),
                    tuple(sorted({a.kind for a in each.outputs})),
                    runs_beside,
                    program.times[name],
                )
            )
    return found


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
    for instructions in program.computations.values():
        for each in instructions:
            target = re.search(r'custom_call_target="([^"]*)"', each.attributes)
            calls_back = target and "callback" in target[1].lower()
            beyond = any(a.space == 5 for a in each.results)  # the host's memory
            if each.opcode.partition("-")[0] in _HOST or calls_back or beyond:
                found.append(f"{each.opcode} {each.op_name}")
    return found


def traffic(program: Program) -> dict[str, int]:
    """Returns the bytes that instructions read and write in main memory, by operation.

    Every instruction reads its operands and writes its results once: an upper bound, as caches may
    serve some. What is sliced or gathered counts by the rows that are taken, what is updated in
    place by the rows that are written. Keys are "opcode op_name", "copy ..." for copies and
    transposes.
    """
    found: dict[str, int] = collections.Counter()
    for times, each, names in program.each():
        if each.opcode in _FREE or each.opcode.endswith("-done"):
            continue
        moved = _written(program, each, names) + _read(program, each, names)
        moves = each.opcode in ("copy", "copy-start", "transpose") or (
            each.opcode == "fusion" and re.search("copy|transpose", each.name)
        )
        found[f"{'copy' if moves else each.opcode} {each.op_name}"] += times * moved
    return dict(found)


def _bytes(arrays: tuple[Array, ...]) -> int:
    return sum(a.size for a in arrays if not a.space)


def _written(program: Program, each: Instruction, names: dict[str, Instruction]) -> int:
    update = _update(program, each, names)
    return _bytes(each.outputs) if update is None else min(update, _bytes(each.outputs))


def _update(program: Program, each: Instruction, names: dict[str, Instruction]) -> int | None:
    """Bytes that an update in place writes; None for other instructions."""
    if each.opcode == "fusion" and each.called:
        inner = program.computations.get(each.called[0], [])
        names, each = {i.name: i for i in inner}, next((i for i in inner if i.root), each)
    if each.opcode != "dynamic-update-slice" or each.operands[1] not in names:
        return None
    return sum(a.size for a in names[each.operands[1]].results)


def _read(program: Program, each: Instruction, names: dict[str, Instruction]) -> int:
    inner = program.computations.get(each.called[0], []) if each.opcode == "fusion" else None
    total = 0
    for place, held in enumerate(each.operands):
        whole, uses = _bytes(names[held].results) if held in names else 0, [each]
        if inner is not None:
            held = next((i.name for i in inner if i.operands == (str(place),)), "")
            uses = [i for i in inner if held in i.operands]
        total += min(whole, sum(_needed(use, held, whole) for use in uses))
    return total


def _needed(use: Instruction, held: str, whole: int) -> int:
    """Bytes of an operand that one use of it reads."""
    if use.operands[0] != held:
        return whole
    if use.opcode in ("dynamic-slice", "gather"):
        return sum(a.size for a in use.results)
    return 0 if use.opcode == "dynamic-update-slice" else whole
