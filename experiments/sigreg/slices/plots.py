"""Plots of `sigreg_slices`."""

from experiments import findings
from experiments.findings import Plot, Rows
from experiments.sigreg.slices.measurements import (
    ALTERNATIVES,
    DIM,
    LEVEL,
    MATCHED,
    SLICES,
    TESTS,
)
from socialjepa_jax.report import figures, style
from socialjepa_jax.sigreg import OFFICIAL


def smoothness_plot(rows: Rows) -> Plot:
    """Theorem 5's worst error against the number of directions."""
    curves = []
    for k, dim in enumerate((2, 3)):
        for alpha, dash in zip(
            dict.fromkeys(row["alpha"] for row in findings.select(rows, dim=dim)),
            ("-", (0, (4, 2)), (0, (1, 1))),
        ):
            label = f"D={dim}, alpha {alpha:g}"
            where = {"dim": dim, "alpha": alpha, "kind": "even"}
            curves.append(findings.curve(rows, "slices", "error", label, k, dash, **where))
    figure = figures.lines(
        curves,
        title="What M directions can miss",
        x_label="directions, M",
        y_label="largest mean square error",
        log_x=True,
        log_y=True,
    )
    caption = (
        "Theorem 5 (figure 15): the worst function in the unit ball of the Sobolev space of "
        "order alpha that vanishes on M evenly spread directions."
    )
    return Plot(figure, "Worst-case error against directions and smoothness", caption)


def sampling_plot(rows: Rows) -> Plot:
    """Relative error of SIGReg against the number of directions, by sampler."""
    curves = []
    for k, dim in enumerate(findings.distinct(rows, "dim")):
        for sampler, dash in (("gaussian", "-"), ("sobol", (0, (4, 2)))):
            label, where = f"{sampler}, D={dim}", {"dim": dim, "sampler": sampler}
            curves.append(findings.curve(rows, "slices", "error", label, k, dash, **where))
    figure = figures.lines(
        curves,
        title="Error of SIGReg over M directions",
        x_label="directions, M",
        y_label="relative root mean square error",
        log_x=True,
        log_y=True,
        x_ticks=findings.distinct(rows, "slices"),
    )
    caption = "Anisotropic Gaussian embeddings, against 32,768 directions (appendix D)."
    return Plot(figure, "Sampling error of SIGReg by sampler and dimension", caption)


def power_plot(rows: Rows) -> Plot:
    """Rejection rates against the number of samples."""
    curves = []
    for k, alternative in enumerate(ALTERNATIVES):
        for test, dash in zip(TESTS, ("-", (0, (4, 2)))):
            if test == "VCReg" and alternative not in ("null", "X in two coordinates"):
                continue
            label, where = f"{alternative}, {test}", {"test": test, "alternative": alternative}
            curves.append(findings.curve(rows, "samples", "power", label, k, dash, **where))
    figure = figures.lines(
        curves,
        title="Level and power of the largest statistic",
        x_label="samples, N",
        y_label="share of rejections",
        levels=[figures.Level("5 %", LEVEL, LEVEL, LEVEL, "#8A929C")],
        log_x=True,
        x_ticks=findings.distinct(rows, "samples"),
        height=4.6,
    )
    caption = (
        f"Theorem 2: {SLICES} random directions in {DIM} dimensions, critical value simulated."
    )
    return Plot(figure, "Rejection rates against the number of samples", caption)


def moment_plot(rows: Rows) -> Plot:
    """Epps-Pulley statistic of distributions on few points, before and after descent."""
    x = [row["matched"] for row in rows]
    curves = [
        figures.Line(
            label,
            x,
            [row[c] / OFFICIAL.null_level for row in rows],
            style.agent_color(k),
            marker="o",
        )
        for k, (label, c) in enumerate(
            (
                ("as they are", "epps_pulley"),
                ("after descent on 4 moments", "epps_pulley_after_moments"),
                ("after Jarque-Bera (ext.)", "epps_pulley_after_jarque_bera"),
                ("after Epps-Pulley", "epps_pulley_after_epps_pulley"),
            )
        )
    ]
    figure = figures.lines(
        curves,
        title="Few points with the right moments",
        x_label="moments that are the Gaussian's",
        y_label="Epps-Pulley / null level",
        log_y=True,
        x_ticks=x,
    )
    caption = f"Theorem 3: {MATCHED} samples on 2 to 6 points, and where descent takes them."
    return Plot(figure, "Epps-Pulley statistic of moment-matched distributions", caption)
