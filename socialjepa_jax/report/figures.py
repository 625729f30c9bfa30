"""Figures as pure functions: data in, a matplotlib `Figure` out. `style.png` turns it into bytes.

Nothing here knows about runs or files; what is drawn is described by the small dataclasses below.
"""

# ruff: noqa: RUF001 (a true minus and a true times sign are meant)

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from socialjepa_jax.report import style


@dataclass(frozen=True, eq=False)
class Line:
    """A curve. `x` and `y` are equally long; points that are not finite leave a gap."""

    label: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    color: str
    dash: style.Dash = "-"
    marker: str = ""
    width: float = 1.7


@dataclass(frozen=True)
class Level:
    """A horizontal line at `value`, with a band from `low` to `high` if these differ."""

    label: str
    value: float
    low: float
    high: float
    color: str
    dash: style.Dash = "--"


@dataclass(frozen=True)
class BarSeries:
    """One bar a group: `values[g]` stands in group g, NaN where there is none."""

    label: str
    values: Sequence[float]
    color: str


@dataclass(frozen=True, eq=False)
class Tile:
    """A picture in a grid, uint8 [H, W, C], with the colour of its frame ("" for none)."""

    image: np.ndarray
    frame: str = ""
    note: str = ""


def _levels(axes: Axes, levels: Sequence[Level]) -> None:
    for level in levels:
        if np.isfinite(level.value):
            axes.axhline(
                level.value, color=level.color, linestyle=level.dash, lw=1.3, label=level.label
            )
            if level.high > level.low:
                axes.axhspan(level.low, level.high, color=level.color, alpha=0.12, lw=0)


@style.styled
def lines(
    curves: Sequence[Line],
    *,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    levels: Sequence[Level] = (),
    log_x: bool = False,
    log_y: bool = False,
    y_floor: float | None = None,
    x_ticks: Sequence[float] = (),
    height: float = 3.1,
) -> Figure:
    """Curves over a common axis, with horizontal levels to compare them with.

    Args:
        curves: In drawing order; one without a label stays out of the legend.
        title: Bold, above the panel.
        x_label: With its unit.
        y_label: With its unit.
        levels: Horizontal lines or bands, drawn below the curves.
        log_x: Logarithmic horizontal axis.
        log_y: Logarithmic vertical axis.
        y_floor: The lowest value shown; anything below leaves the picture.
        x_ticks: Ticks, written as plain numbers; () leaves them to matplotlib.
        height: Inches.
    """
    figure, axes = style.new_axes(height=height, title=title, xlabel=x_label, ylabel=y_label)
    _levels(axes, levels)
    for curve in curves:
        axes.plot(
            curve.x,
            curve.y,
            label=curve.label or "_",
            color=curve.color,
            linestyle=curve.dash,
            marker=curve.marker,
            linewidth=curve.width,
        )
    if log_x:
        axes.set_xscale("log")
        style.plain_log(axes.xaxis)
    if log_y:
        axes.set_yscale("log")
        style.plain_log(axes.yaxis)
    if len(x_ticks):
        axes.set_xticks(x_ticks, [f"{tick:g}" for tick in x_ticks])
        axes.minorticks_off()
    if y_floor is not None and axes.get_ylim()[0] < y_floor:
        axes.set_ylim(bottom=y_floor)
    style.legend_below(figure)
    return figure


@style.styled
def bars(
    groups: Sequence[str],
    series: Sequence[BarSeries],
    *,
    title: str = "",
    y_label: str = "",
    height: float = 3.1,
) -> Figure:
    """Bars side by side within each group, every bar with its value written on it."""
    figure, axes = style.new_axes(height=height, title=title, ylabel=y_label)
    width = 0.84 / max(1, len(series))
    for i, one in enumerate(series):
        at = np.arange(len(groups)) + (i - (len(series) - 1) / 2) * width
        container = axes.bar(at, one.values, width * 0.94, color=one.color, label=one.label)
        texts = [f"{v:.2f}".replace("-", "−") if np.isfinite(v) else "" for v in one.values]
        axes.bar_label(container, texts, fontsize=7, padding=1)
    axes.axhline(0, color="#8A929C", lw=0.8)
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.12)
    style.legend_below(figure)
    return figure


