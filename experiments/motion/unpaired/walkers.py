"""Pairs of agents that walk apart through one world, and all that they saw, encoded and kept.

Shape key: A agents, N states, T steps of a walk, D features, L latents, M actions.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from experiments.motion import pairs
from experiments.motion.unpaired import inverse
from socialjepa_jax.config import Experiment
from socialjepa_jax.data import MotionData
from socialjepa_jax.dynamics.driven import Driven
from socialjepa_jax.evaluation import controls
from socialjepa_jax.keys import Stream, agent_key

_WALKS = {"passive": 100, "three": 101, "one": 102}  # folded into the key of an agent's world
_CHUNK = 1000  # images encoded at once
COMPONENTS = 12
Codes = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is trained and walked in one world.

    Attributes:
        changes: of the preset, see `pairs.experiment`.
        passive: steps of a trajectory without known actions.
        walk: steps of the walks with as many actions as latents ("three") and with one ("one").
        inverse: transitions that inverse models are trained on; () trains none.
        inverse_steps: steps of their training.
        feedback: of the policy that chooses the actions of "three", see `Driven.walk`.
    """

    changes: Mapping[str, Any]
    passive: int
    walk: int
    inverse: tuple[int, ...] = ()
    inverse_steps: int = 600
    feedback: float = 0.0


def walkers(
    plan: Plan, seeds: Sequence[int], at_once: int, path: str | pathlib.Path
) -> list[Codes]:
    """Trains the agents in groups, or reads the groups that an earlier call kept.

    Args:
        plan: of the world.
        seeds: of the agents, two for each pair.
        at_once: agents of one program.
        path: files are PATH_<first seed>.npz and PATH_inverse_<transitions>_<first seed>.npz.

    Returns:
        One dictionary for each agent: 'states' f32[N, L], 'test' bool[N], 'push' and 'actions' of
        both walks, and 'SPACE/WHAT' f32[., D], what a space says of the states or of a walk.
    """
    found: list[Codes] = []
    for first in range(0, len(seeds), at_once):
        group = seeds[first : first + at_once]
        codes = kept(f"{path}_{group[0]}.npz", functools.partial(_train, plan, group))
        for count in plan.inverse:
            make = functools.partial(_inverse, plan, group, count)
            codes |= kept(f"{path}_inverse_{count}_{group[0]}.npz", make)
        found += [{name: v[k] for name, v in codes.items()} for k in range(len(group))]
    return found


def kept(path: str | pathlib.Path, make: Callable[[], Codes]) -> Codes:
    """Returns the arrays of a file, which is made if it does not exist."""
    file = pathlib.Path(path)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part.npz")
        np.savez(part, **make())  # type: ignore[arg-type]
        part.rename(file)
        logging.info("%s", file)
    with np.load(file) as saved:
        return {name: saved[name] for name in saved.files}


def _train(plan: Plan, seeds: Sequence[int]) -> Codes:
    """Trains one group of agents and encodes everything; arrays have a leading agent axis."""
    chosen = pairs.experiment(seeds, **plan.changes)
    data = chosen.data
    assert isinstance(data, MotionData)
    run = pairs.in_memory(chosen)
    dataset = run.dataset
    trained = run.train()
    images, known = _walks(plan, chosen, data)
    images["states"] = np.stack([dataset.images[k] for k in chosen.agents.cameras])
    count = len(seeds)
    assert dataset.states is not None
    codes = known | {"states": np.stack([dataset.states] * count)}
    codes["test"] = np.stack([dataset.split_state.astype(bool)] * count)

    for space, state in (("trained", trained), ("untrained", run.fresh)):
        codes |= {
            f"{space}/{what}": run.encode(state, shots, min(_CHUNK, shots.shape[1]))
            for what, shots in images.items()
        }
    codes |= _each(count, lambda k: _components({what: v[k] for what, v in images.items()}))
    return codes


def _walks(plan: Plan, chosen: Experiment, data: MotionData) -> tuple[Codes, Codes]:
    """Renders each agent's trajectories: images u8[A, T + 1, ...], and what actions do."""
    images, known = {}, {}
    agents = list(zip(chosen.agents.seeds, chosen.agents.cameras))
    for name in _WALKS:
        shots, actions = zip(*(_walk(plan, data, name, *agent) for agent in agents))
        images[name], known[f"{name}/actions"] = np.stack(shots), np.stack(actions)
        known[f"{name}/push"] = np.stack([_push(data, name)] * len(agents))
    return images, known


def _driven(data: MotionData, name: str) -> tuple[Driven, np.ndarray]:
    """The process of a walk, and the correlation of each latent f32[L]."""
    count = 1 if name == "one" else data.num_latents
    rho = np.broadcast_to(np.asarray(data.rho, np.float32), (data.num_latents,))
    return Driven(data.num_latents, count, data.share, data.seed), rho


def _push(data: MotionData, name: str) -> np.ndarray:
    """What an action adds to the state: f64[L, M]."""
    driven, rho = _driven(data, name)
    return driven.push(rho)


def _walk(
    plan: Plan, data: MotionData, name: str, seed: int, camera: int
) -> tuple[np.ndarray, np.ndarray]:
    """Renders one walk of one agent: images and actions."""
    driven, rho = _driven(data, name)
    key = jax.random.fold_in(agent_key(seed, Stream.WORLD), _WALKS[name])
    steps = plan.passive if name == "passive" else plan.walk
    feedback = plan.feedback if name == "three" else 0.0
    states, actions = driven.walk(jnp.asarray(rho), key, steps, feedback)
    shots = data.photograph(np.asarray(states), camera, jax.random.fold_in(key, 1))
    return shots, np.asarray(actions)


def _each(count: int, of: Callable[[int], Codes]) -> Codes:
    """Stacks what `of` makes of each agent."""
    made = [of(k) for k in range(count)]
    return {name: np.stack([m[name] for m in made]) for name in made[0]}


def _components(images: Codes) -> Codes:
    """Principal components of pixels, fitted on the passive trajectory."""
    names, sizes = list(images), [len(v) for v in images.values()]
    start = sum(sizes[: names.index("passive")])
    rows = np.arange(start, start + len(images["passive"]))
    found = controls.pixel_pca(np.concatenate(list(images.values())), rows, COMPONENTS)
    parts = np.split(found, np.cumsum(sizes)[:-1])
    return {f"pixels/{name}": part for name, part in zip(names, parts)}


def _inverse(plan: Plan, seeds: Sequence[int], transitions: int) -> Codes:
    """Trains an inverse model of each agent on the first transitions of its walk and encodes."""
    chosen = pairs.experiment(seeds, **plan.changes)
    data = chosen.data
    assert isinstance(data, MotionData)
    states = data.load(pathlib.Path()).images

    def of(agent: int) -> Codes:
        seed, camera = seeds[agent], chosen.agents.cameras[agent]
        walk, actions = _walk(plan, data, "three", seed, camera)
        encode = inverse.train(
            walk[: transitions + 1], actions[:transitions], seed=seed, steps=plan.inverse_steps
        )
        name = f"inverse_{transitions}"
        return {f"{name}/states": encode(np.asarray(states[camera])), f"{name}/three": encode(walk)}

    return _each(len(seeds), of)
