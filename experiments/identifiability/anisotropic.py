"""Latents of different speed: both are found while the fast one is less than twice as fast.

The threshold max K < 2 min K (appendix on slow feature analysis), swept: SIGReg, whitening and
AnInfoNCE beside the prediction from the transition operator and beside sequential SFA, which needs
distinct speeds. Cost at --scale=cpu: about two minutes on one core.
"""

import math
import pathlib

import jax
import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Picture
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, WEIGHTS, Run
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability import metrics, sfa, spectrum
from socialjepa_jax.identifiability.mixings import Parabola
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.report import figures, style

SLOW = 0.95
RATIOS = {"smoke": (1.0, 3.0), "cpu": (1.0, 1.5, 1.8, 2.2, 2.5, 3.0)}
RATIOS["gpu"] = RATIOS["paper"] = tuple(np.arange(1.0, 3.6, 0.25).tolist())
LOSSES: dict[str, tuple[str, ...]] = {"smoke": ("aninfonce",)}
LOSSES |= dict.fromkeys(("cpu", "gpu", "paper"), ("sigreg", "whiten", "aninfonce"))


# Of the threshold's rival, for whitening alone.
GAUSSIANITY = (
    "the rival that whitening prefers beyond the threshold, the slow latent's quadratic "
    "eigenfunction, is not Gaussian, and SIGReg refuses it"
)


def run(scale: str, out: pathlib.Path) -> Finding:
    """Sweeps the ratio of the two decay rates."""
    budget, process = BUDGETS[scale], OrnsteinUhlenbeck(2)
    world = LatentWorld(process, Parabola(), PRESET.noised)
    rows: findings.Rows = []
    for loss in LOSSES[scale]:
        runs = [
            Run(
                process.params((SLOW, SLOW**ratio)),
                SLOW,
                seed,
                WEIGHTS.get(loss, 0.5),
                labels={"ratio": ratio, "method": loss, "oracle_r2": _predicted(ratio)},
            )
            for ratio in RATIOS[scale]
            for seed in range(budget.seeds)
        ]
        for m in runs_lib.study(world, runs_lib.learner(budget, loss), runs, budget):
            slow, fast = np.asarray(metrics.r2(m.outcome.h, m.outcome.z, multioutput="raw"))
            # Theorem 3 is about isotropic pairs.
            row = {k: v for k, v in m.row.items() if not k.startswith("slack")}
            rows.append({**row, "r2_slow": float(slow), "r2_fast": float(fast)})
    rows += [_sequential(ratio) for ratio in RATIOS[scale]]
    return Finding(
        "Latents of different speed",
        _claims(rows),
        {"": _picture(rows)},
        rows,
        settings=runs_lib.settings(budget, slow_rho=SLOW, mixing="parabola"),
    )


def _predicted(ratio: float) -> float:
    """R2 of the fast latent in the two most correlated features; 0.5 at the tie."""
    gaussian, time = spectrum.copula_spectrum(2.0), -math.log(SLOW)
    return float(spectrum.oracle([gaussian] * 2, [time, ratio * time], 2).r2_per_latent[1])


def _sequential(ratio: float) -> dict:
    """xSFA of polynomials on the same world."""
    process, mixing = OrnsteinUhlenbeck(2), Parabola()
    world = LatentWorld(process, mixing)
    s = world.sample(world.params(process.params((SLOW, SLOW**ratio)), 0), jax.random.key(1), 5000)
    x, x_prime, z = (np.asarray(v, np.float64) for v in (s.x, s.x_prime, s.z))
    sources, _ = sfa.xsfa(x, x_prime, 2, degree=3, source_degree=6)
    slow, fast = np.asarray(metrics.r2(sources, z, multioutput="raw"))
    return {"ratio": ratio, "method": "xsfa", "r2_slow": slow, "r2_fast": fast}


def _picture(rows: findings.Rows) -> Picture:
    ratios = sorted(findings.distinct(rows, "ratio"))
    curves = [
        figures.Line(
            name,
            ratios,
            [findings.mean(rows, "r2_fast", ratio=r, method=name) for r in ratios],
            style.agent_color(k),
            marker="o",
        )
        for k, name in enumerate(findings.distinct(rows, "method"))
    ]
    fine = np.linspace(1.0, max(ratios), 100)
    curves.append(
        figures.Line(
            "predicted", fine, [_predicted(float(r)) for r in fine], "#1d2430", (0, (2, 2))
        )
    )
    figure = figures.lines(
        curves,
        title="The fast latent, and how much faster it decays",
        x_label="decay rate of the fast latent over the slow one's",
        y_label="R² of the fast latent",
    )
    return Picture(figure, "R² of the fast latent against the ratio of rates", "Two latents.")


def _claims(rows: findings.Rows) -> list[Claim]:
    claims = []
    for name in findings.distinct(rows, "method"):
        if name == "xsfa":
            continue
        some = findings.select(rows, method=name)
        below = np.mean([r["r2_fast"] for r in some if r["ratio"] < 2.0])
        above = np.mean([r["r2_fast"] for r in some if r["ratio"] > 2.0])
        good = bool(below > 0.8 and above < 0.2) if name != "aninfonce" else bool(above > 0.8)
        says = (
            "max K < 2 min K is necessary and sufficient"
            if name != "aninfonce"
            else "AnInfoNCE lifts the threshold"
        )
        claims.append(
            Claim(
                f"{name}/fast latent",
                says,
                float(above),
                good,
                f"R² of the fast latent is {below:.3f} below "
                f"the threshold on average and {above:.3f} above it.",
                because=GAUSSIANITY if name == "sigreg" else "",
            )
        )
    return claims
