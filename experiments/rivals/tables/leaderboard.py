"""The methods as one page: every number of `paradigms` that ranks them, and what goes wrong.

Two tables, at equal images and at equal work; a switch without a script chooses which is shown, and
a script sorts a table by any column. Without it both are in the order of area. Two sentences say of
each method how its training fails and what its R2 hides; both are derived from the rows, by the
first rule that applies.
"""

# ruff: noqa: RUF001 (a true minus sign is meant)

import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Rows
from experiments.motion import pairs
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import measures
from experiments.rivals.tables.entrants import ENTRANTS, RIVALS
from experiments.rivals.tables.reading import at_equal_work, gain, mean, row_of
from socialjepa_jax.records import RowName
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.html import Html, tag
from socialjepa_jax.report.tables import Cell, Interval, Row, Table

COLLAPSED, LOW_RANK = 2.0, 10.0  # RankMe; of 48 dimensions
HALF = 0.5  # of RankMe before training
PAST = 0.02  # of area, that a run loses after its best checkpoint
UNTUNED = 0.1  # of a probe's accuracy, between the best trial and the worst
FACTORS = 0.3  # of R2, that lighting and elevation make up
CARRIED = 0.15  # of a probe's accuracy, that is lost on the way


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


def write(rows: Rows, path: pathlib.Path, images: str = "Toys") -> None:
    """Writes the page.

    Args:
        rows: of `paradigms.measured`.
        path: of the file.
        images: that the agents saw.
    """
    content = {
        "methods": ("Methods", _switch(rows)),
        "fails": ("How it fails, and what its R² hides", _failures(rows)),
        "columns": ("Columns", _explained()),
    }
    subtitle = f"{images}, two cameras, one encoder; 95 % intervals over objects and both agents"
    head = html.join(tag("style", Html(_STYLE)), tag("script", Html(_SCRIPT)))
    page = html.page("Methods by area", subtitle, _lede(rows), content, head)
    path.write_text(page, encoding="utf-8")


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
    lines.sort(key=lambda row: -_value(row.cells["area"]))
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
    lines.sort(key=lambda row: -_value(row.cells["area"]))
    return Table(WORK, lines, corner="equal work")


def adds(cell: Cell) -> str:
    """Returns "yes", "no" (training takes away) or "not shown", by an interval."""
    assert isinstance(cell, Interval)
    return "yes" if cell.low > 0 else "no" if cell.high < 0 else "not shown"


def how_it_fails(rows: Rows, name: str) -> str:
    """Returns one sentence on the training of a method."""
    return next(_of_training(rows, name))


def what_r2_hides(rows: Rows, name: str) -> str:
    """Returns one sentence on what R2 of W of a method does not say."""
    return next(_of_r2(rows, name))


def _of_training(rows: Rows, name: str) -> Iterator[str]:
    """What may go wrong in training, the worst first; the last always applies."""
    points = findings.select(rows, method=name, row="checkpoint")
    rank = [float(np.mean(point["rankme"])) for point in points]
    area = [float(np.mean(point["area"])) for point in points]
    probe = [float(np.mean(point["probe_own"])) for point in points]
    trials = findings.select(rows, method=name, row="trial")
    scores = [trial["accuracy"] for trial in trials]
    ranks = f"RankMe {rank[0]:.1f} before training, {rank[-1]:.1f} after it"
    if rank[-1] < COLLAPSED:
        yield f"It collapses: {ranks}."
    if rank[-1] < HALF * rank[0]:
        yield f"Dimensions are lost: {ranks}."
    best = int(np.argmax(area))
    if area[best] - area[-1] > PAST:
        when = f"at step {points[best]['step']}" if best else "before training"
        yield f"The area is {area[best]:.3f} {when} and {area[-1]:.3f} at the end."
    if probe[-1] <= probe[0]:
        yield f"Its own probe does not learn: {probe[0]:.3f} untrained, {probe[-1]:.3f} trained."
    if max(scores) - min(scores) > UNTUNED:
        worst = min(trials, key=lambda trial: float(trial["accuracy"]))
        yield (
            f"It depends on its settings: the probe of the best of {len(scores)} trials has "
            f"{max(scores):.3f}, that with {_settings(worst)} {min(scores):.3f}."
        )
    yield f"No failure was seen: {ranks}, and {len(scores)} trials lie within {UNTUNED:g}."


