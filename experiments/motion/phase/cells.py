"""The cells of the map: one pair of agents at one setting, along designed slices.

A slice changes one property of the base, which is the flicker world of `motion_lejepa` with three
latents at rho = 0.9, D = 3, 600 steps and lambda = 0.1 (1 - rho). Few cells
calibrate the free constants of `theory`; the others are held out and scored once.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from experiments.motion import pairs

STEPS, BATCH, FACTOR = 600, 128, 0.1
LATENTS = ("x", "y", "yaw")
SLOWEST = 0.95  # rho of the slowest latent in the slice over rates


@dataclasses.dataclass(frozen=True)
class Cell:
    """One setting of the world and of its two agents.

    Attributes:
        slice: what is changed, a key of `SLICES`.
        line: series within the slice.
        x: position along the slice.
        held_out: False: may set constants of the prediction.
        rho: correlation of each latent in view, shared ones first, or one value for all.
        ratio: lambda / (1 - rho), with the mean rho of the latents in view.
        outputs: latent features D.
        latents, shape, occluders, private, azimuths, elevation, flicker, pool: of the world.
    """

    slice: str
    line: str
    x: float
    held_out: bool
    rho: tuple[float, ...] = (0.9,)
    ratio: float = FACTOR
    outputs: int = 3
    latents: tuple[str, ...] = LATENTS
    shape: str = "toy"
    occluders: int = 0
    private: bool = False
    azimuths: tuple[float, ...] = (-80.0, 80.0)
    elevation: float = 45.0
    flicker: float = 0.25
    pool: int = 12_000

    @property
    def name(self) -> str:
        """Slice, line and position, which no other cell has."""
        return f"{self.slice}/{self.line}/{self.x:g}"

    @property
    def rates(self) -> np.ndarray:
        """Correlations f64[L] of the latents in view of one camera, shared ones first."""
        return np.broadcast_to(np.asarray(self.rho), (len(self.latents) + self.private,))

    @property
    def weight(self) -> float:
        """Lambda."""
        return float(self.ratio * (1.0 - self.rates.mean()))

    @property
    def world(self) -> dict[str, Any]:
        """Arguments of `pairs.experiment` that say what is seen."""
        names = ("latents", "shape", "occluders", "private", "azimuths", "elevation", "flicker")
        return {"data__actions": 1} | {f"data__{name}": getattr(self, name) for name in names}

    @property
    def changes(self) -> dict[str, Any]:
        """Arguments of `pairs.experiment`; cells with equal ones are agents of one program."""
        rho = self.rho
        if self.private and len(rho) > 1:  # each camera's own latent has the same rate
            rho = (*rho, rho[-1])
        return self.world | pairs.lasting(STEPS) | {
            "data__rho": rho,
            "data__pool": self.pool,
            "data__walk": 0,
            "run__batch_size": BATCH,
            "objective__outputs": self.outputs,
            "objective__weight_rule": "fixed",
        }  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Series:
    """Cells along one line of a slice.

    Attributes:
        slice: what is changed, a key of `SLICES`.
        line: name of the series.
        positions: of the cells.
        fields: position -> fields of the cell.
        calibrating: positions of the cells that may set constants.
        dense: the prediction needs no rendering, so it is known between the cells too.
    """

    slice: str
    line: str
    positions: tuple[float, ...]
    fields: Callable[[float], Mapping[str, Any]]
    calibrating: tuple[float, ...] = ()
    dense: bool = True

    def at(self, x: float) -> Cell:
        """Returns the cell at a position."""
        return Cell(self.slice, self.line, x, x not in self.calibrating, **self.fields(x))


def _decays(*powers: float) -> Callable[[float], Mapping[str, Any]]:
    """Decay rates -log rho of the latents as powers of q, in units of the slowest."""
    return lambda q: {"rho": tuple(round(SLOWEST ** (q**power), 4) for power in powers)}


def _beside_private(outputs: int) -> Callable[[float], Mapping[str, Any]]:
    return lambda rho: {"rho": (0.9, 0.9, 0.9, rho), "outputs": outputs, "private": True}


def _of_share(share: float) -> Mapping[str, Any]:
    """As many shared latents as make one private latent this share of what is in view."""
    count = round(1 / share) - 1
    return {"latents": LATENTS[:count], "outputs": count + 1, "private": True}


SERIES = (
    Series("weight", "rho = 0.9", (0.005, 0.02, 0.06, 0.2, 0.6, 2.0), lambda r: {"ratio": r},
           (0.005, 0.02, 0.06, 0.2, 0.6, 2.0)),
    Series("weight", "rho = 0.97", (0.006, 0.02, 0.3, 1.0), lambda r: {"rho": (0.97,), "ratio": r}),
    Series("weight", "rho = 0.7", (0.006, 0.02, 0.3, 1.0), lambda r: {"rho": (0.7,), "ratio": r}),
    Series("rates", "slow x, fast heading", (1.4, 1.8, 2.2, 2.6, 4.0), _decays(0, 0.5, 1),
           (1.4, 2.2)),
    Series("rates", "slow heading, fast x", (1.6, 2.4), _decays(1, 0.5, 0)),
    Series("rates", "slow x and y", (1.6, 2.4), _decays(0, 0, 1)),
    Series("width", "three latents", (-1, 1, 2, 6), lambda d: {"outputs": int(d) + 3}, (1, 6)),
    Series("width", "two latents", (0, 1, 3),
           lambda d: {"outputs": int(d) + 2, "latents": ("x", "y")}),
    Series("pool", "rho = 0.9", (1000, 2000, 4000, 6000), lambda p: {"pool": int(p)}, (1000,)),
    Series("pool", "rho = 0.7", (6000, 24_000), lambda p: {"rho": (0.7,), "pool": int(p)}),
    Series("pool", "rho = 0.97", (2000, 4000), lambda p: {"rho": (0.97,), "pool": int(p)}),
    Series("flicker", "three latents", (0.0, 0.5, 0.75, 1.0, 1.5), lambda f: {"flicker": f},
           (1.0,)),
    Series("private", "D = 3", (0.98, 0.94, 0.9, 0.86), _beside_private(3), (0.94,)),
    Series("private", "D = 4", (0.98, 0.9, 0.4), _beside_private(4)),
    Series("private", "share, all fit", (1 / 2, 1 / 3), _of_share, dense=False),
    Series("elevation", "three latents", (6.0, 12.0, 20.0, 87.0), lambda e: {"elevation": e},
           (12.0,), dense=False),
    Series("camera angle", "second camera", (0.0, 180.0), lambda a: {"azimuths": (-80.0, a)},
           dense=False),
    Series("occlusion", "pillars", (3.0,), lambda k: {"occluders": int(k)}, dense=False),
)  # fmt: skip
SCENES: dict[str, tuple[dict[str, Any], bool]] = {  # name -> fields, held out
    "cube": ({"shape": "cube"}, True),
    "height": ({"latents": ("x", "y", "height")}, True),
    "size": ({"latents": ("x", "y", "size")}, True),
    "lamp": ({"latents": ("x", "y", "lamp")}, True),
    "four with height": ({"latents": (*LATENTS, "height"), "outputs": 4}, False),
    "four with lamp": ({"latents": (*LATENTS, "lamp"), "outputs": 4}, True),
    "two toys": ({"latents": ("x", "y", "x2", "y2"), "outputs": 4}, True),
    "twins": ({"latents": ("x", "y", "x2", "y2"), "outputs": 4, "shape": "twins"}, True),
    "arm": ({"latents": ("shoulder", "elbow"), "outputs": 2, "elevation": 60.0}, True),
}
SLICES = {  # name -> what its position is
    "weight": "lambda / (1 - rho)",
    "rates": "fastest / slowest decay rate",
    "width": "D - n",
    "pool": "pairs of an agent",
    "flicker": "flicker",
    "private": "rho of the private latent, or its share",
    "elevation": "elevation of the cameras, degrees",
    "camera angle": "azimuth of the second camera, degrees",
    "occlusion": "pillars",
    "scene": "scene",
}
CELLS = (
    *(series.at(x) for series in SERIES for x in series.positions),
    *(Cell("scene", name, float(number), held_out, **fields)
      for number, (name, (fields, held_out)) in enumerate(SCENES.items())),
)  # fmt: skip
