"""Sections of a run's page that come from alignment.json: tables, neighbourhoods, probes."""

# ruff: noqa: RUF001 (a true minus and a true times sign are meant)

import math
from collections.abc import Mapping

import numpy as np

from socialjepa_jax.records import PARTIALLED, RowName
from socialjepa_jax.report import figures, html, looks, style, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.figures import BarSeries, Line
from socialjepa_jax.report.papers.social_jepa import SMALLNORB, SOCIAL_JEPA
from socialjepa_jax.report.run.data import ROW_ORDER, SPLITS, RunData, mean, pick, value
from socialjepa_jax.report.tables import Cell, Column, Interval, Row, Table

NO_ALIGNMENT = "The run has no alignment.json yet: it was stopped before its last step."
BACKS = {
    "inverse": "inverse of W (eq. 5, the paper's)",
    "regression": "reverse regression",
    "none": "no map",
    "forward": "forward, W x against y",
}
_METRICS = (
    Column("r2", "R²", 3, "max", "share of the variance of z2 that W z1 explains, pooled"),
    Column("mse", "MSE", 3, "min", "mean squared error a feature, standardised latents"),
    Column("dsc", "DSC", 3, "max", "rank correlation of all pairwise distances"),
    Column("nos@10", "NOS@10", 3, "min", "share of the 10 nearest neighbours that differ"),
    Column("cka_debiased", "CKA", 3, "max", "debiased linear CKA"),
    Column("kappa_effective", "κ eff.", 1, "", "largest over smallest kept singular value of W"),
    Column("rank", "rank", 0, "", "singular values of W that are kept"),
)
_BACK_METRICS = tuple(c for c in _METRICS if c.key in ("dsc", "nos@10", "cka_debiased"))
_PROBES = (
    Column("probe_own", "own probe", 3, "", "trained on the second agent's own latents"),
    Column("probe_transferred", "carried over by W", 3, "max", "the first agent's, a2 = W⁻ᵀ a"),
    Column("probe_raw", "carried over without W", 3, "", "the first agent's, unchanged"),
)
_NEIGHBOUR_ROWS = (RowName.TRAINED, RowName.UNTRAINED, RowName.PIXEL_PCA, RowName.MISMATCHED)
_PAPER_NOTE = (
    "The paper's row is its smallNORB result (0° against 160°, ViT-S/16, 200 epochs). † Its MSE "
    "follows neither reading of its equation (6) (on standardised latents MSE is 1 − R² a "
    "feature), so it is not comparable with ours. "
)
_SHOWN_BOUND = 1e-3  # on the error of DSC
_UNRANKED = (RowName.SAME_CAMERA, *PARTIALLED.values())  # a ceiling, and parts of other rows


def metrics(run: RunData) -> html.Html:
    """The metrics with every control and, beside the paper, its numbers: a table per split."""
    if not run.scores:
        return html.missing(NO_ALIGNMENT)
    parts: list[html.Html] = []
    for split in _splits(run):
        heading = html.tag("h3", SPLITS[split].capitalize())
        parts += [heading, tables.to_html(metrics_table(run, split))]
    note = _PAPER_NOTE * run.beside_paper + (
        "A regression map of latents that end in a LayerNorm has an infinite κ by construction; "
        "κ eff. counts the kept singular values only. DSC, NOS and CKA need no map at all: see the "
        "back maps below."
    )
    glossary = {look.label: look.meaning for look in map(looks.look, ROW_ORDER)}
    explained = html.folded("What the rows are", html.definitions(glossary))
    return html.join(*parts, explained, html.paragraph(note, class_="dim"))


def metrics_table(run: RunData, split: str) -> Table:
    """Every row of alignment.json on one split; beside the paper, its own numbers at the end."""
    rows = [_row(run, name, split, _METRICS) for name in _ordered_rows(run, split)]
    counts = [score.metrics.get("n_test", math.nan) for score in run.scores if score.split == split]
    sizes = sorted({int(count) for count in counts if math.isfinite(count)})
    tested = f" {' or '.join(map(str, sizes))} test pairs." if sizes else ""
    pairs = len(pick(run, RowName.TRAINED, split))
    averaged = f" Means over {pairs} pairs of agents, with the lowest and highest." * (pairs > 1)
    caption = (
        f"{SPLITS[split].capitalize()}.{tested}{averaged} Bold: the best of trained and controls. "
        "DSC, NOS and CKA after the back map of equation (5)."
        f"{_dsc_note(run, split)}"
    )
    paper = [_paper_row()] if run.beside_paper else []
    return Table(_METRICS, [*rows, *paper], corner="latents", caption=caption)


