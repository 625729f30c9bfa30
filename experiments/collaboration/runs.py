"""Students of every method, tuned in one world and measured in another, and what they cost.

Shape key: A agents, N states, D latents, L state dimensions.
"""

import dataclasses
import functools
import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from experiments.collaboration import methods
from experiments.collaboration.methods import Method
from experiments.findings import Rows
from experiments.motion import pairs
from experiments.motion.pairs import InMemory
from socialjepa_jax import build, sharding
from socialjepa_jax.agents import AgentState
from socialjepa_jax.collaboration import costs
from socialjepa_jax.config import Agents, Experiment
from socialjepa_jax.data import MotionData
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.evaluation.latents import encode_states
from socialjepa_jax.evaluation.readouts import readout_r2
from socialjepa_jax.evaluation.splits import splits
from socialjepa_jax.records import write_json
from socialjepa_jax.running.hooks import Progress

SEEDS = {"smoke": 2, "cpu": 5, "gpu": 10, "paper": 10}
STUDENTS, TEACHERS, TUNED = 7_000, 7_100, 7_900  # first seeds
LOGGED = ("link/residual", "link/r2", "link/norm_x", "link/norm_y", "link/rank_x", "link/rank_y")


@dataclasses.dataclass(frozen=True)
class World:
    """A world with its teachers.

    Attributes:
        scale: of the runs.
        changes: of settings, see `pairs.experiment`.
        first: seed of the first teacher.
        count: teachers on each camera.
        folder: of teachers, which are kept.
    """

    scale: str
    changes: dict[str, Any]
    first: int
    count: int
    folder: pathlib.Path

    def teachers(self, of: str) -> Encoders:
        """Returns the teachers "other" | "same" | "untrained", trained once."""
        path = self.folder / f"{self.scale}_{self.first}_{of}"
        if not path.with_suffix(".json").exists():
            seeds = tuple(self.first + k for k in range(self.count))
            camera = methods.OWN if of == "same" else methods.OTHER
            if of == "same":
                seeds = tuple(seed + self.count for seed in seeds)
            chosen = methods.experiment(Method("alone"), self.scale, seeds, **self.changes)
            agents = dataclasses.replace(chosen.agents, cameras=(camera,) * self.count)
            run = pairs.in_memory(dataclasses.replace(chosen, agents=agents))
            state = run.fresh if of == "untrained" else run.train()
            run.encoders(state).save(path)
        return Encoders.load(path)


def rows(name: str, scale: str, out: pathlib.Path) -> Rows:
    """Tunes and measures a method, or reads what an earlier call has kept in `out`."""
    path = out / "table9" / f"{scale}_{name.replace(',', '').replace(' ', '_')}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        method = methods.methods(scale)[name]
        found = _tuned(method, scale, path.parent)
        value = max(found, key=lambda row: row["area"])["value"] if found else 1.0
        found += _measured(method, value, scale, path.parent)
        write_json(path, [{"method": name, **row} for row in found])
        logging.info("%s: %s", name, found[-1])
    kept: Rows = json.loads(path.read_text())
    return kept


def _tuned(method: Method, scale: str, folder: pathlib.Path) -> Rows:
    """Tries each value of the knob in the tuning world; 'area' is the mean R2 of a run."""
    if method.kind == "frozen":
        return []
    values = method.trials
    seeds = tuple(TUNED + 10 + k for k in range(len(values)))
    world = World(scale, dict(methods.TUNING), TUNED, 1, folder)
    look = _watched(method, world, seeds, **{method.knob: values})[0]
    areas = np.mean(look.r2, axis=0)
    return [
        {"part": "tuning", "knob": method.knob, "value": value, "area": float(area)}
        for value, area in zip(values, areas)
    ]


def _measured(method: Method, value: float, scale: str, folder: pathlib.Path) -> Rows:
    """Returns a row for each seed with its curve, and one with what a step costs."""
    seeds = students(scale)
    world = World(scale, {}, TEACHERS, SEEDS[scale], folder)
    look, chosen = _watched(method, world, seeds, **{method.knob: (value,) * len(seeds)})
    data, run = chosen.data, chosen.run
    assert isinstance(data, MotionData)
    seconds = float(np.median(look.seconds)) if look.seconds else 0.0
    cost = {"part": "cost", "knob": method.knob, "value": value,
            "seconds": seconds / run.steps_per_call / len(seeds),
            "pool": data.pool, "batch": run.batch_size}  # fmt: skip
    return [*look.rows(seeds), cost | _costs(method, chosen, world)]


def students(scale: str) -> tuple[int, ...]:
    """Returns the seeds of the students."""
    return tuple(STUDENTS + k for k in range(SEEDS[scale]))


