"""Social-JEPA's appendix D.5: what its theory predicts, on every method of the tables.

From the latents that `trained` keeps of twelve methods at eight checkpoints: (a) a lower loss goes
with better alignability; (c) maps of predictive objectives differ least between seeds; (d) the
condition number of W is small where spaces are isomorphic. And from agents that learnt elsewhere
(`environments`): (b) isomorphism is stronger between agents of one environment. The section's
other predictions, on noise in pairs and on their number, are those of other experiments.

Over a run's checkpoints the loss and everything else change with the step, so their correlation is
no evidence that the loss matters; beside it stand the correlation with the step alone, and that of
the losses of agents with the agreement of their pairs at the same step, where the step is constant.
The encoders' last LayerNorm takes one direction away, which kappa of W leaves out (`agents.kappa`).

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
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.motion import pairs
from experiments.rivals.predictions import agents, environments
from experiments.rivals.predictions.agents import METHOD
from experiments.rivals.predictions.environments import (
    ENVIRONMENTS,
    FOLDER,
    MOVING,
    SAME,
    SHUFFLED,
    TOYS_ELSEWHERE,
    UNTRAINED,
)
from experiments.rivals.tables import measures, paradigms, trained
from experiments.rivals.tables.entrants import RIVALS
from experiments.rivals.tables.trained import HOW, World
from socialjepa_jax import evaluation
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.papers.social_jepa import SMALLNORB, SOCIAL_JEPA
from socialjepa_jax.report.tables import Column, Interval, Row, Table

METHODS: Mapping[str, tuple[str, ...]] = {
    "smoke": (METHOD, "vicreg_masked"), "cpu": tuple(RIVALS), "gpu": tuple(RIVALS),
    "paper": tuple(RIVALS),
}  # fmt: skip
BETTER = {"r2": -1, "area": -1, "dsc": -1, "nos@10": 1}  # sign of the correlation with the loss
KEPT = ("step", "loss", *BETTER)  # of a checkpoint's row
LEARNT = {TOYS_ELSEWHERE: True, MOVING: True, ENVIRONMENTS[-1]: False}  # above untrained agents
STRONG, NEAR = 0.5, 0.05


def run(scale: str, out: pathlib.Path) -> Finding:
    """Measures every checkpoint and environment, or reads what an earlier call left in `out`."""
    world = World(scale, out)
    rows = [row for name in METHODS[scale] for row in checkpoints(world, name)]
    rows += environments.measured(world)
    return Finding(
        "What the theory predicts of alignability",
        claims(rows),
        {"": plot(rows)},
        rows,
        [methods_table(rows), environments_table(rows)],
        {"steps": trained.STEPS[scale], "checkpoints": len(trained.CHECKPOINTS)},
    )


def checkpoints(world: World, name: str) -> Rows:
    """Returns one row for each checkpoint of a method, the first of untrained agents."""

    def make() -> Rows:
        full = findings.select(paradigms.rows_of(world, name), row="checkpoint")
        latents = world.trained(name).latents
        return [
            {"part": "checkpoint", **{key: row[key] for key in KEPT}, "kappa": kappas(world, z)}
            for row, z in zip(full, latents, strict=True)
        ]

    return world.kept(FOLDER, name, make)


def kappas(world: World, z_AND: np.ndarray) -> list[list[float]]:
    """Returns the condition number of W of all pairs, [3, 3]."""
    maps = [
        evaluation.fit_map(HOW, z_AND[i], z_AND[j], world.split.train)
        for i, j in trained.cross_pairs()
    ]
    return paradigms.square([agents.kappa(each) for each in maps])


def methods(rows: Rows) -> list[str]:
    """Returns the methods that have rows, in their order."""
    return findings.distinct(rows, "method")


def array(rows: Rows, name: str, column: str) -> np.ndarray:
    """Returns a column over the checkpoints of trained agents."""
    found = [row[column] for row in findings.select(rows, method=name) if row["step"]]
    return np.array(found, float)


def last(rows: Rows, name: str, column: str) -> np.ndarray:
    """Returns the pairs [3, 3] of a measure at the last checkpoint."""
    return np.array(findings.select(rows, method=name)[-1][column], float)


def log_kappa(rows: Rows, name: str) -> np.ndarray:
    """Returns the decimal logarithm of kappa of all pairs."""
    return np.log10(last(rows, name, "kappa"))


def with_loss(rows: Rows, name: str, measure: str) -> float:
    """Returns Spearman's correlation of loss and a measure over checkpoints, means of agents."""
    loss = array(rows, name, "loss").mean(1)
    return _spearman(loss, array(rows, name, measure).mean((1, 2)))


