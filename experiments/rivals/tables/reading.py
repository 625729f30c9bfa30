"""Rows of the tables, read: cells, a method's row, means, gains, equal work, orders of methods."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from experiments import findings
from experiments.findings import Rows
from experiments.rivals.tables import measures
from experiments.rivals.tables.entrants import RIVALS
from socialjepa_jax.records import RowName
from socialjepa_jax.report.tables import Interval


def cell(rows: Rows, measure: str, **where: Any) -> dict[str, Any]:
    """Returns a measure's cell, as `measures.grid` makes it, of the only row with these values."""
    (row,) = findings.select(rows, **where)
    found: dict[str, Any] = row[measure]
    return found


def row_of(rows: Rows, name: str, row: str = RowName.TRAINED) -> dict[str, Any]:
    """Returns a method's only row of a kind."""
    return findings.select(rows, method=name, row=row)[0]


def mean(rows: Rows, name: str, measure: str, row: str = RowName.TRAINED) -> float:
    """Returns the mean of a measure over pairs."""
    return float(np.mean(row_of(rows, name, row)[measure]["pairs"]))


def at_equal_work(rows: Rows, name: str) -> dict[str, Any]:
    """Returns a method's last checkpoint that costs no more than the cheapest rival's whole run."""

    def flops(name: str, step: int) -> float:
        return float(row_of(rows, name, "cost")["flops"]) * step

    points = {each: findings.select(rows, method=each, row="checkpoint") for each in RIVALS}
    budget = min(flops(each, found[-1]["step"]) for each, found in points.items())
    return [row for row in points[name] if flops(name, row["step"]) <= budget][-1]


def spearman(x: Mapping[str, float], y: Mapping[str, float]) -> float:
    """Returns the rank correlation of two numbers over methods."""
    return float(stats.spearmanr(list(x.values()), [y[name] for name in x]).statistic)


def gain(rows: Rows, name: str, measure: str) -> Interval:
    """Returns trained less untrained, paired, with its interval."""
    return measures.interval(
        row_of(rows, name)[measure], row_of(rows, name, RowName.UNTRAINED)[measure]
    )
