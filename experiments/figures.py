"""Figures that only experiments draw: heat maps, scatter plots, panels, planes of points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from socialjepa_jax.report import figures, style


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
    shown = [f"{value:.2f}" if np.isfinite(value) else "-" for value in values.flat]
    _write_cells(axes, (values - low) / (high - low), shown, 8)
    axes.set_xticks(range(len(column_labels)), column_labels)
    axes.set_yticks(range(len(row_labels)), row_labels)
    axes.grid(visible=False)
    return figure


@style.styled
def heat_maps(
    panels: Mapping[str, np.ndarray],
    labels: Sequence[str],
    *,
    row_name: str,
    column_name: str,
    columns: int,
) -> Figure:
    """Square matrices of values from 0 to 1 side by side, with their values in the cells.

    Args:
        panels: title -> [L, L].
        labels: of rows and columns, [L].
        row_name, column_name: of the axes.
        columns: panels in a row.
    """
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(2.9 * columns + 0.8, 2.7 * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes, (title, values) in zip(grid.flat, panels.items()):
        axes.imshow(values, vmin=0, vmax=1, cmap="viridis")
        _write_cells(axes, values, [f"{value:.2f}".replace("0.", ".") for value in values.flat], 6)
        axes.set_title(title, fontsize=8)
        axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right", fontsize=7)
        axes.set_yticks(range(len(labels)), labels, fontsize=7)
        axes.grid(visible=False)
    figure.supylabel(row_name, fontsize=8)
    figure.supxlabel(column_name, fontsize=8)
    return figure


def _write_cells(axes: Axes, shares: np.ndarray, texts: Sequence[str], size: int) -> None:
    """Writes a text on every cell; white where its share of the range of colours is dark."""
    for ((i, j), share), text in zip(np.ndenumerate(shares), texts, strict=True):
        color = "w" if share < 0.6 else "k"
        axes.text(j, i, text, ha="center", va="center", fontsize=size, color=color)


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


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves under a title."""

    title: str
    curves: Sequence[figures.Line]


@style.styled
def line_panels(
    panels: Sequence[Panel],
    *,
    x_label: str,
    y_label: str,
    columns: int = 2,
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """Panels of curves side by side, with one legend."""
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.0 * columns, 2.7 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, panels):
        figures.draw_curves(axes, panel.curves, log_x=log_x, log_y=log_y)
        axes.set(title=panel.title, xlabel=x_label, ylabel=y_label)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    style.legend_below(figure, 4)
    return figure


@style.styled
def boundaries(
    panels: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]], *, title: str
) -> Figure:
    """Classified points in planes, each with the decision boundaries of many training sets.

    Args:
        panels: title -> (points f64[N, 2], labels 0 or 1 [N], lines f64[R, 3]: w . x + b = 0).
        title: of the figure.
    """
    figure = Figure(figsize=(3.4 * len(panels), 3.5), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (name, (z_N2, label_N, line_R3)) in zip(grid, panels.items()):
        limit = 3.5
        along = np.array([-3 * limit, 3 * limit])
        for w1, w2, b in line_R3:
            normal = np.array([w1, w2]) / np.hypot(w1, w2)
            foot = -b / np.hypot(w1, w2) * normal
            x, y = foot[:, None] + np.array([[-normal[1]], [normal[0]]]) * along[None]
            axes.plot(x, y, color=style.PALETTE[3], lw=0.6, alpha=0.25)
        colours = [style.PALETTE[0] if label else style.PALETTE[4] for label in label_N]
        axes.scatter(z_N2[:, 0], z_N2[:, 1], s=10, c=colours, linewidths=0)
        axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", title=name)
    figure.suptitle(title, fontsize=10, fontweight="bold")
    return figure


@style.styled
def estimates(
    panels: Mapping[str, Mapping[str, np.ndarray]], *, title: str, axis_label: str
) -> Figure:
    """Clouds of parameter pairs f64[R, 2] in named groups, a panel for each task."""
    figure = Figure(figsize=(2.7 * len(panels), 3.0), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (name, groups) in zip(grid, panels.items()):
        for k, (label, points_R2) in enumerate(groups.items()):
            color = style.agent_color(k)
            axes.scatter(*points_R2.T, s=5, alpha=0.5, color=color, label=label, linewidths=0)
        axes.set(title=name, xlabel=f"{axis_label} 1", ylabel=f"{axis_label} 2")
        axes.set_aspect("equal", "datalim")
    style.legend_below(figure, 3)
    figure.suptitle(title, fontsize=10, fontweight="bold")
    return figure


@style.styled
def coloured_scatter(
    x: np.ndarray,
    y: np.ndarray,
    values: np.ndarray,
    *,
    title: str,
    x_label: str,
    y_label: str,
    bar_label: str,
) -> Figure:
    """Points in a logarithmic plane, coloured by a third number."""
    figure, axes = style.new_axes(4.6, 3.4, title=title, xlabel=x_label, ylabel=y_label)
    points = axes.scatter(x, y, c=values, s=28, cmap="coolwarm", edgecolors="#1d2430", lw=0.4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    style.plain_log(axes.xaxis)
    style.plain_log(axes.yaxis)
    figure.colorbar(points, ax=axes, label=bar_label)
    return figure


@dataclass(frozen=True, eq=False)
class Matched:
    """Matched points of two sets in a plane, f64[N, 2] each, under a title."""

    title: str
    x: np.ndarray
    y: np.ndarray


@style.styled
def matched_panels(
    panels: Sequence[Sequence[Matched]],
    groups_N: np.ndarray,
    group_names: Sequence[str],
    *,
    names: tuple[str, str],
) -> Figure:
    """Planes with matched pairs joined by lines, coloured by group; one legend.

    Args:
        panels: rows.
        groups_N: index into `group_names` of each pair.
        group_names: in the legend.
        names: of the two sets, filled circles and hollow squares.
    """
    rows, columns = len(panels), max(map(len, panels))
    figure = Figure(figsize=(2.5 * columns, 2.5 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    colours = [style.agent_color(group) for group in groups_N]
    for axes, panel in zip(grid.flat, (panel for row in panels for panel in row)):
        lines = np.stack([panel.x, panel.y], axis=1)
        axes.add_collection(LineCollection(list(lines), colors=colours, lw=0.5, alpha=0.4))
        axes.scatter(*panel.x.T, s=8, c=colours, linewidths=0)
        axes.scatter(*panel.y.T, s=9, marker="s", facecolors="white", edgecolors=colours, lw=0.7)
        axes.set_title(panel.title, fontsize=8)
        axes.set(xticks=[], yticks=[])
        axes.set_aspect("equal", "datalim")
    for group in np.unique(groups_N):
        grid[0][0].plot([], [], "o", color=style.agent_color(group), label=group_names[group])
    grid[0][0].plot([], [], "o", color="#555", label=names[0])
    grid[0][0].plot([], [], "s", mfc="white", mec="#555", color="#555", label=names[1])
    style.legend_below(figure, 2 * columns)
    return figure
