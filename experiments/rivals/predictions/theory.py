"""Social-JEPA's appendix D.5: what its theory predicts, on every method of the tables.

From the latents that `trained` keeps of twelve methods at eight checkpoints: (a) a lower loss goes
with better alignability; (c) maps of predictive objectives differ least between seeds; (d) the
condition number of W is small where spaces are isomorphic. And from agents that learnt elsewhere
(`environments`): (b) isomorphism is stronger between agents of one environment. The section's
other predictions, on noise in pairs and on their number, are those of other experiments.

Over a run's checkpoints the loss and everything else change with the step, so their correlation is
no evidence that the loss matters; beside it stand the correlation with the step alone, and that of
the losses of agents with the agreement of their pairs at the same step, where the step is constant.
The encoders' last LayerNorm takes one direction away, which kappa of W leaves out
(`measures.kappa`).

Predictions, written before the run:

loss/r2: Spearman's correlation of loss and R2 over checkpoints is below -.5 for at least ten of the
twelve methods, as the paper predicts. We expect four to eight, since losses that spread latents
lower R2.
loss/area, loss/dsc, loss/nos: the same of the area, of DSC and (above .5) of NOS@10. By area we
expect at least nine, so that this one may just miss.
loss/ijepa: for I-JEPA itself the loss falls with R2 rising: below -.5. We expect that it is not
found, since the targets move and the loss does not fall.
time: in at least nine methods the step explains the area as well as the loss does, within .1.
within: at the same step, pairs with lower losses agree better, as the paper would have it: the mean
over methods of Spearman's correlation of loss and area is below 0, by its interval. We expect none.
environment/NAME: area and R2 of agents of one environment are above those with agents of another
one, as the paper predicts. We expect this for a moving toy and broken images by area; with agents
of other toys, which are of the same distribution, both are within .05.
elsewhere: agents of a moving toy and of other toys have a larger area than untrained agents of the
same environment; those of pixels in a fresh order do not.
stable/r2, stable/kappa: I-JEPA is among the three methods whose R2, and whose log kappa, differ
least between the nine pairs, as the paper predicts of predictive objectives. We expect neither.
stable/paper stands beside the spread of the paper's table 7, which is of other data.
kappa/methods: over methods kappa is lower where R2 is higher, as the paper predicts: Spearman's
below -.5. We expect the opposite sign, since spaces of low rank have a high R2 and a large kappa.
kappa/area: over methods kappa is lower where the area is larger: below -.5.
kappa/shuffled: W of shuffled pairs has more than twice the kappa of true pairs, as the paper
predicts of incompatible spaces. We expect that kappa does not tell them apart.

Command: python -m experiments.reproduce --only=exp_predictions --out=runs/exp_predictions
Cost at --scale=cpu: 5 CPU minutes of training (an estimate) and 4 of measuring, beside the agents
of `table1_paradigms`, which are read.
Expected at --scale=cpu: 7 of 20 claims agree, 1 is not comparable. R2 rises as the loss falls for 2
of 12 methods, I-JEPA among them; agents of a moving toy have an area of 0.286 with those of the
toys, which have 0.252 among themselves.
"""

import pathlib
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Finding, Plot, Rows
from experiments.rivals.predictions import checkpoints, environments
from experiments.rivals.predictions.checkpoints import (
    BETTER,
    array,
    last,
    log_kappa,
    methods,
    with_loss,
    with_step,
    within_step,
)
from experiments.rivals.predictions.environments import SAME, environment, lost, median_kappa
from experiments.rivals.predictions.theory_claims import claims
from experiments.rivals.tables import measures, trained
from experiments.rivals.tables.trained import World
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table


def run(scale: str, out: pathlib.Path) -> Finding:
    """Measures every checkpoint and environment, or reads what an earlier call left in `out`."""
    world = World(scale, out)
    rows = checkpoints.measured(world) + environments.measured(world)
    return Finding(
        "What the theory predicts of alignability",
        claims(rows),
        {"": plot(rows)},
        rows,
        [methods_table(rows), environments_table(rows)],
        {"steps": trained.STEPS[scale], "checkpoints": len(trained.CHECKPOINTS)},
    )


def methods_table(rows: Rows) -> Table:
    """Correlations with the loss, and the spread of maps, of every method."""
    columns = [
        Column("r2", "loss and R²", digits=2),
        Column("area", "loss and area", digits=2),
        Column("dsc", "loss and DSC", digits=2),
        Column("nos@10", "loss and NOS@10", digits=2),
        Column("step", "step and area", digits=2),
        Column("within", "loss and area at one step", digits=2),
        Column("spread", "spread of R²", digits=4),
        Column("kappa_spread", "spread of log₁₀ κ", digits=2),
        Column("kappa", "κ(W)", digits=0),
    ]
    lines = []
    for name in methods(rows):
        cells = {key: with_loss(rows, name, key) for key in BETTER}
        cells |= {
            "step": with_step(rows, name, "area"),
            "within": within_step(rows, name, "area"),
            "spread": float(np.std(last(rows, name, "r2"))),
            "kappa_spread": float(np.std(log_kappa(rows, name))),
            "kappa": float(np.median(last(rows, name, "kappa"))),
        }
        lines.append(Row(name, cells, ranked=False))
    return Table(columns, lines, corner="method",
                 caption="Spearman's correlations over checkpoints of trained agents; spreads are "
                 "standard deviations over nine pairs, κ(W) their median.")  # fmt: skip


def environments_table(rows: Rows) -> Table:
    """The measures of the tables' agents with those of every environment."""
    columns = [
        Column("area", "area"),
        Column("lost", "area less than the same"),
        Column("r2", "R² of W"),
        Column("dsc", "DSC"),
        Column("nos@10", "NOS@10"),
        Column("rankme", "RankMe", digits=1),
        Column("kappa", "κ(W)", digits=0),
    ]
    lines = []
    for name in findings.distinct(rows, "environment"):
        cells: dict[str, Any] = {
            key: measures.interval(environment(rows, name, key))
            for key in ("area", "r2", "dsc", "nos@10", "rankme")
        }
        cells["lost"] = None if name == SAME else lost(rows, name, "area")
        cells["kappa"] = median_kappa(rows, name)
        lines.append(Row(name, cells, ranked=False))
    return Table(columns, lines, corner="environment",
                 caption="I-JEPA agents of the first camera with those of the second that learnt "
                 "elsewhere; all see the same toys. 95 % intervals over objects and agents."
                 )  # fmt: skip


def plot(rows: Rows) -> Plot:
    """The area of every method over the loss of its checkpoints, as a share of the first."""
    curves = []
    for index, name in enumerate(methods(rows)):
        loss = array(rows, name, "loss").mean(1)
        curves.append(
            figures.Line(name, loss / loss[0], array(rows, name, "area").mean((1, 2)),
                         style.agent_color(index), "-" if index < 8 else "--", "o")
        )  # fmt: skip
    figure = figures.lines(curves, title="Agreement over the loss of a run", height=4.4,
                           x_label="loss over that of the first checkpoint", y_label="area"
                           )  # fmt: skip
    return Plot(figure, "area under R2 at equal ranks against the loss, for every method",
                "Means over agents and pairs at eight checkpoints.")  # fmt: skip
