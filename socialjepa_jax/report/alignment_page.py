"""The report of the alignment tool: what a map between two files of embeddings can be used for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from socialjepa_jax.alignment import local
from socialjepa_jax.alignment.export import NUMPY_SNIPPET
from socialjepa_jax.alignment.study import Study
from socialjepa_jax.report import figures, html, style, tables
from socialjepa_jax.report.album import Album

_METRICS = (
    tables.Column("r2", "R²", best="max", help="share of the variance of y explained, pooled"),
    tables.Column("dsc", "DSC", best="max", help="rank correlation of pairwise distances"),
    tables.Column("nos@10", "NOS@10", best="min", help="1 - share of common 10 neighbours"),
    tables.Column("nos_corrected", "NOS@10 / chance", best="min", help="1 is chance"),
    tables.Column("cka_debiased", "CKA, debiased", best="max"),
)
_BACKS = {
    "none": ("no map", "x against y as they are: what W has to beat"),
    "forward": ("forward", "W x against y"),
    "regression": ("back by regression", "x against the reverse regression of y"),
    "inverse": ("back by the inverse", "x against W⁻¹ y, as in the paper's eq. (5)"),
}
_POINTS = 300  # drawn in the plane
_LISTED = 8  # best and worst items


def write_alignment_report(
    path: Path,
    study: Study,
    x: np.ndarray,
    y: np.ndarray,
    *,
    names: tuple[str, str] = ("x", "y"),
    items: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    probes: Mapping[str, float] | None = None,
) -> Path:
    """Writes the page and its pictures.

    Args:
      path: of the HTML file.
      study: what was found.
      x, y: the latents that were studied, [N, D] and [N, E].
      names: of the two spaces.
      items: [N] how single rows are called; None: by number.
      labels: [N] categories, for colours.
      probes: name -> accuracy of probes on labels.

    Returns:
      `path`.
    """
    album = Album(path)
    rows = study.test_rows
    items = np.arange(len(x)) if items is None else items
    sections = {
        "numbers": ("How well it fits", _numbers(study)),
        "use": ("What it can be used for", _use(study, probes or {})),
        "map": ("The map", html.pictures(_spectrum(study, album), _joint(study, album))),
        "planes": ("Before and after", _planes(study, x[rows], y[rows], names, labels, album)),
        "pairs": ("How many pairs, how clean", _curves(study, album)),
        "items": ("Where it fails", _items(study, items[rows], album)),
        "apply": ("Apply it", html.tag("pre", NUMPY_SNIPPET)),
    }
    subtitle = (
        f"{names[0]} ({x.shape[1]} features) and {names[1]} ({y.shape[1]} features), "
        f"{study.linear_map.n_train} pairs fitted, {len(rows)} held out, "
        f"{study.linear_map.method}, lambda {study.linear_map.ridge:.3g}"
    )
    title = f"From {names[0]} to {names[1]}"
    path.write_text(html.page(title, subtitle, verdict(study), sections), encoding="utf-8")
    return path


def verdict(study: Study) -> html.Html:
    """What the null and the intervals say, in two sentences."""
    metrics, interval = study.metrics["forward"], study.intervals["forward"]["r2"]
    null = study.null.samples["r2"]
    p = study.null.p_value("r2")
    measured = f"R² {metrics['r2']:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    if interval.low > null.max():
        found = (
            f"The two spaces are linearly related: {measured} on held-out pairs, where shuffled "
            f"pairs reach {null.max():.3f} at most (p = {p:.3f}, {len(null)} permutations)."
        )
    else:
        found = (
            f"No linear relation beyond chance: {measured} on held-out pairs, where shuffled "
            f"pairs reach {null.max():.3f} (p = {p:.3f}, {len(null)} permutations)."
        )
    return html.paragraph(found, " ", _geometry_verdict(study), class_="lede")


def _geometry_verdict(study: Study) -> str:
    dsc = {back: study.intervals[back]["dsc"] for back in study.intervals}
    plain = dsc["none"]
    better = [b for b in ("forward", "regression", "inverse") if dsc[b].low > plain.high]
    worse = [b for b in ("forward", "regression", "inverse") if dsc[b].high < plain.low]
    parts = []
    if better:
        parts.append(f"distances agree better through the map ({', '.join(better)}) than without")
    if worse:
        parts.append(f"worse through it ({', '.join(worse)})")
    if not parts:
        parts.append("the map changes the agreement of distances by no more than their interval")
    sentence = ", and ".join(parts)
    return sentence[0].upper() + sentence[1:] + "."


def _numbers(study: Study) -> html.Html:
    count = len(study.test_rows)
    rows = []
    for back, (label, note) in _BACKS.items():
        metrics, bounds = study.metrics[back], study.intervals[back]
        cells: dict[str, tables.Cell] = {
            key: _cell(metrics, bounds, key) for key in ("dsc", "nos@10", "cka_debiased")
        }
        if back == "forward":
            cells["r2"] = _cell(metrics, bounds, "r2")
        if "nos@10" in metrics:
            corrected = local.chance_corrected_nos(metrics["nos@10"], 10, count)
            cells["nos_corrected"] = corrected
        rows.append(tables.Row(label, cells, note=note))
    null = {key: _spread(values) for key, values in study.null.samples.items()}
    rows.append(tables.Row("shuffled pairs", null, ranked=False, note="forward, refitted"))
    table = tables.Table(
        _METRICS,
        rows,
        caption="95 % intervals resample whole groups; the null shows the middle 95 % of "
        "permutations, with the fit inside.",
    )
    references = [
        tables.Row(name, {"r2": value}, note="") for name, value in study.references.items()
    ]
    if study.ceiling > study.metrics["forward"]["r2"]:  # else its groups are no repeats
        note = "what repeats within a group leave to be explained"
        references.append(tables.Row("noise ceiling", {"r2": study.ceiling}, note=note))
    compared = tables.Table((_METRICS[0],), references, caption="Other ways to predict y from x.")
    similar = ", ".join(f"{key} {value:.3f}" for key, value in study.similarity.items())
    return html.join(
        tables.to_html(table),
        tables.to_html(compared),
        html.paragraph(f"Without any map: {similar}.", class_="dim"),
    )


def _cell(metrics: Mapping[str, float], bounds: Mapping, key: str) -> tables.Cell:
    if key not in metrics:
        return None
    bound = bounds.get(key)
    return tables.Interval(metrics[key], bound.low, bound.high) if bound else metrics[key]


def _spread(values: np.ndarray) -> tables.Interval:
    low, high = np.nanquantile(values, [0.025, 0.975])
    return tables.Interval(float(np.nanmean(values)), float(low), float(high))


def _use(study: Study, probes: Mapping[str, float]) -> html.Html:
    columns = [
        tables.Column("recall@1", "recall@1", best="max"),
        tables.Column("recall@10", "recall@10", best="max"),
        tables.Column("mrr", "MRR", best="max"),
        tables.Column("median_rank", "median rank", digits=1, best="min"),
    ]
    rows = [tables.Row(name, cells) for name, cells in study.retrieval.items()]
    m = len(study.test_rows)
    chance = {"recall@1": 1 / m, "recall@10": min(1.0, 10 / m), "median_rank": (m + 1) / 2}
    rows.append(tables.Row("chance", chance, ranked=False))
    table = tables.Table(
        columns,
        rows,
        caption=f"Every held-out item searched among the {m} held-out items of the other space. "
        "x -> y asks the index of y with items of x; y -> x asks an old index of x with new "
        "queries, without re-indexing.",
    )
    parts = [tables.to_html(table)]
    if probes:
        accuracy = tables.Table(
            (tables.Column("accuracy", "accuracy", best="max"),),
            [tables.Row(name, {"accuracy": value}) for name, value in probes.items()],
            caption="A linear probe trained on x, used on y.",
        )
        parts.append(tables.to_html(accuracy))
    far = float(np.mean(study.novelty >= 0.99))
    parts.append(
        html.paragraph(
            f"{far:.1%} of held-out queries lie farther out than 99 % of the training rows "
            "(1 % is expected): map those with care."
        )
    )
    return html.join(*parts)


def _spectrum(study: Study, album: Album) -> html.Html:
    linear_map = study.linear_map
    s = linear_map.singular_values
    positive = s[s > s[0] * 1e-12]
    line = figures.Line("", np.arange(1, len(positive) + 1), positive, style.PALETTE[0])
    one = figures.Level("a rotation", 1.0, 1.0, 1.0, style.PALETTE[7])
    figure = figures.lines(
        [line],
        title="Singular values of W",
        x_label="rank",
        y_label="value",
        levels=[one],
        log_y=True,
    )
    caption = (
        f"Condition number {tables.format_number(linear_map.kappa, 1)} "
        f"({tables.format_number(linear_map.kappa_effective, 1)} over the {linear_map.rank} "
        f"directions kept), effective rank {linear_map.effective_rank:.1f}, distance from "
        f"orthogonal (eq. 17) {linear_map.orthogonality:.2f}."
    )
    return album.add("spectrum", figure, alt="Singular values of the map", caption=caption)


def _joint(study: Study, album: Album) -> html.Html:
    figure = joint_figure(study.joint)
    caption = (
        "All pairs of held-out items, by the rank of their distance in the mapped x and in y. "
        "A diagonal means that far stays far and near stays near."
    )
    return album.add("distances", figure, alt="Joint histogram of distances", caption=caption)


@style.styled
def joint_figure(joint_HH: np.ndarray) -> Figure:
    """The joint histogram of two distances, as a density over their ranks."""
    figure, axes = style.new_axes(
        title="Distances in both spaces",
        xlabel="rank of distance in W x",
        ylabel="rank of distance in y",
    )
    edges = [np.append(0, np.cumsum(joint_HH.sum(axis=a))) / joint_HH.sum() for a in (1, 0)]
    areas = np.diff(edges[0])[:, None] * np.diff(edges[1])[None]
    density = np.divide(joint_HH / joint_HH.sum(), areas, where=areas > 0, out=0 * areas)
    top = float(np.quantile(density, 0.99))
    mesh = axes.pcolormesh(*edges, density.T, cmap="Blues", vmin=0, vmax=top, rasterized=True)
    figure.colorbar(mesh, ax=axes, label="density (1: unrelated)")
    axes.grid(visible=False)
    return figure


@style.styled
def matrix_figure(
    values: np.ndarray, x_names: Sequence[str], y_names: Sequence[str], *, title: str
) -> Figure:
    """A heat map with its values written on it: `values[i, j]` for row i of `x_names`."""
    figure, axes = style.new_axes(height=1.2 + 0.45 * len(x_names), title=title)
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        dark = value > 0.6
        axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="w" if dark else "k")
    axes.set_xticks(range(len(y_names)), y_names, rotation=30, ha="right")
    axes.set_yticks(range(len(x_names)), x_names)
    axes.grid(visible=False)
    return figure


def _planes(
    study: Study,
    x: np.ndarray,
    y: np.ndarray,
    names: tuple[str, str],
    labels: np.ndarray | None,
    album: Album,
) -> html.Html:
    rows = np.linspace(0, len(x) - 1, min(_POINTS, len(x))).astype(int)
    zx = study.linear_map.standardize_x(x[rows])
    zy = study.linear_map.standardize_y(y[rows])
    mapped = zx @ study.linear_map.w.T
    _, _, axes = np.linalg.svd(zy - zy.mean(axis=0), full_matrices=False)
    own = np.linalg.svd(zx - zx.mean(axis=0), full_matrices=False)[2]
    groups, group_names = np.zeros(len(rows), int), [""] * 11
    if labels is not None:
        values, groups = np.unique(labels[study.test_rows][rows], return_inverse=True)
        group_names = [str(value) for value in values]
    before = figures.matched_pairs(
        zx @ own[:2].T, zy @ axes[:2].T, groups, group_names, names=names, title="Before: own axes"
    )
    after = figures.matched_pairs(
        mapped @ axes[:2].T,
        zy @ axes[:2].T,
        groups,
        group_names,
        names=(f"W {names[0]}", names[1]),
        title="After: both in the plane of y",
    )
    return html.pictures(
        album.add(
            "before",
            before,
            alt="Both spaces before the map",
            caption="The two leading principal components of each space; lines join the two "
            "embeddings of one item.",
        ),
        album.add(
            "after",
            after,
            alt="Both spaces after the map",
            caption="Short lines: the map sends items where they belong.",
        ),
    )


def _curves(study: Study, album: Album) -> html.Html:
    parts = []
    for name, rows, key, label, log in (
        ("budget", study.budget, "pairs", "pairs fitted", True),
        ("noise", study.noise, "epsilon", "share of pairs mismatched", False),
    ):
        values = sorted({row[key] for row in rows})
        curves = []
        for i, metric in enumerate(("r2", "dsc", "nos@10")):
            if metric in rows[0]:
                means = [float(np.mean([r[metric] for r in rows if r[key] == v])) for v in values]
                curves.append(figures.Line(metric, values, means, style.PALETTE[i], marker="o"))
        figure = figures.lines(
            curves, title=label.capitalize(), x_label=label, log_x=log, y_floor=-0.5
        )
        kappa = ", ".join(
            f"{np.mean([r['kappa_effective'] for r in rows if r[key] == v]):.3g}" for v in values
        )
        caption = f"On the same held-out pairs, forward. Condition number of W: {kappa}."
        parts.append(album.add(name, figure, alt=label, caption=caption))
    return html.pictures(*parts)


def _items(study: Study, items: np.ndarray, album: Album) -> html.Html:
    order = np.argsort(study.row_errors)
    parts = []
    for title, chosen in (("worst", order[::-1][:_LISTED]), ("best", order[:_LISTED])):
        rows = [
            tables.Row(
                str(items[i]),
                {"error": float(study.row_errors[i]), "novelty": float(study.novelty[i])},
            )
            for i in chosen
        ]
        columns = (
            tables.Column("error", "squared error per feature"),
            tables.Column("novelty", "novelty percentile", digits=2),
        )
        parts.append(tables.to_html(tables.Table(columns, rows, f"{title} aligned items")))
    if study.group_r2:
        ranked = sorted(study.group_r2.items(), key=lambda pair: pair[1])
        shown = ranked if len(ranked) <= 12 else ranked[:6] + ranked[-6:]
        bars = figures.bars(
            [name for name, _ in shown],
            [figures.BarSeries("R²", [value for _, value in shown], style.PALETTE[0])],
            title="R² by group",
        )
        caption = "The groups with the lowest and the highest R² among those held out."
        picture = album.add("groups", bars, alt="R2 by group", caption=caption)
        parts.insert(0, html.pictures(picture))
    return html.join(*parts)
