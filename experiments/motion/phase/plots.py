"""The map as a figure: prediction and measured cells along every slice."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments import findings
from experiments.findings import Plot, Rows
from experiments.motion.phase import measured, theory
from experiments.motion.phase.cells import CELLS, SCENES, SERIES, SLICES, Series
from experiments.motion.phase.theory import ENOUGH, Constants
from socialjepa_jax.report import style

LOGARITHMIC = {"weight": (0.005, 0.02, 0.1, 0.5, 2), "pool": (1000, 3000, 10_000)}  # and ticks
COLUMNS = 5
DENSE = 60  # positions of a predicted curve


@style.styled
def slices(rows: Rows, constants: Constants) -> Figure:
    """Draws a panel for each slice: predicted R2 as lines, measured R2 of the worse agent."""
    norms = measured.norms(rows)
    count = -(-len(SLICES) // COLUMNS)
    figure = Figure(figsize=(2.5 * COLUMNS, 2.9 * count + 0.4), layout="constrained")
    for axes, (name, position) in zip(figure.subplots(count, COLUMNS).flat, SLICES.items()):
        axes.axhline(ENOUGH, color="#8A929C", lw=1.0)
        if name == "scene":
            _scenes(axes, rows, norms, constants)
        for index, series in enumerate(s for s in SERIES if s.slice == name):
            color = style.agent_color(index)
            axes.plot(*_curve(series, norms, constants), "--", color=color, lw=1.2,
                      marker="" if _is_dense(series) else "_", ms=9, label=series.line)  # fmt: skip
            names = {series.at(x).name for x in series.positions}
            _points(axes, [(r["x"], r) for r in _judged(rows, name) if r["cell"] in names], color)
        axes.set(title=name, xlabel=position, ylim=(-0.05, 1.05))
        if name in LOGARITHMIC:
            axes.set_xscale("log")
            axes.set_xticks(LOGARITHMIC[name], [f"{x:g}" for x in LOGARITHMIC[name]])
            axes.minorticks_off()
        if name == "occlusion":
            axes.set_xticks([0, 1, 2, 3])
        if name != "scene":
            axes.legend(fontsize=6, loc="lower left")
    figure.legend(handles=_marks(), loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _judged(rows: Rows, name: str) -> Rows:
    return findings.select(rows, row="judged", slice=name)


def _marks() -> list[Line2D]:
    grey = "#1d2430"
    return [
        Line2D([], [], ls="--", color=grey, label="predicted before the run"),
        Line2D([], [], ls="", marker="o", color=grey, label="held out"),
        Line2D([], [], ls="", marker="o", mfc="white", color=grey, label="calibrating"),
        Line2D([], [], ls="", marker="X", ms=9, color="#C0392B", label="on the other side"),
        Line2D([], [], color="#8A929C", label=f"identified from {ENOUGH}"),
    ]


def _is_dense(series: Series) -> bool:
    return series.dense and series.slice != "width"


def _curve(
    series: Series, norms: dict[str, list[float]], constants: Constants
) -> tuple[list[float], list[float]]:
    """Positions and predicted R2, between the cells too where no rendering is needed."""
    xs = [x for x in sorted(series.positions) if series.at(x).name in norms]
    seen = {x: norms[series.at(x).name] for x in xs}
    if _is_dense(series) and xs:
        space = np.geomspace if series.slice in LOGARITHMIC else np.linspace
        seen = dict.fromkeys(space(xs[0], xs[-1], DENSE).tolist(), seen[xs[0]])
    return list(seen), [theory.predicted(series.at(x), a, constants) for x, a in seen.items()]


def _points(axes: Axes, points: list[tuple[float, dict]], color: str) -> None:
    for x, row in points:
        face = color if row["held_out"] else "white"
        if not row["right"]:
            axes.plot(x, row["measured"], "X", color="#C0392B", ms=10, zorder=3)
        axes.plot(x, row["measured"], "o", color=color, mfc=face, ms=4.5, zorder=4)


def _scenes(axes: Axes, rows: Rows, norms: dict[str, list[float]], constants: Constants) -> None:
    cells = [cell for cell in CELLS if cell.slice == "scene" and cell.name in norms]
    expected = [theory.predicted(cell, norms[cell.name], constants) for cell in cells]
    axes.plot([cell.x for cell in cells], expected, "_", color="#1d2430", ms=10)
    judged = _judged(rows, "scene")
    _points(axes, [(r["x"], r) for r in judged], style.agent_color(0))
    axes.set_xticks(range(len(SCENES)), list(SCENES), rotation=60, ha="right", fontsize=6)


def plot(rows: Rows, constants: Constants) -> Plot:
    """The figure with its words."""
    return Plot(
        slices(rows, constants),
        "R2 of the state along ten slices, predicted as dashed lines and measured as points",
        "R² of the state of the worse of two agents. A crossed point lies on the other side of "
        f"{ENOUGH} than its prediction.",
    )
