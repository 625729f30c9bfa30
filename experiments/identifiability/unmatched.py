"""Matched encoder against a generic MLP on RealNVP mixings, by the number of latents.

The matched encoder is that of the scaling result (`id_scaling`), here without further tries.

Command: python -m experiments.reproduce --only=id_unmatched --out=runs/id
Cost at --scale=cpu: 2 minutes on one core.
Expected at --scale=cpu: R2 of the MLP .986, .977, .481, .286 for N = 2, 4, 8, 16; of the matched
encoder 1.000, .932, .872, 1.000, where the best of two seeds has 1.000 but at N = 8 (.886).
"""

import pathlib

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, SweepRun
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability.mixings import RealNVP
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.models.coupling import CouplingConfig
from socialjepa_jax.report import figures

RHO = 0.95
DIMS = {"smoke": (2,), "cpu": (2, 4, 8, 16), "gpu": (2, 4, 8, 16, 32, 64)}
DIMS["paper"] = DIMS["gpu"]
ENCODERS = {"matched": 1e-6, "mlp": 1e-3}  # encoder -> lambda of id_scaling, of id_2d


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains both encoders in every dimension."""
    budget = BUDGETS[scale]
    rows: Rows = []
    for dim in DIMS[scale]:
        process, mixing = OrnsteinUhlenbeck(dim), RealNVP(CouplingConfig(dim, 4))
        world = LatentWorld(process, mixing, PRESET.noised)
        for encoder, weight in ENCODERS.items():
            matched, spent = None, budget
            if encoder == "matched":
                matched, spent = mixing, runs_lib.for_mixing(budget, mixing)
            labels = {"N": dim, "encoder": encoder}
            setting = SweepRun(process.params(RHO), RHO, weight, labels=labels)
            objective = runs_lib.learner(budget, mixing=matched, inputs=dim)
            rows += runs_lib.trained_rows(world, objective, [setting], spent)
    return Finding(
        "A generic encoder on RealNVP mixings",
        [_claim(rows)],
        {"": _plot(rows)},
        rows,
        settings=runs_lib.settings(budget, rho=RHO, dimensions=list(DIMS[scale])),
    )


def _plot(rows: Rows) -> Plot:
    figure = figures.lines(
        [
            findings.curve(rows, "N", "r2_hz", "matched encoder", 0, encoder="matched"),
            findings.curve(rows, "N", "r2_hz", "MLP", 1, encoder="mlp"),
            findings.curve(rows, "N", "r2_xz", "observations", 2, encoder="mlp"),
        ],
        title="Matched and generic encoders",
        x_label="latent dimension N",
        y_label="R² to z",
        log_x=True,
        x_ticks=findings.distinct(rows, "N"),
    )
    return Plot(figure, "R² of matched and generic encoders against N", "SIGReg.")


def _claim(rows: Rows) -> Claim:
    worst = min(
        findings.mean(rows, "r2_hz", N=n, encoder="mlp")
        - findings.mean(rows, "r2_hz", N=n, encoder="matched")
        for n in findings.distinct(rows, "N")
    )
    return Claim(
        "mlp minus matched/r2_hz",
        "the matched encoder makes inversion easy",
        worst,
        worst < -0.01,
        f"the MLP's R² is lower by up to {-worst:.3f}.",
    )
