"""Straight lines between latents of DMC Reacher, looked up as frames: the planning experiment.

A plan goes straight from the latent of one frame to that of another in 15 pieces; every point is
decoded to the nearest of the states that agents are measured on, and the length of the path of
joint angles is compared with its chord, for 30 plans that all agents share. The oracle does the
same in the joint angles themselves, so it pays for the coarse library too.

The paper calls its Gaussian encoder statistically indistinguishable from the oracle, which no
significant difference among 30 plans does not show. Here two one-sided tests at 5 % ask whether the
mean difference is within 0.1 (the margin was chosen before the runs).

Predictions. The agents of the process at rho = 0.99 are equivalent to the oracle, those of
trajectories are not and have longer paths, and the length falls with R2 over all agents.

Command: python -m experiments.reproduce --only=reacher_planning --out=runs/reacher
Cost at --scale=cpu: 1 CPU minute after reacher_ou and reacher_trajectory.
Expected at --scale=cpu: 2 of 4 claims agree. Paths are 1.06 times their chord for the oracle, 5.57
for the process at rho = 0.99, where agents lose the wrist, 2.7 to 3.2 from 0.7 to 0.95.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np
from scipy import stats

from experiments import findings
from experiments.figures import scatter
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.reacher import ou, runs, scores, trajectory
from experiments.reacher.runs import Codes, Condition
from socialjepa_jax.data.reacher.dataset import ReacherData
from socialjepa_jax.data.reacher.grid import Grid
from socialjepa_jax.identifiability import planning
from socialjepa_jax.report.image_grid import Tile, image_grid

MARGIN = 0.1  # of the length over the chord
LEVEL = 0.05
SHOWN = 8  # frames of a plan that are drawn
STRIDE, RHO = 8, 0.99  # of the paper's trajectory and Gaussian encoders
LENGTHS = "ou>ou/lengths"


def run(scale: str, out: pathlib.Path, trajectories: str | None = None) -> Finding:
    """Plans with the agents of both conditions."""
    rows, codes = [], {}
    for rho in ou.RHOS[scale]:
        condition = Condition(rho=rho, weight=ou.weight(rho))
        codes[rho] = runs.train(condition, scale, out)
        rows += scores.rows(codes[rho])
    for stride in trajectory.STRIDES[scale]:
        for strength in trajectory.LAMBDAS[scale]:
            condition = Condition(stride=stride, weight=strength, trajectories=trajectories or "")
            codes[stride, strength] = runs.train(condition, scale, out)
            rows += scores.rows(codes[stride, strength])
    gaussian = codes[max(ou.RHOS[scale])]
    rows.append({"condition": "oracle", LENGTHS: scores.oracle(gaussian.states["ou"])})
    strength = best_lambda(rows)
    shown = {"process": gaussian, "trajectories": codes[STRIDE, strength]}
    return Finding(
        "DMC Reacher from pixels: straight lines in latents",
        claims(rows),
        {"": frames_plot(shown, scale, out), "lengths": lengths_plot(rows)},
        rows,
        settings={"steps": runs.steps(scale), "plans": scores.PLANS},
    )


def best_lambda(rows: Rows) -> float:
    """Returns the lambda of the trajectory agents of the paper's stride that hold most."""
    of = findings.select(rows, condition="trajectory", stride=STRIDE)
    weights = findings.distinct(of, "lambda")
    return max(weights, key=lambda w: findings.mean(of, "ou>ou/state", **{"lambda": w}))


def lengths(rows: Rows, **where: Any) -> np.ndarray:
    """Returns the length of every plan over its chord, the mean over agents: f64[K]."""
    return np.mean([row[LENGTHS] for row in findings.select(rows, **where)], axis=0)


@dataclasses.dataclass(frozen=True)
class Equivalence:
    """Two one-sided t-tests of paired differences, and the usual two-sided one.

    Attributes:
        mean: difference.
        low, high: the 90 % t-interval; equivalent if it lies within the margin.
        p: of the two-sided test of no difference.
    """

    mean: float
    low: float
    high: float
    p: float

    @property
    def holds(self) -> bool:
        """True if the difference is within the margin."""
        return -MARGIN < self.low and self.high < MARGIN


