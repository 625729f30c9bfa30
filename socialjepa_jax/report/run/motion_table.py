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
_MEASURES = {"yaw": "heading", "state": "state", "r2": "R² of W"}
_UNRANKED = (RowName.SAME_CAMERA, RowName.ALL_PIXELS, RowName.ACTIONS)


def section() -> html.Html:
    """Both worlds over independent pairs of agents, as stored with the package."""
    if not STORED.exists():
        return html.missing("This installation holds no stored table of repetitions.")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    grids = [tables.to_html(table(stored, world)) for world in stored["summary"]]
    command = html.tag("code", f"python -m experiments.motion_table --pairs={stored['pairs']}")
    explanation = html.paragraph(
        "Not of this run: ", command, f", {_provenance(stored)}. Means over independent pairs of ",
        "agents with 95 % t-intervals; the pixel controls depend on the cameras alone and are ",
        "measured once. The agents from \"trained, time shuffled\" on were trained as long, on ",
        "pairs that the world's motion did not make.",
    )  # fmt: skip
    parts = [explanation, *grids, html.paragraph(confirmation(stored))]
    if stored["failing"]["worlds"]:
        parts += _failing(stored)
    return html.join(*parts)


def _failing(stored: dict[str, Any]) -> list[html.Html]:
    about = (
        "Worlds that must fail: the clean world with one change, "
        f"{_provenance(stored['failing'])}. Means over pairs, whose two agents are averaged, with "
        "95 % t-intervals; below, what was predicted before the run."
    )
    worlds = stored["failing"]["worlds"].values()
    return [
        html.paragraph(about),
        tables.to_html(failing_table(stored)),
        *(html.paragraph(f"{w['label']}: {failing_sentence(w)}") for w in worlds),
    ]


def _provenance(part: dict[str, Any]) -> str:
    environment = part["environment"]
    return f"measured on {part['date']} with jax {environment['jax']} on {environment['devices']}"


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


def failing_table(stored: dict[str, Any]) -> Table:
    """Returns the table of the worlds that must fail: R2 of each latent, of the state and of W."""
    worlds, reference = stored["failing"]["worlds"], stored["failing"]["reference"]
    summaries = [reference, *(world["summary"] for world in worlds.values())]
    labels = ["clean", *(world["label"] for world in worlds.values())]
    columns = [Column(key, _MEASURES.get(key, key)) for key in summaries[-1]]
    rows = [
        Row(
            label,
            {key: _cell(found) for key, found in summary.items()},
            note=f"{summary['r2']['n']} pairs",
        )
        for label, summary in zip(labels, summaries)
        if summary
    ]
    return Table(columns, rows, "world")


def failing_sentence(world: dict[str, Any]) -> str:
    """Returns what was predicted of a world that must fail, and the worst agent beside it."""
    found = []
    for claim in world["claims"]:
        key = claim["id"].partition("/")[2]
        side = "most" if "most" in claim else "least"
        verdict = "" if claim["agrees"] else ", which is wrong"
        found.append(
            f"{_MEASURES.get(key, key)} at {side} {claim[side]:g} ({claim['ours']:.3f}{verdict})"
        )
    return f"{world['sentence']} Predicted, with the worst agent or pair: {', '.join(found)}."


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