def _costs(method: Method, chosen: Experiment, world: World) -> dict[str, float]:
    """FLOPs and bytes of an update, and of encoding one image by the teacher."""
    objective: Any = chosen.objective
    if method.kind == "taught":
        objective = objective.bind(world.teachers(method.teacher).config.objective)
    step = costs.of_step(objective, chosen.run.batch_size)
    own = step.own if method.own else 0.0
    found = {"own": own, "teacher": step.teacher, "coupling": step.coupling, "solves": step.solves}
    if method.kind == "frozen":
        found = dict.fromkeys(found, 0.0)
    single = getattr(objective, "objective", objective)
    return found | {"exchanged": step.exchanged, "image": costs.forward(single, 1)}


def _watched(
    method: Method, world: World, seeds: Sequence[int], **knob: Sequence[float]
) -> tuple["Look", Experiment]:
    """Trains students of a method; returns what was seen of them, and their experiment."""
    chosen = methods.experiment(method, world.scale, tuple(seeds), **world.changes)
    teachers = world.teachers(method.teacher) if method.teacher else None
    run = _in_memory(chosen, teachers if method.kind == "taught" else None)
    look = Look(run)
    if method.kind == "frozen":
        look(Progress(_with_weights(run, teachers), 0, 0))
    else:
        start = _with_weights(run, teachers) if method.kind == "warm" else None
        run.train([look], start, **knob)
    return look, chosen


def _in_memory(chosen: Experiment, teacher: Encoders | None) -> InMemory:
    """Builds students of any method in a world whose images are rendered once."""
    both = seen(chosen)
    feed = both.feed if chosen.agents.partners else both.feed.a
    return InMemory(chosen, both.dataset, build.build(chosen, teacher=teacher), feed)


def seen(chosen: Experiment) -> InMemory:
    """Opens the world that the students of an experiment see, through both cameras."""
    partners = (methods.OTHER,) * len(chosen.agents.seeds)
    agents = dataclasses.replace(chosen.agents, partners=partners, partner_seeds=())
    return _opened(chosen.data, agents, chosen.run.batch_size)


@functools.lru_cache(maxsize=2)
def _opened(data: Any, agents: Agents, batch_size: int) -> InMemory:
    chosen = methods.experiment(Method("crossed"), "cpu", agents.seeds)
    run = dataclasses.replace(chosen.run, batch_size=batch_size)
    return pairs.in_memory(dataclasses.replace(chosen, data=data, agents=agents, run=run))


def _with_weights(run: InMemory, teachers: Encoders | None) -> AgentState:
    """Returns the agents at step 0 with the weights of their teachers."""
    assert teachers is not None
    order = [k % teachers.num_agents for k in range(len(run.chosen.agents.seeds))]
    by_agent = sharding.by_agent(run.parts.trainer.mesh)
    params, aux = (
        sharding.put(_taken(tree, order), by_agent) for tree in (teachers.params, teachers.aux)
    )
    return dataclasses.replace(run.parts.fresh_state(), params=params, aux=aux)


def _taken(tree: Any, order: Sequence[int]) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[list(order)], tree)


class Look:
    """A hook that measures the held-out R2 of the state of every agent."""

    def __init__(self, run: InMemory) -> None:
        """Takes the run."""
        self.steps: list[int] = []
        self.r2: list[list[float]] = []
        self.seconds: list[float] = []
        self.told: dict[str, np.ndarray] = {}
        self._run, self._begin = run, 0.0
        self._split = splits(run.dataset)[0]

    def __call__(self, progress: Progress) -> None:
        """Encodes the states and fits the readouts."""
        sharding.fetch(progress.state.step)
        if progress.step:
            self.seconds.append(time.monotonic() - self._begin)
        z_AND = encode_states(self._run.parts.trainer.encode, progress.state, self._run.feed)
        states = self._run.dataset.states
        assert states is not None
        self.steps.append(progress.step)
        self.r2.append([float(readout_r2(z, states, self._split).mean()) for z in z_AND])
        last = sharding.fetch(progress.metrics or {})
        self.told = {name: last[name][:, -1] for name in LOGGED if name in last}
        self._begin = time.monotonic()

    def rows(self, seeds: Sequence[int]) -> Rows:
        """Returns the curve of each agent as a row, with what was logged last."""
        return [
            {"part": "run", "seed": seed, "steps": self.steps,
             "r2": [round(of_agents[k], 5) for of_agents in self.r2],
             **{key: round(float(values[k]), 5) for key, values in self.told.items()}}
            for k, seed in enumerate(seeds)
        ]  # fmt: skip
