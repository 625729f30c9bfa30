"""How many pairs does recovery need? Fixed sets of pairs instead of endless fresh ones.

Cost at --scale=cpu: about one minute on one core.
"""

import pathlib

from experiments import findings
from experiments.findings import Claim, Finding, Picture
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, Run
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability.mixings import Spiral
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.report import figures, style

RHO = 0.95
SAMPLES = {"smoke": (64, 4096), "cpu": tuple(4**k for k in range(3, 9))}
SAMPLES["gpu"] = SAMPLES["paper"] = tuple(2**k for k in range(6, 19))


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains on every number of pairs and scores on fresh ones."""
    budget, process = BUDGETS[scale], OrnsteinUhlenbeck(2)
    world = LatentWorld(process, Spiral(), PRESET.noised, finite=True)
    runs = [
        Run(process.params(RHO), RHO, seed, samples=n, labels={"samples": n})
        for n in SAMPLES[scale]
        for seed in range(budget.seeds)
    ]
    rows = [m.row for m in runs_lib.study(world, runs_lib.learner(budget), runs, budget)]
    counts = list(SAMPLES[scale])
    values = [findings.mean(rows, "r2_hz", samples=n) for n in counts]
    figure = figures.lines(
        [figures.Line("spiral, SIGReg", counts, values, style.agent_color(0), marker="o")],
        title="Recovery against the number of pairs",
        x_label="distinct pairs",
        y_label="R²(h→z) on fresh pairs",
        log_x=True,
        x_ticks=counts if len(counts) < 8 else (),
    )
    good = values[-1] > values[0]
    claim = Claim(
        "most minus fewest pairs/r2_hz",
        "the theory assumes endless data",
        values[-1] - values[0],
        good,
        f"R² goes from {values[0]:.3f} with {counts[0]} pairs to {values[-1]:.3f} with "
        f"{counts[-1]}.",
    )
    return Finding(
        "How many pairs are needed",
        [claim],
        {"": Picture(figure, "R² against the number of pairs", "Scored on fresh pairs.")},
        rows,
        settings=runs_lib.settings(budget, rho=RHO, mixing="spiral"),
    )
