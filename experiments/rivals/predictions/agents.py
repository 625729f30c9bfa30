"""I-JEPA agents with other settings than those of `trained`, and measures of unlike widths.

Shape key: A agents, N states, D features of x, E features of y, G objects.
"""

import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.alignability import jackknife
from experiments.motion import pairs
from experiments.motion.pairs import InMemory
from experiments.rivals.tables import measures, trained
from experiments.rivals.tables.entrants import ENTRANTS
from experiments.rivals.tables.measures import Measured
from experiments.rivals.tables.trained import HOW, SEEDS, World
from socialjepa_jax import evaluation
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.cache import cached_array
from socialjepa_jax.evaluation.latents import encode_states
from socialjepa_jax.evaluation.splits import Split

METHOD = "ijepa"

Encode = Callable[[InMemory, AgentState], np.ndarray]


def encoded(run: InMemory, state: AgentState) -> np.ndarray:
    """Encodes the states of a run's own data: f32[A, N, D]."""
    latents: np.ndarray = encode_states(run.parts.trainer.encode, state, run.feed)
    return latents


def before_and_after(
    world: World, chosen: Experiment, path: pathlib.Path, encode: Encode = encoded
) -> np.ndarray:
    """Trains agents with the trial that `trained` chose for I-JEPA, once for each file.

    Args:
        world: whose trial it is.
        chosen: the run.
        path: of the latents; made if it is missing.
        encode: what the agents encode.

    Returns:
        f32[2, A, N, D], latents before and after training.
    """

    def make() -> np.ndarray:
        trial = ENTRANTS[METHOD].trials[int(world.trained(METHOD).cost["chosen"])]
        run = pairs.in_memory(chosen, world.out / "cache")
        before = encode(run, run.fresh)
        state = trained.train(run, [trial] * len(chosen.agents.seeds))
        return np.stack([before, encode(run, state)])

    path.parent.mkdir(parents=True, exist_ok=True)
    return cached_array(path, make)


def grid(x: np.ndarray, y: np.ndarray, measure: Callable[..., Measured]) -> dict[str, Any]:
    """Measures all pairs of an agent of x and one of y, row by row; see `measures.grid`.

    Args:
        x, y: latents of three agents each, [SEEDS, N, D] and [SEEDS, N, E].
        measure: of two spaces, [N, D] and [N, E].
    """
    all_pairs = list(itertools.product(range(SEEDS), repeat=2))
    return measures.grid(all_pairs, lambda i, j: measure(x[i], y[j]), SEEDS)


def compared(
    split: Split, objects_N: np.ndarray, x: np.ndarray, y: np.ndarray, ranks: int
) -> Measured:
    """Measures W between two spaces of any widths, and their agreement at equal ranks.

    Args:
        split: the states that W is fitted and tested on.
        objects_N: the object of each state.
        x, y: [N, D] and [N, E].
        ranks: K of the area under R2 of the first k whitened components, k = 1 to K.

    Returns:
        "r2", "dsc", "nos@10", "rankme" (of y), "area" and "kappa" (of W, see `measures`).
    """
    linear_map = evaluation.fit_map(HOW, x, y, split.train)
    names = ("r2", "dsc", "nos@10", "rankme")
    found = jackknife.estimates(linear_map, x, y, split, objects_N, names)
    measured: Measured = {name: (each.value, each.without) for name, each in found.items()}
    measured["area"] = measures.area(split, objects_N, x, y, ranks)
    return measured | measures.exact({"kappa": measures.kappa(linear_map)})
