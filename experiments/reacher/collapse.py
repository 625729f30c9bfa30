"""The share of agents on DMC Reacher that collapse without batch normalisation.

The paper says that batch normalisation was critical: without it about 36 % of its runs collapsed to
outputs without variance. Here agents without it train under three conditions beside the same agents
with it; an agent has collapsed where the variance of its latents over held-out states, 1 for the
Gaussian that SIGReg asks for, is below `COLLAPSED`.

Prediction, written before the runs: none collapses, with or without it, since at lambda = 0.1
(1 - rho) a latent costs SIGReg more by its absence than it costs the alignment (`motion_phase`:
down to 0.012).

Command: python -m experiments.reproduce --only=reacher_collapse --out=runs/reacher
Cost at --scale=cpu: 24 agents of 15 CPU seconds, 7 CPU minutes after the images of reacher_ou.
Expected at --scale=cpu: 1 of 2 claims agree: no agent collapses. Without batch normalisation R2 of
the joints is 0.25 over all conditions, 0.51 with it.
"""

import pathlib

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.motion import pairs
from experiments.reacher.ou import weight
from experiments.reacher.runs import Condition
from socialjepa_jax import evaluation
from socialjepa_jax.config import Experiment
from socialjepa_jax.evaluation.readouts import readout_r2
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table

CONDITIONS = {
    "process, rho 0.5": Condition(rho=0.5, weight=weight(0.5)),
    "process, rho 0.9": Condition(rho=0.9, weight=weight(0.9)),
    "trajectories, stride 8": Condition(stride=8),
}
SEEDS = {"smoke": 1, "cpu": 4, "gpu": 16, "paper": 16}
STEPS = {"cpu": 600, "gpu": 39_000, "paper": 39_000}
FIRST, COLLAPSED, PAPER = 6_500, 0.01, 0.36


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains the agents of every condition, with and without batch normalisation."""
    rows = [
        row
        for name in CONDITIONS
        for normalized in (False, True)
        for row in measure(name, normalized, scale, out)
    ]
    return Finding(
        "DMC Reacher from pixels: collapse without batch normalisation",
        claims(rows),
        {"": plot(rows)},
        rows,
        [table(rows)],
        {"steps": STEPS.get(scale, 4), "agents of a setting": SEEDS[scale]},
    )


def experiment(name: str, normalized: bool, scale: str) -> Experiment:
    """Returns the experiment of a condition, its encoder with or without batch normalisation."""
    steps = pairs.lasting(STEPS[scale]) if scale in STEPS else {}
    normalize = {"objective__encoder__normalize": normalized}
    seeds = range(FIRST, FIRST + SEEDS[scale])
    return CONDITIONS[name].experiment(scale, seeds, **normalize, **steps)


def measure(name: str, normalized: bool, scale: str, out: pathlib.Path) -> Rows:
    """Returns the least variance of a latent and R2 of the joints, a row for each agent."""
    run = pairs.in_memory(experiment(name, normalized, scale), out / "cache")
    z_AND = evaluation.encode_states(run.parts.trainer.encode, run.train(), run.feed)
    states, split = run.dataset.states, run.split
    assert states is not None
    return [
        {"condition": name, "normalized": normalized, "seed": int(seed),
         "variance": round(float(z_ND[split.test].var(0).mean()), 6),
         "state": round(float(readout_r2(z_ND, states, split).mean()), 4)}
        for seed, z_ND in zip(run.chosen.agents.seeds, z_AND)
    ]  # fmt: skip


def share(rows: Rows, normalized: bool) -> float:
    """Returns the share of agents that have collapsed."""
    of = findings.select(rows, normalized=normalized)
    return float(np.mean([row["variance"] < COLLAPSED for row in of]))


def claims(rows: Rows) -> list[Claim]:
    """The paper's share, and the prediction."""
    plain, with_it = share(rows, False), share(rows, True)
    count = len(findings.select(rows, normalized=False))
    r2 = [findings.mean(rows, "state", normalized=known) for known in (False, True)]
    text = f"{plain:.0%} of {count} agents collapse without it and {with_it:.0%} with it; "
    text += f"R2 of the joints is {r2[0]:.3f} and {r2[1]:.3f}."
    return [
        Claim("without batch normalisation/collapsed", PAPER, plain, abs(plain - PAPER) <= 0.2,
              text),
        Claim("no agent collapses", "with or without it", max(plain, with_it),
              max(plain, with_it) == 0.0, text),
    ]  # fmt: skip


def table(rows: Rows) -> Table:
    """Variance and R2 by condition."""
    columns = [Column("variance", "variance"), Column("state", "R2 of the joints")]
    lines = []
    for name in CONDITIONS:
        for normalized in (False, True):
            of = findings.select(rows, condition=name, normalized=normalized)
            cells = {key: pairs.cell([row[key] for row in of]) for key in ("variance", "state")}
            lines.append(Row(f"{name}{'' if normalized else ', without'}", cells))
    return Table(columns, lines, corner="condition", caption="Means over agents.")


def plot(rows: Rows) -> Plot:
    """R2 of every agent over the variance of its latents."""
    lines = [
        figures.Line(
            "with batch normalisation" if known else "without",
            *zip(*[(row["variance"], row["state"]) for row in of]),
            style.agent_color(k), "", "o",
        )
        for k, known in enumerate((True, False))
        if (of := findings.select(rows, normalized=known))
    ]  # fmt: skip
    figure = figures.lines(lines, title="R² of the joints and variance of latents",
                           x_label="variance of a latent", y_label="R²")  # fmt: skip
    return Plot(figure, "R2 of the joints over the variance of latents, an agent a point",
                "An agent has collapsed where the variance is next to nothing.")  # fmt: skip
