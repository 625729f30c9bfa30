"""The sections of a run's page that come from its metrics: curves, tables, bars, verdicts."""

# ruff: noqa: RUF001 (a true minus and a true times sign are meant)

import math
from collections.abc import Mapping

import numpy as np

from socialjepa_jax.report import figures, html, style, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.figures import BarSeries, Level, Line
from socialjepa_jax.report.looks import look as look_of
from socialjepa_jax.report.papers import social_jepa
from socialjepa_jax.report.run import data
from socialjepa_jax.report.run.data import SPLITS, RunData, mean, pick, value
from socialjepa_jax.report.tables import Cell, Column, Interval, Row, Table, format_number

_FEW, _MANY = 12, 100  # points of a curve: up to so many get markers, beyond so many thin lines
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


def splits_of(run: RunData) -> list[str]:
    """The splits that have scores, the headline first."""
    present = {score.split for score in run.scores}
    return [split for split in SPLITS if split in present]


def training(run: RunData, album: Album) -> html.Html:
    """Loss, RankMe and feature spread of every agent."""
    panels = (
        ("loss", run.train, "Training loss", "prediction loss", "the JEPA's squared error in latent"
         " space. It may rise: the target moves with the encoder."),
        ("rankme", run.evals, "Effective rank", "RankMe", "exp of the entropy of the latents'"
         " singular values: how many directions are in use. Near 1 is collapse."),
        ("feature_std", run.evals, "Feature spread", "mean std of features", "standard deviation of"
         " a feature over states. Towards 0 is collapse."),
    )  # fmt: skip
    shown = []
    for key, lines, title, label, meaning in panels:
        curves = [
            Line(
                f"agent {a} (camera {run.camera(a)})",
                x,
                y,
                style.agent_color(a),
                _dash(i),
                width=1.7 if len(x) <= _MANY else 0.8,
            )
            for i, a in enumerate(run.agents)
            for x, y in [data.curve(lines, f"agent_{a}/{key}")]
            if np.isfinite(y).any()
        ]
        if curves:
            positive = key == "loss" and all(np.nanmin(c.y) > 0 for c in curves)
            figure = figures.lines(
                curves, title=title, x_label="training step", y_label=label, log_y=positive
            )
            alt = f"{title} of {len(curves)} agents against training step"
            shown.append(album.add(key, figure, alt=alt, caption=f"{title}: {meaning}"))
    if not shown:
        return html.missing("metrics.jsonl holds no training curves.")
    return html.figure_grid(*shown)


def _dash(index: int) -> style.Dash:
    return ("-", (0, (5, 2)), (0, (2, 1)), (0, (5, 1, 1, 1)))[index % 4]


def control_levels(run: RunData, split: str) -> list[Level]:
    """The controls' R2 on a split, as horizontal lines (bands where there are several scores)."""
    levels = []
    for row in data.CONTROLS:
        cell = mean(pick(run, row, split), "r2")
        number = value(cell)
        if math.isfinite(number):
            bounds = (cell.low, cell.high) if isinstance(cell, Interval) else (number, number)
            look = look_of(row)
            label = f"{look.label}: {format_number(number, 2)}"
            levels.append(Level(label, number, *bounds, look.color, look.dash))
    return levels


def r2_curves(run: RunData, split: str) -> list[Line]:
    """R2 against step: thin for each pair of agents, thick for the mean over cameras."""
    kinds: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"same_camera": [], "trained": []}
    for i, j in data.curve_pairs(run, split):
        kind = "same_camera" if run.camera(i) == run.camera(j) else "trained"
        kinds[kind].append(data.curve(run.evals, f"pair_{i}_{j}/{split}/r2"))
    curves = []
    for kind, found in kinds.items():
        look = look_of(kind)
        if len(found) > 1:
            curves += [Line("", x, y, look.color, look.dash, width=0.6) for x, y in found]
        steps = sorted({step for x, _ in found for step in x})
        means = [np.mean([y[x == s][0] for x, y in found if s in x]) for s in steps]
        if steps:
            label = f"{look.label}: {format_number(means[-1], 2)}"
            marker = "o" if len(steps) <= _FEW else ""
            curves.append(Line(label, steps, means, look.color, look.dash, marker, 2.0))
    return curves


def r2_against_step(run: RunData, album: Album) -> html.Html:
    """What training adds: R2 on held-out pairs from step 0 on, with the controls as levels."""
    shown = []
    for split, name in SPLITS.items():
        curves, levels = r2_curves(run, split), control_levels(run, split)
        if not curves:
            continue
        figure = figures.lines(
            curves, levels=levels, title=name.capitalize(), x_label="training step",
            y_label="R² of W on held-out pairs", y_floor=-0.5, height=4.2,
        )  # fmt: skip
        alt = f"R2 against training step on {name}, with {len(levels)} controls"
        shown.append(album.add(f"r2_{split}", figure, alt=alt))
    if not shown:
        return html.missing("metrics.jsonl holds no R2 of pairs of agents.")
    how = (
        "Solid blue: pairs of agents behind different cameras, W refitted at every "
        "evaluation (thin: one pair; thick: their mean). Step 0 is the untrained encoder, so "
        "what training adds is the rise above step 0 and above the highest horizontal line. "
        "Levels are the controls, measured at the end; a band spans several measurements. "
        "Every R² is relative to the variance of that row's own targets. What lies below −0.5 "
        "leaves the picture; the legend has the number."
    )
    return html.join(html.paragraph(how), html.figure_grid(*shown))


