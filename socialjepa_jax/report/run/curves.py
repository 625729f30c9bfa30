"""Sections of a run's page that follow metrics over training steps."""

# ruff: noqa: RUF001 (a true minus sign is meant)

import math

import numpy as np

from socialjepa_jax.records import CONTROLS, RowName
from socialjepa_jax.report import figures, html, looks, style
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.figures import Level, Line
from socialjepa_jax.report.run import data
from socialjepa_jax.report.run.data import SPLITS, RunData, mean, pick, value
from socialjepa_jax.report.tables import Interval, format_number

_MOST_MARKED, _MOST_THICK = 12, 100  # points of a curve that is drawn with markers, or thick
_DASHES: tuple[style.Dash, ...] = ("-", (0, (5, 2)), (0, (2, 1)), (0, (5, 1, 1, 1)))
_PANELS = (
    ("loss", "Training loss", "prediction loss", "the JEPA's squared error in latent space. It may"
     " rise: the target moves with the encoder."),
    ("rankme", "Effective rank", "RankMe", "exp of the entropy of the latents' singular values: how"
     " many directions are in use. Near 1 is collapse."),
    ("feature_std", "Feature spread", "mean std of features", "standard deviation of a feature over"
     " states. Towards 0 is collapse."),
)  # fmt: skip


def training(run: RunData, album: Album) -> html.Html:
    """Loss, RankMe and feature spread of every agent."""
    panels = []
    for key, title, y_label, meaning in _PANELS:
        if curves := _agent_curves(run, key):
            positive = key == "loss" and all(np.nanmin(curve.y) > 0 for curve in curves)
            figure = figures.lines(
                curves, title=title, x_label="training step", y_label=y_label, log_y=positive
            )
            alt = f"{title} of {len(curves)} agents against training step"
            panels.append(album.add(key, figure, alt=alt, caption=f"{title}: {meaning}"))
    if not panels:
        return html.missing("metrics.jsonl holds no training curves.")
    return html.figure_grid(*panels)


def _agent_curves(run: RunData, key: str) -> list[Line]:
    lines = run.train if key == "loss" else run.evals
    curves = []
    for i, agent in enumerate(run.agents):
        x, y = data.curve(lines, f"agent_{agent}/{key}")
        if np.isfinite(y).any():
            label = f"agent {agent} (camera {run.camera(agent)})"
            color, dash = style.agent_color(agent), _DASHES[i % len(_DASHES)]
            width = 1.7 if len(x) <= _MOST_THICK else 0.8
            curves.append(Line(label, x, y, color, dash, width=width))
    return curves


def r2_against_step(run: RunData, album: Album) -> html.Html:
    """R2 on held-out pairs from step 0 on, with the controls as horizontal levels."""
    panels = []
    for split, name in SPLITS.items():
        if curves := r2_curves(run, split):
            levels = control_levels(run, split)
            figure = figures.lines(
                curves, levels=levels, title=name.capitalize(), x_label="training step",
                y_label="R² of W on held-out pairs", y_floor=-0.5, height=4.2,
            )  # fmt: skip
            alt = f"R2 against training step on {name}, with {len(levels)} controls"
            panels.append(album.add(f"r2_{split}", figure, alt=alt))
    if not panels:
        return html.missing("metrics.jsonl holds no R2 of pairs of agents.")
    explanation = (
        "Solid blue: pairs of agents behind different cameras, W refitted at every "
        "evaluation (thin: one pair; thick: their mean). Step 0 is the untrained encoder, so "
        "training adds the rise above step 0 and above the highest horizontal line. "
        "Levels are the controls, measured at the end; a band spans several measurements. "
        "Every R² is relative to the variance of that row's own targets. Values below −0.5 "
        "are not drawn; the legend has the number."
    )
    return html.join(html.paragraph(explanation), html.figure_grid(*panels))


def control_levels(run: RunData, split: str) -> list[Level]:
    """R2 of the controls on a split as horizontal lines, with a band from lowest to highest."""
    levels = []
    for row in CONTROLS:
        cell = mean(pick(run, row, split), "r2")
        number = value(cell)
        if math.isfinite(number):
            bounds = (cell.low, cell.high) if isinstance(cell, Interval) else (number, number)
            look = looks.look(row)
            label = f"{look.label}: {format_number(number, 2)}"
            levels.append(Level(label, number, *bounds, look.color, look.dash))
    return levels


def r2_curves(run: RunData, split: str) -> list[Line]:
    """R2 against step: thin for each pair of agents, thick for the mean over pairs."""
    curves_of: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {
        RowName.SAME_CAMERA: [],
        RowName.TRAINED: [],
    }
    for i, j in data.curve_pairs(run, split):
        row = RowName.SAME_CAMERA if run.camera(i) == run.camera(j) else RowName.TRAINED
        curves_of[row].append(data.curve(run.evals, f"pair_{i}_{j}/{split}/r2"))
    return [line for row, curves in curves_of.items() for line in _pairs_and_mean(row, curves)]


def _pairs_and_mean(row: str, curves: list[tuple[np.ndarray, np.ndarray]]) -> list[Line]:
    if not curves:
        return []
    look = looks.look(row)
    steps = sorted({step for x, _ in curves for step in x})
    means = [np.mean([y[x == s][0] for x, y in curves if s in x]) for s in steps]
    label = f"{look.label}: {format_number(means[-1], 2)}"
    marker = "o" if len(steps) <= _MOST_MARKED else ""
    pairs = curves if len(curves) > 1 else []
    return [
        *(Line("", x, y, look.color, look.dash, width=0.6) for x, y in pairs),
        Line(label, steps, means, look.color, look.dash, marker, 2.0),
    ]