@style.styled
def matched_pairs(
    x_N2: np.ndarray,
    y_N2: np.ndarray,
    groups_N: np.ndarray,
    group_names: Sequence[str],
    *,
    names: tuple[str, str] = ("x", "y"),
    title: str = "",
    axis_label: str = "principal component",
    limits: tuple[float, float, float, float] | None = None,
) -> Figure:
    """Two clouds of N points in a plane, each pair joined by a line, coloured by group.

    Args:
        x_N2: Filled circles.
        y_N2: Hollow squares.
        groups_N: Index into `group_names`.
        group_names: For the legend.
        names: What the two clouds are.
        title: Bold, above the panel.
        axis_label: The axes are called this and 1 or 2.
        limits: (left, right, bottom, top), so that panels can share them.
    """
    figure, axes = style.new_axes(
        height=4.1, title=title, xlabel=f"{axis_label} 1", ylabel=f"{axis_label} 2"
    )
    colors = np.array([style.PALETTE[g % len(style.PALETTE)] for g in groups_N])
    segments = np.stack([x_N2, y_N2], axis=1)
    axes.add_collection(LineCollection(list(segments), colors=list(colors), lw=0.7, alpha=0.45))
    axes.scatter(*x_N2.T, s=22, c=colors, linewidths=0)
    axes.scatter(*y_N2.T, s=22, marker="s", facecolors="white", edgecolors=list(colors), lw=1.1)
    for group in np.unique(groups_N):
        axes.plot([], [], "o", color=style.PALETTE[group % 8], label=group_names[group])
    axes.plot([], [], "o", color="#555", label=names[0])
    axes.plot([], [], "s", mfc="white", mec="#555", color="#555", label=names[1])
    axes.set_aspect("equal", adjustable="box")
    if limits:
        axes.set_xlim(*limits[:2])
        axes.set_ylim(*limits[2:])
    style.legend_below(figure, columns=3)
    return figure


def _shown(image: np.ndarray) -> np.ndarray:
    """A picture as grey [H, W] or RGB [H, W, 3]; a stereo pair shows its first picture."""
    return image[..., :3] if image.shape[-1] >= 3 else image[..., 0]


def _tile(axes: Axes, tile: Tile | None) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    framed = tile is not None and bool(tile.frame)
    for spine in axes.spines.values():
        spine.set(visible=framed, linewidth=3, color=tile.frame if tile and framed else "none")
    if tile is None:
        axes.set_facecolor("none")
        return
    axes.imshow(_shown(tile.image), cmap="gray", vmin=0, vmax=255)
    if tile.note:
        axes.set_xlabel(tile.note, fontsize=8, labelpad=2)


def _heading_height(labels: Sequence[str]) -> float:
    """Inches for column headings of one or more lines."""
    return 0.15 + 0.17 * max((label.count("\n") + 1 for label in labels), default=0)


@style.styled
def image_grid(
    rows: Sequence[Sequence[Tile | None]],
    *,
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    width: float = style.FULL_WIDTH,
) -> Figure:
    """Pictures in rows and columns; None leaves a place empty. Frames are told in the caption."""
    columns = max(map(len, rows))
    margin = 0.9 if row_labels else 0.1
    size = (width - margin) / columns
    notes = 0.2 if any(tile and tile.note for row in rows for tile in row) else 0.0
    height = len(rows) * (size + notes) + _heading_height(column_labels)
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for r, row in enumerate(rows):
        for c in range(columns):
            _tile(grid[r, c], row[c] if c < len(row) else None)
        if row_labels:
            grid[r, 0].set_ylabel(row_labels[r], rotation=0, ha="right", va="center")
    for c, label in enumerate(column_labels):
        grid[0, c].set_title(label, loc="center", fontweight="normal", fontsize=9)
    return figure