def _of_r2(rows: Rows, name: str) -> Iterator[str]:
    """What R2 may hide, the most misleading first; the last always applies."""
    r2, area, rank = (mean(rows, name, key) for key in ("r2", "area", "rankme"))
    own, carried = (mean(rows, name, key) for key in ("probe_own", "probe_transferred"))
    beyond, untrained = mean(rows, name, "r2_beyond"), mean(rows, name, "r2", RowName.UNTRAINED)
    if rank < LOW_RANK:
        yield (
            f"R² {r2:.3f} is that of few directions: RankMe {rank:.1f} of {measures.RANKS}, area "
            f"{area:.3f}."
        )
    if gain(rows, name, "r2").low <= 0:
        yield f"R² {r2:.3f} is not that of training: untrained agents have {untrained:.3f}."
    if r2 - beyond > FACTORS:
        yield f"R² {r2:.3f} is that of lighting and elevation: {beyond:.3f} without them."
    if own - carried > CARRIED:
        yield (
            f"R² {r2:.3f} does not carry a probe: {own:.3f} at home, {carried:.3f} from the other "
            "camera."
        )
    directions = mean(rows, name, "dimensions")
    yield (
        f"R² {r2:.3f} is low for its rank: {directions:.1f} of {measures.RANKS} directions are "
        f"shared, RankMe {rank:.1f}."
    )


def _settings(trial: Mapping[str, Any]) -> str:
    """A trial's settings; the learning rate is that over the preset's."""
    names = {"learning_rate": "learning rate ×"}
    settings = {k: v for k, v in trial.items() if k not in ("method", "row", "trial", "accuracy")}
    return ", ".join(f"{names.get(key, key + ' ')}{value:.3g}" for key, value in settings.items())


def _costs(cost: Mapping[str, Any]) -> dict[str, Cell]:
    speed = float(cost["images_per_second"])
    return {"images_per_second": speed, "flops": float(cost["flops"]) / 1e9}


def _interval(values: Sequence[Any]) -> Interval:
    """Of a grid of pairs, or of single agents."""
    if np.ndim(values) == 2:
        return measures.interval({"pairs": values, "without": None})
    return pairs.cell(list(values))


def _value(cell: Cell) -> float:
    if isinstance(cell, Interval):
        return cell.value
    return math.nan if cell is None or isinstance(cell, str) else float(cell)


def _kind(name: str) -> str:
    return "" if name in RIVALS else "reference"


def _lede(rows: Rows) -> Html:
    """The leaders, and where training adds."""
    by = {key: {name: mean(rows, name, key) for name in RIVALS} for key in ("area", "r2")}
    first = {key: max(values, key=values.__getitem__) for key, values in by.items()}
    rank = mean(rows, first["r2"], "rankme")
    count = sum(adds(gain(rows, name, "area")) == "yes" for name in RIVALS)
    return html.paragraph(
        f"By area {first['area']} leads ({by['area'][first['area']]:.3f}); by R² of W, which "
        f"rewards low rank, {first['r2']} does ({by['r2'][first['r2']]:.3f}, RankMe {rank:.1f}). "
        f"Training adds to the area of {count} of {len(RIVALS)} methods.",
        class_="lede",
    )


def _switch(rows: Rows) -> Html:
    """Both tables, and the choice between them."""
    shown = {"images": at_equal_images(rows), "work": at_work(rows)}
    captions = {
        "images": "All methods saw the same number of images. 95 % intervals over held-out objects "
        "and both agents; the bars run from 0 to 1. References are not ranked.",
        "work": "Each method at its last checkpoint that costs no more FLOPs than the cheapest "
        "method's whole run; intervals over agents alone.",
    }
    choices = [
        html.join(
            tag("input", type="radio", name="table", id=key, **_CHECKED[key]),
            tag("label", f"Equal {key}", for_=key),
        )
        for key in shown
    ]
    boxes = [_html(table, key, captions[key]) for key, table in shown.items()]
    return tag("div", *choices, *boxes, class_="switch")


_CHECKED: dict[str, dict[str, object]] = {"images": {"checked": "checked"}, "work": {}}


def _html(table: Table, key: str, caption: str) -> Html:
    best = [tables.best_rows(table, column) for column in table.columns]
    head = [tag("th", table.corner, scope="col")]
    for column in table.columns:
        less = "" if column.best == "min" else None
        attributes = {"data-less": less, "title": column.help}
        head.append(tag("th", column.title, scope="col", **attributes))
    body = []
    for i, row in enumerate(table.rows):
        trained = row.label in ENTRANTS
        label = tag("a", row.label, href=f"#{row.label}") if trained else row.label
        cells = [
            _cell(row.cells.get(column.key), column, i in best[j])
            for j, column in enumerate(table.columns)
        ]
        note = tag("small", row.note) if row.note else ""
        named = tag("th", label, note, scope="row")
        body.append(tag("tr", named, *cells, class_=row.kind or None))
    parts = tag("thead", tag("tr", *head)), tag("tbody", *body)
    box = tag("div", tag("table", *parts, class_="sortable"), class_="scroll", tabindex="0")
    return tag("figure", box, tag("figcaption", caption), class_=f"table {key}")


