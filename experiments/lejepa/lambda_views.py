"""Accuracy over lambda and the number of views (LeJEPA, section 6.1, figure 8 and table 7).

Two global views and none, two or six local ones; a program for each number of views, whose agents
are the lambdas and seeds.

Command: python -m experiments.reproduce --only=lejepa_lambda_views --out=DIR [--eth80=FILE]
Cost at --scale=cpu: about five minutes on one core (36 runs of 200 steps).
Expected: a plateau over lambda, whose best value grows with the number of views. The paper trains
a ResNet-50 on ImageNet-100, where all views are global; here views are crops for a small ViT, in
batches of 128, so that the plateau begins at larger lambdas.
"""

import pathlib
from dataclasses import replace

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Picture, Rows
from experiments.lejepa import runs as runs_lib
from experiments.lejepa.runs import BUDGETS, Run
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.papers import lejepa as paper
from socialjepa_jax.report.tables import Column, Row, Table

VIEWS = {"smoke": (2, 4)}
VIEWS |= dict.fromkeys(("cpu", "gpu", "paper"), (2, 4, 8))
LAMBDAS: dict[str, tuple[float, ...]] = {"smoke": (0.01, 0.1)}
LAMBDAS["cpu"] = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5)
LAMBDAS["gpu"] = LAMBDAS["paper"] = tuple(float(c) for c in paper.LAMBDA_VIEWS.columns)
PLATEAU = (0.005, 0.2)  # where the paper's 8 views stay within 3 points
PROBES = {"accuracy": "categories of new objects", "objects": "objects in new states"}


def run(scale: str, out: pathlib.Path, eth80: str | None = None) -> Finding:
    """Trains a sweep of lambda for each number of views."""
    budget = BUDGETS[scale]
    if scale == "cpu":
        budget = replace(budget, steps=200)
    dataset = runs_lib.world(budget, out, eth80)
    channels = dataset.image_shape[-1]
    rows: Rows = []
    for count in VIEWS[scale]:
        runs = [
            Run(seed, weight, labels={"views": count})
            for weight in LAMBDAS[scale]
            for seed in range(budget.seeds)
        ]
        views = runs_lib.views(budget, channels, 2, count - 2)
        objective = runs_lib.learner(budget, channels, views=views)
        rows += runs_lib.study(dataset, objective, runs, budget)
    return Finding(
        "Lambda and the number of views",
        [claim for probe in PROBES for claim in _claims(rows, probe)],
        {"": _picture(rows, "accuracy"), "objects": _picture(rows, "objects")},
        rows,
        [_table(rows, probe) for probe in PROBES],
        runs_lib.settings(budget, dataset, runs=len(rows)),
    )


def _curve(rows: Rows, probe: str, count: int) -> dict[float, float]:
    """Lambda -> mean accuracy over seeds."""
    return {
        weight: findings.mean(rows, probe, views=count, **{"lambda": weight})
        for weight in findings.distinct(rows, "lambda")
    }


def _claims(rows: Rows, probe: str) -> list[Claim]:
    counts = findings.distinct(rows, "views")
    curves = {count: _curve(rows, probe, count) for count in counts}
    peaks = {count: max(curve, key=curve.__getitem__) for count, curve in curves.items()}
    printed = {
        count: max(
            (c for c in paper.LAMBDA_VIEWS.columns if row[c] is not None),
            key=lambda c: paper.LAMBDA_VIEWS.value(str(count), c),
        )
        for count in counts
        if (row := paper.LAMBDA_VIEWS.row(str(count)))
    }
    most = curves[counts[-1]]
    flat = [v for w, v in most.items() if PLATEAU[0] <= w <= PLATEAU[1]]
    drop = max(flat) - min(flat)
    ordered = [peaks[c] for c in counts]
    moves = ordered == sorted(ordered) and ordered[-1] > ordered[0]
    default = min(most, key=lambda w: abs(w - paper.DEFAULT_LAMBDA))
    short = max(most.values()) - most[default]
    gain = max(most.values()) - max(curves[counts[0]].values())
    noise = float(
        np.mean(
            [
                findings.spread(rows, probe, views=c, **{"lambda": w})
                for c in counts
                for w in findings.distinct(rows, "lambda")
            ]
        )
    )
    return [
        Claim(
            f"{probe}/range over lambda {PLATEAU[0]:g} to {PLATEAU[1]:g}, {counts[-1]} views",
            0.027,
            drop,
            drop < 0.05,
            f"{PROBES[probe]}; the paper's accuracies stay within 2.7 points there.",
            noise,
        ),
        Claim(
            f"{probe}/best lambda grows with the views",
            ", ".join(f"{v} at {c} views" for c, v in printed.items()),
            ordered[-1],
            moves,
            "best lambda is " + ", ".join(f"{peaks[c]:g} at {c} views" for c in counts) + ".",
        ),
        Claim(
            f"{probe}/what lambda {default:g} loses to the best, {counts[-1]} views",
            "lambda 0.05 is a robust default",
            short,
            short < 0.02,
            f"the best is {max(most.values()):.3f}.",
            noise,
        ),
        Claim(
            f"{probe}/gain from {counts[0]} to {counts[-1]} views, each at its best lambda",
            0.0083,
            gain,
            gain > 0,
            ", ".join(f"{max(curves[c].values()):.3f} at {c} views" for c in counts)
            + f"; untrained {findings.mean(rows, f'{probe}_untrained'):.3f}.",
            noise,
        ),
    ]


def _picture(rows: Rows, probe: str) -> Picture:
    curves = []
    for k, count in enumerate(findings.distinct(rows, "views")):
        curve = _curve(rows, probe, count)
        label = f"{count} views"
        x, y = list(curve), list(curve.values())
        curves.append(figures.Line(label, x, y, style.agent_color(k), marker="o"))
    untrained = findings.mean(rows, f"{probe}_untrained")
    level = figures.Level("untrained", untrained, untrained, untrained, "#8A929C")
    figure = figures.lines(
        curves,
        title=f"Accuracy: {PROBES[probe]}",
        x_label="lambda",
        y_label="linear probe",
        levels=[level],
        log_x=True,
        x_ticks=findings.distinct(rows, "lambda"),
    )
    return Picture(figure, "Accuracy against lambda for each number of views", "Figure 8.")


def _table(rows: Rows, probe: str) -> Table:
    weights = findings.distinct(rows, "lambda")
    columns = [Column(f"{w:g}", f"{w:g}", 3) for w in weights]
    body = [
        Row(f"{c} views", {f"{w:g}": v for w, v in _curve(rows, probe, c).items()})
        for c in findings.distinct(rows, "views")
    ]
    caption = f"Table 7: {PROBES[probe]}, mean over seeds, by lambda."
    return Table(columns, body, corner="views", caption=caption)
