"""The section on repetitions of a world in motion, from what `experiments.motion_table` stored."""

import json
from pathlib import Path
from typing import Any

from socialjepa_jax.records import RowName
from socialjepa_jax.report import html, looks, tables
from socialjepa_jax.report.tables import Cell, Column, Interval, Row, Table

STORED = Path(__file__).with_suffix(".json")
COLUMNS = (
    Column("state_r2_x", "state, first agents", 3, "max"),
    Column("state_r2", "state, second agents", 3, "max"),
    Column("r2", "R² of W", 3, "max"),
)
ORDER = (
    RowName.TRAINED, RowName.ACTIONS, RowName.SAME_CAMERA, RowName.UNTRAINED,
    RowName.UNTRAINED_HIDDEN, RowName.PIXEL_PCA, RowName.PIXEL_PCA_WIDE, RowName.RANDOM_PROJECTION,
    RowName.MISMATCHED, "strangers", "same_picture", "photometric", "augmented_stills",
    "augmented_stills_jitter", RowName.ALL_PIXELS,
)  # fmt: skip
_NAMES = {"state_r2": "R² of the state", "r2": "R² of W"}
_UNRANKED = (RowName.SAME_CAMERA, RowName.ALL_PIXELS, RowName.ACTIONS)


def section() -> html.Html:
    """Both worlds over independent pairs of agents, as stored with the package."""
    if not STORED.exists():
        return html.missing("This installation holds no stored table of repetitions.")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    grids = [tables.to_html(table(stored, world)) for world in stored["summary"]]
    command = html.tag("code", f"python -m experiments.motion_table --pairs={stored['pairs']}")
    explanation = html.paragraph(
        "Not of this run: ", command, f", measured on {stored['date']} with jax ",
        f"{stored['environment']['jax']} on {stored['environment']['devices']}. Means over ",
        "independent pairs of agents with 95 % t-intervals; the pixel controls depend on the ",
        "cameras alone and are measured once. The agents from \"trained, time shuffled\" on were ",
        "trained as long, on pairs that the world's motion did not make.",
    )  # fmt: skip
    return html.join(explanation, *grids, html.paragraph(confirmation(stored)))


def table(stored: dict[str, Any], world: str) -> Table:
    """Returns the table of one world."""
    summary = stored["summary"][world]
    rows = []
    for name in ORDER:
        if name not in summary:
            continue
        cells: dict[str, Cell] = {c.key: _cell(summary[name].get(c.key)) for c in COLUMNS}
        count = summary[name]["state_r2"]["n"]
        note = f"{count} pairs" if count > 1 else "once"
        kind = "headline" if name == RowName.TRAINED else ""
        rows.append(Row(looks.look(name).label, cells, name not in _UNRANKED, kind, note))
    return Table(COLUMNS, rows, world)


def confirmation(stored: dict[str, Any]) -> str:
    """Returns a sentence for each world on the pairs that were run to confirm the table."""
    if not stored["confirmation"]:
        return "No confirming pairs were run."
    sentences = []
    for world, tests in stored["confirmation"].items():
        parts = [
            f"{_NAMES[test['key']]} {test['second']:.3f} after {test['first']:.3f} "
            f"(p = {test['p']:.1g})"
            for test in tests
        ]
        verdict = "agree within 0.02" if all(t["agrees"] for t in tests) else "do not agree"
        sentences.append(
            f"{stored['pairs']} further pairs of the {world} world, on seeds fixed beforehand, "
            f"{verdict}: {', '.join(parts)}."
        )
    return " ".join(sentences)


def _cell(found: dict[str, float] | None) -> Cell:
    if found is None:
        return None
    mean, half = found["mean"], found["half"]
    return mean if half is None else Interval(mean, mean - half, mean + half)
