"""The honest table's files: sentences, tables, JSON and page."""

import pathlib
from typing import Any

import numpy as np

from experiments.alignability.honest_rows import LATENTS, Rows
from experiments.alignability.jackknife import Estimate
from experiments.findings import Claim
from socialjepa_jax import config, records
from socialjepa_jax.config import Experiment
from socialjepa_jax.records import PARTIALLED, RowName
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.papers.social_jepa import SOCIAL_JEPA

PAPER = SOCIAL_JEPA[1].value("smallNORB (Viewpoint 0° vs 160°)", "r2")
MISMATCHED = (RowName.MISMATCHED, RowName.MISMATCHED_CELL)
CONTROLS = (RowName.UNTRAINED, RowName.UNTRAINED_SAME_INIT, RowName.PIXEL_PCA, *MISMATCHED)
ROWS = (RowName.TRAINED, RowName.SAME_CAMERA, *CONTROLS, *PARTIALLED.values())
# Control -> the row it is compared with, which is partialled if the control is.
REFERENCE: dict[str, RowName] = {
    **dict.fromkeys(CONTROLS, RowName.TRAINED),
    RowName.UNTRAINED_PARTIALLED: RowName.PARTIALLED,
    RowName.PIXEL_PCA_PARTIALLED: RowName.PARTIALLED,
}
RIVALS = tuple(row for row in REFERENCE if row not in MISMATCHED)  # controls without training


def gap(table: Rows, row: str, split: str, metric: str) -> Estimate:
    """Trained agents minus a control, paired object by object."""
    return table[REFERENCE[row], split].metrics[metric].minus(table[row, split].metrics[metric])


def _sentence(table: Rows, split: str, reference: str, metric: str) -> str:
    """Difference between the trained agents and the strongest control, in words."""
    rivals = [c for c in RIVALS if REFERENCE[c] == reference]
    best = max(rivals, key=lambda c: table[c, split].metrics[metric].value)
    difference = gap(table, best, split, metric)
    low, high = difference.interval()
    word = "more" if low > 0 else "less" if high < 0 else "neither more nor less"
    name = {"r2": "R²", "shared_dims": "shared dimensions"}[metric]
    what = f"{name} beyond the shared factors" if reference == RowName.PARTIALLED else name
    ours, theirs = (table[row, split].metrics[metric].value for row in (reference, best))
    return (
        f"{split} split: training leaves {word} {what} than the best control "
        f"({ours:.3f} against {theirs:.3f} of {best.replace('_', ' ')}; "
        f"difference {difference.value:+.3f} [{low:+.3f}, {high:+.3f}])."
    )


def sentences(measured: Rows, split: str) -> list[str]:
    """Sentences on R2 and shared dimensions, with and without the shared factors."""
    return [
        _sentence(measured, split, reference, metric)
        for metric in ("r2", "shared_dims")
        for reference in (RowName.TRAINED, RowName.PARTIALLED)
    ]


COLUMNS = (
    tables.Column("r2", "R²", best="max"),
    tables.Column("difference", "trained minus row", help="difference in R², paired by object"),
    tables.Column("shared_dims", "shared dims", digits=1, best="max", help="directions carried"),
    tables.Column("dims_difference", "trained minus row", digits=1, help="in shared dims, paired"),
    tables.Column("dsc", "DSC", best="max", help="eq. 5: through the inverse of W"),
    tables.Column("dsc_no_map", "DSC, no map", best="max"),
    tables.Column("nos@10", "NOS@10", best="min", help="eq. 8, through the inverse of W"),
    tables.Column("nos@10_no_map", "NOS@10, no map", best="min"),
    tables.Column("cka_debiased", "CKA, debiased", best="max"),
    tables.Column("rankme", "RankMe", digits=1),
    tables.Column("probe_own", "own probe", best="max"),
    tables.Column("probe_transferred", "probe by W⁻¹", best="max"),
    tables.Column("probe_regression", "probe by regression", best="max"),
    tables.Column("probe_raw", "probe, no W", best="max"),
)


