"""Two latents behind four mixings: LeJEPA undoes each up to a rotation (figures 1 and 2).

The paper's text and its code differ. The figures follow the code; LeJEPA by the letter of the text
stands beside it (`sweep.PRESETS`).

Command: python -m experiments.reproduce --only=id_2d --out=runs/id
Cost at --scale=cpu: 5 minutes on one core.
Expected at --scale=cpu: R2 of SIGReg .983 to .986 on spiral, parabola and sinusoid, whose
observations have .02, .66 and .90, and .937 on RealNVP, where one seed ends at .9999 and the other
at .874. Without a regulariser the trace of Cov(h) is 1e-10.
"""

import pathlib

from experiments import findings
from experiments.figures import clouds
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.identifiability import runs, sweep
from experiments.identifiability.runs import (
    BUDGETS,
    MIXINGS,
    TRIES,
    WEIGHTS,
    SweepRun,
    TrainedRun,
)
from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck
from socialjepa_jax.identifiability.mixings import RealNVP
from socialjepa_jax.identifiability.worlds import LatentWorld
from socialjepa_jax.report import tables

RHO = 0.95
REGULARIZERS: dict[str, tuple[str, ...]] = {"smoke": ("sigreg", "none")}
REGULARIZERS |= dict.fromkeys(("cpu", "gpu", "paper"), ("sigreg", "whiten", "infonce", "none"))


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains every mixing with every regulariser; plain alignment is the collapse control."""
    rows: Rows = []
    panels = []
    for name in ("sinusoid", "realnvp") if scale == "smoke" else tuple(MIXINGS):
        for regularizer in REGULARIZERS[scale]:
            trained = _train(name, regularizer, "code", scale)
            rows += [run.row for run in trained]
            if regularizer == "sigreg":
                shown = trained[0].outcome
                panels.append([(f"{name}: x", shown.x[:2000]), ("learnt h(x)", shown.h[:2000])])
        if scale != "smoke":
            rows += [run.row for run in _train(name, "sigreg", "paper", scale)]
    z_N2 = shown.z[:2000]  # every world draws the same latents to be measured on
    panels[0].append(("latents z", z_N2))
    figure = clouds(panels, z_N2, title="Observations x and learnt latents h, by mixing")
    caption = "Colour is the latents' angle, opacity their radius."
    return Finding(
        "Two latents, four mixings",
        _claims(rows),
        {"": Plot(figure, "Observations and learnt latents of four mixings", caption)},
        rows,
        [_table(rows), _degrees(rows)],
        runs.settings(BUDGETS[scale], rho=RHO),
    )


def _train(name: str, regularizer: str, preset: str, scale: str) -> list[TrainedRun]:
    """All seeds of one mixing under one regulariser."""
    budget, process, mixing = BUDGETS[scale], OrnsteinUhlenbeck(2), MIXINGS[name]
    conventions, coupled = sweep.PRESETS[preset], isinstance(mixing, RealNVP)
    labels = {"mixing": name, "method": regularizer, "preset": preset}
    return runs.train(
        LatentWorld(process, mixing, conventions.noised),
        runs.learner(budget, regularizer, mixing=mixing, preset=conventions),
        [SweepRun(process.params(RHO), RHO, WEIGHTS[regularizer], labels=labels)],
        runs.for_mixing(budget, mixing),
        conventions,
        TRIES[scale] if coupled else 1,
    )


def _claims(every_row: Rows) -> list[Claim]:
    claims = []
    rows = findings.select(every_row, preset="code")
    for mixing in findings.distinct(rows, "mixing"):
        where = {"mixing": mixing, "method": "sigreg"}
        ours = findings.mean(rows, "r2_hz", **where)
        raw = findings.mean(rows, "r2_xz", **where)
        claims.append(
            Claim(
                f"{mixing}/r2_hz",
                "recovered up to rotation (R² near 1)",
                ours,
                ours > 0.95,
                f"R²(h→z) {ours:.4f} where the observations themselves give {raw:.3f}.",
                findings.spread(rows, "r2_hz", **where),
                runs.by_loss(findings.select(rows, **where)),
            )
        )
    alone = [r for r in findings.select(rows, method="none") if r["mixing"] != "realnvp"]
    collapsed = max(r["trace_cov"] for r in alone)
    claims.append(
        Claim(
            "none/trace",
            "alignment alone collapses",
            collapsed,
            collapsed < 0.1,
            f"largest trace of Cov(h) of an MLP without a regulariser is {collapsed:.2g} (2 would "
            "be white). Additive couplings keep volumes and cannot collapse.",
        )
    )
    return claims


def _table(every_row: Rows) -> tables.Table:
    rows = findings.select(every_row, preset="code")
    methods = findings.distinct(rows, "method")
    columns = [tables.Column(r, f"R² {r}", 4, "max") for r in methods]
    columns += [tables.Column("text", "R² sigreg, by the paper's text", 4)]
    columns += [tables.Column("orth", "orthogonality error (sigreg)", 4)]
    body = []
    for mixing in findings.distinct(rows, "mixing"):
        cells = {r: findings.mean(rows, "r2_hz", mixing=mixing, method=r) for r in methods}
        cells["text"] = findings.mean(every_row, "r2_hz", mixing=mixing, preset="paper")
        cells["orth"] = findings.mean(rows, "orth_err_normalized", mixing=mixing, method="sigreg")
        body.append(tables.Row(mixing, cells))
    caption = (
        "R²(h→z), mean over seeds. Text and code differ in the pairs' correlation, the scale of "
        "the alignment term, the MLP's depth, weight decay, and SIGReg's knots and views; lambda "
        "is the same."
    )
    return tables.Table(columns, body, corner="mixing", caption=caption)


def _degrees(every_row: Rows) -> tables.Table:
    """Variance by Hermite degree and errors of the recovered dynamics (theorem 1)."""
    rows = findings.select(every_row, preset="code")
    columns = [tables.Column(f"degree_{d}", f"degree {d}", 4) for d in range(1, 6)]
    columns += [
        tables.Column("transition_error", "||A - rho I|| / sqrt 2", 4),
        tables.Column("noise_error", "||S - (1 - rho²) I|| / sqrt 2", 4),
    ]
    body = []
    for mixing in findings.distinct(rows, "mixing"):
        cells = {c.key: findings.mean(rows, c.key, mixing=mixing, method="sigreg") for c in columns}
        body.append(tables.Row(mixing, cells))
    caption = (
        "SIGReg. Share of h's variance at each Hermite degree of z, and how far the dynamics "
        "h' = A h + noise of covariance S are from those of the latents."
    )
    return tables.Table(columns, body, corner="mixing", caption=caption)
