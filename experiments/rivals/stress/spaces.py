"""The spaces that the stress tests measure: every method's agents, pair by pair, kept by method.

Latents are those of `trained`, before and after training, for the nine pairs of tuned agents of
unlike cameras; principal components of the pixels are one pair. White latents are the control
without any structure: as many pairs, as many features and the same R2.

Shape key: A agents, N states, D features.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Rows
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import measures, trained
from experiments.rivals.tables.measures import Measured
from experiments.rivals.tables.reading import cell
from experiments.rivals.tables.trained import World
from socialjepa_jax import alignment
from socialjepa_jax.alignment.study import scores as study_scores
from socialjepa_jax.records import RowName
from socialjepa_jax.report.tables import Row

WHITE = "white"
FLOOR = 1e-8  # of W's singular values over the first: the last LayerNorm leaves one below it

Pairs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Space:
    """Latents of several agents, and the pairs that are measured.

    Attributes:
        row: trained, untrained or of pixels.
        latents: f32[A, N, D].
        pairs: (i, j), row by row of a grid.
    """

    row: RowName
    latents: np.ndarray
    pairs: list[tuple[int, int]]

    def grid(
        self, measure: Callable[[np.ndarray, np.ndarray, np.random.Generator], Measured]
    ) -> dict[str, Any]:
        """Measures every pair with draws of its own; `measures.grid` with the name of the row."""

        def of_pair(i: int, j: int) -> Measured:
            return measure(self.latents[i], self.latents[j], np.random.default_rng([i, j]))

        columns = len({j for _, j in self.pairs})
        return {"row": str(self.row), **measures.grid(self.pairs, of_pair, columns)}


def spaces(world: World, name: str) -> list[Space]:
    """Returns a method's trained and untrained agents, or the components of the pixels."""
    if name == PIXELS:
        return [Space(RowName.PIXEL_PCA, world.pixels, [(0, 1)])]
    found, pairs = world.trained(name), trained.cross_pairs()
    return [
        Space(RowName.TRAINED, found.final, pairs),
        Space(RowName.UNTRAINED, found.untrained, pairs),
    ]


def scores(
    linear_map: alignment.LinearMap, x: np.ndarray, y: np.ndarray, geometry: bool = True
) -> dict[str, float]:
    """Scores a map on test pairs [N, D]: r2, kappa of W and, if wanted, dsc and nos@10 by W^-1.

    The inverse has the paper's cut-off `HOW.kappa_max`. `kappa` is s1 over the last singular value
    above `FLOOR` s1.
    """
    found = study_scores.map_scores(linear_map, x, y, backs=("inverse",) * geometry)
    plain = {key: found[f"inverse/{key}"] for key in ("dsc", "nos@10") if geometry}
    kappa = dataclasses.replace(linear_map, kappa_max=1 / FLOOR).kappa_effective
    return {"r2": found["r2"], **plain, "kappa": kappa}


def averaged(draw: Callable[[], Mapping[str, float]], draws: int) -> Measured:
    """Returns the means of the scores of several draws."""
    found = [draw() for _ in range(draws)]
    return measures.exact({key: np.mean([each[key] for each in found]) for key in found[0]})


def white(count: int, dim: int, r2: float, rng: np.random.Generator) -> Pairs:
    """Draws pairs of white latents: y is x, shrunk, and white noise. Each [N, D].

    Args:
        count: N.
        dim: D.
        r2: share of the variance of y that x explains, in [0, 1]; other values are moved there.
        rng: of the draw.
    """
    share = float(np.clip(r2, 0.0, 1.0))
    x, noise = rng.normal(size=(2, count, dim))
    return x, np.sqrt(share) * x + np.sqrt(1 - share) * noise


def mean(rows: Rows, measure: str, **where: Any) -> float:
    """Returns the mean of a measure over pairs; of kappa the geometric one."""
    values = np.array(cell(rows, measure, **where)["pairs"])
    return float(np.exp(np.log(values).mean()) if measure == "kappa" else values.mean())


def kind(name: str) -> RowName:
    """Returns the kind of row that a name's own spaces have."""
    return RowName.PIXEL_PCA if name == PIXELS else RowName.TRAINED


def printed(cells: Mapping[str, Any]) -> Row:
    """Returns the last row of a table: what the paper has for smallNORB."""
    return Row("Social-JEPA, smallNORB", cells, ranked=False, kind="paper")


def names(rows: Rows) -> list[str]:
    """Returns the methods with trained agents, in their order."""
    return findings.distinct(findings.select(rows, row=RowName.TRAINED), "method")