def equivalence(ours: np.ndarray, oracle: np.ndarray) -> Equivalence:
    """Tests whether plans are as long as those of the oracle, by pairs of plans f64[K]."""
    difference = ours - oracle
    count = len(difference)
    mean, error = float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(count))
    half = float(stats.t.ppf(1 - LEVEL, count - 1)) * error
    p = float(stats.ttest_rel(ours, oracle).pvalue)
    return Equivalence(mean, mean - half, mean + half, p)


def claims(rows: Rows) -> list[Claim]:
    """The paper's statements, with the test that they need."""
    rho = max(r for r in findings.distinct(rows, "rho") if r)
    oracle = lengths(rows, condition="oracle")
    gaussian = equivalence(lengths(rows, condition="ou", rho=rho), oracle)
    where = {"condition": "trajectory", "stride": STRIDE, "lambda": best_lambda(rows)}
    warped = equivalence(lengths(rows, **where), oracle)
    agents = [row for row in rows if row["condition"] != "oracle"]
    means = [float(np.mean(row[LENGTHS])) for row in agents]
    rank = float(stats.spearmanr([row["ou>ou/state"] for row in agents], means)[0])
    return [
        Claim("process/equivalent to the oracle", f"mean difference within {MARGIN}",
              gaussian.mean, gaussian.holds, _test(gaussian, oracle)),
        Claim("process/no significant difference", "indistinguishable from the oracle",
              gaussian.p, gaussian.p > LEVEL, _test(gaussian, oracle)),
        Claim("trajectories/longer paths", "biased upward", warped.mean, warped.low > 0,
              _test(warped, oracle)),
        Claim("all agents/length falls with R2", "monotonically", rank, rank < -0.5,
              f"the rank correlation over {len(agents)} agents is {rank:.2f}."),
    ]  # fmt: skip


def _test(found: Equivalence, oracle: np.ndarray) -> str:
    return (
        f"paths over chord are {oracle.mean():.3f} of the oracle and {found.mean:+.3f} of the "
        f"agents beyond it, 90 % interval [{found.low:+.3f}, {found.high:+.3f}], p {found.p:.2g} "
        "of no difference."
    )


def frames_plot(shown: dict[str, Codes], scale: str, out: pathlib.Path) -> Plot:
    """One plan of the oracle and of an agent of each condition, as the frames it is decoded to."""
    first = next(iter(shown.values()))
    states = first.states["ou"]
    data = first.condition.experiment(scale).data
    assert isinstance(data, ReacherData)
    images, grid = data.images(0, out / "cache"), Grid(data.grid)
    spaces = {"oracle": states, **{name: c.latents["ou"][0] for name, c in shown.items()}}
    far = _far_plan(states)
    rows = []
    for latents in spaces.values():
        path = planning.straight_line_plans(states, latents, far).paths[0]
        steps = np.linspace(0, len(path) - 1, SHOWN).round().astype(int)
        rows.append([Tile(images[grid.index(path[step])]) for step in steps])
    columns = ["start", *[""] * (SHOWN - 2), "goal"]
    figure = image_grid(rows, row_labels=list(spaces), column_labels=columns)
    return Plot(figure, "Frames along one plan of the oracle and of an agent of each condition",
                "The plan of the shared 30 whose chord is longest.")  # fmt: skip


def _far_plan(states: np.ndarray) -> np.ndarray:
    """Returns the plan i64[1, 2] whose chord is longest."""
    pairs = planning.random_pairs(len(states), scores.PLANS)
    chords = np.linalg.norm(states[pairs[:, 0]] - states[pairs[:, 1]], axis=1)
    return pairs[[int(chords.argmax())]]


def lengths_plot(rows: Rows) -> Plot:
    """Length of the paths over R2 of the joints, a point for each agent."""
    groups = {}
    for name, label in (("ou", "process"), ("trajectory", "trajectories")):
        agents = findings.select(rows, condition=name)
        points = [(row["ou>ou/state"], float(np.mean(row[LENGTHS]))) for row in agents]
        groups[label] = (np.array([p[0] for p in points]), np.array([p[1] for p in points]))
    figure = scatter(groups, title="Length of plans over R² of the joints",
                     x_label="R² of the joints", y_label="path over chord")  # fmt: skip
    oracle = float(lengths(rows, condition="oracle").mean())
    return Plot(figure, "Length of paths over R2 of the joints of every agent",
                f"The oracle has {oracle:.2f}.")  # fmt: skip
