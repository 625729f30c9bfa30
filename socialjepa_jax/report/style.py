"""Style of all figures: the colour-blind safe palette of Okabe and Ito, one font, two widths.

pyplot is not used: it keeps global state.
"""

import functools
import io
import textwrap
from collections.abc import Callable
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

P = ParamSpec("P")
Dash = str | tuple[int, tuple[int, ...]]

PALETTE = (
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # purple
    "#E69F00",  # orange
    "#56B4E9",  # sky
    "#8C6D00",  # olive
    "#666666",  # grey
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
CORRECT, SAME_CATEGORY, OTHER_CATEGORY = "#009E73", "#0072B2", "#C4C8CE"
COLUMN_WIDTH, FULL_WIDTH = 4.0, 8.0  # inches
_TITLE_LETTERS = 12  # that fit into an inch

_RC: Any = {  # Any: matplotlib's type is a literal of all its keys
    "axes.axisbelow": True,
    "axes.edgecolor": "#8A929C",
    "axes.grid": True,
    "axes.labelcolor": "#1d2430",
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#E3E6EA",
    "grid.linewidth": 0.7,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "text.color": "#1d2430",
    "text.parse_math": False,  # names may hold dollar signs
    "xtick.color": "#4A525D",
    "xtick.labelsize": 8,
    "ytick.color": "#4A525D",
    "ytick.labelsize": 8,
}


def agent_color(agent: int) -> str:
    """Returns the colour of an agent's curves."""
    return PALETTE[agent % len(PALETTE)]


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorates a drawing function to use the settings of this module."""

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(_RC):
            return draw(*args, **kwargs)

    return wrapper


def new_axes(width: float = COLUMN_WIDTH, height: float = 3.1, **axes: Any) -> tuple[Figure, Axes]:
    """Returns a figure with one panel.

    Args:
        width: Inches.
        height: Inches.
        **axes: Passed to matplotlib's `add_subplot`; a long title is wrapped.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    if "title" in axes:  # it begins at the left edge of the axes, at about 0.7 inches
        axes["title"] = textwrap.fill(axes["title"], int((width - 0.7) * _TITLE_LETTERS))
    return figure, figure.add_subplot(**axes)


def legend_below(figure: Figure, columns: int = 2) -> None:
    """Adds one legend below the figure, in one column where labels are long."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if labels:
        wide = max(map(len, labels)) > 26
        figure.legend(
            handles,
            labels,
            loc="outside lower left",
            ncols=1 if wide else columns,
            columnspacing=1.2,
        )


def plain_log(axis: Axis) -> None:
    """Writes ticks of a logarithmic axis as plain numbers: 1, 2, 5 within three decades, else 1."""
    low, high = sorted(axis.get_view_interval())
    narrow = high / max(low, 1e-300) < 1e3
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def png(figure: Figure, dpi: int = 180) -> bytes:
    """Returns the figure as a PNG file without date and version: equal figures, equal bytes."""
    buffer = io.BytesIO()
    with mpl.rc_context(_RC):
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