def _cell(cell: Cell, column: tables.Column, best: bool) -> Html:
    value = _value(cell)
    shown, _, bounds = tables.format_cell(cell, column.digits).partition(" ")
    number = {"data-value": f"{value:.6g}" if math.isfinite(value) else ""}
    text = tag("strong", shown) if best else shown
    verdict = [adds(cell)] if column.key == "gain" and isinstance(cell, Interval) else []
    under = html.join(*(tag("small", each) for each in (*verdict, bounds) if each))
    bar = _bar(cell) if isinstance(column, Column) and column.bar else ""
    return tag("td", text, under, bar, **number)


def _bar(cell: Cell) -> Html | str:
    """An interval on a scale from 0 to 1; readers of the numbers do not miss it."""
    if not isinstance(cell, Interval) or not math.isfinite(cell.low + cell.high):
        return ""
    low, value, high = (100 * min(max(x, 0.0), 1.0) for x in (cell.low, cell.value, cell.high))
    band = tag("i", style=f"left:{low:.1f}%;width:{high - low:.1f}%")
    dot = tag("b", style=f"left:{value:.1f}%")
    return tag("span", band, dot, class_="bar", **{"aria-hidden": "true"})


def _failures(rows: Rows) -> Html:
    """Two sentences on each method, in the order of the first table."""
    parts = []
    for row in at_equal_images(rows).rows:
        if (name := row.label) in ENTRANTS:
            sentences = how_it_fails(rows, name), what_r2_hides(rows, name)
            parts += [tag("dt", name, id=name), *(tag("dd", each) for each in sentences)]
    rules = html.paragraph(
        f"Derived from the rows by rules: a collapse has a RankMe below {COLLAPSED:g}, lost "
        f"dimensions less than half of the RankMe before training; a run is too long if it loses "
        f"more than {PAST:g} of area after its best checkpoint; settings matter if six trials "
        f"differ by more than {UNTUNED:g} in their probe. A RankMe below {LOW_RANK:g} is low.",
        class_="dim",
    )
    return html.join(tag("dl", *parts), rules)


def _explained() -> Html:
    columns = {c.key: c for c in (*IMAGES, *WORK)}.values()
    return html.definitions({c.title: f"{c.help[0].upper()}{c.help[1:]}." for c in columns})


_STYLE = """
.switch > input { position: absolute; opacity: 0; }
.switch > label { display: inline-block; padding: .35rem .9rem; margin: 0 .3rem .6rem 0;
  border: 1px solid var(--line); border-radius: 1rem; cursor: pointer; }
.switch > input:checked + label { background: var(--accent); color: var(--page); }
.switch > input:focus-visible + label, th button:focus-visible { outline: 3px solid var(--accent);
  outline-offset: 2px; }
.switch > figure { display: none; }
#images:checked ~ .images, #work:checked ~ .work { display: block; }
@media screen and (min-width: 62rem) { body { max-width: 90rem; } }
.sortable th, .sortable td { padding: .38rem .5rem; }
th button { all: unset; cursor: pointer; } th button::after { content: " ↕"; color: var(--dim); }
th[aria-sort=descending] button::after { content: " ↓"; color: var(--accent); }
th[aria-sort=ascending] button::after { content: " ↑"; color: var(--accent); }
.bar { display: block; position: relative; height: .5rem; min-width: 5rem; margin-top: .2rem;
  background: var(--card); border-radius: .25rem; }
.bar i { position: absolute; top: .1rem; height: .3rem; min-width: 1px; background: var(--accent);
  opacity: .45; }
.bar b { position: absolute; top: 0; width: .2rem; height: .5rem; margin-left: -.1rem;
  background: var(--accent); }
dt { scroll-margin-top: 1rem; } dt:target { color: var(--accent); }
@media print { .switch > label { display: none; } .switch > figure { display: block; } }
"""

_SCRIPT = """
addEventListener("DOMContentLoaded", () => {
  const number = (row, k) => row.cells[k].dataset.value;
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, k) => {
      const button = document.createElement("button");
      button.type = "button"; button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = k === 0 || "less" in head.dataset;
        const now = head.getAttribute("aria-sort");
        const order = now ? (now === "ascending" ? "descending" : "ascending")
                          : (up ? "ascending" : "descending");
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const compare = (a, b) => {
          if (k === 0) return sign * a.cells[0].textContent.localeCompare(b.cells[0].textContent);
          const x = number(a, k), y = number(b, k);
          if (!x || !y) return (x ? 0 : 1) - (y ? 0 : 1);
          return sign * (x - y);
        };
        body.append(...[...body.rows].sort(compare));
      });
    });
  }
});
"""
