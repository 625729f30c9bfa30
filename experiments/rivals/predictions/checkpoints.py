"""Every method at eight checkpoints, of `trained`: loss, agreement and kappa of W, and how they go.

The rows are those of `paradigms` with kappa of W. Correlations are Spearman's.
"""

from collections.abc import Mapping

import numpy as np
from scipy import stats

from experiments import findings
from experiments.findings import Rows
from experiments.rivals.predictions.agents import METHOD
from experiments.rivals.predictions.environments import FOLDER
from experiments.rivals.tables import measures, paradigms, trained
from experiments.rivals.tables.entrants import RIVALS
from experiments.rivals.tables.trained import HOW, World
from socialjepa_jax import evaluation

METHODS: Mapping[str, tuple[str, ...]] = {
    "smoke": (METHOD, "vicreg_masked"), "cpu": tuple(RIVALS), "gpu": tuple(RIVALS),
    "paper": tuple(RIVALS),
}  # fmt: skip
BETTER = {"r2": -1, "area": -1, "dsc": -1, "nos@10": 1}  # sign of the correlation with the loss
KEPT = ("step", "loss", *BETTER)  # of a checkpoint's row


def measured(world: World) -> Rows:
    """Returns the rows of all methods."""
    return [row for name in METHODS[world.scale] for row in of_method(world, name)]


def of_method(world: World, name: str) -> Rows:
    """Returns one row for each checkpoint of a method, the first of untrained agents."""

    def make() -> Rows:
        full = findings.select(paradigms.rows_of(world, name), row="checkpoint")
        latents = world.trained(name).latents
        return [
            {"part": "checkpoint", **{key: row[key] for key in KEPT}, "kappa": kappas(world, z)}
            for row, z in zip(full, latents, strict=True)
        ]

    return world.kept(FOLDER, name, make)


def kappas(world: World, z_AND: np.ndarray) -> list[list[float]]:
    """Returns the condition number of W of all pairs, [3, 3]."""
    maps = [
        evaluation.fit_map(HOW, z_AND[i], z_AND[j], world.split.train)
        for i, j in trained.cross_pairs()
    ]
    return paradigms.square([measures.kappa(each) for each in maps])


def methods(rows: Rows) -> list[str]:
    """Returns the methods that have rows, in their order."""
    return findings.distinct(rows, "method")


def array(rows: Rows, name: str, column: str) -> np.ndarray:
    """Returns a column over the checkpoints of trained agents."""
    found = [row[column] for row in findings.select(rows, method=name) if row["step"]]
    return np.array(found, float)


def last(rows: Rows, name: str, column: str) -> np.ndarray:
    """Returns the pairs [3, 3] of a measure at the last checkpoint."""
    return np.array(findings.select(rows, method=name)[-1][column], float)


def log_kappa(rows: Rows, name: str) -> np.ndarray:
    """Returns the decimal logarithm of kappa of all pairs."""
    return np.log10(last(rows, name, "kappa"))


def with_loss(rows: Rows, name: str, measure: str) -> float:
    """Returns Spearman's correlation of loss and a measure over checkpoints, means of agents."""
    loss = array(rows, name, "loss").mean(1)
    return _spearman(loss, array(rows, name, measure).mean((1, 2)))


def with_step(rows: Rows, name: str, measure: str) -> float:
    """Returns Spearman's correlation of step and a measure."""
    return _spearman(array(rows, name, "step"), array(rows, name, measure).mean((1, 2)))


def within_step(rows: Rows, name: str, measure: str) -> float:
    """Returns the mean over checkpoints of the correlation of loss and a measure over pairs.

    The loss of a pair is the mean of its agents'.
    """
    loss, found = array(rows, name, "loss"), array(rows, name, measure)
    count = found.shape[1]
    of_pair = (loss[:, :count, None] + loss[:, None, count:]) / 2
    each = [_spearman(a.ravel(), b.ravel()) for a, b in zip(of_pair, found, strict=True)]
    return float(np.mean(each))


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(stats.spearmanr(x, y).statistic)
