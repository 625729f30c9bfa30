"""Goals that one agent has seen and another is to reach, and what came of it.

A row is {space, planner, goal, measure, value}: means over the episodes of a pair of agents, each
of which reaches for what the other saw. Planners: "lqr" sees the world at every step; "shooting"
plans all actions at the start and acts blindly; "track" follows the path that the partner imagines
in its own latents and its own model; "line" is the straight line, looked up in images that the
agent has seen. Goals: "own": the agent's own image of the goal; "pairs", "actions": the partner's
image, carried by a map of that source; "unmapped", "turned": the partner's latent as
it is, and under a random rotation; "oracle": true states and the true model.

Shape key: A agents, N states, E episodes, T steps, D features, L state dimensions.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from experiments.motion.planning import episodes
from experiments.motion.planning.episodes import Act, Space, World
from socialjepa_jax import alignment
from socialjepa_jax.alignment import LinearMap
from socialjepa_jax.alignment.actions import fit_by_actions
from socialjepa_jax.identifiability import planning
from socialjepa_jax.identifiability.reaching import LatentModel

Rows = list[dict[str, Any]]
EFFORT = 0.1  # see `LatentModel`
FARTHEST_START, TOLERANCE = 1.0, 0.5  # distances, in standard deviations of a latent


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """Starts and goals: rows of the held-out states, at least one standard deviation apart.

    Attributes:
        starts, goals: i64[E].
        library: i64[N'], held-out states that straight lines are looked up in, none of the above.
        steps: T.
    """

    starts: np.ndarray
    goals: np.ndarray
    library: np.ndarray
    steps: int


def task(world: World, count: int, steps: int) -> Task:
    """Draws starts and goals from the held-out states, the same ones for every pair of agents.

    Args:
        world: with more than 2 x count held-out states.
        count: E, fewer where too many draws lie close to each other.
        steps: T.
    """
    rows = np.random.default_rng(0).permutation(np.flatnonzero(~world.train))
    starts, goals, library = rows[: 2 * count], rows[2 * count : 4 * count], rows[4 * count :]
    apart = np.linalg.norm(world.states[starts] - world.states[goals], axis=1)
    far = np.flatnonzero(apart >= FARTHEST_START)[:count]
    return Task(starts[far], goals[far], library, steps)


def maps(world: World, space: Space, source: str) -> list[LinearMap]:
    """Fits the map from every agent's partner to the agent.

    Args:
        world: whose training states are the pairs.
        space: latents, centred.
        source: "pairs": ridge on the training states; "actions": the agents' own walks, no pair.
    """
    found = []
    for j in range(len(space.models)):
        i = j ^ 1
        x, y = space.latents[i][world.train], space.latents[j][world.train]
        if source == "pairs":
            found.append(alignment.fit(x, y))
            continue
        zeros = np.zeros(x.shape[1])
        walks = space.walks[i], world.actions[i], space.walks[j], world.actions[j]
        found.append(fit_by_actions(*walks, x_mean=zeros, y_mean=zeros))
    return found


class Measured:
    """Measures a group of agents, pairs (0, 1), (2, 3), ..., in one space."""

    def __init__(self, world: World, space: Space, task: Task, name: str) -> None:
        """Takes what is known; `name` is that of the space in the rows."""
        self.world, self.space, self.task, self.name = world, space, task, name
        self.states = world.states.astype(np.float64)
        self.ends = np.stack([self.states[task.starts], self.states[task.goals]], axis=1)

    def goals(self, source: str) -> np.ndarray:
        """Returns every agent's latents f64[A, E, D] of the goals."""
        shown = self.space.latents[:, self.task.goals]
        partner = shown[np.arange(len(shown)) ^ 1]
        if source == "own":
            return shown
        if source == "unmapped":
            return partner
        if source == "turned":
            dim = shown.shape[2]
            return partner @ stats.ortho_group.rvs(dim, random_state=1) if dim > 1 else -partner
        found = maps(self.world, self.space, source)
        return np.stack([w.forward(h) for w, h in zip(found, partner)])

    def act(self, planner: str, source: str) -> tuple[np.ndarray, Rows]:
        """Returns the paths f64[A, E, T + 1, L] of a planner in the world, and their rows."""
        paths = episodes.play(
            self.world, self.space.encode, self._policy(planner, source), self.ends[:, 0],
            self.task.steps, len(self.space.models),
        )  # fmt: skip
        return paths, self._scored(paths, planner, source)

    def _policy(self, planner: str, source: str) -> Act:
        models = self.space.models
        if planner == "lqr":
            goals = self.goals(source)
            return lambda step, h: _each(models, lambda k, m: m.regulate(h[k], goals[k]))
        if planner == "track":
            return self._tracking(source)
        goals, plans = self.goals(source), []

        def shoot(step: int, h_AED: np.ndarray) -> np.ndarray:
            if not plans:
                steps = self.task.steps
                plans.append(_each(models, lambda k, m: m.shoot(h_AED[k], goals[k], steps)))
            return plans[0][:, :, step]

        return shoot

    def _tracking(self, source: str) -> Act:
        """Follows what the partner imagines: start by W^-1, path by W."""
        models, goals = self.space.models, self.goals("own")
        carry = maps(self.world, self.space, source)
        wanted: list[np.ndarray] = []

        def track(step: int, h_AED: np.ndarray) -> np.ndarray:
            if not wanted:
                for k, w in enumerate(carry):
                    start = w.backward(h_AED[k], back="inverse")
                    path = models[k ^ 1].imagine(start, goals[k ^ 1], self.task.steps)
                    wanted.append(w.forward(path.reshape(-1, path.shape[2])).reshape(path.shape))
            return _each(models, lambda k, m: m.track(h_AED[k], wanted[k][step + 1]))

        return track

    def oracle(self) -> Rows:
        """Rows of agents that are told the true states and the true model."""
        world, task = self.world, self.task
        model = LatentModel(np.diag(world.rho), world.push, EFFORT)
        goals, starts = self.ends[:, 1], self.ends[:, 0]
        plan = model.shoot(starts, goals, task.steps)
        policies: dict[str, Act] = {
            "lqr": lambda step, z: model.regulate(z[0], goals)[None],
            "shooting": lambda step, z: plan[None, :, step],
        }
        rows: Rows = []
        for planner, policy in policies.items():
            paths = episodes.play(world, None, policy, starts, task.steps, 1)
            rows += self._scored(np.repeat(paths, len(self.space.models), 0), planner, "oracle")
        return [*rows, *self.lines("oracle")]

    def lines(self, source: str) -> Rows:
        """Rows of straight lines between latents, looked up in the agent's own library."""
        rows, states = self.task.library, self.states
        goals = None if source == "oracle" else self.goals(source)
        found: dict[str, list[float]] = {"length ratio": [], "deviation": []}
        for k, h in enumerate(self.space.latents):
            latents = states if goals is None else h
            aims = states[self.task.goals] if goals is None else goals[k]
            between = np.stack([latents[self.task.starts], aims], axis=1)
            plans = planning.plans_between(states[rows], latents[rows], self.ends, between)
            found["length ratio"].append(plans.length_ratio.mean())
            found["deviation"].append(plans.deviation.mean())
        return self._rows("line", source, found)

    def _scored(self, paths_AETL: np.ndarray, planner: str, source: str) -> Rows:
        """Rows of paths: arrivals, distances at the end and at every step, detours."""
        goals = self.ends[:, 1]
        distance_AET = np.linalg.norm(paths_AETL - goals[:, None], axis=3)
        return self._rows(
            planner,
            source,
            {
                "success": (distance_AET[..., -1] <= TOLERANCE).mean(1),
                "distance": distance_AET.mean(1),
                "detour": detours(paths_AETL, distance_AET).mean(1),
            },
        )

    def _rows(self, planner: str, source: str, found: dict[str, Any]) -> Rows:
        """One row for each pair of agents and measure: the mean of both agents."""
        pairs = range(0, len(self.space.models), 2)
        return [
            {"pair": k // 2, "space": self.name, "planner": planner, "goal": source,
             "measure": measure, "value": np.mean(values[k : k + 2], axis=0).tolist()}
            for measure, values in found.items() for k in pairs
        ]  # fmt: skip


def detours(paths_AETL: np.ndarray, distance_AET: np.ndarray) -> np.ndarray:
    """Returns the way to the goal over the straight way: f64[A, E]; 1 is straight.

    The way is the path until it first comes within the tolerance (or ends), and from there the
    straight line to the goal.
    """
    near_AET = distance_AET <= TOLERANCE
    last = distance_AET.shape[2] - 1
    arrival_AE = np.where(near_AET.any(2), near_AET.argmax(2), last)
    pieces = np.linalg.norm(np.diff(paths_AETL, axis=2), axis=3)
    walked = np.concatenate([np.zeros_like(pieces[..., :1]), pieces.cumsum(2)], axis=2)
    way_AET = walked + distance_AET
    return np.take_along_axis(way_AET, arrival_AE[..., None], 2)[..., 0] / distance_AET[..., 0]


def _each(models: Sequence[LatentModel], of: Callable[[int, LatentModel], Any]) -> np.ndarray:
    return np.stack([of(k, model) for k, model in enumerate(models)])
