"""Agents that act in a world in motion: they see it, decide in their latent space, and move it.

    z' = rho z + P a,

the world of `dynamics.driven` with its noise switched off; every image still has its own flicker.

Shape key: A agents, N states, E episodes, T steps, D features, L state dimensions, U actions.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import numpy as np

from experiments.motion import pairs
from experiments.motion.unpaired.carrying import whitener
from socialjepa_jax.alignment.actions import response
from socialjepa_jax.config import Experiment
from socialjepa_jax.data import MotionData
from socialjepa_jax.dynamics.driven import Driven
from socialjepa_jax.evaluation import controls
from socialjepa_jax.identifiability.reaching import LatentModel
from socialjepa_jax.keys import Stream, agent_key
from socialjepa_jax.objectives.coupled.members import width_of

_EPISODES = 200  # folded into the key of an agent's world
_CHUNK = 100  # images rendered or encoded at once
Act = Callable[[int, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """The world that actions move, and what every agent recorded of it before.

    Attributes:
        chosen: the experiment of the agents.
        states: f32[N, L].
        images: u8[K, N, H, W, C], as each camera sees the states.
        train: bool[N], states that maps and means may be fitted on.
        walks: u8[A, T + 1, H, W, C], of each agent's own walk in the noisy world.
        actions: f32[A, T, U], of the walks.
    """

    chosen: Experiment
    states: np.ndarray
    images: np.ndarray
    train: np.ndarray
    walks: np.ndarray
    actions: np.ndarray

    @property
    def data(self) -> MotionData:
        """The rendered world."""
        assert isinstance(self.chosen.data, MotionData)
        return self.chosen.data

    @property
    def rho(self) -> np.ndarray:
        """f64[L], by which a state shrinks in a step."""
        return np.broadcast_to(np.asarray(self.data.rho, np.float64), (self.data.num_latents,))

    @property
    def push(self) -> np.ndarray:
        """P f64[L, U], what an action adds to the state."""
        data = self.data
        return Driven(data.num_latents, data.actions, data.share, data.seed).push(self.rho)

    def step(self, z_EL: np.ndarray, actions_EU: np.ndarray) -> np.ndarray:
        """Returns the next states f64[E, L]."""
        return z_EL * self.rho + actions_EU @ self.push.T

    def look(self, agent: int, z_EL: np.ndarray, step: int) -> np.ndarray:
        """Renders states as an agent's camera sees them at a step: u8[E, H, W, C]."""
        agents = self.chosen.agents
        key = agent_key(agents.seeds[agent], Stream.WORLD)
        for number in (_EPISODES, step):
            key = jax.random.fold_in(key, number)
        return self.data.photograph(z_EL, agents.cameras[agent], key, block=_CHUNK)


@dataclasses.dataclass(frozen=True, eq=False)
class Space:
    """The latent space of every agent, centred by its training states, and its linear model.

    Attributes:
        encode: u8[A, N, H, W, C] -> f64[A, N, D].
        latents: f64[A, N, D], of the world's states.
        walks: f64[A, T + 1, D].
        models: fitted to each agent's own walk.
    """

    encode: Callable[[np.ndarray], np.ndarray]
    latents: np.ndarray
    walks: np.ndarray
    models: Sequence[LatentModel]


def train(chosen: Experiment) -> tuple[World, dict[str, Callable[[np.ndarray], np.ndarray]]]:
    """Trains the agents.

    Returns:
        The world, and raw encoders u8[A, N, H, W, C] -> f32[A, N, D]: "trained", "untrained" and
        "pixels", as many principal components as the trained agents have features.
    """
    run = pairs.in_memory(chosen)
    dataset, feed, trained = run.dataset, run.feed, run.train()
    dim = width_of(chosen.objective)
    rows = np.flatnonzero(dataset.split_state == 0)
    by_camera = [controls.pixel_components(images, rows, dim) for images in dataset.images]

    def project(shots: np.ndarray) -> np.ndarray:
        return np.stack([by_camera[k](shot) for k, shot in zip(chosen.agents.cameras, shots)])

    assert dataset.states is not None and feed.walks is not None
    world = World(
        chosen, dataset.states, np.asarray(dataset.images), dataset.split_state == 0,
        feed.walks, feed.actions,
    )  # fmt: skip
    spaces = {
        name: functools.partial(run.encode, state, size=_CHUNK)
        for name, state in (("trained", trained), ("untrained", run.fresh))
    }
    return world, {**spaces, "pixels": project}


def space(
    world: World, raw: Callable[[np.ndarray], np.ndarray], white: bool, effort: float
) -> Space:
    """Centres a latent space by its training states and fits every agent's dynamics in it.

    Args:
        world: that the agents have seen.
        raw: encoder of `train`.
        white: also whiten, for codes of any scale.
        effort: see `LatentModel`.
    """
    cameras = list(world.chosen.agents.cameras)
    states = raw(world.images[cameras]).astype(np.float64)
    train_AND = states[:, world.train]
    mean_A1D = train_AND.mean(1, keepdims=True)
    turn_ADD = np.stack([whitener(h) if white else np.eye(h.shape[1]) for h in train_AND])

    def encode(shots: np.ndarray) -> np.ndarray:
        return (raw(shots) - mean_A1D) @ turn_ADD

    walks = encode(world.walks)
    models = [
        LatentModel(*response(walk, actions, np.zeros(walk.shape[1])), effort)
        for walk, actions in zip(walks, world.actions)
    ]
    return Space(encode, (states - mean_A1D) @ turn_ADD, walks, models)


def play(world: World, encode: Callable | None, act: Act, starts_EL: np.ndarray, steps: int,
         agents: int) -> np.ndarray:  # fmt: skip
    """Lets every agent act in its own copy of the same episodes.

    Args:
        world: that they move.
        encode: of a `Space`; None: agents are told the true state.
        act: (step, latents f64[A, E, D]) -> actions f64[A, E, U].
        starts_EL: states at the beginning.
        steps: T.
        agents: A.

    Returns:
        The states f64[A, E, T + 1, L].
    """
    z_AEL = np.broadcast_to(starts_EL, (agents, *starts_EL.shape)).astype(np.float64)
    path = [z_AEL]
    for step in range(steps):
        if encode is None:
            h_AED = z_AEL
        else:
            h_AED = encode(np.stack([world.look(k, z, step) for k, z in enumerate(z_AEL)]))
        z_AEL = world.step(z_AEL, act(step, h_AED))
        path.append(z_AEL)
    return np.stack(path, axis=2)
