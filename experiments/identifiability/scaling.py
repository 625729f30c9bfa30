"""Latent dimension against three regularisers with the matched encoder (table 1, appendix tables).

The InfoNCE kernel that widens with the dimension stands beside the fixed one: does it cure what
fails? Dimensions above 32 want a GPU. Cost at --scale=cpu: a few minutes on one core.
"""

import dataclasses
import pathlib

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Picture
from experiments.identifiability import runs as runs_lib
from experiments.identifiability.runs import BUDGETS, PRESET, Run
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability.mixings import RealNVP
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.models.coupling import CouplingConfig
from socialjepa_jax.report import figures, style, tables
from socialjepa_jax.report.papers import identifiability as paper

RHO = 0.95
DIMS = {"smoke": (4,), "cpu": (2, 4, 8, 16, 32), "gpu": tuple(2**k for k in range(1, 11))}
DIMS["paper"] = DIMS["gpu"]
METHODS = {  # name -> (regulariser, lambda, kernel)
    "sigreg": ("sigreg", 1e-6, "fixed"),
    "whiten": ("whiten", 0.5, "fixed"),
    "infonce": ("infonce", 0.5, "fixed"),
    "infonce_scaled": ("infonce", 0.5, "scaled"),
}


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains every dimension with every method."""
    budget = dataclasses.replace(BUDGETS[scale], seeds={"smoke": 1, "cpu": 2}.get(scale, 5))
    rows: findings.Rows = []
    for dim in DIMS[scale]:
        process, mixing = OrnsteinUhlenbeck(dim), RealNVP(CouplingConfig(dim, 4))
        world = LatentWorld(process, mixing, PRESET.noised)
        for method in ("sigreg", "infonce_scaled") if scale == "smoke" else tuple(METHODS):
            regularizer, weight, kernel = METHODS[method]
            runs = [
                Run(process.params(RHO), RHO, seed, weight, labels={"N": dim, "method": method})
                for seed in range(budget.seeds)
            ]
            objective = runs_lib.learner(budget, regularizer, mixing=mixing, kernel=kernel)
            spent = runs_lib.for_mixing(budget, mixing)
            tries = runs_lib.TRIES[scale] if dim <= 32 else 1
            rows += [m.row for m in runs_lib.study(world, objective, runs, spent, tries=tries)]
    return Finding(
        "Latent dimension and regulariser",
        _claims(rows),
        {"": _picture(rows)},
        rows,
        [_table(rows)],
        runs_lib.settings(budget, rho=RHO, dimensions=list(DIMS[scale])),
    )


def _claims(rows: findings.Rows) -> list[Claim]:
    claims = []
    for dim in findings.distinct(rows, "N"):
        printed = paper.SCALING.row(str(dim))
        for method in ("sigreg", "whiten", "infonce"):
            if not findings.select(rows, N=dim, method=method):
                continue
            ours = findings.mean(rows, "r2_hz", N=dim, method=method)
            std = findings.spread(rows, "r2_hz", N=dim, method=method)
            expected = float(str(printed[method]))
            # The paper's own spreads: 5e-6 for the first two, up to 0.042 for InfoNCE.
            near = abs(ours - expected) < (0.05 if method == "infonce" else 5e-4)
            claims.append(
                Claim(
                    f"N={dim}/{method}/r2_hz",
                    expected,
                    ours,
                    near,
                    f"off by {ours - expected:+.2g}.",
                    std,
                    runs_lib.by_loss(findings.select(rows, N=dim, method=method)),
                )
            )
        align = findings.mean(rows, "alignment", N=dim, method="sigreg")
        printed_align = paper.SIGREG_ALIGNMENT[dim]
        near = abs(align - printed_align) < 0.003
        claims.append(
            Claim(
                f"N={dim}/sigreg/align",
                printed_align,
                align,
                near,
                f"(1 - rho²)/2 = {(1 - RHO**2) / 2:.4f} is "
                "the least value of a white encoder on pairs that are both noised.",
            )
        )
    fixed, scaled = (
        np.array(
            [findings.mean(rows, "r2_hz", N=n, method=m) for n in findings.distinct(rows, "N")]
        )
        for m in ("infonce", "infonce_scaled")
    )
    if np.isfinite(fixed).all():
        cured = bool(scaled.min() > 0.99)
        claims.append(
            Claim(
                "infonce, scaled kernel/least r2_hz",
                "per-dimension kernel tuning would presumably restore performance",
                float(scaled.min()),
                cured,
                f"least R² over all N is {scaled.min():.3f} "
                f"with sigma growing as sqrt(N/2) and {fixed.min():.3f} with sigma 1.",
                because="a wider kernel rewards codes that spread: their variance a dimension is "
                + ", ".join(
                    f"{findings.mean(rows, 'trace_cov', N=n, method='infonce_scaled') / n:.1f} "
                    f"at N = {n}"
                    for n in findings.distinct(rows, "N")
                ),
            )
        )
    return claims


def _picture(rows: findings.Rows) -> Picture:
    dims = findings.distinct(rows, "N")
    curves = [
        figures.Line(
            method.replace("_", ", kernel "),
            dims,
            [findings.mean(rows, "r2_hz", N=dim, method=method) for dim in dims],
            style.agent_color(k),
            marker="o",
        )
        for k, method in enumerate(findings.distinct(rows, "method"))
    ]
    curves.append(
        figures.Line(
            "InfoNCE, paper",
            dims,
            [float(str(paper.SCALING.row(str(dim))["infonce"])) for dim in dims],
            "#1d2430",
            (0, (1, 2)),
            "x",
        )
    )
    figure = figures.lines(
        curves,
        title="Recovery against the latent dimension",
        x_label="latent dimension N",
        y_label="R²(h→z)",
        log_x=True,
        x_ticks=dims,
    )
    caption = "R² of the latents from the encoding, pooled and in sample as in the paper."
    return Picture(figure, "R² against latent dimension for each method", caption)


def _table(rows: findings.Rows) -> tables.Table:
    columns = [tables.Column("r2_xz", "R²(x→z)")]
    columns += [tables.Column(m, m.replace("_", " "), 6, "max") for m in METHODS]
    columns += [
        tables.Column("align", "SIGReg: align", 4),
        tables.Column("orth", "orthogonality", 4),
        tables.Column("sigreg_loss", "SIGReg", 2),
    ]
    body = []
    for dim in findings.distinct(rows, "N"):
        cells = {m: findings.mean(rows, "r2_hz", N=dim, method=m) for m in METHODS}
        where = {"N": dim, "method": "sigreg"}
        cells["r2_xz"] = findings.mean(rows, "r2_xz", **where)
        cells["align"] = findings.mean(rows, "alignment", **where)
        cells["orth"] = findings.mean(rows, "orth_err_normalized", **where)
        cells["sigreg_loss"] = findings.mean(rows, "regularizer", **where)
        printed = paper.SCALING.row(str(dim))
        body.append(tables.Row(f"N = {dim}", cells))
        body.append(tables.Row("paper", printed, ranked=False, kind="paper"))
    return tables.Table(columns, body, corner="latents", caption="Mean over seeds.")