def to_table(measured: Rows, split: str) -> tables.Table:
    """Table of one split: the trained agents, their ceiling and all controls."""
    rows = []
    for name in ROWS:
        if (name, split) not in measured:
            continue
        row = measured[name, split]
        cells: dict[str, tables.Cell] = {k: e.value for k, e in row.metrics.items()}
        cells |= row.probes
        cells["r2"] = tables.Interval(row.metrics["r2"].value, *row.metrics["r2"].interval())
        if name in CONTROLS:
            for column, metric in (("difference", "r2"), ("dims_difference", "shared_dims")):
                difference = gap(measured, name, split, metric)
                cells[column] = tables.Interval(difference.value, *difference.interval())
        rows.append(
            tables.Row(name.replace("_", " "), cells, ranked=name in (RowName.TRAINED, *CONTROLS))
        )
    objects = len(measured[RowName.TRAINED, split].metrics["r2"].without)
    return tables.Table(
        COLUMNS,
        rows,
        corner=f"{split} split",
        caption=f"Means over pairs of agents; 95 % intervals over {objects} test objects and the "
        "repetitions.",
    )


def to_json(measured: Rows) -> list[dict[str, Any]]:
    """All numbers, with the values of the seeds and the paired differences."""
    rows = []
    for (name, split), row in measured.items():
        metrics: dict[str, Any] = {}
        for metric, estimate in row.metrics.items():
            metrics[metric] = {**_interval(estimate), "seeds": estimate.repeats.tolist()}
            if name in REFERENCE:
                difference = gap(measured, name, split, metric)
                metrics[metric]["trained_minus_this"] = _interval(difference)
        rows.append(
            {
                "row": name,
                "split": split,
                "pairs": row.pairs,
                "probes": row.probes,
                "metrics": metrics,
            }
        )
    return rows


def _interval(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.interval()
    return {"value": estimate.value, "low": low, "high": high}


def claim(name: str, measured: Rows, split: str) -> Claim:
    """The paper's R2 beside ours. It has no verdict, since the data are not the same."""
    ours = measured[RowName.TRAINED, split].metrics["r2"]
    world = name.partition("_")[0]
    return Claim(
        f"{name}/{split}/r2",
        PAPER,
        ours.value,
        None,
        f"the paper's R² is of smallNORB, ours of {world}. {' '.join(sentences(measured, split))}",
        float(np.std(ours.repeats, ddof=min(1, len(ours.repeats) - 1))),
    )


def _splits(measured: Rows) -> list[str]:
    return sorted({split for _, split in measured})


def _html(heading: str, measured: Rows) -> html.Html:
    parts = [html.tag("h3", heading)]
    for split in _splits(measured):
        parts += map(html.paragraph, sentences(measured, split))
        parts.append(tables.to_html(to_table(measured, split)))
    return html.join(*parts)


def _markdown(heading: str, measured: Rows) -> str:
    lines = []
    for split in _splits(measured):
        lines += [f"### {heading}, {split} split", ""]
        lines += [f"- {sentence}" for sentence in sentences(measured, split)]
        lines += ["", tables.to_markdown(to_table(measured, split))]
    return "\n".join(lines)


def write(
    out: pathlib.Path,
    results: dict[str, dict[str, Rows]],
    experiments: dict[str, Experiment],
    scale: str,
    seeds: int,
) -> pathlib.Path:
    """Writes honest_table.json, .md and .html.

    Args:
        out: folder of the files.
        results: arm -> latent -> rows.
        experiments: of the arms.
        scale: of the runs.
        seeds: repetitions of every run.

    Returns:
        The page.
    """
    claims, markdown, sections = [], [], {}
    for arm, latents in results.items():
        names = LATENTS[experiments[arm].objective.kind]
        for latent, measured in latents.items():
            splits = _splits(measured)
            claims += [claim(f"{arm}/{latent}", measured, split).plain() for split in splits]
            markdown.append(_markdown(f"{arm}, {names[latent]}", measured))
        content = html.join(*(_html(names[latent], m) for latent, m in latents.items()))
        sections[arm] = (experiments[arm].name, content)
    records.write_json(
        out / "honest_table.json",
        {
            "name": "honest_table",
            "scale": scale,
            "environment": records.versions(),
            "claims": claims,
            "rows": {
                arm: {latent: to_json(measured) for latent, measured in latents.items()}
                for arm, latents in results.items()
            },
            "configs": {arm: config.to_plain(e) for arm, e in experiments.items()},
        },
    )
    (out / "honest_table.md").write_text("\n".join(markdown))
    page = out / "honest_table.html"
    lede = html.paragraph(
        f"The paper reports R² = {PAPER} for smallNORB at 0° against 160°. Below, the same "
        "measurement beside controls without any training."
    )
    subtitle = f"{seeds} seeds, scale {scale}"
    page.write_text(html.page("Does training add alignability?", subtitle, lede, sections))
    return page
