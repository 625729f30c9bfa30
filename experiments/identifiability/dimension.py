"""Encoders with fewer or more outputs than there are latents, beside the operator's prediction.

Cost at --scale=cpu: about two minutes on one core.
"""

import math
import pathlib

from experiments import findings
from experiments.findings import Claim, Finding, Picture
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, WEIGHTS, Run
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability import spectrum
from socialjepa_jax.identifiability.mixings import Sinusoid
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.report import figures, style

RHO = 0.95
OUTPUTS = {"smoke": (1,), "cpu": (1, 2, 3, 4), "gpu": (1, 2, 3, 4, 6, 8)}
OUTPUTS["paper"] = OUTPUTS["gpu"]
LOSSES: dict[str, tuple[str, ...]] = {"smoke": ("whiten",)}
LOSSES |= dict.fromkeys(("cpu", "gpu", "paper"), ("whiten", "sigreg"))


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains every number of outputs on two latents."""
    budget, process = BUDGETS[scale], OrnsteinUhlenbeck(2)
    world = LatentWorld(process, Sinusoid(), PRESET.noised)
    gaussian, time = spectrum.copula_spectrum(2.0), -math.log(RHO)
    rows: findings.Rows = []
    for outputs in OUTPUTS[scale]:
        predicted = spectrum.oracle([gaussian] * 2, [time] * 2, outputs)
        for loss in LOSSES[scale]:
            labels = {
                "outputs": outputs,
                "method": loss,
                "oracle_r2": predicted.r2,
                "oracle_correlation": float(predicted.eigenvalues.mean()),
            }
            runs = [
                Run(process.params(RHO), RHO, seed, WEIGHTS[loss], labels=labels)
                for seed in range(budget.seeds)
            ]
            objective = runs_lib.learner(budget, loss, outputs=outputs)
            rows += [m.row for m in runs_lib.study(world, objective, runs, budget)]
    return Finding(
        "Encoder dimension below and above the true one",
        _claims(rows),
        {"": _picture(rows)},
        rows,
        settings=runs_lib.settings(budget, rho=RHO, latents=2, mixing="sinusoid"),
    )


def _picture(rows: findings.Rows) -> Picture:
    outputs = findings.distinct(rows, "outputs")
    curves = [
        figures.Line(
            loss,
            outputs,
            [findings.mean(rows, "r2_hz", outputs=n, method=loss) for n in outputs],
            style.agent_color(k),
            marker="o",
        )
        for k, loss in enumerate(findings.distinct(rows, "method"))
    ]
    predicted = [findings.mean(rows, "oracle_r2", outputs=n) for n in outputs]
    curves.append(figures.Line("predicted", outputs, predicted, "#1d2430", (0, (2, 2)), "x"))
    figure = figures.lines(
        curves,
        title="Two latents, any number of outputs",
        x_label="outputs of the encoder",
        y_label="R²(h→z)",
        x_ticks=outputs,
    )
    return Picture(figure, "R² against the encoder's outputs", "Two latents; the rest is excess.")


def _claims(rows: findings.Rows) -> list[Claim]:
    claims = []
    for outputs in findings.distinct(rows, "outputs"):
        where = {"outputs": outputs, "method": "whiten"}
        ours, predicted = (findings.mean(rows, m, **where) for m in ("r2_hz", "oracle_r2"))
        good = abs(ours - predicted) < 0.05
        claims.append(
            Claim(
                f"outputs={outputs}/whiten/r2_hz",
                predicted,
                ours,
                good,
                f"theory, from the operator's spectrum, says {predicted:.3f}.",
                findings.spread(rows, "r2_hz", **where),
            )
        )
    return claims
