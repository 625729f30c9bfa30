"""Latents of different speed: both are found while the fast one is less than twice as fast.

The threshold max K < 2 min K (appendix on slow feature analysis), swept: SIGReg, whitening and
AnInfoNCE beside the prediction from the transition operator and beside sequential SFA, which needs
distinct speeds.

Command: python -m experiments.reproduce --only=id_anisotropic --out=runs/id
Cost at --scale=cpu: 2 minutes on one core.
Expected at --scale=cpu: R2 of the fast latent falls from .982 on average below the threshold to
.197 above it for whitening, as predicted, but only from .980 to .968 for SIGReg, which refuses the
rival code: it is white but not Gaussian. AnInfoNCE keeps .998.
"""

import math
import pathlib

import jax
import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, WEIGHTS, SweepRun
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability import metrics, sfa, spectrum
from socialjepa_jax.identifiability.mixings import Parabola
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.report import figures

SLOW = 0.95
RATIOS = {"smoke": (1.0, 3.0), "cpu": (1.0, 1.5, 1.8, 2.2, 2.5, 3.0)}
RATIOS["gpu"] = RATIOS["paper"] = tuple(np.arange(1.0, 3.6, 0.25).tolist())
LOSSES: dict[str, tuple[str, ...]] = {"smoke": ("aninfonce",)}
LOSSES |= dict.fromkeys(("cpu", "gpu", "paper"), ("sigreg", "whiten", "aninfonce"))
GAUSSIANITY = (  # why SIGReg does not follow whitening's threshold
    "the rival that whitening prefers beyond the threshold, the slow latent's quadratic "
    "eigenfunction, is not Gaussian, and SIGReg refuses it"
)


def run(scale: str, out: pathlib.Path) -> Finding:
    """Sweeps the ratio of the two decay rates."""
    budget, process = BUDGETS[scale], OrnsteinUhlenbeck(2)
    world = LatentWorld(process, Parabola(), PRESET.noised)
    rows: Rows = []
    for loss in LOSSES[scale]:
        runs = [
            SweepRun(
                process.params((SLOW, SLOW**ratio)),
                SLOW,
                WEIGHTS[loss],
                labels={"ratio": ratio, "method": loss, "oracle_r2": _predicted(ratio)},
            )
            for ratio in RATIOS[scale]
        ]
        for trained in runs_lib.train(world, runs_lib.learner(budget, loss), runs, budget):
            h, z = trained.outcome.h, trained.outcome.z
            slow, fast = np.asarray(metrics.r2(h, z, multioutput="raw"))
            # Theorem 3 is about isotropic pairs.
            row = {k: v for k, v in trained.row.items() if not k.startswith("slack")}
            rows.append({**row, "r2_slow": float(slow), "r2_fast": float(fast)})
    rows += [_sequential(ratio) for ratio in RATIOS[scale]]
    return Finding(
        "Latents of different speed",
        _claims(rows),
        {"": _plot(rows)},
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


def _plot(rows: Rows) -> Plot:
    ratios = np.linspace(1.0, max(findings.distinct(rows, "ratio")), 100)
    predicted = [_predicted(float(ratio)) for ratio in ratios]
    figure = figures.lines(
        [
            *findings.curves(rows, "ratio", "r2_fast"),
            figures.Line("predicted", ratios, predicted, "#1d2430", (0, (2, 2))),
        ],
        title="The fast latent, and how much faster it decays",
        x_label="decay rate of the fast latent over the slow one's",
        y_label="R² of the fast latent",
    )
    return Plot(figure, "R² of the fast latent against the ratio of rates", "Two latents.")


def _claims(rows: Rows) -> list[Claim]:
    claims = []
    for loss in findings.distinct(rows, "method"):
        if loss == "xsfa":
            continue
        some = findings.select(rows, method=loss)
        below = np.mean([row["r2_fast"] for row in some if row["ratio"] < 2.0])
        above = np.mean([row["r2_fast"] for row in some if row["ratio"] > 2.0])
        statement, agrees = "max K < 2 min K is necessary and sufficient", below > 0.8 > 0.2 > above
        if loss == "aninfonce":
            statement, agrees = "AnInfoNCE lifts the threshold", above > 0.8
        claims.append(
            Claim(
                f"{loss}/fast latent",
                statement,
                float(above),
                bool(agrees),
                f"R² of the fast latent is {below:.3f} below the threshold on average and "
                f"{above:.3f} above it.",
                because=GAUSSIANITY if loss == "sigreg" else "",
            )
        )
    return claims
