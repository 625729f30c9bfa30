"""Figures of the alignment tool: joint histogram of distances, heat maps, R2 of groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from socialjepa_jax.report import style, tables


@style.styled
def joint_figure(joint_HH: np.ndarray) -> Figure:
    """Draws the joint histogram [H, H] of two distances as a density over their percentiles."""
    figure, axes = style.new_axes(
        title="Distances in both spaces",
        xlabel="distance in W x, percentile of all pairs",
        ylabel="distance in y, percentile",
    )
    edges = [np.append(0, np.cumsum(joint_HH.sum(axis=a))) / joint_HH.sum() for a in (1, 0)]
    areas = np.diff(edges[0])[:, None] * np.diff(edges[1])[None]
    density = np.divide(joint_HH / joint_HH.sum(), areas, where=areas > 0, out=0 * areas)
    top = max(2.0, float(np.quantile(density, 0.99)))
    mesh = axes.pcolormesh(
        *(100 * e for e in edges), density.T, cmap="Blues", vmin=0, vmax=top, rasterized=True
    )
    axes.set_aspect("equal")
    figure.colorbar(mesh, ax=axes, label="density (1 everywhere: unrelated)")
    axes.grid(visible=False)
    return figure


@style.styled
def matrix_figure(
    values: np.ndarray,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "",
) -> Figure:
    """Draws a heat map from 0 to 1 with its values written in the cells.

    Args:
        values: `values[i, j]` is in row i and column j.
        row_names, column_names: labels of the ticks.
        title, x_label, y_label: texts.
    """
    figure, axes = style.new_axes(
        height=1.4 + 0.42 * len(row_names), title=title, xlabel=x_label, ylabel=y_label
    )
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    small = values.shape[1] > 8
    for (i, j), value in np.ndenumerate(values):
        text = tables.format_number(round(value, 2) + 0.0, 1 if small else 2)  # + 0.0: not -0
        color = "w" if value > 0.6 else "k"
        axes.text(j, i, text, ha="center", va="center", color=color, fontsize=7 if small else 8)
    axes.set_xticks(range(len(column_names)), map(shortened, column_names), rotation=30, ha="right")
    axes.set_yticks(range(len(row_names)), map(shortened, row_names))
    axes.grid(visible=False)
    return figure


@style.styled
def group_figure(names: Sequence[str], values: Sequence[float], *, overall: float) -> Figure:
    """Draws one bar of R2 per group, in the order given, and a line at the R2 of all rows."""
    figure, axes = style.new_axes(height=1.2 + 0.19 * len(names), title="R² by group", xlabel="R²")
    heights = np.arange(len(names))[::-1]
    low = min(-1.0, overall)
    bars = axes.barh(heights, np.maximum(values, low), 0.7, color=style.PALETTE[0])
    texts = [f"{value:.2f}".replace("-", "−") for value in values]  # noqa: RUF001
    axes.bar_label(bars, texts, fontsize=7, padding=2)
    axes.axvline(
        overall, color=style.PALETTE[1], lw=1.2, ls="--", zorder=0, label=f"all: {overall:.2f}"
    )
    axes.axvline(0, color="#8A929C", lw=0.8)
    axes.set_yticks(heights, map(shortened, names), fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.14, y=0.02)
    style.legend_below(figure)
    return figure


def shortened(name: str, length: int = 22) -> str:
    """Shortens a name for an axis by leaving out its middle."""
    half = length // 2
    return name if len(name) <= length else f"{name[: half - 1]}…{name[-half:]}"
