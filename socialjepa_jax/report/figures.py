"""Charts as pure functions of data: curves, bars and matched pairs of points.

They return a matplotlib `Figure`; `style.png` writes it.
"""

# ruff: noqa: RUF001 (a true minus and a true times sign are meant)

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from socialjepa_jax.report import style

MAX_GROUPS = 10  # more are left out of the legend


@dataclass(frozen=True, eq=False)
class Line:
    """A curve through the points (x, y); non-finite values leave a gap.

    `band` are lower and upper bounds of y, shaded behind the curve.
    """

    label: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    color: str
    dash: style.Dash = "-"
    marker: str = ""
    width: float = 1.7
    band: tuple[Sequence[float], Sequence[float]] | None = None


@dataclass(frozen=True)
class Level:
    """A horizontal line at `value`, and a band from `low` to `high` if these differ."""

    label: str
    value: float
    low: float
    high: float
    color: str
    dash: style.Dash = "--"


@dataclass(frozen=True)
class BarSeries:
    """Bars of one colour: `values[g]` is drawn in group g, NaN is left out."""

    label: str
    values: Sequence[float]
    color: str


def draw_curves(
    axes: Axes, curves: Sequence[Line], *, log_x: bool = False, log_y: bool = False
) -> None:
    """Draws curves into existing axes; curves without a label are left out of the legend."""
    for curve in curves:
        if curve.band is not None:
            axes.fill_between(curve.x, *curve.band, color=curve.color, alpha=0.18, lw=0)
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


def _draw_levels(axes: Axes, levels: Sequence[Level]) -> None:
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
    """Draws curves, and horizontal levels to compare them with.

    Args:
        curves: In drawing order; curves without a label are left out of the legend.
        title: Bold, above the panel.
        x_label: With its unit.
        y_label: With its unit.
        levels: Horizontal lines or bands, drawn below the curves.
        log_x: Logarithmic horizontal axis.
        log_y: Logarithmic vertical axis.
        y_floor: The lowest value shown; curves are cut below it.
        x_ticks: Ticks, written as plain numbers; () lets matplotlib choose.
        height: Inches.
    """
    figure, axes = style.new_axes(height=height, title=title, xlabel=x_label, ylabel=y_label)
    _draw_levels(axes, levels)
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
    width: float = style.COLUMN_WIDTH,
    height: float = 3.1,
) -> Figure:
    """Draws bars side by side within each group, with their values above them."""
    figure, axes = style.new_axes(width, height, title=title, ylabel=y_label)
    step = 0.84 / max(1, len(series))
    for i, bar in enumerate(series):
        x = np.arange(len(groups)) + (i - (len(series) - 1) / 2) * step
        container = axes.bar(x, bar.values, step * 0.94, color=bar.color, label=bar.label)
        texts = [f"{v:.2f}".replace("-", "−") if np.isfinite(v) else "" for v in bar.values]
        axes.bar_label(container, texts, fontsize=7, padding=1)
    axes.axhline(0, color="#8A929C", lw=0.8)
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.12)
    style.legend_below(figure)
    return figure


def square_limits(*points_N2: np.ndarray) -> tuple[float, float, float, float]:
    """Limits (left, right, bottom, top) of a square around all points, with a margin of 5 %."""
    points = np.concatenate(points_N2)
    low, high = points.min(axis=0), points.max(axis=0)
    (x, y), half = (low + high) / 2, 0.55 * float((high - low).max())
    return x - half, x + half, y - half, y + half


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
    """Draws two sets of N points in a plane, matched pairs joined by a line, coloured by group.

    Args:
        x_N2: Filled circles.
        y_N2: Hollow squares.
        groups_N: Index into `group_names`.
        group_names: Named in the legend unless there are more than `MAX_GROUPS`.
        names: Of the two sets.
        title: Bold, above the panel.
        axis_label: Followed by 1 and 2 on the two axes.
        limits: (left, right, bottom, top); see `square_limits`.
    """
    figure, axes = style.new_axes(
        height=4.1, title=title, xlabel=f"{axis_label} 1", ylabel=f"{axis_label} 2"
    )
    palette = np.array(style.PALETTE)
    colors = list(palette[groups_N % len(palette)])
    segments = np.stack([x_N2, y_N2], axis=1)
    axes.add_collection(LineCollection(list(segments), colors=colors, lw=0.7, alpha=0.45))
    axes.scatter(x_N2[:, 0], x_N2[:, 1], s=22, c=colors, linewidths=0)
    axes.scatter(
        y_N2[:, 0], y_N2[:, 1], s=22, marker="s", facecolors="white", edgecolors=colors, lw=1.1
    )
    for group in np.unique(groups_N) if len(group_names) <= MAX_GROUPS else ():
        axes.plot([], [], "o", color=palette[group % len(palette)], label=group_names[group])
    axes.plot([], [], "o", color="#555", label=names[0])
    axes.plot([], [], "s", mfc="white", mec="#555", color="#555", label=names[1])
    axes.set_aspect("equal", adjustable="box")
    if limits:
        axes.set_xlim(*limits[:2])
        axes.set_ylim(*limits[2:])
    style.legend_below(figure, columns=3)
    return figure
