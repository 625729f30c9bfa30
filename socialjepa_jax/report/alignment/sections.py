"""Sections of the page: spectrum, distances, dependence on the pairs, layers, and items."""

# ruff: noqa: RUF001 (a true minus is meant)

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from socialjepa_jax.alignment.similarity import cka_matrix
from socialjepa_jax.alignment.study.inputs import Spaces
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.report import figures, html, style, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.alignment.figures import group_figure, joint_figure, matrix_figure

_MAX_LAYERS = 12
_LISTED_ITEMS = 8  # at either end
_SHOWN_GROUPS = 8  # at either end
_CURVES = {"r2": "R²", "dsc": "DSC", "nos@10": "NOS@10"}
_KAPPAS = {"kappa_effective": "condition number of what W⁻¹ keeps"}


def spectrum(study: Study, album: Album) -> html.Html:
    """Returns the figure of the singular values of W."""
    linear_map = study.linear_map
    s = linear_map.singular_values
    positive = s[s > s[0] * 1e-12]
    line = figures.Line("", np.arange(1, len(positive) + 1), positive, style.PALETTE[0])
    one = figures.Level("a rotation", 1.0, 1.0, 1.0, style.PALETTE[7])
    figure = figures.lines(
        [line],
        title="Singular values of W",
        x_label="index",
        y_label="singular value",
        levels=[one],
        log_y=True,
    )
    caption = (
        "How much W stretches each direction; a rotation stretches none. Condition number "
        f"{tables.format_number(linear_map.kappa_effective, 1)} over the {linear_map.rank} "
        f"directions that W⁻¹ keeps, effective rank {linear_map.effective_rank:.1f} of {len(s)}, "
        f"distance from orthogonal (eq. 17) {linear_map.orthogonality:.2f}."
    )
    return album.add("spectrum", figure, alt="Singular values of the map", caption=caption)


def distances(study: Study, album: Album) -> html.Html:
    """Returns the figure of the joint histogram of distances."""
    figure = joint_figure(study.joint)
    caption = (
        "All pairs of held-out items, by the rank of their distance in W x and in y. A dark "
        "diagonal means that what is far stays far and what is near stays near."
    )
    return album.add("distances", figure, alt="Joint histogram of distances", caption=caption)


def curves_section(study: Study, album: Album) -> html.Html:
    """Returns figures and tables of how the map depends on number and purity of its pairs."""
    looks = (
        (study.budget, "pairs", "Pairs fitted", True, "How much the map gains from more pairs"),
        (study.noise, "epsilon", "Share of pairs mismatched", False, "What wrong pairs do"),
    )
    drawn, folded = [], []
    for rows, key, label, log, meaning in looks:
        means = _means(rows, key)
        values = [row[key] for row in means]
        curves = [
            figures.Line(name, values, [row[m] for row in means], color, marker="o")
            for (m, name), color in zip(_CURVES.items(), style.PALETTE)
            if m in means[0]
        ]
        figure = figures.lines(curves, title=label, x_label=label.lower(), log_x=log, y_floor=-0.5)
        caption = (
            f"{meaning}: measured on the same {study.num_resampled:,} held-out pairs, "
            "W x against y."
        )
        drawn.append(album.add(key, figure, alt=label, caption=caption))
        columns = [tables.Column(m, name) for m, name in {**_CURVES, **_KAPPAS}.items()]
        body = [tables.Row(f"{row[key]:,g}", {m: row[m] for m in row if m != key}) for row in means]
        folded.append(tables.to_html(tables.Table(columns, body, label)))
    return html.join(html.figure_grid(*drawn), html.folded("The curves in numbers", *folded))


def _means(rows: Sequence[Mapping[str, float]], key: str) -> list[dict[str, float]]:
    """Averages over repeats, in ascending order of the key."""
    return [
        {name: float(np.mean([r[name] for r in rows if r[key] == value])) for name in rows[0]}
        for value in sorted({row[key] for row in rows})
    ]


def layers_section(
    study: Study, spaces: Spaces, names: tuple[str, str], album: Album
) -> html.Html | None:
    """Returns the heat map of CKA between all arrays of both files; None if each has one."""
    first, second = (dict(list(layers.items())[:_MAX_LAYERS]) for layers in spaces.layers)
    if len(first) < 2 and len(second) < 2:
        return None
    rows = study.split.test[: study.num_resampled]
    xs, ys = (
        [layer[rows] for layer in layers.values()] or [z[rows]]
        for layers, z in zip((first, second), spaces.latents)
    )
    labels = list(first) or [names[0]], list(second) or [names[1]]
    figure = matrix_figure(
        cka_matrix(xs, ys), *labels, title="CKA, debiased", x_label=names[1], y_label=names[0]
    )
    caption = (
        f"Every array of {names[0]} against every array of {names[1]}, without any map, on "
        f"{len(rows):,} held-out items."
    )
    return html.figure_grid(album.add("layers", figure, alt="CKA of every layer", caption=caption))


def items_section(study: Study, items: np.ndarray, album: Album) -> html.Html:
    """Returns the R2 of groups and tables of the worst and best items.

    Args:
        study: results.
        items: [N] names of all rows.
        album: takes the figures.
    """
    parts = []
    if study.group_r2:
        parts.append(html.figure_grid(_groups(study, album)))
    order = np.argsort(study.row_errors, kind="stable")
    cosine = study.settings.similarity == "cosine"
    columns = (
        tables.Column("error", "1 − cosine" if cosine else "squared error"),
        tables.Column("rank", "rank when searched", digits=0),
        tables.Column("novelty_x", "novelty of x", digits=2, help="share of training items nearer"),
        tables.Column("novelty_y", "novelty of y", digits=2),
    )
    ranks = study.searches["x -> y, forward"].ranks
    listed = (("Worst", order[::-1][:_LISTED_ITEMS]), ("Best", order[:_LISTED_ITEMS]))
    for title, chosen in listed:
        rows = [
            tables.Row(
                str(items[study.split.test[i]]),
                {
                    "error": float(study.row_errors[i]),
                    "rank": float(ranks[i]),
                    **{f"novelty_{z}": float(study.novelty_scores[z][i]) for z in "xy"},
                },
            )
            for i in chosen
        ]
        parts.append(tables.to_html(tables.Table(columns, rows, corner=f"{title} aligned items")))
    unit = (
        "1 − the cosine of W x and y"
        if cosine
        else "Squared error: of W x in raw units, over the variance of y (1: no better than the "
        "mean)"
    )
    note = (
        f"{unit}. Rank: place of the item's partner when it is searched in y. Novelty: share of "
        "training items nearer to their mean. All held-out items are in items.csv."
    )
    return html.join(*parts, html.paragraph(note, class_="dim"))


def _groups(study: Study, album: Album) -> html.Html:
    ranked = sorted(study.group_r2.items(), key=lambda pair: pair[1])
    all_shown = len(ranked) <= 2 * _SHOWN_GROUPS
    shown = ranked if all_shown else ranked[:_SHOWN_GROUPS] + ranked[-_SHOWN_GROUPS:]
    figure = group_figure(
        [name for name, _ in shown],
        [value for _, value in shown],
        overall=study.metrics["forward"]["r2"],
    )
    extremes = f"The {_SHOWN_GROUPS} lowest and {_SHOWN_GROUPS} highest of the"
    caption = (
        f"{'All' if all_shown else extremes} {len(ranked)} held-out groups, each about the mean of "
        "all held-out items."
    )
    return album.add("groups", figure, alt="R2 by group", caption=caption)
