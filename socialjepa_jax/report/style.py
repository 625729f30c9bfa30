"""One look for every figure: a colour-blind safe palette (Okabe and Ito), one font, one size.

The same thing has the same colour everywhere; line styles differ too, so that figures survive
grey printing. matplotlib is used without pyplot: no global state, no display.
"""

import functools
import io
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
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
CORRECT, SAME_CATEGORY, OTHER = "#009E73", "#0072B2", "#C4C8CE"
COLUMN_WIDTH = 4.0  # inches: half a page, or a whole telephone
_TITLE_LETTERS = 12  # an inch
FULL_WIDTH = 8.0

_RC: Any = {  # Any: matplotlib types this as a literal of every key it knows
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


@dataclass(frozen=True)
class Look:
    """How one thing is named, drawn and explained, in every figure and table."""

    label: str
    color: str
    dash: Dash = "-"
    meaning: str = ""


LOOKS = {
    "trained": Look(
        "trained", "#0072B2", "-", "agents trained apart, on different cameras; W on held-out pairs"
    ),
    "same_camera": Look(
        "same camera (ceiling)",
        "#56B4E9",
        (0, (1, 1)),
        "two trained agents on one camera, with different seeds: as alike as agents can be",
    ),
    "untrained": Look(
        "untrained, other init",
        "#D55E00",
        (0, (5, 2)),
        "the same architecture before its first step, each agent with its own random weights",
    ),
    "untrained_same_init": Look(
        "untrained, same init",
        "#E69F00",
        (0, (5, 2, 1, 2)),
        "the same, both agents with the same random weights",
    ),
    "pixel_pca": Look(
        "pixel PCA",
        "#009E73",
        (0, (3, 1, 1, 1)),
        "principal components of the pictures, as many as latents have dimensions",
    ),
    "shared_factors": Look(
        "shared factors",
        "#CC79A7",
        (0, (3, 2)),
        "no first agent: the second's latents predicted from what both cameras share by "
        "construction (category, elevation, lighting ...)",
    ),
    "mismatched_cell": Look(
        "shuffled within cell",
        "#8C6D00",
        (0, (2, 2)),
        "pairs shuffled among states that agree in all shared factors",
    ),
    "mismatched": Look("shuffled", "#666666", (0, (1, 2)), "pairs shuffled among all states"),
    "partialled": Look(
        "factors removed",
        "#7A5195",
        (0, (4, 1, 1, 1)),
        "the trained agents again, after the shared factors are regressed out of both: what "
        "they share beyond these",
    ),
    "untrained_partialled": Look(
        "untrained, factors removed",
        "#B8860B",
        (0, (4, 2)),
        "the untrained agents after the shared factors are regressed out of both",
    ),
    "pixel_pca_partialled": Look(
        "pixel PCA, factors removed",
        "#5A8F29",
        (0, (3, 2, 1, 2)),
        "pixel components after the shared factors are regressed out of both",
    ),
    "paper": Look("paper", "#1d2430", (0, (1, 3)), "as printed"),
    "chance": Look("chance", "#8A929C", (0, (4, 3)), "expected of unrelated spaces"),
}


def look(name: str) -> Look:
    """The look of a row of `alignment.json`; an unknown name gets a plain grey one."""
    return LOOKS.get(name, Look(name.replace("_", " "), "#666666", (0, (2, 1))))


def agent_color(agent: int) -> str:
    """An agent's colour."""
    return PALETTE[agent % len(PALETTE)]


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Runs a drawing function under the house style."""

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(_RC):
            return draw(*args, **kwargs)

    return wrapper


def new_axes(width: float = COLUMN_WIDTH, height: float = 3.1, **axes: Any) -> tuple[Figure, Axes]:
    """A figure of one panel, sizes in inches; with legends below it and long titles in lines."""
    figure = Figure(figsize=(width, height), layout="constrained")
    if "title" in axes:  # which begins at the axes' left edge, about 0.7 inches in
        axes["title"] = textwrap.fill(axes["title"], int((width - 0.7) * _TITLE_LETTERS))
    return figure, figure.add_subplot(**axes)


def legend_below(figure: Figure, columns: int = 2) -> None:
    """One legend for the whole figure, under it."""
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
    """Ticks of a logarithmic axis as plain numbers: 1, 2, 5 of every decade if there are few."""
    low, high = sorted(axis.get_view_interval())
    few = high / max(low, 1e-300) < 1e3
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def png(figure: Figure, dpi: int = 180) -> bytes:
    """The figure as PNG bytes, the same for the same figure (no date, no version inside)."""
    buffer = io.BytesIO()
    with mpl.rc_context(_RC):
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
