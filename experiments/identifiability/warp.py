"""Non-Gaussian i.i.d. latents: what is recovered is the first eigenfunction, not z (appendix F).

Langevin worlds of any shape; R2 of phi_1(z) from h beside R2 of z, and the non-affinity of phi_1
(theorem 2 as a curve). Cost at --scale=cpu: about two minutes on one core.
"""

import pathlib

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Picture
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, WEIGHTS, Run
from socialjepa_jax.dynamics.stationary import Langevin
from socialjepa_jax.identifiability import metrics, spectrum
from socialjepa_jax.identifiability.mixings import Sinusoid
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.report import figures, style

RHO = 0.9
ALPHAS = {"smoke": (2.0, 8.0), "cpu": (1.25, 2.0, 4.0, 8.0, 32.0)}
ALPHAS["gpu"] = ALPHAS["paper"] = (1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0)
LOSSES: dict[str, tuple[str, ...]] = {"smoke": ("whiten",)}
LOSSES |= dict.fromkeys(("cpu", "gpu", "paper"), ("whiten", "sigreg"))


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains every shape; whitening is what the theory is about, SIGReg what LeJEPA uses."""
    budget, process = BUDGETS[scale], Langevin(2, substeps=16)
    world = LatentWorld(process, Sinusoid(), PRESET.noised)
    rows: findings.Rows = []
    for loss in LOSSES[scale]:
        runs = [
            Run(
                process.params(RHO, alpha),
                RHO,
                seed,
                WEIGHTS[loss],
                labels={"alpha": alpha, "method": loss},
            )
            for alpha in ALPHAS[scale]
            for seed in range(budget.seeds)
        ]
        for m in runs_lib.study(world, runs_lib.learner(budget, loss), runs, budget):
            found = spectrum.gennorm_spectrum(m.row["alpha"])
            first = found.evaluate(1, m.outcome.z)
            phi = float(metrics.r2(m.outcome.h, first))
            rows.append({**m.row, "r2_phi": phi, "oracle_r2": 1.0 - found.non_affinity})
    return Finding(
        "Non-Gaussian latents are recovered up to their first eigenfunction",
        _claims(rows),
        {"": _picture(rows), "affinity": _affinity()},
        rows,
        settings=runs_lib.settings(budget, rho=RHO, mixing="sinusoid", process="Langevin"),
    )


def _picture(rows: findings.Rows) -> Picture:
    alphas = sorted(findings.distinct(rows, "alpha"))
    curves = []
    for k, loss in enumerate(findings.distinct(rows, "method")):
        for metric, name, dash in (("r2_phi", "phi1(z)", "-"), ("r2_hz", "z", (0, (4, 2)))):
            values = [1.0 - findings.mean(rows, metric, alpha=a, method=loss) for a in alphas]
            label = f"{loss}, {name}"
            curves.append(figures.Line(label, alphas, values, style.agent_color(k), dash, "o"))
    figure = figures.lines(
        curves,
        title="What h is linear in",
        x_label="shape alpha",
        y_label="1 - R² from h",
        log_x=True,
        log_y=True,
        x_ticks=alphas,
    )
    caption = "Below: better. The first eigenfunction is z itself for alpha = 2 only."
    return Picture(figure, "Unexplained share of z and of its first eigenfunction", caption)


def _affinity() -> Picture:
    alphas = 2.0 ** np.linspace(0.25, 5, 30)
    values = [spectrum.gennorm_spectrum(a, 3, 2000).non_affinity for a in alphas]
    curve = figures.Line("", alphas, np.maximum(values, 1e-9), style.agent_color(0))
    figure = figures.lines(
        [curve],
        title="Only the Gaussian has an affine first eigenfunction",
        x_label="shape alpha",
        y_label="1 - R² of phi1 on z",
        log_x=True,
        log_y=True,
        x_ticks=(1.25, 2, 4, 8, 16, 32),
    )
    return Picture(
        figure,
        "Non-affinity of the first eigenfunction against alpha",
        "From the Sturm-Liouville equation, without training: theorem 2.",
    )


def _claims(rows: findings.Rows) -> list[Claim]:
    claims = []
    for loss in findings.distinct(rows, "method"):
        some = [r for r in findings.select(rows, method=loss) if r["alpha"] != 2.0]
        phi, plain = (float(np.mean([r[m] for r in some])) for m in ("r2_phi", "r2_hz"))
        good = phi > plain
        claims.append(
            Claim(
                f"{loss}/R² of phi1(z) beyond that of z",
                "h is linear in the first eigenfunction (conjectured)",
                phi - plain,
                good,
                f"R² {phi:.4f} for phi1(z), {plain:.4f} for z, averaged over non-Gaussian shapes.",
                because=_where(some),
            )
        )
    return claims


def _where(rows: findings.Rows) -> str:
    gains = {
        alpha: findings.mean(rows, "r2_phi", alpha=alpha)
        - findings.mean(rows, "r2_hz", alpha=alpha)
        for alpha in findings.distinct(rows, "alpha")
    }
    listed = ", ".join(f"{gain:+.3f} at alpha {alpha:g}" for alpha, gain in gains.items())
    return (
        f"{listed}: light tails follow phi1; with heavy ones phi1 lives in the tails, of which "
        "batches hold a few points"
    )
