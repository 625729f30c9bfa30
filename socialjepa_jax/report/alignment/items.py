"""Held-out items and groups that the map fits best and worst."""

from __future__ import annotations

import numpy as np

from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.alignment.figures import group_figure

_LISTED_ITEMS = 8  # at either end
_SHOWN_GROUPS = 8  # at either end


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
    columns = (
        tables.Column("error", "squared error", help="per feature, in units of its variance"),
        tables.Column("rank", "rank when searched", digits=0),
        tables.Column("novelty", "novelty", digits=2, help="share of training items nearer"),
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
                    "novelty": float(study.novelty_scores[i]),
                },
            )
            for i in chosen
        ]
        parts.append(tables.to_html(tables.Table(columns, rows, corner=f"{title} aligned items")))
    note = (
        "Squared error: of W x, a feature, in units of the variance of y (1: no better than the "
        "mean). Rank: place of the item's partner when it is searched in y. Novelty: share of "
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
