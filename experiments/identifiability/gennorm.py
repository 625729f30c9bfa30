"""The latents' shape: recovery peaks at the Gaussian (theorem 2; appendix distribution sweep).

The published code's noise, which is not stationary, stands beside two stationary worlds with the
same marginals. Cost at --scale=cpu: about six minutes on one core.
"""

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Picture
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, MIXINGS, PRESET, WEIGHTS, Run
from socialjepa_jax.dynamics.stationary import Copula, Langevin, PublishedNoise
from socialjepa_jax.identifiability import metrics
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.report import figures, style

RHO = 0.95
ALPHAS = tuple(2.0**k for k in range(-3, 6))
PROCESSES: dict[str, Any] = {
    "published": PublishedNoise(2),
    "langevin": Langevin(2, substeps=16),
    "copula": Copula(2),
}
# (shapes, mixings, losses, processes)
SETS: dict[str, tuple] = {
    "smoke": ((1.0, 2.0), ("sinusoid",), ("sigreg",), ("published",)),
    "cpu": (
        (0.25, 0.5, 1.0, 2.0, 4.0, 16.0),
        ("spiral", "sinusoid"),
        ("sigreg", "whiten"),
        tuple(PROCESSES),
    ),
    "gpu": (ALPHAS, tuple(MIXINGS), ("sigreg", "whiten", "infonce"), tuple(PROCESSES)),
}
SETS["paper"] = SETS["gpu"]
AXIS = np.linspace(-3.0, 3.0, 100)
GRID = np.stack(np.meshgrid(AXIS, AXIS), -1).reshape(-1, 2)  # where the code scores


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains every shape, mixing, loss and process."""
    budget = BUDGETS[scale]
    alphas, mixings, losses, processes = SETS[scale]
    seeds = 1 if scale == "cpu" else budget.seeds
    rows: findings.Rows = []
    for kind in processes:
        process = PROCESSES[kind]
        for name in mixings:
            world = LatentWorld(process, MIXINGS[name], PRESET.noised)
            for loss in losses:
                labels = {"process": kind, "mixing": name, "method": loss}
                runs = [
                    Run(
                        process.params(RHO, alpha),
                        RHO,
                        seed,
                        WEIGHTS[loss],
                        labels={**labels, "alpha": alpha},
                    )
                    for alpha in alphas
                    for seed in range(seeds)
                ]
                objective = runs_lib.learner(budget, loss, mixing=MIXINGS[name])
                for m, one in zip(runs_lib.study(world, objective, runs, budget), runs):
                    params = world.mixing.init(jax.random.key(one.seed))
                    x = world.mixing.forward(params, jnp.asarray(GRID, jnp.float32))
                    grid_r2 = metrics.r2(m.encode(np.asarray(x)), GRID)
                    rows.append({**m.row, "r2_hz_grid": float(grid_r2)})
    pictures = {name: _picture(rows, name) for name in mixings}
    return Finding(
        "The shape of the latents' distribution",
        _claims(rows),
        pictures,
        rows,
        settings=runs_lib.settings(budget, seeds=seeds, rho=RHO),
    )


def _curve(rows: findings.Rows, metric: str, **where: Any) -> tuple[list[float], list[float]]:
    alphas = sorted(findings.distinct(rows, "alpha"))
    return alphas, [findings.mean(rows, metric, alpha=a, **where) for a in alphas]


def _picture(rows: findings.Rows, mixing: str) -> Picture:
    dashes: dict[str, style.Dash] = {
        "published": "-",
        "langevin": (0, (4, 2)),
        "copula": (0, (1, 1)),
    }
    curves = []
    for k, loss in enumerate(findings.distinct(rows, "method")):
        for kind in findings.distinct(rows, "process"):
            alphas, values = _curve(rows, "r2_hz_grid", mixing=mixing, method=loss, process=kind)
            label = f"{loss}, {kind}"
            curves.append(
                figures.Line(label, alphas, values, style.agent_color(k), dashes[kind], "o")
            )
    figure = figures.lines(
        curves,
        title=f"Recovery against the latents' shape, {mixing}",
        x_label="shape alpha (1 Laplace, 2 Gaussian, large uniform)",
        y_label="R²(h→z) on a grid",
        log_x=True,
        x_ticks=alphas,
        y_floor=0.0,
    )
    return Picture(
        figure,
        f"R² against alpha for the {mixing} mixing",
        "Scored on a grid of [-3, 3]², as the published code does.",
    )


def _claims(rows: findings.Rows) -> list[Claim]:
    claims = []
    for mixing in findings.distinct(rows, "mixing"):
        for loss in findings.distinct(rows, "method"):
            for kind in findings.distinct(rows, "process"):
                where = {"mixing": mixing, "method": loss, "process": kind}
                alphas, values = _curve(rows, "r2_hz_grid", **where)
                peak = alphas[int(np.nanargmax(values))]
                gauss = values[alphas.index(2.0)]
                good = peak == 2.0 or gauss > max(values) - 0.005
                claims.append(
                    Claim(
                        f"{mixing}/{loss}/{kind}/peak",
                        "R² peaks at alpha = 2",
                        peak,
                        good,
                        f"R² {max(values):.4f} at alpha {peak:g}, {gauss:.4f} at 2.",
                    )
                )
    return claims
