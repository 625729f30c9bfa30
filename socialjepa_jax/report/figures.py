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
from matplotlib.patches import Rectangle

from socialjepa_jax.report import style

MAX_GROUPS = 10  # named in a legend


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


def draw_curves(
    axes: Axes, curves: Sequence[Line], *, log_x: bool = False, log_y: bool = False
) -> None:
    """Curves in one panel; one without a label stays out of the legend."""
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
    x_ticks: Sequence[float] | np.ndarray = (),
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
    axes.locator_params(axis="x", nbins=6)
    draw_curves(axes, curves, log_x=log_x, log_y=log_y)
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
        group_names: For the legend, which leaves them out if there are more than ten.
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
    axes.scatter(x_N2[:, 0], x_N2[:, 1], s=22, c=colors, linewidths=0)
    axes.scatter(
        y_N2[:, 0],
        y_N2[:, 1],
        s=22,
        marker="s",
        facecolors="white",
        edgecolors=list(colors),
        lw=1.1,
    )
    for group in np.unique(groups_N) if len(group_names) <= MAX_GROUPS else ():
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


def _draw_tile(axes: Axes, tile: Tile, left: float, top: float, height: float) -> None:
    """A picture one unit wide, with its frame inside and its note below."""
    box = (left, left + 1, top + height, top)
    axes.imshow(_shown(tile.image), cmap="gray", vmin=0, vmax=255, extent=box)
    if tile.frame:
        inset = 0.02
        corner, size = (left + inset, top + inset), (1 - 2 * inset, height - 2 * inset)
        axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=tile.frame, linewidth=3.5))
    if tile.note:
        axes.text(left + 0.5, top + height + 0.03, tile.note, ha="center", va="top", fontsize=8)


@style.styled
def image_grid(
    rows: Sequence[Sequence[Tile | None]],
    *,
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    width: float = style.FULL_WIDTH,
) -> Figure:
    """Pictures of one shape in rows and columns, under and beside their labels.

    Args:
        rows: Tiles; None leaves a place empty, rows may be of different length.
        row_labels: Left of each row.
        column_labels: Above each column, one or more lines.
        width: Inches.
    """
    columns, gap = max(map(len, rows)), 0.05
    pixels = next(tile.image.shape for row in rows for tile in row if tile)
    tall = pixels[0] / pixels[1]
    left = 0.9 if row_labels else 0.05
    unit = (width - left - 0.05) / (columns + gap * (columns - 1))  # inches a tile
    note = 0.2 / unit if any(tile and tile.note for row in rows for tile in row) else 0.0
    step = tall + gap + note
    head = 0.1 + 0.17 * max((label.count("\n") + 1 for label in column_labels), default=0)
    span = len(rows) * step - gap
    height = head + span * unit + 0.05
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes(
        (left / width, 0.05 / height, 1 - (left + 0.05) / width, span * unit / height)
    )
    for r, row in enumerate(rows):
        for c, tile in enumerate(row):
            if tile:
                _draw_tile(axes, tile, c * (1 + gap), r * step, tall)
    for r, label in enumerate(row_labels):
        axes.text(-0.08, r * step + tall / 2, label, ha="right", va="center")
    for c, label in enumerate(column_labels):
        axes.text(c * (1 + gap) + 0.5, -0.06, label, ha="center", va="bottom")
    axes.set(xlim=(0, columns + gap * (columns - 1)), ylim=(span, 0), aspect="auto")
    axes.set_axis_off()
    return figure
