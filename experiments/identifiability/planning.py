"""Planning in the learnt space (theorem 4): control and straight lines against recovery.

LQR with costs written in the learnt coordinates, and straight lines looked up in a library of
states, for encoders that recover the latents well and badly.

Command: python -m experiments.reproduce --only=id_planning --out=runs/id
Cost at --scale=cpu: 1 minute on one core.
Expected at --scale=cpu: the best of 14 encoders (R2 .989) has an LQR regret of .013 and paths 1.03
times as long as those planned in the true latents; path length has rank correlation -.95 with R2.
"""

import pathlib

import numpy as np
from scipy import stats

from experiments.figures import scatter
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, SweepRun
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability import control, metrics, planning
from socialjepa_jax.identifiability.mixings import Spiral
from socialjepa_jax.identifiability.worlds import LatentWorld

RHO = 0.95
LAMBDAS = {"smoke": (1e-3,), "cpu": (1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 2e-2, 1e-1)}
LAMBDAS["gpu"] = LAMBDAS["paper"] = (1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1)


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains a range of lambdas on the spiral and plans with each encoder."""
    budget, process = BUDGETS[scale], OrnsteinUhlenbeck(2)
    world = LatentWorld(process, Spiral(), PRESET.noised)
    runs = [SweepRun(process.params(RHO), RHO, weight) for weight in LAMBDAS[scale]]
    rows: Rows = []
    for trained in runs_lib.train(world, runs_lib.learner(budget), runs, budget):
        z, h = trained.outcome.z, trained.outcome.h
        report = control.latent_control(control.EXAMPLE, metrics.fit_affine(z, h)[0])
        pairs = planning.random_pairs(len(z), 30)
        plans = planning.straight_line_plans(z, h, pairs)
        truth = planning.straight_line_plans(z, z, pairs)
        rows.append(
            {
                **trained.row,
                "gain_error": report.gain_error,
                "regret": report.regret,
                "length_ratio": float(plans.length_ratio.mean()),
                "length_ratio_true": float(truth.length_ratio.mean()),
            }
        )
    r2 = np.array([r["r2_hz"] for r in rows])
    plots = {}
    for key, label in (("length_ratio", "path length over chord"), ("gain_error", "gain error")):
        values = np.array([r[key] for r in rows])
        figure = scatter(
            {"spiral, SIGReg": (r2, values)},
            title=f"Planning and recovery: {label}",
            x_label="R²(h→z)",
            y_label=label,
        )
        plots[key] = Plot(figure, f"{label} against R²", "Each point is an encoder.")
    return Finding(
        "Planning in the learnt space",
        _claims(rows, r2),
        plots,
        rows,
        settings=runs_lib.settings(budget, rho=RHO, plans=30),
    )


def _claims(rows: Rows, r2: np.ndarray) -> list[Claim]:
    best = rows[int(r2.argmax())]
    excess = best["length_ratio"] / best["length_ratio_true"]
    claims = [
        Claim(
            "best encoder/path length over that of plans in the true latents",
            "1: indistinguishable from the oracle",
            excess,
            excess < 1.15,
            f"path length over chord {best['length_ratio']:.3f} at R² {best['r2_hz']:.3f}; plans "
            f"in the true latents have {best['length_ratio_true']:.3f}, as a library of that size "
            "is coarse.",
        ),
        Claim(
            "best encoder/LQR regret",
            "0 for an orthogonal map (theorem 4)",
            best["regret"],
            best["regret"] < 0.1,
            "relative excess cost of LQR designed in the learnt space; the map's orthogonality "
            f"error is {best['orth_err_normalized']:.3f}.",
        ),
    ]
    if len(rows) > 2:
        rank = float(stats.spearmanr(r2, [r["length_ratio"] for r in rows])[0])
        claims.append(
            Claim(
                "rank correlation of path length with R²",
                "cost decreases with R²",
                rank,
                rank < -0.5,
                f"over {len(rows)} encoders.",
            )
        )
    return claims
