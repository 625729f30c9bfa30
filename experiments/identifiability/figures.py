"""Figures of the identifiability experiments: heat map, scatter plot, planes of points."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from socialjepa_jax.report import style


@style.styled
def heat_map(
    values: np.ndarray,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    *,
    title: str,
    row_name: str,
    column_name: str,
    low: float = 0.0,
    high: float = 1.0,
) -> Figure:
    """Matrix as colours, with the value written on each cell."""
    height = 1.4 + 0.34 * len(row_labels)
    figure, axes = style.new_axes(
        max(3.6, 1.6 + 0.72 * len(column_labels)),
        height,
        title=title,
        xlabel=column_name,
        ylabel=row_name,
    )
    axes.imshow(values, vmin=low, vmax=high, cmap="viridis", aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        dark = (value - low) / (high - low) < 0.6
        text = f"{value:.2f}" if np.isfinite(value) else "-"
        axes.text(j, i, text, ha="center", va="center", fontsize=8, color="w" if dark else "k")
    axes.set_xticks(range(len(column_labels)), column_labels)
    axes.set_yticks(range(len(row_labels)), row_labels)
    axes.grid(visible=False)
    return figure


@style.styled
def scatter(
    groups: dict[str, tuple[np.ndarray, np.ndarray]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log: bool = False,
    diagonal: bool = False,
    height: float = 3.4,
) -> Figure:
    """Points in named groups, with the line y = x if `diagonal`."""
    figure, axes = style.new_axes(height=height, title=title, xlabel=x_label, ylabel=y_label)
    for k, (label, (x, y)) in enumerate(groups.items()):
        axes.scatter(x, y, s=16, alpha=0.75, color=style.agent_color(k), label=label, linewidths=0)
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        style.plain_log(axes.xaxis)
        style.plain_log(axes.yaxis)
    if diagonal:
        both = np.concatenate([np.concatenate(pair) for pair in groups.values()])
        both = both[np.isfinite(both) & ((both > 0) | (not log))]
        ends = [both.min(), both.max()]
        axes.plot(ends, ends, color="#1d2430", lw=1, ls=(0, (3, 2)), label="equal")
    style.legend_below(figure, 3)
    return figure


@style.styled
def clouds(
    panels: Sequence[Sequence[tuple[str, np.ndarray]]], z_N2: np.ndarray, *, title: str
) -> Figure:
    """Points in planes, coloured by the angle of their latents and lightened by the radius.

    Args:
        panels: rows of (title, f64[N, 2]).
        z_N2: the latents of the points.
        title: of the figure.
    """
    rows, columns = len(panels), max(map(len, panels))
    figure = Figure(figsize=(1.75 * columns, 1.85 * rows + 0.3), layout="constrained")
    hue = (np.arctan2(z_N2[:, 1], z_N2[:, 0]) / (2 * np.pi)) % 1.0
    colours = mpl.colormaps["hsv"](hue)
    colours[:, 3] = np.clip(0.25 + 0.3 * np.linalg.norm(z_N2, axis=1), 0, 1)
    grid = figure.subplots(rows, columns, squeeze=False)
    for i, row in enumerate(panels):
        for j, (name, points) in enumerate(row):
            axes = grid[i][j]
            axes.scatter(points[:, 0], points[:, 1], s=2, c=colours, linewidths=0)
            axes.set_title(name, fontsize=8)
            axes.set_aspect("equal", "datalim")
            axes.tick_params(labelsize=6)
        for axes in grid[i][len(row) :]:
            axes.set_visible(False)
    figure.suptitle(title, fontsize=10, fontweight="bold")
    return figure