def with_step(rows: Rows, name: str, measure: str) -> float:
    """Returns Spearman's correlation of step and a measure."""
    return _spearman(array(rows, name, "step"), array(rows, name, measure).mean((1, 2)))


def within_step(rows: Rows, name: str, measure: str) -> float:
    """Returns the mean over checkpoints of the correlation of loss and a measure over pairs.

    The loss of a pair is the mean of its agents'.
    """
    loss, found = array(rows, name, "loss"), array(rows, name, measure)
    count = found.shape[1]
    of_pair = (loss[:, :count, None] + loss[:, None, count:]) / 2
    each = [_spearman(a.ravel(), b.ravel()) for a, b in zip(of_pair, found, strict=True)]
    return float(np.mean(each))


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(stats.spearmanr(x, y).statistic)


def claims(rows: Rows) -> list[Claim]:
    """Judges the predictions of the head."""
    return [
        *(_falls(rows, measure) for measure in BETTER),
        *_confounded(rows),
        *(_apart(rows, name) for name in ENVIRONMENTS),
        *(_elsewhere(rows, name) for name in ENVIRONMENTS if name in LEARNT),
        *_stable(rows),
        *_conditioned(rows),
    ]


def _falls(rows: Rows, measure: str) -> Claim:
    """The number of methods in which a lower loss goes with better agreement."""
    found = {name: with_loss(rows, name, measure) for name in methods(rows)}
    strong = [name for name, rho in found.items() if BETTER[measure] * rho > STRONG]
    least = min(10, len(found))
    others = ", ".join(f"{name} {found[name]:.2f}" for name in found if name not in strong)
    return Claim(f"loss/{measure.partition('@')[0]}", "better at a lower loss", len(strong),
                 len(strong) >= least,
                 f"methods of {len(found)} with a correlation stronger than {STRONG:g}; "
                 f"the others: {others or 'none'}.")  # fmt: skip


def _confounded(rows: Rows) -> list[Claim]:
    """I-JEPA's own loss; the step beside the loss; the loss at the same step."""
    own = with_loss(rows, METHOD, "r2")
    names = methods(rows)
    timed = [
        abs(with_step(rows, n, "area")) >= abs(with_loss(rows, n, "area")) - 0.1 for n in names
    ]
    within = pairs.cell([within_step(rows, name, "area") for name in names])
    return [
        Claim("loss/ijepa", "R2 rises as the loss falls", own, own < -STRONG,
              "Spearman's of I-JEPA's loss and R2 over checkpoints."),
        Claim("time", "the step explains as much in nine methods", sum(timed),
              sum(timed) >= min(9, len(names)), f"methods of {len(names)}, by area."),
        Claim("within", "below 0 at the same step", within.value, within.high < 0,
              f"mean over methods of Spearman's of a pair's loss and area, {within.low:.3f} to "
              f"{within.high:.3f}."),
    ]  # fmt: skip


def environment(rows: Rows, name: str, measure: str) -> dict[str, Any]:
    """Returns the pairs of a measure with agents of an environment."""
    found: dict[str, Any] = findings.select(rows, environment=name)[0][measure]
    return found


def lost(rows: Rows, name: str, measure: str) -> Interval:
    """Returns a measure in the same environment less that in another one, with its interval."""
    return measures.interval(
        environment(rows, SAME, measure), environment(rows, name, measure)
    )  # fmt: skip


