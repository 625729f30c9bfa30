"""Matrix products of a StableHLO program: sizes, element types, and the files they come from."""

import dataclasses
import math
import re

Tile = tuple[int, int, int]  # rows, contracted, columns


@dataclasses.dataclass(frozen=True)
class Product:
    """A matrix product or convolution of a StableHLO program.

    Attributes:
        kind: element type of its operands.
        source: innermost file of this project that it comes from; "" if unknown.
        name: of the operation.
        batch, rows, contracted, columns: of the products [rows, contracted] x [contracted,
            columns]; of a convolution as such a product.
    """

    kind: str
    source: str
    name: str
    batch: int
    rows: int
    contracted: int
    columns: int

    @property
    def flops(self) -> int:
        """FLOPs, two for a multiplication with its addition."""
        return 2 * self.batch * self.rows * self.contracted * self.columns

    def padded_flops(self, tile: Tile) -> int:
        """FLOPs with all sides filled up to whole tiles, in the better order of the operands."""

        def filled(rows: int, columns: int) -> int:
            sides = (rows, self.contracted, columns)
            return math.prod(-(-side // of) * of for side, of in zip(sides, tile))

        return (
            2 * self.batch * min(filled(self.rows, self.columns), filled(self.columns, self.rows))
        )

    @property
    def vectors(self) -> bool:
        """Whether it is the inner product of two vectors."""
        return self.rows == self.columns == 1


def products(text: str, package: str = "socialjepa_jax/") -> list[Product]:
    """Returns the products of a StableHLO program that is printed with its locations.

    One inside a loop counts once.
    """
    places = dict(re.findall(r"^#(loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
    found = []
    for line in text.splitlines():
        match = re.search(r"stablehlo\.(dot_general|convolution)\b", line)
        if not match:
            continue
        types = re.findall(r"tensor<([^>]*)>", line.rpartition(" : ")[2])
        shapes = [[int(side) for side in kind.split("x")[:-1]] for kind in types]
        place = re.search(r"loc\(#(loc\d*)\)", line)
        chain = places.get(place[1], "") if place else ""
        name = re.match(r'"([^"]*)"\(', chain)
        sides = (_dot if match[1] == "dot_general" else _convolution)(line, shapes)
        kind, source = types[0].split("x")[-1], _source(chain, places, package)
        found.append(Product(kind, source, name[1] if name else "", *sides))
    return found


def _dot(line: str, shapes: list[list[int]]) -> tuple[int, int, int, int]:
    left, right = shapes[:2]
    batching = _dims(line, "batching_dims")
    contracting = _dims(line, "contracting_dims")
    batch = math.prod(left[axis] for axis in batching[0])
    contracted = math.prod(left[axis] for axis in contracting[0])
    rows, columns = (math.prod(side) // (batch * contracted or 1) for side in (left, right))
    return batch, rows, contracted, columns


def _dims(line: str, name: str) -> tuple[list[int], list[int]]:
    match = re.search(rf"{name} = \[([\d, ]*)\] x \[([\d, ]*)\]", line)
    left, right = match.groups() if match else ("", "")
    return [int(d) for d in re.findall(r"\d+", left)], [int(d) for d in re.findall(r"\d+", right)]


def _convolution(line: str, shapes: list[list[int]]) -> tuple[int, int, int, int]:
    """Every output is the inner product of a window, whatever the groups of features."""
    kernel, out = math.prod(shapes[1]), math.prod(shapes[2])
    match = re.search(r"\]x\[([^\]]*)\]->", line)
    features = shapes[1][match[1].split(", ").index("o")] if match else 1
    return 1, out // features, kernel // features, features


def _source(chain: str, places: dict[str, str], package: str) -> str:
    """Follows locations from the innermost call outwards to the first file of the package."""
    if file := re.match(r'"([^"]*)":\d+', chain):
        return file[1].rpartition(package)[2] if package in file[1] else ""
    for place in re.findall(r"#(loc\d*)", chain):
        if found := _source(places.get(place, ""), places, package):
            return found
    return ""
