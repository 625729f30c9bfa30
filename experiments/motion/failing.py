"""Worlds in which agents must not find the whole state, each the clean world with one change.

The predictions below were written before the run, after a prototype with other seeds and another
learning rate. D = 3 outputs go to the three slowest functions of the image, so a latent is lost
where three others are slower. Rates are correlations of successive moments.

cube: an image shows the heading modulo 90 degrees. The slowest such function has the rate 0.73 and
an R2 of 0.25 with the heading; the squares and the product of x and y, at 0.81, are slower, so the
third output is one of these and the heading is lost. Which one differs between agents: R2 of W
falls, but less than R2 of the state.

anisotropic: x, y and heading at rho = 0.98, 0.9 and 0.7. The second and third Hermite polynomials
of x have the rates 0.96 and 0.94, above y and heading, so the heading is lost and y is held in part
(a code of x alone is far from Gaussian, which SIGReg resists). Both agents lose the same: R2 of W
stays high, and alone would mislead.

pool_2000: 2,000 pairs are seen 64 times each. The encoder memorises them; no latent is lost, but R2
of the state, of the heading most, and R2 of W fall on held-out states.

Found: 9 of the 13 predictions agree. The heading is lost as predicted, but x falls below 0.9
beside it, with the cube y too, and R2 of W does not stay high in the anisotropic world.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.motion import pairs

FIRST_SEED = 4_000
CLEAN = {"data__flicker": 0.0, "data__walk": 0}  # arguments of `pairs.experiment`


@dataclasses.dataclass(frozen=True)
class World:
    """A change of the clean world, and what it was predicted to do.

    Attributes:
        label: heading of its row.
        changes: of `CLEAN`.
        sentence: the prediction in words.
        least: measure -> bound that every agent (of "r2": every pair) reaches.
        most: measure -> bound that none exceeds.
    """

    label: str
    changes: Mapping[str, Any]
    sentence: str
    least: Mapping[str, float]
    most: Mapping[str, float]


WORLDS = {
    "cube": World(
        "a cube",
        {"data__shape": "cube"},
        "A quarter turn maps the body to itself, so the heading is lost.",
        least={"x": 0.9, "y": 0.9},
        most={"yaw": 0.25, "state": 0.75},
    ),
    "anisotropic": World(
        "rho = 0.98, 0.9, 0.7",
        {"data__rho": (0.98, 0.9, 0.7)},
        "Powers of the slow x displace the fast heading, which both agents lose, so R² of W stays "
        "high.",
        least={"x": 0.9, "r2": 0.9},
        most={"yaw": 0.1, "state": 0.7},
    ),
    "pool_2000": World(
        "2,000 pairs",
        {"data__pool": 2_000},
        "The encoders memorise their pairs, so the heading, the state and W suffer, and no latent "
        "is lost.",
        least={"x": 0.7, "y": 0.7},
        most={"yaw": 0.9, "state": 0.93, "r2": 0.93},
    ),
}


def claims(name: str, values: Sequence[Mapping[str, Sequence[float]]]) -> list[dict[str, Any]]:
    """Judges the predictions of a world by the worst of its agents."""

    def worst(of: Callable[..., float], key: str) -> float:
        return of(number for pair in values for number in pair[key])

    world = WORLDS[name]
    low = [(key, "least", bound, worst(min, key)) for key, bound in world.least.items()]
    high = [(key, "most", bound, worst(max, key)) for key, bound in world.most.items()]
    return [
        {"id": f"{name}/{key}", "ours": ours, side: bound,
         "agrees": ours >= bound if side == "least" else ours <= bound}
        for key, side, bound, ours in low + high
    ]  # fmt: skip


def summary(values: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    """Returns mean, t-interval and number over pairs of each measure, a pair's agents averaged."""
    keys = values[0]
    return {key: pairs.interval([float(np.mean(pair[key])) for pair in values]) for key in keys}


def judged(name: str, values: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """Returns what is stored of a world: the prediction, its verdicts, and all measures."""
    world = WORLDS[name]
    return {
        "label": world.label,
        "sentence": world.sentence,
        "claims": claims(name, values),
        "summary": summary(values),
        "pairs": list(values),
    }
