"""Predictions on the moving world, judged on the stored rows; their figure and table."""

import math
from collections.abc import Sequence

import numpy as np

from experiments import findings
from experiments.findings import Claim, Plot, Rows
from experiments.motion import pairs
from socialjepa_jax.records import RowName
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Cell, Column, Row, Table

# What every agent (of "W": every pair) has at least, or at most.
AT_LEAST = {
    **{name: {"state": 0.9, "W": 0.9, "features": 0.9}
       for name in ("lejepa", "vicreg", "barlow", "infonce")},
    "simclr": {"features": 0.9},
    "labels": {"state": 0.95, "W": 0.9, "features": 0.9},
    "lejepa_vit": {"features": 0.5},
}  # fmt: skip
AT_MOST = {
    "simclr": {"state": 0.9, "W": 0.9},
    "autoencoder": {"state": 0.5, "W": 0.5, "features": 0.9},
    "mae": {"state": 0.5, "W": 0.7, "features": 0.9},
    "ijepa": {"state": 0.5, "W": 0.7, "features": 0.9},
}
CURVED, EXPLAINED = ("vicreg", "barlow"), 0.9
SUBJECTS = {
    "state": ("code", "state", "R2 of the state"),
    "W": ("code", "r2", "R2 of W"),
    "features": ("features", "state", "R2 of the state in the encoder's output"),
}


def values(rows: Rows, name: str, space: str, key: str, row: str = RowName.TRAINED) -> np.ndarray:
    """Returns a measure of every pair, one column for each of its agents: f64[P, 1 or 2]."""
    found = findings.values(rows, key, method=name, row=row, space=space)
    return np.array([np.atleast_1d(each) for each in found], float)


def claims(rows: Rows) -> list[Claim]:
    """Judges the predictions of every method that was trained, by the worst agent or pair."""
    bounded = [
        _claim(rows, name, subject, bound, least)
        for name in names(rows)
        for bounds, least in ((AT_LEAST, True), (AT_MOST, False))
        for subject, bound in bounds.get(name, {}).items()
    ]
    return bounded + [_curved(rows, name) for name in names(rows) if name in CURVED]


def _curved(rows: Rows, name: str) -> Claim:
    """Polynomials of degree two of the state explain the codes."""
    linear, curved = np.moveaxis(values(rows, name, "code", "explained"), -1, 0)
    return Claim(
        f"{name}/curved",
        f"degree two of the state explains at least {EXPLAINED} of the code",
        float(curved.min()),
        bool(curved.min() >= EXPLAINED),
        f"the mean is {curved.mean():.3f}, of degree one {linear.mean():.3f}.",
        float(curved.mean(1).std()),
    )


def _claim(rows: Rows, name: str, subject: str, bound: float, least: bool) -> Claim:
    space, key, of = SUBJECTS[subject]
    found = values(rows, name, space, key)
    worst = float(found.min() if least else found.max())
    side = "least" if least else "most"
    return Claim(
        f"{name}/{subject}",
        f"{of} is at {side} {bound}",
        worst,
        worst >= bound if least else worst <= bound,
        f"the {'least' if least else 'greatest'} is {worst:.3f}, the mean {found.mean():.3f}.",
        float(found.mean(1).std()),
    )


def names(rows: Rows) -> list[str]:
    """Returns the methods that were trained, in their order."""
    return findings.distinct(findings.select(rows, row=RowName.TRAINED), "method")


def plot(rows: Rows) -> Plot:
    """R2 of the state in code and features and R2 of W, of every method; pixels as the last."""
    found = names(rows)
    pixels = (*findings.distinct(findings.select(rows, row=RowName.PIXEL_PCA), "method"),)
    series = [
        figures.BarSeries(
            label,
            [float(values(rows, name, space, key).mean()) for name in found]
            + [float(values(rows, name, space, key, RowName.PIXEL_PCA).mean()) for name in pixels],
            style.agent_color(index),
        )
        for index, (label, space, key) in enumerate(
            (("state, code", "code", "state"), ("state, encoder's output", "features", "state"),
             ("W between codes", "code", "r2"))
        )
    ]  # fmt: skip
    figure = figures.bars(
        [name.replace(" ", "\n") for name in (*found, *pixels)], series,
        title="R² on held-out states", y_label="R²", width=1.5 * style.FULL_WIDTH, height=3.4,
    )  # fmt: skip
    return Plot(figure, "R2 of the state and of W for every method on the moving world",
                "Means over pairs of agents; the first methods see pairs.")  # fmt: skip


def table(rows: Rows) -> Table:
    """The measures of trained agents with intervals over pairs, and those of the controls."""
    columns = [
        Column("state", "state, code"),
        Column("r2", "W, codes"),
        Column("features", "state, encoder"),
        Column("W", "W, encoders"),
        Column("rankme", "RankMe", digits=1),
        Column("untrained", "state, encoder untrained"),
        Column("mismatched", "W, wrong pairs"),
        Column("images", "thousand images a CPU second", digits=1),
    ]
    lines = [Row(name, _cells(rows, name, RowName.TRAINED)) for name in names(rows)]
    lines += [
        Row(name, _cells(rows, name, RowName.PIXEL_PCA), kind="control", ranked=False)
        for name in findings.distinct(findings.select(rows, row=RowName.PIXEL_PCA), "method")
    ]
    return Table(columns, lines, corner="method",
                 caption="Means over pairs of agents with 95 % t-intervals.")  # fmt: skip


def _cells(rows: Rows, name: str, row: str) -> dict[str, Cell]:
    def cell(space: str, key: str, row: str = row) -> Cell:
        found = values(rows, name, space, key, row).mean(1) if _has(rows, name, row) else ()
        return _interval(found)

    cells = {
        "state": cell("code", "state"),
        "r2": cell("code", "r2"),
        "features": cell("features", "state"),
        "W": cell("features", "r2"),
        "rankme": cell("features", "rankme"),
        "untrained": cell("features", "state", RowName.UNTRAINED),
        "mismatched": cell("code", "r2", RowName.MISMATCHED),
    }
    cost = findings.select(rows, method=name, row="cost")
    return cells | ({"images": cost[0]["images_per_second"] / 1000} if cost else {})


def _has(rows: Rows, name: str, row: str) -> bool:
    return bool(findings.select(rows, method=name, row=row))


def _interval(numbers: Sequence[float] | np.ndarray) -> Cell:
    """Returns a cell: an interval, one number, or nothing."""
    if len(numbers) > 1:
        return pairs.cell(list(numbers))
    return float(numbers[0]) if len(numbers) and math.isfinite(numbers[0]) else None
