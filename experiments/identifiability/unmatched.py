"""A generic MLP on RealNVP mixings: how much of the scaling result is the matched encoder's?

Cost at --scale=cpu: about two minutes on one core.
"""

import pathlib

from experiments import findings
from experiments.findings import Claim, Finding, Picture
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, Run
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability.mixings import RealNVP
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.models.coupling import CouplingConfig
from socialjepa_jax.report import figures, style

RHO = 0.95
DIMS = {"smoke": (2,), "cpu": (2, 4, 8, 16), "gpu": (2, 4, 8, 16, 32, 64)}
DIMS["paper"] = DIMS["gpu"]
ENCODERS = {"matched": 1e-6, "mlp": 1e-3}  # lambda of the scaling and of the 2-D experiments


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains both encoders in every dimension."""
    budget = BUDGETS[scale]
    rows: findings.Rows = []
    for dim in DIMS[scale]:
        process, mixing = OrnsteinUhlenbeck(dim), RealNVP(CouplingConfig(dim, 4))
        world = LatentWorld(process, mixing, PRESET.noised)
        for encoder, weight in ENCODERS.items():
            objective = runs_lib.learner(
                budget, mixing=mixing if encoder == "matched" else None, inputs=dim
            )
            runs = [
                Run(process.params(RHO), RHO, seed, weight, labels={"N": dim, "encoder": encoder})
                for seed in range(budget.seeds)
            ]
            spent = runs_lib.for_mixing(budget, mixing) if encoder == "matched" else budget
            rows += [m.row for m in runs_lib.study(world, objective, runs, spent)]
    dims = findings.distinct(rows, "N")
    curves = [
        figures.Line(
            name,
            dims,
            [findings.mean(rows, metric, N=n, encoder=encoder) for n in dims],
            style.agent_color(k),
            marker="o",
        )
        for k, (name, metric, encoder) in enumerate(
            [
                ("matched encoder", "r2_hz", "matched"),
                ("MLP", "r2_hz", "mlp"),
                ("observations", "r2_xz", "mlp"),
            ]
        )
    ]
    figure = figures.lines(
        curves,
        title="Matched and generic encoders",
        x_label="latent dimension N",
        y_label="R² to z",
        log_x=True,
        x_ticks=dims,
    )
    worst = min(
        findings.mean(rows, "r2_hz", N=n, encoder="mlp")
        - findings.mean(rows, "r2_hz", N=n, encoder="matched")
        for n in dims
    )
    good = worst < -0.01
    claim = Claim(
        "mlp minus matched/r2_hz",
        "the matched encoder makes inversion easy",
        worst,
        good,
        f"the MLP's R² is lower by up to {-worst:.3f}.",
    )
    return Finding(
        "A generic encoder on RealNVP mixings",
        [claim],
        {"": Picture(figure, "R² of matched and generic encoders against N", "SIGReg.")},
        rows,
        settings=runs_lib.settings(budget, rho=RHO, dimensions=list(dims)),
    )
