"""Two latents behind four mixings: LeJEPA undoes each up to a rotation (figures 1 and 2).

Cost at --scale=cpu: about a minute and a half on one core.
"""

import pathlib

from experiments import findings, id_runs
from experiments.findings import Claim, Finding, Picture
from experiments.id_figures import clouds
from experiments.id_runs import BUDGETS, MIXINGS, PRESET, WEIGHTS, Run
from socialjepa_jax.data.latents import LatentWorld
from socialjepa_jax.identifiability.processes import OrnsteinUhlenbeck
from socialjepa_jax.report import tables

RHO = 0.95
REGULARIZERS: dict[str, tuple[str, ...]] = {"smoke": ("sigreg", "none")}
REGULARIZERS |= dict.fromkeys(("cpu", "gpu", "paper"), ("sigreg", "whiten", "infonce", "none"))


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains every mixing with every regulariser; plain alignment is the collapse control."""
    budget, process = BUDGETS[scale], OrnsteinUhlenbeck(2)
    rows, panels, z_N2 = [], [], None
    names = ("sinusoid", "realnvp") if scale == "smoke" else tuple(MIXINGS)
    for name in names:
        mixing = MIXINGS[name]
        world = LatentWorld(process, mixing, PRESET.noised)
        for regularizer in REGULARIZERS[scale]:
            runs = [
                Run(
                    process.params(RHO),
                    RHO,
                    seed,
                    WEIGHTS[regularizer],
                    labels={"mixing": name, "method": regularizer},
                )
                for seed in range(budget.seeds)
            ]
            objective = id_runs.learner(budget, regularizer, mixing=mixing)
            measured = id_runs.study(world, objective, runs, id_runs.for_mixing(budget, mixing))
            rows += [m.row for m in measured]
            if regularizer == "sigreg":
                best = measured[0].outcome
                z_N2 = best.z[:2000]
                panels.append([(f"{name}: x", best.x[:2000]), ("learnt h(x)", best.h[:2000])])
    assert z_N2 is not None
    panels[0].append(("latents z", z_N2))
    figure = clouds(panels, z_N2, title="LeJEPA undoes each mixing up to a rotation")
    caption = "Colour is the latents' angle, opacity their radius."
    return Finding(
        "Two latents, four mixings",
        _claims(rows),
        {"": Picture(figure, "Observations and learnt latents of four mixings", caption)},
        rows,
        [_table(rows), _degrees(rows)],
        id_runs.settings(budget, rho=RHO),
    )


def _claims(rows: findings.Rows) -> list[Claim]:
    claims = []
    for mixing in findings.distinct(rows, "mixing"):
        where = {"mixing": mixing, "method": "sigreg"}
        ours = findings.mean(rows, "r2_hz", **where)
        raw = findings.mean(rows, "r2_xz", **where)
        verdict = "agrees" if ours > 0.95 else "differs"
        claims.append(
            Claim(
                f"{mixing}/r2_hz",
                "recovered up to rotation (R² near 1)",
                ours,
                ours > 0.95,
                f"{verdict}: R²(h→z) {ours:.4f} where the observations themselves give {raw:.3f}.",
                findings.spread(rows, "r2_hz", **where),
            )
        )
    collapsed = max(r["trace_cov"] for r in findings.select(rows, method="none"))
    claims.append(
        Claim(
            "none/trace",
            "alignment alone collapses",
            collapsed,
            collapsed < 0.1,
            f"{'agrees' if collapsed < 0.1 else 'differs'}: largest trace of Cov(h) without a "
            f"regulariser is {collapsed:.2g} (2 would be white).",
        )
    )
    return claims


def _table(rows: findings.Rows) -> tables.Table:
    methods = findings.distinct(rows, "method")
    columns = [tables.Column(r, f"R² {r}", 4, "max") for r in methods]
    columns += [tables.Column("orth", "orthogonality error (sigreg)", 4)]
    body = []
    for mixing in findings.distinct(rows, "mixing"):
        cells = {r: findings.mean(rows, "r2_hz", mixing=mixing, method=r) for r in REGULARIZERS}
        cells["orth"] = findings.mean(rows, "orth_err_normalized", mixing=mixing, method="sigreg")
        body.append(tables.Row(mixing, cells))
    return tables.Table(columns, body, corner="mixing", caption="R²(h→z), mean over seeds.")


def _degrees(rows: findings.Rows) -> tables.Table:
    """Theorem 1 degree by degree, and its second half."""
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
