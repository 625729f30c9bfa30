"""Page of compared spaces: direct maps of every pair, and the hub."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from socialjepa_jax.alignment.study.inputs import Spaces
from socialjepa_jax.alignment.study.spaces import Comparison
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.alignment.figures import matrix_figure
from socialjepa_jax.report.alignment.page import WORDS
from socialjepa_jax.report.alignment.quality import interval_cell


def write_spaces_page(
    path: Path, comparison: Comparison, spaces: Spaces, probes: np.ndarray | None
) -> None:
    """Writes the page and its figures.

    Args:
        path: of the HTML file.
        comparison: results.
        spaces: the compared spaces.
        probes: of `space_probes`; None without labels.
    """
    album, names = Album(path), list(spaces.names)
    direct, hub = comparison.matrix("r2"), comparison.matrix("hub_r2")
    drawn = [
        album.add(key, matrix_figure(values, names, names, title=title), alt=title, caption=text)
        for key, values, title, text in (
            ("r2", direct, "R², direct maps", "From the row's space to the column's."),
            ("hub", hub, "R², through the hub", "The same by rotations alone."),
            ("cka", comparison.cka, "CKA, debiased", "Without any map. 1: alike, 0: unrelated."),
        )
    ]
    if probes is not None:
        text = (
            "Accuracy on held-out items of a classifier trained on the row's space, carried by the "
            "reverse regression and used on the column's; on the diagonal, its own."
        )
        figure = matrix_figure(probes, names, names, title="Labels")
        drawn.append(album.add("labels", figure, alt="Accuracy of probes", caption=text))
    sections = {
        "pairs": ("Every pair", html.join(html.figure_grid(*drawn), _table(comparison, names))),
        "hub": ("The hub", _hub(comparison, spaces)),
        "words": ("Words", html.definitions({k: WORDS[k] for k in ("R²", "CKA", "Interval")})),
    }
    widths = ", ".join(f"{n} ({z.shape[1]} features)" for n, z in zip(names, spaces.latents))
    held_out = len(comparison.split.test)
    subtitle = f"{widths}. {len(spaces.items):,} items in all of them, {held_out:,} held out."
    subtitle += "".join(f" {line}." for line in (*spaces.remarks(), *comparison.split.remarks))
    page = html.page(f"{len(names)} spaces", subtitle, _verdict(comparison, names), sections)
    path.write_text(page, encoding="utf-8")


def _verdict(comparison: Comparison, names: list[str]) -> html.Html:
    pairs = comparison.pairs
    related = [pair for pair in pairs.values() if pair.interval.low > max(pair.null, 0.0)]
    best, worst = (
        f"{names[i]} → {names[j]}, R² {tables.format_number(pairs[i, j].r2, 2)}"
        for i, j in (choose(pairs, key=lambda index: pairs[index].r2) for choose in (max, min))
    )
    sentence = (
        f"{len(related)} of {len(pairs)} directions are linearly related beyond chance. "
        f"Best: {best}; worst: {worst}."
    )
    lede = html.paragraph(sentence, class_="lede")
    if not related:
        return lede
    loss = float(np.mean([pair.r2 - pair.hub_r2 for pair in related]))
    hub = (
        f"Through one hub, with {len(names)} maps instead of {len(pairs)}, their R² is "
        f"{tables.format_number(abs(loss), 2)} {'lower' if loss >= 0 else 'higher'} on average."
    )
    return html.join(lede, html.paragraph(hub))


def _table(comparison: Comparison, names: list[str]) -> html.Html:
    columns = (
        tables.Column("r2", "R²", best="max"),
        tables.Column("null", "shuffled, at most"),
        tables.Column("hub", "through the hub"),
        tables.Column("dsc", "DSC", best="max", help="rank correlation of distances, W x and y"),
        tables.Column("kappa", "condition number", digits=1),
    )
    rows = []
    for (i, j), pair in comparison.pairs.items():
        cells: dict[str, tables.Cell] = {
            "r2": interval_cell(pair.r2, pair.interval),
            "null": pair.null,
            "hub": pair.hub_r2,
            "dsc": pair.metrics["dsc"],
            "kappa": pair.metrics["kappa_effective"],
        }
        rows.append(tables.Row(f"{names[i]} → {names[j]}", cells))
    caption = "On held-out items. Small print: 95 % intervals over groups."
    return tables.to_html(tables.Table(columns, rows, caption=caption))


def _hub(comparison: Comparison, spaces: Spaces) -> html.Html:
    files = ", ".join(f"hub_{i + 1}.npz ({name})" for i, name in enumerate(spaces.names))
    return html.paragraph(
        "Each space, brought to unit norm, is rotated onto a common mean shape (generalised "
        f"Procrustes). This leaves {comparison.hub.objective:.1%} of the variance unexplained on "
        "the fitted items (0 %: the same shape). To go from one space to another, apply the "
        f"forward map of the first and the backward map of the second: {files}. A map of every "
        "pair is in map_1_2.npz and so on."
    )
