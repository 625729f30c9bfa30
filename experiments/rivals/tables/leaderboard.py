"""The methods by area: every number of `paradigms` that ranks them, at equal images and work."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.findings import Rows
from experiments.motion import pairs
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import measures
from experiments.rivals.tables.entrants import ENTRANTS, RIVALS
from experiments.rivals.tables.reading import at_equal_work, gain, mean, row_of
from socialjepa_jax.records import RowName
from socialjepa_jax.report import tables
from socialjepa_jax.report.tables import Cell, Interval, Row, Table


@dataclass(frozen=True)
class Column(tables.Column):
    """A column of the page; `bar` draws its intervals on a scale from 0 to 1."""

    bar: bool = False


_COMMON = (
    Column("area", "area", 3, "max", "mean of R² of the first k whitened components", True),
    Column("r2", "R² of W", 3, "max", "of whole spaces; rewards low rank", True),
    Column("dsc", "DSC", 3, "max", "rank correlation of distances"),
    Column("nos@10", "NOS@10", 3, "min", "share of ten neighbours that differ"),
    Column("kappa_effective", "κ", 0, "min", "condition number of what W⁻¹ keeps, cut at 100"),
    Column("rankme", "RankMe", 1, "max", "effective rank of the latents, of 48"),
    Column("probe_own", "own probe", 3, "max", "accuracy of a camera's own probe", True),
)
_COST = (
    Column("images_per_second", "images/s", 0, "max", "trained by one core"),
    Column("flops", "GFLOPs", 2, "min", "of a step of one agent"),
)
_GAIN = Column("gain", "training adds", 3, "max", "area, trained less untrained")
IMAGES = (
    _COMMON[0],
    _GAIN,
    *_COMMON[1:],
    Column("probe_transferred", "carried probe", 3, "max", "the other camera's, by W⁻¹", True),
    *_COST,
)
SHORT = (
    tables.Column("area", "area, by which we rank", best="max"),
    tables.Column("untrained", "area, untrained"),
    tables.Column("adds", "training adds"),
    tables.Column("r2", "R² of W", best="max"),
    tables.Column("rankme", "RankMe", 1),
    tables.Column("dimensions", "directions", 1),
)
WORK = (*_COMMON, Column("step", "step", 0, "", "of the checkpoint"), *_COST)


def markdown(rows: Rows) -> str:
    """Returns the rivals by area, then the components of the pixels, as a short Markdown table.

    Only the area has its intervals; the other numbers are means over pairs.
    """
    lines = [_short(rows, row) for row in at_equal_images(rows).rows if row.label in RIVALS]
    keys = ("area", "r2", "rankme", "dimensions")
    pixels = {key: mean(rows, PIXELS, key, RowName.PIXEL_PCA) for key in keys}
    lines.append(Row(PIXELS, pixels, ranked=False))
    return tables.to_markdown(Table(SHORT, lines, corner="method"))


def _short(rows: Rows, row: Row) -> Row:
    cells = {key: mean(rows, row.label, key) for key in ("r2", "rankme", "dimensions")}
    cells["untrained"] = mean(rows, row.label, "area", RowName.UNTRAINED)
    shown = {"area": row.cells["area"], "adds": adds(row.cells["gain"])}
    return Row(row.label, {**shown, **cells})


def at_equal_images(rows: Rows) -> Table:
    """Every method and reference, and the components of the pixels, by area."""
    lines = []
    for name in ENTRANTS:
        own, cost = row_of(rows, name), row_of(rows, name, "cost")
        cells: dict[str, Cell] = {
            c.key: measures.interval(own[c.key]) for c in IMAGES if c.key in own
        }
        cells |= _costs(cost) | {"gain": gain(rows, name, "area")}
        lines.append(Row(name, cells, ranked=name in RIVALS, note=_kind(name)))
    lines.sort(key=lambda row: -number(row.cells["area"]))
    pixels = row_of(rows, PIXELS, RowName.PIXEL_PCA)
    cells = {c.key: float(np.mean(pixels[c.key]["pairs"])) for c in IMAGES if c.key in pixels}
    lines.append(Row(PIXELS, cells, ranked=False, kind="control", note="no training"))
    return Table(IMAGES, lines, corner="equal images")


def at_work(rows: Rows) -> Table:
    """Every method at its last checkpoint within the FLOPs of the cheapest method, by area."""
    lines = []
    for name in RIVALS:
        at = at_equal_work(rows, name)
        cells: dict[str, Cell] = {c.key: _interval(at[c.key]) for c in _COMMON}
        cells |= _costs(row_of(rows, name, "cost")) | {"step": int(at["step"])}
        lines.append(Row(name, cells))
    lines.sort(key=lambda row: -number(row.cells["area"]))
    return Table(WORK, lines, corner="equal work")


def adds(cell: Cell) -> str:
    """Returns "yes", "no" (training takes away) or "not shown", by an interval."""
    assert isinstance(cell, Interval)
    return "yes" if cell.low > 0 else "no" if cell.high < 0 else "not shown"


def _costs(cost: Mapping[str, Any]) -> dict[str, Cell]:
    speed = float(cost["images_per_second"])
    return {"images_per_second": speed, "flops": float(cost["flops"]) / 1e9}


def _interval(values: Sequence[Any]) -> Interval:
    """Of a grid of pairs, or of single agents."""
    if np.ndim(values) == 2:
        return measures.interval({"pairs": values, "without": None})
    return pairs.cell(list(values))


def number(cell: Cell) -> float:
    """Returns what a cell is sorted by; NaN if it holds no number."""
    if isinstance(cell, Interval):
        return cell.value
    return math.nan if cell is None or isinstance(cell, str) else float(cell)


def _kind(name: str) -> str:
    return "" if name in RIVALS else "reference"
