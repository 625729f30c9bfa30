"""Does the training loss tell how well the latents are recovered? (appendix "Loss Predictivity")

Takes the SIGReg runs that other experiments left in the same folder; trains the grid if there are
none. Cost: seconds.
"""

import pathlib

import numpy as np
from scipy import stats

from experiments.findings import Claim, Finding, Picture
from experiments.identifiability import grid, runs
from experiments.identifiability.figures import scatter

SOURCES = ("id_2d", "id_scaling", "id_grid")
CONVERGED = 0.9  # the paper looks at runs beyond this R2 only
LOSSES = ("loss", "alignment", "regularizer")


def run(scale: str, out: pathlib.Path) -> Finding:
    """Correlates the last losses with R2 among runs of one kind, and among converged ones."""
    rows = [
        r
        for r in runs.rows_of(SOURCES, out, scale, grid.run)
        if r.get("method", "sigreg") == "sigreg" and r.get("preset", "code") == "code"
    ]
    converged = [r for r in rows if r["r2_hz"] > CONVERGED]
    if len(converged) > 2:  # else there is nothing to restrict
        rows = converged
    r2 = np.array([r["r2_hz"] for r in rows])
    gap = np.array([_gap(r) for r in rows])
    source = np.array([r["experiment"] for r in rows])
    pictures = {}
    for name in LOSSES:
        values = np.array([r[name] for r in rows])
        pictures[name] = Picture(
            scatter(
                {n: (values[source == n], 1.0 - r2[source == n]) for n in dict.fromkeys(source)},
                title=f"Last {name} and what is not recovered",
                x_label=name,
                y_label="1 - R²(h→z)",
                log=True,
            ),
            f"One minus R² against {name}",
            "Each point is a run with SIGReg; R² above 0.9 only, as in the paper.",
        )
    correlation = {n: float(stats.spearmanr([r[n] for r in rows], -r2)[0]) for n in LOSSES}
    relative = float(stats.spearmanr(gap, -r2)[0])
    best = max(correlation, key=lambda n: correlation[n])
    agrees = best == "alignment" and correlation[best] > 0.5
    claims = [
        Claim(
            "alignment/rank correlation",
            "the alignment loss is the strongest single predictor",
            correlation["alignment"],
            agrees,
            "rank correlations with 1 - R² are "
            + ", ".join(f"{n} {c:.2f}" for n, c in correlation.items())
            + "; the loss's scale depends on rho and lambda, which differ between the runs.",
        ),
        Claim(
            "gap/rank correlation",
            "theory: the alignment in excess of (1 - rho) trace, over rho (1 - rho)",
            relative,
            relative > 0.8,
            f"D of theorem 3 has rank correlation {relative:.2f} with 1 - R².",
        ),
    ]
    return Finding(
        "Losses as predictors of recovery", claims, pictures, rows, settings={"runs": len(rows)}
    )


def _gap(row: dict) -> float:
    return float(row["D_bound"] / max(row["trace_cov"], 1e-9))
