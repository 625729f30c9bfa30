"""Results of an experiment: claims beside a paper's numbers, plots, tables and rows of all runs."""

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from socialjepa_jax import records
from socialjepa_jax.errors import InputError
from socialjepa_jax.records import write_json
from socialjepa_jax.report import figures, html, style
from socialjepa_jax.report.tables import Cell, Column, Interval, Row, Table, to_html

Rows = list[dict[str, Any]]  # one dictionary of plain values a run

VERDICTS = {True: "agrees", False: "differs", None: "not comparable"}


@dataclass(frozen=True)
class Claim:
    """One statement of a paper (or of theory) beside the measured number.

    Attributes:
        id: short name.
        paper: the printed number, or the statement.
        ours: the measured number.
        agrees: the verdict; None if the two cannot be compared, as on different data.
        note: what was measured, without the verdict, which `plain` puts in front of it.
        std: spread of `ours` over seeds, if there are several.
        because: the reason of a difference; stated only if the claim does not agree.

    Raises:
        InputError: the note begins with a verdict, which would be stated twice.
    """

    id: str
    paper: float | str
    ours: float
    agrees: bool | None
    note: str
    std: float | None = None
    because: str = ""

    def __post_init__(self) -> None:
        if self.note.startswith(tuple(VERDICTS.values())):
            raise InputError(f"claim {self.id!r}: the note begins with a verdict: {self.note!r}")

    def plain(self) -> dict[str, Any]:
        """The claim as a file states it; its note is one sentence that begins with the verdict."""
        note = self.note
        if self.because and not self.agrees:
            note = f"{note.removesuffix('.')}; {self.because}."
        return {
            "id": self.id,
            "paper": self.paper,
            "ours": self.ours,
            "agrees": self.agrees,
            "note": f"{VERDICTS[self.agrees]}: {note}",
            "std": self.std,
        }


@dataclass(frozen=True)
class Plot:
    """A figure, its content in words for those who cannot see it, and its caption."""

    figure: Figure
    alt: str
    caption: str


@dataclass(frozen=True)
class Finding:
    """The result of one experiment.

    Attributes:
        title: one line.
        claims: statements with verdicts.
        plots: by the end of their file name; "" is the experiment's main plot.
        rows: every run with its settings and metrics.
        tables: shown on the page.
        settings: budget and other facts for the captions.
    """

    title: str
    claims: Sequence[Claim]
    plots: Mapping[str, Plot]
    rows: Rows
    tables: Sequence[Table] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def save(finding: Finding, name: str, scale: str, out: pathlib.Path) -> None:
    """Writes NAME*.png and NAME.json; `section` needs nothing else."""
    plots = []
    for end, plot in finding.plots.items():
        file = f"{name}{'_' * bool(end)}{end}.png"
        (out / file).write_bytes(style.png(plot.figure, 150))
        plots.append({"file": file, "alt": plot.alt, "caption": plot.caption})
    write_json(
        out / f"{name}.json",
        {
            "name": name,
            "title": finding.title,
            "scale": scale,
            "environment": records.versions(),
            "settings": dict(finding.settings),
            "claims": [claim.plain() for claim in finding.claims],
            "pictures": plots,
            "tables": [asdict(table) for table in finding.tables],
            "rows": finding.rows,
        },
    )


@dataclass(frozen=True)
class Section:
    """An experiment's part of the report page.

    Attributes:
        title: one line.
        content: claims, plots, tables.
        verdicts: True if a claim agrees, for each claim that can be compared.
        scale: of the run.
    """

    title: str
    content: html.Html
    verdicts: list[bool]
    scale: str


def section(name: str, out: pathlib.Path) -> Section | None:
    """Reads the files of `save`, whichever process wrote them; None if there are none."""
    path = out / f"{name}.json"
    if not path.exists():
        return None
    stored = json.loads(path.read_text())
    settings = [f"{name.replace('_', ' ')} {value}" for name, value in stored["settings"].items()]
    where = f" Scale {stored['scale']}: {', '.join(settings)}."
    shown = [
        html.figure((out / p["file"]).read_bytes(), p["alt"], p["caption"] + where, full=True)
        for p in stored.get("pictures", ())
    ]
    tables = [to_html(_table(plain)) for plain in stored.get("tables", ())]
    content = html.join(_claims_table(stored["claims"]), html.figure_grid(*shown), *tables)
    verdicts = [claim["agrees"] for claim in stored["claims"] if claim["agrees"] is not None]
    return Section(stored["title"], content, verdicts, stored["scale"])


def _table(plain: Mapping[str, Any]) -> Table:
    """Inverse of `asdict` for tables."""

    def cell(value: Any) -> Cell:
        return Interval(**value) if isinstance(value, dict) else value

    rows = [
        Row(**{**row, "cells": {key: cell(value) for key, value in row["cells"].items()}})
        for row in plain["rows"]
    ]
    columns = [Column(**column) for column in plain["columns"]]
    return Table(columns, rows, plain["corner"], plain["caption"])


def _claims_table(claims: Sequence[Mapping[str, Any]]) -> html.Html:
    """Table of the paper's number, ours, the spread, the verdict and its sentence."""
    columns = (
        Column("paper", "paper", digits=4),
        Column("ours", "ours", digits=4),
        Column("std", "± seeds", digits=4),
        Column("verdict", "verdict"),
    )
    rows = [
        Row(
            claim["id"],
            {**claim, "verdict": VERDICTS[claim["agrees"]]},
            ranked=False,
            note=claim["note"],
        )
        for claim in claims
    ]
    return to_html(Table(columns, rows, corner="claim"))


def kept(path: pathlib.Path, make: Callable[[], Rows]) -> Rows:
    """Returns the rows of a file, which is made if it is missing: an interrupted run goes on.

    Args:
        path: of the file; its folder is made too.
        make: makes the rows.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, make())
    rows: Rows = json.loads(path.read_text())
    return rows


def select(rows: Rows, **where: Any) -> Rows:
    """The rows whose columns have the given values."""
    return [row for row in rows if all(row.get(k) == v for k, v in where.items())]


def values(rows: Rows, column: str, **where: Any) -> list[Any]:
    """A column of the selected rows, in their order."""
    return [row[column] for row in select(rows, **where)]


def mean(rows: Rows, column: str, **where: Any) -> float:
    """Mean of a column over the selected rows; NaN without any."""
    found = values(rows, column, **where)
    return float(np.mean(found)) if found else float("nan")


def spread(rows: Rows, column: str, **where: Any) -> float:
    """Standard deviation of a column over the selected rows (of seeds)."""
    found = values(rows, column, **where)
    return float(np.std(found)) if found else float("nan")


def distinct(rows: Rows, column: str) -> list[Any]:
    """The values of a column in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows if column in row))


def curve(
    rows: Rows, x: str, y: str, label: str, index: int, dash: style.Dash = "-", **where: Any
) -> figures.Line:
    """Mean of column `y` at each value of column `x`, over the selected rows.

    Args:
        rows: of the experiment.
        x, y: columns.
        label: of the curve.
        index: of its colour.
        dash: of its line.
        **where: columns that select the rows.
    """
    rows = select(rows, **where)
    at = sorted(distinct(rows, x))
    means = [mean(rows, y, **{x: value}) for value in at]
    return figures.Line(label, at, means, style.agent_color(index), dash, "o")


def curves(rows: Rows, x: str, y: str, by: str = "method") -> list[figures.Line]:
    """One `curve` for each value of the column `by`, under its name."""
    return [
        curve(rows, x, y, str(value), index, **{by: value})
        for index, value in enumerate(distinct(rows, by))
    ]