def _paper_row() -> Row:
    robust = social_jepa.SOCIAL_JEPA[7].row(social_jepa.SMALLNORB)
    cells: dict[str, Cell] = {
        key: f"{robust[key]:.3f} ± {robust[f'{key}_std']:.3f}" for key in ("r2", "dsc", "nos@10")
    }
    cells["mse"] = f"{robust['mse']:.3f} †"
    cells["kappa_effective"] = social_jepa.SOCIAL_JEPA[4].value("0.0", "kappa")
    note = "smallNORB, Tables 7 and 4"
    return Row("paper", cells, ranked=False, kind="paper", note=note)


def _ordered_rows(run: RunData, split: str) -> list[str]:
    present = [score.row for score in run.scores if score.split == split]
    others = sorted(set(present) - set(data.ROW_ORDER))
    return [row for row in (*data.ROW_ORDER, *others) if row in present]


def metrics_table(run: RunData, split: str) -> Table:
    """Every row of `alignment.json` on one split, the paper's own numbers last."""
    rows = []
    for name in _ordered_rows(run, split):
        scores = pick(run, name, split)
        cells: dict[str, Cell] = {column.key: mean(scores, column.key) for column in _METRICS}
        rows.append(_row(name, cells))
    counts = [score.metrics.get("n_test", math.nan) for score in run.scores if score.split == split]
    sizes = sorted({int(count) for count in counts if math.isfinite(count)})
    tested = f" {' or '.join(map(str, sizes))} test pairs." if sizes else ""
    pairs = len(pick(run, "trained", split))
    averaged = f" Means over {pairs} pairs of agents, with the lowest and highest." * (pairs > 1)
    caption = (
        f"{SPLITS[split].capitalize()}.{tested}{averaged} Bold: the best of trained and controls. "
        "DSC, NOS and CKA after the back map of equation (5)."
    )
    return Table(_METRICS, [*rows, _paper_row()], corner="latents", caption=caption)


def _row(name: str, cells: dict[str, Cell]) -> Row:
    """A row of the run under its plain name; the ceiling and what is partialled do not compete."""
    ranked = name not in ("same_camera", *data.PARTIALLED)
    return Row(look_of(name).label, cells, ranked, "headline" if name == "trained" else "")


def metrics(run: RunData) -> html.Html:
    """The metrics with every control and the paper's numbers, one table a split."""
    if not run.scores:
        return html.missing(NO_ALIGNMENT)
    parts: list[html.Html] = []
    for split in splits_of(run):
        heading = html.tag("h3", SPLITS[split].capitalize())
        parts += [heading, tables.to_html(metrics_table(run, split))]
    note = (
        "The paper's row is its smallNORB result (0° against 160°, ViT-S/16, 200 epochs). "
        "† Its MSE follows neither reading of its equation (6) (on standardised latents "
        "MSE is 1 − R² a feature), so it is not comparable with ours. A regression map of latents "
        "that end in a LayerNorm has an infinite κ by construction; κ eff. counts the kept "
        "singular values only. DSC, NOS and CKA need no map at all: see the back maps below."
    )
    glossary = {look.label: look.meaning for name in data.ROW_ORDER for look in [look_of(name)]}
    explained = html.folded("What the rows are", html.definitions(glossary))
    return html.join(*parts, explained, html.paragraph(note, class_="dim"))


