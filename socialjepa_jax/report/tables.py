"""Typed tables, written as HTML or Markdown.

A cell is a number, an `Interval`, a text, or None for a missing value. Non-finite numbers are
shown as n/a and ∞.
"""

# ruff: noqa: RUF001 (a true minus and a true times sign are meant)

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from socialjepa_jax.errors import check_one_of
from socialjepa_jax.report import html

EMPTY = "–"


@dataclass(frozen=True)
class Interval:
    """A value with a lower and an upper bound, which the table's caption explains."""

    value: float
    low: float
    high: float


Cell = float | int | str | Interval | None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        key: Key of its cells in `Row.cells`.
        title: Heading.
        digits: Digits after the point.
        best: "max" or "min" to highlight the best value, "" to highlight none.
        help: Explanation of the heading, in one sentence (a tooltip in HTML).
    """

    key: str
    title: str
    digits: int = 3
    best: str = ""
    help: str = ""

    def __post_init__(self) -> None:
        check_one_of(("", "max", "min"), best=self.best)


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        label: Heading.
        cells: Column key -> cell; a missing key is an empty cell.
        ranked: True if the row competes for the highlighted best values.
        kind: A CSS class ("headline", "control", "paper", ...).
        note: A sentence under the label.
    """

    label: str
    cells: Mapping[str, Cell] = field(default_factory=dict)
    ranked: bool = True
    kind: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows; `corner` is the heading of the column of row labels."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    corner: str = ""
    caption: str = ""


def format_number(value: float | int | None, digits: int = 3) -> str:
    """Formats a number with fixed digits, a true minus sign and n/a for NaN.

    Numbers from 100 on get one digit at most, numbers from 10,000 on an exponent.
    """
    if value is None:
        return EMPTY
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if isinstance(value, int):
        text = str(value)
    elif abs(value) >= 1e4:
        mantissa, exponent = f"{value:.1e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    elif abs(value) >= 100:
        text = f"{value:.{min(digits, 1)}f}"
    else:
        text = f"{value:.{digits}f}"
    return text.replace("-", "−")


def format_cell(cell: Cell, digits: int = 3) -> str:
    """Formats a cell; an interval as `value [low, high]` unless all three read the same."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Interval):
        value, low, high = (format_number(v, digits) for v in (cell.value, cell.low, cell.high))
        return value if low == high == value else f"{value} [{low}, {high}]"
    return format_number(cell, digits)


def _number(cell: Cell) -> float:
    if isinstance(cell, Interval):
        return cell.value
    return math.nan if cell is None or isinstance(cell, str) else float(cell)


def best_rows(table: Table, column: Column) -> set[int]:
    """Returns the indices of the ranked rows whose displayed value is the best of a column.

    There are none if all displayed values are equal.
    """
    if not column.best:
        return set()
    numbers = {
        i: round(_number(row.cells.get(column.key)), column.digits)
        for i, row in enumerate(table.rows)
        if row.ranked and math.isfinite(_number(row.cells.get(column.key)))
    }
    if len(set(numbers.values())) < 2:  # one row, or rows that are all equal
        return set()
    best = (max if column.best == "max" else min)(numbers.values())
    return {i for i, number in numbers.items() if number == best}


def _heading(column: Column) -> html.Html:
    space = "\N{NO-BREAK SPACE}"  # headings wrap, but not before their arrow
    arrow = {"max": f"{space}↑", "min": f"{space}↓", "": ""}[column.best]
    return html.tag("th", column.title + arrow, scope="col", title=column.help or None)


def _cell(cell: Cell, digits: int, best: bool) -> html.Html:
    text, bounds = format_cell(cell, digits), ""
    if isinstance(cell, Interval):
        text, _, bounds = text.partition(" ")
    under = html.tag("small", bounds) if bounds else ""
    return html.tag("td", html.tag("strong", text) if best else text, under)


def to_html(table: Table) -> html.Html:
    """Writes the table as HTML, in a box that scrolls sideways on narrow pages."""
    best = [best_rows(table, column) for column in table.columns]
    head = [html.tag("th", table.corner, scope="col"), *map(_heading, table.columns)]
    body = []
    for i, row in enumerate(table.rows):
        note = html.tag("small", row.note) if row.note else ""
        cells = [
            _cell(row.cells.get(column.key), column.digits, i in best[j])
            for j, column in enumerate(table.columns)
        ]
        label = html.tag("th", row.label, note, scope="row")
        body.append(html.tag("tr", label, *cells, class_=row.kind or None))
    thead, tbody = html.tag("thead", html.tag("tr", *head)), html.tag("tbody", *body)
    box = html.tag("div", html.tag("table", thead, tbody), class_="scroll", tabindex="0")
    caption = html.tag("figcaption", table.caption) if table.caption else ""
    return html.tag("figure", box, caption, class_="table")


def to_markdown(table: Table) -> str:
    """Writes the table as GitHub-flavoured Markdown, the best values in bold."""
    best = [best_rows(table, column) for column in table.columns]
    lines = [
        [table.corner, *(column.title for column in table.columns)],
        ["---"] + ["---:"] * len(table.columns),
    ]
    for i, row in enumerate(table.rows):
        texts = [format_cell(row.cells.get(c.key), c.digits) for c in table.columns]
        lines.append([row.label, *(f"**{t}**" if i in best[j] else t for j, t in enumerate(texts))])
    escaped = [[text.replace("|", "\\|").replace("\n", " ") for text in line] for line in lines]
    rows = "\n".join("| " + " | ".join(line) + " |" for line in escaped)
    return f"{rows}\n\n{table.caption}\n" if table.caption else f"{rows}\n"
