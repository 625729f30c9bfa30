"""R2 predicted before training from the transition operator's spectrum, against trained runs.

Takes the runs over shape (`id_warp`), anisotropy (`id_anisotropic`) and encoder dimension
(`id_dimension`) that are in the same folder; trains the last if there are none. Cost: seconds.
"""

import pathlib

import numpy as np

from experiments.findings import Claim, Finding, Picture, Rows, distinct, select
from experiments.identifiability import dimension, runs
from experiments.identifiability.figures import scatter

SOURCES = {"id_warp": "r2_hz", "id_anisotropic": "r2_fast", "id_dimension": "r2_hz"}


def run(scale: str, out: pathlib.Path) -> Finding:
    """Compares prediction and training for whitening (the theory's learner) and SIGReg."""
    rows: Rows = [
        r
        for r in runs.rows_of(tuple(SOURCES), out, scale, _fallback)
        if "oracle_r2" in r and r["method"] in ("whiten", "sigreg")
    ]
    for row in rows:
        row["trained_r2"] = row[SOURCES[row["experiment"]]]
    claims, groups = [], {}
    for loss in ("whiten", "sigreg"):
        some = select(rows, method=loss)
        if not some:
            continue
        predicted, trained = (np.array([r[k] for r in some]) for k in ("oracle_r2", "trained_r2"))
        groups[loss] = (predicted, trained)
        error = float(np.abs(predicted - trained).mean())
        good = error < 0.05
        claims.append(
            Claim(
                f"{loss}/mean absolute error of the prediction",
                "theory: alignment under whitening extracts the slowest eigenfunctions",
                error,
                good,
                f"mean |predicted - trained| R² over "
                f"{len(some)} runs, worst {np.abs(predicted - trained).max():.3f}.",
                because=_where(some),
            )
        )
    figure = scatter(
        groups,
        title="R² predicted from the spectrum, and trained",
        x_label="predicted R²",
        y_label="trained R²",
        diagonal=True,
    )
    caption = "Over shape (R² to z), anisotropy (R² of the fast latent) and encoder dimension."
    return Finding(
        "Recovery predicted before training",
        claims,
        {"": Picture(figure, "Trained against predicted R²", caption)},
        rows,
        settings={"runs": len(rows)},
    )


def _where(rows: Rows) -> str:
    """Which runs the prediction misses, and what it leaves out."""
    error = {
        name: np.abs([r["oracle_r2"] - r["trained_r2"] for r in select(rows, experiment=name)])
        for name in distinct(rows, "experiment")
    }
    listed = ", ".join(f"{e.mean():.3f} in {name}" for name, e in error.items())
    missing = (
        "SIGReg asks for more than white codes, and later eigenfunctions are not Gaussian"
        if rows[0]["method"] == "sigreg"
        else "next to a threshold the two best codes differ little in loss, and training is short"
    )
    return f"{listed}; {missing}"


def _fallback(scale: str, out: pathlib.Path) -> Finding:
    finding = dimension.run(scale, out)
    for row in finding.rows:
        row["experiment"] = "id_dimension"
    return finding