def _dsc_note(run: RunData, split: str) -> str:
    """Names the largest bound on the error of DSC where the table's digits could show it."""
    scores = (score for score in run.scores if score.split == split)
    bound = max((score.metrics.get("dsc_bound", 0.0) for score in scores), default=0.0)
    return f" The error of DSC is below {bound:.1g}." if bound > _SHOWN_BOUND else ""


def shifted(run: RunData, domain: str) -> html.Html | None:
    """Metrics of maps that were fitted in one domain, in it and out of it; None without such rows.

    Args:
        run: the run.
        domain: category that the maps were fitted on.
    """
    start = f"{domain} to "
    names = [s.split for s in run.scores if domain and s.split.startswith(start)]
    if not names:
        return None
    columns = _METRICS[:5]
    rows = []
    for name in dict.fromkeys(names):
        for row in (RowName.TRAINED, RowName.UNTRAINED, RowName.PIXEL_PCA, RowName.MISMATCHED):
            cells: dict[str, Cell] = {c.key: mean(pick(run, row, name), c.key) for c in columns}
            kind = "headline" if row == RowName.TRAINED else ""
            rows.append(Row(f"{name}, {looks.look(row).label}", cells, kind=kind))
    paper = SOCIAL_JEPA[5]
    inside, outside = (paper.value(row, "r2") for row in ("In-domain", "Shifted"))
    note = (
        f"W is fitted on training states of {domain} and tested on held-out states of every "
        f"condition. The paper's Table 5 prints R² {inside:.3f} in its domain and {outside:.3f} "
        "out of it."
    )
    return html.join(
        html.paragraph(note), tables.to_html(Table(columns, rows, "fitted and tested"))
    )


def _splits(run: RunData) -> list[str]:
    """Splits that have scores, the headline's first."""
    present = {score.split for score in run.scores}
    return [split for split in SPLITS if split in present]


def _ordered_rows(run: RunData, split: str) -> list[str]:
    present = {score.row for score in run.scores if score.split == split}
    unknown = sorted(present - set(ROW_ORDER))
    return [row for row in (*ROW_ORDER, *unknown) if row in present]


def _row(run: RunData, name: str, split: str, columns: tuple[Column, ...]) -> Row:
    scores = pick(run, name, split)
    cells: dict[str, Cell] = {column.key: mean(scores, column.key) for column in columns}
    kind = "headline" if name == RowName.TRAINED else ""
    return Row(looks.look(name).label, cells, name not in _UNRANKED, kind)


def _paper_row() -> Row:
    printed = SOCIAL_JEPA[7].row(SMALLNORB)
    cells: dict[str, Cell] = {
        key: f"{printed[key]:.3f} ± {printed[f'{key}_std']:.3f}" for key in ("r2", "dsc", "nos@10")
    }
    cells["mse"] = f"{printed['mse']:.3f} †"
    cells["kappa_effective"] = SOCIAL_JEPA[4].value("0.0", "kappa")
    note = "smallNORB, Tables 7 and 4"
    return Row("paper", cells, ranked=False, kind="paper", note=note)


def neighbourhoods(run: RunData, album: Album) -> html.Html:
    """NOS@k over k against chance and, beside the paper, its Table 8."""
    panels = []
    for split in _splits(run):
        curves = [curve for row in _NEIGHBOUR_ROWS if (curve := _nos_curve(run, row, split))]
        if not curves:
            continue
        ticks = np.array(curves[0].x)
        n_test = value(mean(pick(run, RowName.TRAINED, split), "n_test"))
        if math.isfinite(n_test) and n_test > 1:
            look = looks.look("chance")
            label = f"chance, 1 − k/(N−1), N = {n_test:.0f}"
            curves.append(Line(label, ticks, 1 - ticks / (n_test - 1), look.color, look.dash))
        if run.beside_paper:
            paper, printed = looks.look("paper"), SOCIAL_JEPA[8].row(SMALLNORB)
            label = "paper, smallNORB (Table 8)"
            curves.append(Line(label, *_nos(printed), paper.color, paper.dash, "X"))
        figure = figures.lines(
            curves, title=SPLITS[split].capitalize(), x_label="neighbours k",
            y_label="NOS@k (lower is better)", log_x=True, x_ticks=ticks, height=3.8,
        )  # fmt: skip
        panels.append(album.add(f"nos_{split}", figure, alt=f"NOS@k against k on {SPLITS[split]}"))
    if not panels:
        return html.missing("alignment.json holds no NOS@k." if run.scores else NO_ALIGNMENT)
    explanation = (
        "NOS@k is the share of a state's k nearest neighbours in one agent's space that are not "
        "among its k nearest in the other's, after the back map. Chance falls with k and depends "
        "on the number N of test states, so compare with the dashed grey line, not between pages."
    )
    return html.join(html.paragraph(explanation), html.figure_grid(*panels))