def neighbourhoods(run: RunData, album: Album) -> html.Html:
    """NOS@k over k against chance, with the paper's Table 8."""
    printed = social_jepa.SOCIAL_JEPA[8].row(social_jepa.SMALLNORB)
    paper_line = Line("paper, smallNORB (Table 8)", *_nos(printed), look_of("paper").color,
                      look_of("paper").dash, "X")  # fmt: skip
    shown = []
    for split in splits_of(run):
        curves = []
        for row in ("trained", "untrained", "pixel_pca", "mismatched"):
            scores, look = pick(run, row, split), look_of(row)
            keys = sorted({key for score in scores for key in score.metrics})
            k, nos = _nos({key: value(mean(scores, key)) for key in keys})
            if len(k):
                curves.append(Line(look.label, k, nos, look.color, look.dash, "o"))
        n_test = value(mean(pick(run, "trained", split), "n_test"))
        if not curves:
            continue
        ticks = np.array(curves[0].x)
        if math.isfinite(n_test) and n_test > 1:
            look = look_of("chance")
            label = f"chance, 1 − k/(N−1), N = {n_test:.0f}"
            curves.append(Line(label, ticks, 1 - ticks / (n_test - 1), look.color, look.dash))
        figure = figures.lines(
            [*curves, paper_line], title=SPLITS[split].capitalize(), x_label="neighbours k",
            y_label="NOS@k (lower is better)", log_x=True, x_ticks=ticks, height=3.8,
        )  # fmt: skip
        alt = f"NOS@k against k on {SPLITS[split]}"
        shown.append(album.add(f"nos_{split}", figure, alt=alt))
    if not shown:
        return html.missing("alignment.json holds no NOS@k." if run.scores else NO_ALIGNMENT)
    how = (
        "NOS@k is the share of a state's k nearest neighbours in one agent's space that are not "
        "among its k nearest in the other's, after the back map. Chance falls with k and depends "
        "on the number N of test states, so compare with the dashed grey line, not between pages."
    )
    return html.join(html.paragraph(how), html.figure_grid(*shown))


def _nos(metrics: Mapping[str, Cell]) -> tuple[list[float], list[float]]:
    """(k, NOS@k) of the finite `nos@k` entries, by k."""
    found = sorted(
        (int(key[4:]), v)
        for key, v in metrics.items()
        if key.startswith("nos@") and isinstance(v, int | float) and math.isfinite(v)
    )
    return [float(k) for k, _ in found], [float(v) for _, v in found]


def back_maps(run: RunData, album: Album) -> html.Html:
    """DSC, neighbourhood overlap and CKA under each choice of a common space."""
    columns = [column for column in _METRICS if column.key in ("dsc", "nos@10", "cka_debiased")]
    shown, grids = [], []
    for split in splits_of(run):
        cells = {
            back: {column.key: mean(pick(run, "trained", split, back), column.key)
                   for column in columns}
            for back in BACKS if pick(run, "trained", split, back)
        }  # fmt: skip
        if not cells:
            continue
        series = [
            BarSeries(BACKS[back],
                      [value(c["dsc"]), 1 - value(c["nos@10"]), value(c["cka_debiased"])], color)
            for (back, c), color in zip(cells.items(), style.PALETTE)
        ]  # fmt: skip
        title = SPLITS[split].capitalize()
        figure = figures.bars(
            ("DSC", "1 − NOS@10", "CKA"), series, title=title, y_label="higher is better", height=4
        )
        alt = f"DSC, neighbourhood overlap and CKA under {len(series)} back maps, {SPLITS[split]}"
        shown.append(album.add(f"back_{split}", figure, alt=alt))
        rows = [Row(BACKS[back], c) for back, c in cells.items()]
        grids.append(tables.to_html(Table(columns, rows, "common space", f"{title}, trained.")))
    if not shown:
        return html.missing("alignment.json holds no back maps." if run.scores else NO_ALIGNMENT)
    how = (
        "These three metrics compare two sets of points in one space. Equation (5) carries z2 "
        "back by the inverse of W, which amplifies noise where W shrinks; the reverse regression "
        "fits the way back; without any map the two spaces are compared as they are (all three "
        "metrics allow that); forward compares W z1 with z2. For these metrics W is worth "
        "something only as far as a map beats no map."
    )
    body = html.folded("The same as a table", *grids)
    return html.join(html.paragraph(how), html.figure_grid(*shown), body)


def probes(run: RunData, num_classes: int) -> html.Html:
    """A classifier of one agent, used on the other agent's latents."""
    columns = (
        Column("probe_own", "own probe", 3, "", "trained on the second agent's own latents"),
        Column("probe_transferred", "carried over by W", 3, "max", "the first agent's, a2 = W⁻ᵀ a"),
        Column("probe_raw", "carried over without W", 3, "", "the first agent's, unchanged"),
    )
    grids = []
    for split in splits_of(run):
        rows = []
        for name in _ordered_rows(run, split):
            scores = pick(run, name, split)
            cells: dict[str, Cell] = {c.key: mean(scores, c.key) for c in columns}
            if any(cell is not None for cell in cells.values()):
                rows.append(_row(name, cells))
        if rows:
            caption = f"{SPLITS[split].capitalize()}: accuracy; chance is 1/{num_classes}."
            grids.append(tables.to_html(Table(columns, rows, "latents", caption)))
    if not grids:
        return html.missing("No linear probes were measured in this run.")
    shared = social_jepa.SOCIAL_JEPA[9]
    carried, raw = (
        shared.value(row, "accuracy_percent") / 100
        for row in ("Zero-Cost Sharing (Ours)", "Source Probe (A-probe)")
    )
    how = (
        "A linear classifier of the category is trained on one agent's latents and then read from "
        "the other agent's, translated by W or as it is. The paper (Table 9, another task) has "
        f"{carried:.3f} with W and {raw:.3f} without."
    )
    return html.join(html.paragraph(how), *grids)