def _apart(rows: Rows, name: str) -> Claim:
    """Agents of one environment agree more than those of two; other toys count as one."""
    area, r2 = (lost(rows, name, measure) for measure in ("area", "r2"))
    if name == TOYS_ELSEWHERE:
        near = max(abs(area.value), abs(r2.value)) <= NEAR
        return Claim(f"environment/{name}", "within .05 in area and R2", area.value, near,
                     f"area with the same objects less that with others; R2, {r2.value:.3f}."
                     )  # fmt: skip
    return Claim(f"environment/{name}", "stronger in the same environment", area.value,
                 area.low > 0 and r2.low > 0,
                 f"the area of the same environment less this, {area.low:.3f} to "
                 f"{area.high:.3f}; R2, {r2.low:.3f} to {r2.high:.3f}.")  # fmt: skip


def _elsewhere(rows: Rows, name: str) -> Claim:
    """Agents of an environment have a larger area than untrained ones, or not."""
    gain = measures.interval(
        environment(rows, name, "area"), environment(rows, UNTRAINED, "area")
    )  # fmt: skip
    wanted = LEARNT[name]
    paper = "above untrained agents" if wanted else "not above untrained agents"
    return Claim(f"elsewhere/{name}", paper, gain.value, (gain.low > 0) == wanted,
                 f"area less that of untrained pairs, {gain.low:.3f} to {gain.high:.3f}."
                 )  # fmt: skip


def _stable(rows: Rows) -> list[Claim]:
    """The place of I-JEPA among methods by the spread over pairs."""
    names = methods(rows)
    r2 = {name: float(np.std(last(rows, name, "r2"))) for name in names}
    kappa = {name: float(np.std(log_kappa(rows, name))) for name in names}
    printed = SOCIAL_JEPA[7].value(SMALLNORB, "r2_std")
    return [
        Claim("stable/paper", printed, r2[METHOD], None,
              "standard deviation of I-JEPA's R2 over nine pairs; other data."),
        _place("stable/r2", r2, "standard deviations of R2"),
        _place("stable/kappa", kappa, "standard deviations of log10 of kappa"),
    ]  # fmt: skip


def _place(id: str, spread: Mapping[str, float], title: str) -> Claim:
    order = sorted(spread, key=spread.__getitem__)
    place = order.index(METHOD) + 1
    return Claim(id, "I-JEPA among the three most stable", place, place <= 3,
                 f"its place of {len(order)} by {title}; {order[0]} {spread[order[0]]:.4f}, "
                 f"I-JEPA {spread[METHOD]:.4f}, {order[-1]} {spread[order[-1]]:.4f}.")  # fmt: skip


def _conditioned(rows: Rows) -> list[Claim]:
    """Kappa beside R2 and area over methods, and of shuffled pairs."""
    names = methods(rows)
    kappa = np.array([np.median(log_kappa(rows, name)) for name in names])
    rho = {
        measure: _spearman(kappa, np.array([last(rows, name, measure).mean() for name in names]))
        for measure in ("r2", "area")
    }
    true, wrong = (median_kappa(rows, name) for name in (SAME, SHUFFLED))
    return [
        Claim("kappa/methods", "kappa is lower where R2 is higher", rho["r2"], rho["r2"] < -STRONG,
              f"Spearman's over {len(names)} methods."),
        Claim("kappa/area", "kappa is lower where the area is larger", rho["area"],
              rho["area"] < -STRONG, f"Spearman's over {len(names)} methods."),
        Claim("kappa/shuffled", "more than twice that of true pairs", wrong / true,
              wrong > 2 * true, f"medians {wrong:.0f} of shuffled and {true:.0f} of true pairs."),
    ]  # fmt: skip


def median_kappa(rows: Rows, name: str) -> float:
    """Returns the median over pairs of kappa of W with agents of an environment."""
    return float(np.median(environment(rows, name, "kappa")["pairs"]))


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