def _nos_curve(run: RunData, row: str, split: str) -> Line | None:
    scores, look = pick(run, row, split), looks.look(row)
    keys = {key for score in scores for key in score.metrics}
    k, nos = _nos({key: value(mean(scores, key)) for key in keys})
    return Line(look.label, k, nos, look.color, look.dash, "o") if k else None


def _nos(metrics: Mapping[str, Cell]) -> tuple[list[float], list[float]]:
    """(k, NOS@k) of the finite `nos@k` entries, by k."""
    points = sorted(
        (float(key[4:]), float(v))
        for key, v in metrics.items()
        if key.startswith("nos@") and isinstance(v, int | float) and math.isfinite(v)
    )
    return [k for k, _ in points], [nos for _, nos in points]


def back_maps(run: RunData, album: Album) -> html.Html:
    """DSC, neighbourhood overlap and CKA under each choice of a common space."""
    panels, grids = [], []
    for split in _splits(run):
        cells = _back_cells(run, split)
        if not cells:
            continue
        series = [
            BarSeries(label, [value(c["dsc"]), 1 - value(c["nos@10"]), value(c["cka_debiased"])],
                      color)
            for (label, c), color in zip(cells.items(), style.PALETTE)
        ]  # fmt: skip
        title = SPLITS[split].capitalize()
        figure = figures.bars(
            ("DSC", "1 − NOS@10", "CKA"), series, title=title, y_label="higher is better", height=4
        )
        alt = f"DSC, neighbourhood overlap and CKA under {len(series)} back maps, {SPLITS[split]}"
        panels.append(album.add(f"back_{split}", figure, alt=alt))
        rows = [Row(label, c) for label, c in cells.items()]
        table = Table(_BACK_METRICS, rows, "common space", f"{title}, trained.")
        grids.append(tables.to_html(table))
    if not panels:
        return html.missing("alignment.json holds no back maps." if run.scores else NO_ALIGNMENT)
    explanation = (
        "These three metrics compare two sets of points in one space. Equation (5) carries z2 "
        "back by the inverse of W, which amplifies noise where W shrinks; the reverse regression "
        "fits the way back; without any map the two spaces are compared as they are (all three "
        "metrics allow that); forward compares W z1 with z2. For these metrics W is worth "
        "something only as far as a map beats no map."
    )
    body = html.folded("The same as a table", *grids)
    return html.join(html.paragraph(explanation), html.figure_grid(*panels), body)


def _back_cells(run: RunData, split: str) -> dict[str, dict[str, Interval | float | None]]:
    """Label of every back map that the split was evaluated with -> its metrics."""
    scores_of = {label: pick(run, RowName.TRAINED, split, back) for back, label in BACKS.items()}
    return {
        label: {column.key: mean(scores, column.key) for column in _BACK_METRICS}
        for label, scores in scores_of.items()
        if scores
    }


def probes(run: RunData, num_classes: int) -> html.Html:
    """Accuracy of one agent's classifier on the other agent's latents."""
    grids = []
    for split in _splits(run):
        rows = [_row(run, name, split, _PROBES) for name in _ordered_rows(run, split)]
        rows = [row for row in rows if any(cell is not None for cell in row.cells.values())]
        if rows:
            caption = f"{SPLITS[split].capitalize()}: accuracy; chance is 1/{num_classes}."
            grids.append(tables.to_html(Table(_PROBES, rows, "latents", caption)))
    if not grids:
        return html.missing("No linear probes were measured in this run.")
    carried, raw = (
        SOCIAL_JEPA[9].value(row, "accuracy_percent") / 100
        for row in ("Zero-Cost Sharing (Ours)", "Source Probe (A-probe)")
    )
    explanation = (
        "A linear classifier of the category is trained on one agent's latents and then read from "
        "the other agent's, translated by W or as it is. The paper (Table 9, another task) has "
        f"{carried:.3f} with W and {raw:.3f} without."
    )
    return html.join(html.paragraph(explanation), *grids)
