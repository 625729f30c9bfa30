"""I-JEPA agents that learnt in another environment and look at the toys of the tables.

Three agents of the second camera for each environment, with the seeds, steps and trial of those of
`trained` (so they begin with the same kernels), trained on
other toys: a world of the same kind with other objects, from the same azimuth;
a moving toy: one toy that moves under flickering light (`motion_lejepa`), frame by frame;
patches or pixels in a fresh order: the toys of the tables, whose images are broken (`structure`).
All encode the intact images of the tables' toys, with the pixel statistics of their own training,
and are paired with the tables' agents of the first camera. Beside them stand the agents of the same
environment, those agents before training, and the same spaces with their pairs shuffled.

Shape key: A agents, N states, D features.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Rows
from experiments.motion.pairs import InMemory
from experiments.rivals.motion_methods import BothFrames
from experiments.rivals.predictions import agents
from experiments.rivals.predictions.agents import METHOD
from experiments.rivals.tables import measures, reading
from experiments.rivals.tables.trained import SEEDS, TOYS, TUNED, World
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Agents, Experiment
from socialjepa_jax.data import MotionData
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.shuffle import Shuffle
from socialjepa_jax.report.tables import Interval

FOLDER = "exp_predictions"
OTHER_TOYS = 13  # seed of the world
SAME, UNTRAINED, SHUFFLED = "same", "untrained", "pairs shuffled"
TOYS_ELSEWHERE, MOVING = "other toys", "a moving toy"
BROKEN: Mapping[str, Shuffle] = {
    "patches in a fresh order": Shuffle("patch", "image"),
    "pixels in a fresh order": Shuffle("pixel", "image"),
}
ENVIRONMENTS = (TOYS_ELSEWHERE, MOVING, *BROKEN)
CHUNK = 64  # images that are encoded at once


def experiment(world: World, name: str) -> Experiment:
    """Returns the run of three agents in an environment."""
    chosen = world.experiment(METHOD, OTHER_TOYS if name == TOYS_ELSEWHERE else TOYS)
    agents = Agents((1,) * SEEDS, chosen.agents.seeds[SEEDS:TUNED])
    chosen = dataclasses.replace(chosen, name=f"Toys, ijepa, {name}", agents=agents)
    if name in BROKEN:
        return dataclasses.replace(chosen, shuffle=BROKEN[name])
    return _moving(chosen, world.scale) if name == MOVING else _second_camera(chosen)


def _second_camera(chosen: Experiment) -> Experiment:
    """The same run, with no other camera to render."""
    protocol = chosen.data.protocol
    protocol = dataclasses.replace(protocol, azimuths=protocol.azimuths[1:])
    agents = dataclasses.replace(chosen.agents, cameras=(0,) * SEEDS)
    data = dataclasses.replace(chosen.data, protocol=protocol)
    return dataclasses.replace(chosen, data=data, agents=agents)


def _moving(chosen: Experiment, scale: str) -> Experiment:
    """Both frames of every pair are images of one batch, which has as many as on the toys."""
    image = {"image_size": chosen.data.image_size, "channels": chosen.data.channels}
    pool = 128 if scale == "smoke" else 1_000
    return dataclasses.replace(
        chosen,
        data=MotionData(**image, pool=pool, states=64, walk=0),
        objective=BothFrames(chosen.objective),
        augment=Augment(),
        run=dataclasses.replace(chosen.run, batch_size=chosen.run.batch_size // 2),
    )


def latents(world: World, name: str) -> np.ndarray:
    """Returns what trained agents of an environment make of the tables' toys: f32[A, N, D]."""
    images = world.dataset.images[1]

    def encode(run: InMemory, state: AgentState) -> np.ndarray:
        return run.encode(state, [images] * SEEDS, CHUNK)

    path = world.out / FOLDER / f"{world.scale}_{_file(name)}.npy"
    return agents.before_and_after(world, experiment(world, name), path, encode)[1]


def measured(world: World) -> Rows:
    """Returns the row of every environment, and of the controls."""
    found = world.trained(METHOD)
    first, second = found.final[:SEEDS], found.final[SEEDS:TUNED]
    shuffled = measures.wrong_partners(world.split, len(world.dataset.state_ids))
    known = {
        SAME: (first, second),
        UNTRAINED: (found.untrained[:SEEDS], found.untrained[SEEDS:TUNED]),
        SHUFFLED: (first, second[:, shuffled]),
    }
    rows: Rows = []
    for name in (*known, *ENVIRONMENTS):
        path = world.out / FOLDER / f"{world.scale}_{_file(name)}.json"
        x, y = known[name] if name in known else (first, latents(world, name))
        rows += findings.kept(path, lambda: [_row(world, name, x, y)])  # noqa: B023
    return rows


def _row(world: World, name: str, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Measures all pairs of two cameras' agents."""
    ids = world.dataset.instance_ids
    cells = agents.grid(x, y, lambda x, y: agents.compared(world.split, ids, x, y, measures.RANKS))
    return {"part": "environment", "environment": name, **cells}


def environment(rows: Rows, name: str, measure: str) -> dict[str, Any]:
    """Returns the pairs of a measure with agents of an environment."""
    return reading.cell(rows, measure, environment=name)


def lost(rows: Rows, name: str, measure: str) -> Interval:
    """Returns a measure in the same environment less that in another one, with its interval."""
    return measures.interval(
        environment(rows, SAME, measure), environment(rows, name, measure)
    )  # fmt: skip


def median_kappa(rows: Rows, name: str) -> float:
    """Returns the median over pairs of kappa of W with agents of an environment."""
    return float(np.median(environment(rows, name, "kappa")["pairs"]))


def _file(name: str) -> str:
    return name.replace(" ", "_")
