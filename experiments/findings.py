"""What an experiment leaves behind: claims beside the paper's numbers, figures, tables, rows."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from socialjepa_jax import records
from socialjepa_jax.records import write_json
from socialjepa_jax.report import html, style
from socialjepa_jax.report.tables import Cell, Column, Interval, Row, Table, to_html

Rows = list[dict[str, Any]]  # one dictionary of plain values a run


@dataclass(frozen=True)
class Claim:
    """One statement of a paper (or of theory) beside what was measured.

    Attributes:
        id: short name.
        paper: the printed number, or the statement.
        ours: the measured number.
        agrees: the verdict.
        note: what was found, as the end of a sentence that begins with the verdict.
        std: spread of `ours` over seeds, if there are several.
        because: why it differs; said only where it does.
    """

    id: str
    paper: float | str
    ours: float
    agrees: bool
    note: str
    std: float | None = None
    because: str = ""

    def plain(self) -> dict[str, Any]:
        """What a file says of it; the note is one sentence that begins with the verdict."""
        words = [self.note.removesuffix("."), *[self.because] * bool(self.because)]
        found = self.note if self.agrees or not self.because else f"{'; '.join(words)}."
        return {
            "id": self.id,
            "paper": self.paper,
            "ours": self.ours,
            "agrees": self.agrees,
            "note": f"{'agrees' if self.agrees else 'differs'}: {found}",
            "std": self.std,
        }


@dataclass(frozen=True)
class Picture:
    """A figure with what it shows in words, and its caption."""

    figure: Figure
    alt: str
    caption: str


@dataclass(frozen=True)
class Finding:
    """The result of one experiment.

    Attributes:
        title: one line.
        claims: verdicts.
        pictures: by the end of their file name; "" is the experiment's own.
        tables: shown on the page.
        rows: every run with its settings and metrics.
        settings: budget and what else a caption must say.
    """

    title: str
    claims: Sequence[Claim]
    pictures: Mapping[str, Picture]
    rows: Rows
    tables: Sequence[Table] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def save(finding: Finding, name: str, scale: str, out: pathlib.Path) -> None:
    """Writes NAME*.png and NAME.json, which holds all that `section` needs."""
    pictures = []
    for end, picture in finding.pictures.items():
        file = f"{name}{'_' * bool(end)}{end}.png"
        (out / file).write_bytes(style.png(picture.figure, 150))
        pictures.append({"file": file, "alt": picture.alt, "caption": picture.caption})
    write_json(
        out / f"{name}.json",
        {
            "name": name,
            "title": finding.title,
            "scale": scale,
            "environment": records.versions(),
            "settings": dict(finding.settings),
            "claims": [claim.plain() for claim in finding.claims],
            "pictures": pictures,
            "tables": [asdict(table) for table in finding.tables],
            "rows": finding.rows,
        },
    )


@dataclass(frozen=True)
class Section:
    """An experiment's part of the report page.

    Attributes:
        title: one line.
        content: claims, pictures, tables.
        verdicts: whether each claim agrees.
        scale: at which it was run.
    """

    title: str
    content: html.Html
    verdicts: list[bool]
    scale: str


def section(name: str, out: pathlib.Path) -> Section | None:
    """Reads back what `save` wrote, by this process or an earlier one; None if nothing is there."""
    path = out / f"{name}.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text())
    claims = [Claim(**claim) for claim in found["claims"]]
    where = f" Scale {found['scale']}: {_described(found['settings'])}."
    shown = [
        html.figure((out / p["file"]).read_bytes(), p["alt"], p["caption"] + where, full=True)
        for p in found.get("pictures", ())
    ]
    tables = [to_html(_table(plain)) for plain in found.get("tables", ())]
    content = html.join(claims_table(claims), html.figure_grid(*shown), *tables)
    return Section(found["title"], content, [claim.agrees for claim in claims], found["scale"])


def _table(plain: Mapping[str, Any]) -> Table:
    """The table that `asdict` made plain."""

    def cell(value: Any) -> Cell:
        return Interval(**value) if isinstance(value, dict) else value

    rows = [
        Row(**{**row, "cells": {key: cell(value) for key, value in row["cells"].items()}})
        for row in plain["rows"]
    ]
    columns = [Column(**column) for column in plain["columns"]]
    return Table(columns, rows, plain["corner"], plain["caption"])


def _described(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items())


def claims_table(claims: Sequence[Claim]) -> html.Html:
    """Paper, ours and the verdict's sentence, one row a claim."""
    columns = (
        Column("paper", "paper", digits=4),
        Column("ours", "ours", digits=4),
        Column("std", "± seeds", digits=4),
        Column("verdict", "verdict"),
    )
    rows = [
        Row(
            claim.id,
            {
                "paper": claim.paper,
                "ours": claim.ours,
                "std": claim.std,
                "verdict": "agrees" if claim.agrees else "differs",
            },
            ranked=False,
            note=claim.note,
        )
        for claim in claims
    ]
    return to_html(Table(columns, rows, corner="claim"))


def select(rows: Rows, **where: Any) -> Rows:
    """The rows whose columns have the given values."""
    return [row for row in rows if all(row.get(k) == v for k, v in where.items())]


def mean(rows: Rows, column: str, **where: Any) -> float:
    """Mean of a column over the selected rows; NaN without any."""
    values = [row[column] for row in select(rows, **where)]
    return float(np.mean(values)) if values else float("nan")


def spread(rows: Rows, column: str, **where: Any) -> float:
    """Standard deviation of a column over the selected rows (of seeds)."""
    values = [row[column] for row in select(rows, **where)]
    return float(np.std(values)) if values else float("nan")


def distinct(rows: Rows, column: str) -> list[Any]:
    """The values of a column in order of appearance."""
    return list(dict.fromkeys(row[column] for row in rows if column in row))
