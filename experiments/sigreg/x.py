"""Unfolding the X distribution with every test inside SIGReg (LeJEPA, figures 5, 6 and 16).

Figure 5: an X in the plane has Gaussian marginals and covariance I, and only the right projection
shows that it is not Gaussian. Figures 6 and 16: 100 samples in up to 1,024 dimensions, the first
two coordinates on an X, are moved by Adam (rate 0.1, 1,520 steps as in the published script, which
also shifts the X by one) down SIGReg over 10 or 100 new random directions a step. VCReg, which is
blind to an X, is the control: where it dissolves the X too, the descent's own noise has done it,
not the test.

Command: python -m experiments.reproduce --only=sigreg_x --out=runs/sigreg
Cost at --scale=cpu: 2 minutes on one core.
Expected at --scale=cpu: every test but VCReg sees the X (98 to 661 null deviations at 45 degrees),
and it is gone after every descent, VCReg's too (correlation of squares within .10 of 0; 95 % of
Gaussian samples: .20). With 10 directions in 1,024 dimensions the plane ends at 11.7 null levels,
elsewhere at .1 to 1.7.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from experiments import findings
from experiments.figures import clouds
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.sigreg.runs import (
    TESTS,
    descend,
    plane_statistic,
    square_correlation,
    x_distribution,
)
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table

NUM = 100  # samples, as in figure 6
STEPS = {"smoke": 20, "cpu": 1520, "gpu": 1520, "paper": 1520}
Panels = tuple[tuple[int, int], ...]  # (dimension, slices)
PANELS: dict[str, Panels] = {"smoke": ((16, 4),)}
PANELS |= dict.fromkeys(("cpu", "gpu", "paper"), ((1024, 10), (128, 10), (128, 100), (1024, 100)))
SEEDS = {"smoke": 1, "cpu": 2, "gpu": 5, "paper": 1}  # of the first panel; the others have one
ANGLES = np.arange(0, 180, 3)  # degrees
CHANCE = 5.0  # null deviations; no test reaches them by chance
PLANE_SAMPLES, NULLS = 2000, 200  # figure 5: points on the X; Gaussian samples to compare with


def run(scale: str, out: pathlib.Path) -> Finding:
    """Scores directions of the plane, then descends from the X with every test."""
    scores = plane_scores(NULLS if scale != "smoke" else 20)
    chance, level = null_quantiles(1000 if scale != "smoke" else 50)
    rows: Rows = []
    plots = {"": _spikes(scores)}
    for dim, slices in PANELS[scale]:
        panels = [("start", np.asarray(_start(0, dim)[0]))]
        for name, statistic in TESTS.items():
            for seed in range(SEEDS[scale] if len(plots) == 1 else 1):
                start_ND, key = _start(seed, dim)
                end_ND, _ = descend(
                    start_ND, key, statistic=statistic, steps=STEPS[scale], num_slices=slices
                )
                rows.append(
                    {"test": name, "dim": dim, "slices": slices, "seed": seed}
                    | _plane_metrics(np.asarray(end_ND))
                )
                if seed == 0:
                    panels.append((name, np.asarray(end_ND)))
        plots[f"{dim}_{slices}"] = _unfolded(panels, dim, slices)
    claims = _spike_claims(scores) + _unfold_claims(rows, PANELS[scale], chance, level)
    settings = {"samples": NUM, "steps": STEPS[scale], "seeds": SEEDS[scale], "rate": 0.1}
    return Finding(
        "SIGReg unfolds an X",
        claims,
        plots,
        rows,
        [_table(rows, chance, level)],
        settings,
    )


def _start(seed: int, dim: int) -> tuple[jax.Array, jax.Array]:
    """The samples before descent, and the key of the descent."""
    start_key, key = jax.random.split(jax.random.key(seed))
    return x_distribution(start_key, NUM, dim, shift=1.0), key


def plane_scores(nulls: int) -> dict[str, np.ndarray]:
    """Standard scores [angles] of each test in the plane of an X.

    Mean and deviation are those of Gaussian samples of the same size.
    """
    radians_M = np.radians(ANGLES)
    directions_2M = jnp.asarray(np.stack([np.cos(radians_M), np.sin(radians_M)]), jnp.float32)
    u_NM = x_distribution(jax.random.key(0), PLANE_SAMPLES) @ directions_2M
    null_NM = jax.random.normal(jax.random.key(1), (PLANE_SAMPLES, nulls))
    scores = {}
    for name, statistic in TESTS.items():
        under_null = np.asarray(statistic(null_NM))
        scores[name] = (np.asarray(statistic(u_NM)) - under_null.mean()) / under_null.std()
    return scores


def null_quantiles(draws: int) -> tuple[float, float]:
    """95 % quantiles for Gaussian samples: of `square_correlation` and of `plane_statistic`."""
    z = jax.random.normal(jax.random.key(2), (draws, NUM, 2))
    correlations = [abs(square_correlation(np.asarray(one))) for one in z]
    levels = [plane_statistic(one) for one in z[:200]]
    return float(np.quantile(correlations, 0.95)), float(np.quantile(levels, 0.95))


def _plane_metrics(end_ND: np.ndarray) -> dict[str, float]:
    plane_N2 = end_ND[:, :2]
    return {
        "square_correlation": square_correlation(plane_N2),
        "plane_statistic": plane_statistic(jnp.asarray(plane_N2)),
        "other_plane_statistic": plane_statistic(jnp.asarray(end_ND[:, 2:4])),
        "mean": float(np.linalg.norm(plane_N2.mean(0))),
        "variance": float(plane_N2.var(0).mean()),
        "other_variance": float(end_ND[:, 2:].var(0).mean()),
    }


def _spikes(scores: dict[str, np.ndarray]) -> Plot:
    curves = [
        figures.Line(name, ANGLES, values / max(values.max(), CHANCE), style.agent_color(k))
        for k, (name, values) in enumerate(scores.items())
    ]
    figure = figures.lines(
        curves,
        title="Only the diagonals show the X",
        x_label="direction of the projection, degrees",
        y_label="score / its maximum",
        x_ticks=(0, 45, 90, 135, 180),
    )
    return Plot(
        figure,
        "Statistics of projections of an X against their direction",
        f"{PLANE_SAMPLES} points on an X, figure 5. Scores are in null deviations, each over its "
        f"maximum or {CHANCE:g}; VCReg's stays within chance.",
    )


def _unfolded(panels: list[tuple[str, np.ndarray]], dim: int, slices: int) -> Plot:
    first = panels[0][1]
    rows = [
        [(name if not at else f"{name}, 3-4", z[:, at : at + 2]) for name, z in panels]
        for at in (0, 2)
    ]
    figure = clouds(
        rows, first[:, :2] - 1.0, title=f"Samples after descent: D = {dim}, M = {slices}"
    )
    return Plot(
        figure,
        f"Coordinates 1-2 and 3-4 before and after descent, D={dim}, M={slices}",
        "Above coordinates 1 and 2, where the X was, below 3 and 4; colour is the arm of the X.",
    )


def _spike_claims(scores: dict[str, np.ndarray]) -> list[Claim]:
    claims = []
    for name, values in scores.items():
        at, peak = int(ANGLES[np.argmax(values)]), float(values.max())
        reason = "the spike is not at a diagonal, or within chance"
        if name == "VCReg":
            reason = "mean and variance are right in every direction"
        claims.append(
            Claim(
                f"{name}/spike",
                "a spike at the appropriate direction",
                peak,
                min(abs(at - 45), abs(at - 135)) <= 6 and peak > CHANCE,
                f"{peak:.1f} null deviations at {at} degrees.",
                because=reason,
            )
        )
    return claims


def _unfold_claims(rows: Rows, panels: Panels, chance: float, level: float) -> list[Claim]:
    """Claims on the X at figure 6's setting, and on the plane at all settings."""
    where = {"dim": panels[0][0], "slices": panels[0][1]}
    claims = []
    for name in TESTS:
        correlation = findings.mean(rows, "square_correlation", test=name, **where)
        claims.append(
            Claim(
                f"{name}/the X is gone",
                "the X is unfolded",
                correlation,
                abs(correlation) < chance,
                "correlation of the squares, 1 at the start; 95 % of Gaussian samples are below "
                f"{chance:.2f}.",
                findings.spread(rows, "square_correlation", test=name, **where),
            )
        )
    blind = findings.mean(rows, "square_correlation", test="VCReg", **where)
    claims.append(
        Claim(
            "control/a blind test keeps the X",
            "SIGReg captures the degenerate subspace",
            blind,
            abs(blind) >= chance,
            f"VCReg cannot see an X, and leaves a correlation of {blind:.2f}.",
            because="the noise of few new directions a step dissolves it unseen",
        )
    )
    for dim, slices in panels:
        plane = findings.mean(rows, "plane_statistic", test="Epps-Pulley", dim=dim, slices=slices)
        claims.append(
            Claim(
                f"Epps-Pulley/plane of the X after descent, D={dim}, M={slices}",
                "matches an isotropic Gaussian",
                plane,
                plane < level,
                "Epps-Pulley over the plane's directions in null levels; 95 % of Gaussian samples "
                f"are below {level:.2f}.",
                because="it looks Gaussian to the eye",
            )
        )
    return claims


def _table(rows: Rows, chance: float, level: float) -> Table:
    columns = (
        Column("square_correlation", "correlation of squares", 2),
        Column("plane_statistic", "statistic, plane of the X", 2),
        Column("other_plane_statistic", "statistic, coordinates 3-4", 2),
        Column("mean", "|mean| of the plane", 2),
        Column("variance", "variance, plane", 2),
        Column("other_variance", "variance, rest", 2),
    )
    body = []
    for dim, slices in dict.fromkeys((row["dim"], row["slices"]) for row in rows):
        for test in findings.distinct(rows, "test"):
            where = {"dim": dim, "slices": slices, "test": test}
            cells = {c.key: findings.mean(rows, c.key, **where) for c in columns}
            body.append(Row(f"{test}, D={dim}, M={slices}", cells))
    caption = (
        f"After descent, mean over seeds; statistics over their null level. 95 % of Gaussian "
        f"samples: correlation below {chance:.2f}, plane below {level:.2f}. Start: 1.00, shifted."
    )
    return Table(columns, body, corner="test", caption=caption)
