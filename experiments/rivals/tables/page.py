"""The methods as one page: the leaderboard, what goes wrong in each method, and its columns.

Two tables, at equal images and at equal work; a switch without a script chooses which is shown, and
a script sorts a table by any column. Without it both are in the order of area.
"""

import math
import pathlib

from experiments.findings import Rows
from experiments.rivals.tables.entrants import ENTRANTS, RIVALS
from experiments.rivals.tables.failures import (
    COLLAPSED,
    LOW_RANK,
    PAST,
    UNTUNED,
    how_it_fails,
    what_r2_hides,
)
from experiments.rivals.tables.leaderboard import (
    IMAGES,
    WORK,
    Column,
    adds,
    at_equal_images,
    at_work,
    number,
)
from experiments.rivals.tables.reading import gain, mean
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.html import Html, tag
from socialjepa_jax.report.tables import Cell, Interval, Table


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
    value = number(cell)
    shown, _, bounds = tables.format_cell(cell, column.digits).partition(" ")
    sorted_by = {"data-value": f"{value:.6g}" if math.isfinite(value) else ""}
    text = tag("strong", shown) if best else shown
    verdict = [adds(cell)] if column.key == "gain" and isinstance(cell, Interval) else []
    under = html.join(*(tag("small", each) for each in (*verdict, bounds) if each))
    bar = _bar(cell) if isinstance(column, Column) and column.bar else ""
    return tag("td", text, under, bar, **sorted_by)


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
