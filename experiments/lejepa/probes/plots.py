"""Plots and table of `lejepa_probes`."""

import numpy as np

from experiments import findings
from experiments.figures import Panel, boundaries, estimates, line_panels
from experiments.findings import Plot, Rows
from experiments.lejepa.probes.measurements import (
    DECAYS,
    DENSITIES,
    DIM,
    RADII,
    RIDGES,
    SIZES,
    TRAIN,
    VARIANCES,
    sample,
)
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table


def boundary_plot(rows: Rows) -> Plot:
    """Decision boundaries of logistic regression over training sets (figure 3)."""
    rng = np.random.default_rng(2)
    panels = {}
    for row in findings.select(rows, probe="logistic"):
        z_N2 = sample(rng, row["kind"], 100)
        label_N = rng.random(100) < 1 / (1 + np.exp(-z_N2 @ np.array([2.0, 2.0])))
        panels[row["kind"]] = (z_N2, label_N, row["lines"][:100])
    figure = boundaries(panels, title="Logistic regression on 100 points, many times")
    caption = "Figure 3: each line is the decision boundary of another training set."
    return Plot(figure, "Decision boundaries on isotropic and anisotropic embeddings", caption)


def estimate_plot(tasks: dict[str, dict[str, np.ndarray]]) -> Plot:
    """Estimates of least squares over training sets (figure 17)."""
    figure = estimates(tasks, title="Least squares, many training sets", axis_label="parameter")
    caption = "Figure 17. The caption there has the two the wrong way round."
    return Plot(figure, "Clouds of least-squares estimates for three tasks", caption)


def ridge_plot(rows: Rows) -> Plot:
    """Accuracy and cosine against the ridge (figure 18)."""
    panels = []
    for metric, name in (("accuracy", "accuracy"), ("cosine", "cosine to the true parameters")):
        curves = []
        for k, kind in enumerate(VARIANCES):
            for num, dash in zip(SIZES, ((0, (1, 1)), (0, (4, 2)), "-")):
                some = findings.select(rows, probe="ridge", kind=kind, samples=num)
                y = [r[metric] for r in some]
                label = f"{kind}, N={num}"
                curves.append(figures.Line(label, RIDGES, y, style.agent_color(k), dash))
        panels.append(Panel(name, curves))
    figure = line_panels(panels, x_label="ridge", y_label="mean over tasks", log_x=True)
    caption = "Figure 18: random linear tasks; only isotropic embeddings keep the direction."
    return Plot(figure, "Accuracy and cosine against the strength of the ridge", caption)


def bias_plot(rows: Rows) -> Plot:
    """Bias over the isotropic Gaussian's against radius or width (theorems 7 and 8)."""
    panels = []
    for probe in ("neighbours", "kernel"):
        base = [r["bias"] for r in findings.select(rows, probe=probe, density="isotropic Gaussian")]
        curves = [
            figures.Line(
                name,
                RADII,
                [
                    r["bias"] / b
                    for r, b in zip(findings.select(rows, probe=probe, density=name), base)
                ],
                style.PALETTE[k],
                marker="o",
            )
            for k, name in enumerate(DENSITIES)
        ]
        panels.append(Panel(probe, curves))
    figure = line_panels(
        panels,
        x_label="radius or width",
        y_label="bias over the Gaussian's",
        log_x=True,
        log_y=True,
    )
    caption = "Theorems 7 and 8: integrated squared bias for linear targets, at equal trace."
    return Plot(figure, "Integrated squared bias of densities against the radius", caption)


def work_table(rows: Rows) -> Table:
    """Test R² of every probe on both kinds of targets."""
    columns = [Column(f"{d:g}", f"j^-{d:g}" if d else "isotropic", 3, "max") for d in DECAYS]
    body = []
    for key in dict.fromkeys((r["targets"], r["task"], r["probe"]) for r in rows):
        some = findings.select(rows, **dict(zip(("targets", "task", "probe"), key)))
        cells = {f"{r['decay']:g}": r["r2"] for r in some}
        best = max(cells, key=cells.__getitem__)
        body.append(Row(", ".join(key), cells, ranked=False, note=f"best: {best}"))
    caption = (
        f"Test R² in {DIM} dimensions, {TRAIN} training samples, variances falling like j^-decay "
        "at equal trace. Targets are functions of the intrinsic coordinates or of the embedding."
    )
    return Table(columns, body, corner="targets, task, probe", caption=caption)
