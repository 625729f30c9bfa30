"""Students of every method, tuned in one world and measured in another, and what they cost.

Shape key: A agents, N states, D latents.
"""

import dataclasses
import functools
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from experiments import findings, side_by_side
from experiments.collaboration import methods, scenes
from experiments.collaboration.methods import Method
from experiments.collaboration.scenes import Scene, Score
from experiments.findings import Rows
from experiments.motion import pairs
from experiments.motion.pairs import InMemory
from socialjepa_jax import build, labels, sharding
from socialjepa_jax.agents import AgentState
from socialjepa_jax.collaboration import costs
from socialjepa_jax.config import Agents, Checkpoint, Experiment, Run
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.protocols import PairedFeed
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.evaluation.latents import encode_states
from socialjepa_jax.objectives.coupled import Crossed
from socialjepa_jax.running.hooks import Progress

SEEDS = {"smoke": 2, "cpu": 5, "gpu": 10, "paper": 10}
STUDENTS, TEACHERS, TUNED = 7_000, 7_100, 7_900  # first seeds
LOGGED = ("link/residual", "link/r2", "link/norm_x", "link/norm_y", "link/rank_x", "link/rank_y")


@dataclasses.dataclass(frozen=True)
class World:
    """A world with its teachers.

    Attributes:
        scene: in which the runs are.
        scale: of the runs.
        changes: of settings, see `pairs.experiment`.
        first: seed of the first teacher.
        count: teachers on each camera.
        folder: of teachers, which are kept.
        taught_in: world of the teachers; None: this one.
    """

    scene: Scene
    scale: str
    changes: Mapping[str, object]
    first: int
    count: int
    folder: pathlib.Path
    taught_in: "World | None" = None

    def teachers(self, of: str) -> Encoders:
        """Returns the teachers "other" | "same" | "untrained", trained once."""
        if self.taught_in is not None:
            return self.taught_in.teachers(of)
        path = self.folder / f"{self.scale}_{self.first}_{of}"
        if not path.with_suffix(".json").exists():
            seeds = tuple(self.first + k for k in range(self.count))
            camera = methods.OWN if of == "same" else methods.OTHER
            if of == "same":
                seeds = tuple(seed + self.count for seed in seeds)
            chosen = self.scene.run(self.scale, seeds, **self.changes)
            agents = dataclasses.replace(chosen.agents, cameras=(camera,) * self.count)
            run = pairs.in_memory(dataclasses.replace(chosen, agents=agents))
            state = run.fresh if of == "untrained" else run.train()
            run.encoders(state).save(path)
        return Encoders.load(path)


def world(scene: Scene, scale: str, out: pathlib.Path) -> World:
    """Returns the world in which students are measured."""
    return World(scene, scale, {}, TEACHERS, SEEDS[scale], out / scene.name)


def tuning_world(scene: Scene, scale: str, out: pathlib.Path) -> World:
    """Returns the world in which methods are tuned: that of `tuned_in`, if the scene has one."""
    scene = scene.tuned_in or scene
    return World(scene, scale, scene.tuning, TUNED, 1, out / scene.name)


def rows(name: str, scene: Scene, scale: str, out: pathlib.Path) -> Rows:
    """Tunes and measures a method, or reads what an earlier call has kept in `out`."""

    def make() -> Rows:
        found = _tuned(name, scene, scale, out)
        value = max(found, key=lambda row: row["area"])["value"] if found else 1.0
        found += measured(methods.methods(scene, scale)[name], value, world(scene, scale, out))
        logging.info("%s: %s", name, found[-1])
        return [{"method": name, **row} for row in found]

    return findings.kept(_file(name, scene, scale, out), make)


def _file(name: str, scene: Scene, scale: str, out: pathlib.Path) -> pathlib.Path:
    return out / scene.name / f"{scale}_{name.replace(',', '').replace(' ', '_')}.json"


def all_at_once(scene: Scene, scale: str, out: pathlib.Path) -> None:
    """Makes what is missing of the rows of a scene, on CPUs one method a core (`side_by_side`).

    Args:
        scene: that can be pickled.
        scale, out: of the runs.
    """
    every, cores = methods.methods(scene, scale), side_by_side.cores()
    missing = [name for name in every if not _file(name, scene, scale, out).exists()]
    if min(len(cores), len(missing)) < 2:
        return
    for of in sorted({every[name].teacher for name in missing} - {""}):
        for each in (world(scene, scale, out), tuning_world(scene, scale, out)):
            each.teachers(of)  # or several processes would train them
    make = functools.partial(rows, scene=scene, scale=scale, out=out)
    side_by_side.run(make, missing, cores, out / "cache" / "xla")


def _tuned(name: str, scene: Scene, scale: str, out: pathlib.Path) -> Rows:
    """Tries each value of the knob in the tuning world; 'area' is the mean score of a run."""
    if scene.tuned_in is not None:
        return findings.select(rows(name, scene.tuned_in, scale, out), part="tuning")
    method = methods.methods(scene, scale)[name]
    if method.kind == "frozen":
        return []
    values = method.trials
    seeds = tuple(TUNED + 10 + k for k in range(len(values)))
    tuning = tuning_world(scene, scale, out)
    look = _watched(method, tuning, seeds, **{method.knob: values})[0]
    areas = np.mean(look.scores, axis=0)
    return [
        {"part": "tuning", "knob": method.knob, "value": value, "area": float(area)}
        for value, area in zip(values, areas)
    ]


def measured(method: Method, value: float, world: World) -> Rows:
    """Trains the students of a method with a value of its knob.

    Returns:
        A row for each seed with its curve, and one with what a step costs.
    """
    seeds = students(world.scale)
    look, run = _watched(method, world, seeds, **{method.knob: (value,) * len(seeds)})
    chosen = run.chosen
    seconds = float(np.median(look.seconds)) if look.seconds else 0.0
    cost = {"part": "cost", "knob": method.knob, "value": value,
            "seconds": seconds / chosen.run.steps_per_call / len(seeds),
            "pool": scenes.pool_of(chosen, run.dataset)}  # fmt: skip
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
) -> tuple["Look", InMemory]:
    """Trains students of a method; returns what was seen of them, and their run."""
    scene = world.scene
    chosen = methods.experiment(method, scene, world.scale, tuple(seeds), **world.changes)
    teachers = world.teachers(method.teacher) if method.teacher else None
    run = in_memory(chosen, teachers if method.kind == "taught" else None, method.whole)
    look = Look(run, scene.score(run.dataset))
    if method.kind == "frozen":
        look(Progress(_with_weights(run, teachers), 0, 0))
    else:
        start = _with_weights(run, teachers) if method.kind == "warm" else None
        run.train([look], start, **knob)
    return look, run


def in_memory(chosen: Experiment, teacher: Encoders | None, whole: bool = False) -> InMemory:
    """Builds students of any method in a world whose images are made once.

    Args:
        chosen: the experiment of a method.
        teacher: of a migration.
        whole: True: the second camera's images are whole.
    """
    seen = _seen(chosen, chosen.augment)
    feed: Any = seen.feed if chosen.agents.partners else seen.feed.a
    if whole:
        feed = PairedFeed(seen.feed.a, _seen(chosen, Augment()).feed.b)
    parts = labels.given(build.build(chosen, teacher=teacher), chosen, seen.dataset, teacher)
    return InMemory(chosen, seen.dataset, parts, feed)


def _seen(chosen: Experiment, augmentation: Augment) -> InMemory:
    """Opens the world that students see, through both cameras."""
    single = getattr(chosen.objective, "objective", chosen.objective)
    partners = chosen.agents.partners or (methods.OTHER,) * len(chosen.agents.seeds)
    agents = dataclasses.replace(chosen.agents, partners=partners, partner_seeds=())
    return _opened(chosen.data, agents, augmentation, single, chosen.run.batch_size, chosen.optim)


@functools.lru_cache(maxsize=4)
def _opened(
    data: Any, agents: Agents, augmentation: Augment, objective: Any, batch_size: int, optim: Any
) -> InMemory:
    run = Run(steps=1, batch_size=batch_size, steps_per_call=1)
    plain = Experiment("both cameras", data, Crossed(objective), augment=augmentation,
                       agents=agents, optim=optim, run=run,
                       checkpoint=Checkpoint(best_metric="none"))  # fmt: skip
    return pairs.in_memory(plain)


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
    """A hook that scores every agent by held-out states."""

    def __init__(self, run: InMemory, score: Score) -> None:
        """Takes the run and the score of latents of all states."""
        self.steps: list[int] = []
        self.scores: list[list[float]] = []
        self.seconds: list[float] = []
        self.told: dict[str, np.ndarray] = {}
        self._run, self._score, self._begin = run, score, 0.0

    def __call__(self, progress: Progress) -> None:
        """Encodes the states and scores them."""
        sharding.fetch(progress.state.step)
        if progress.step:
            self.seconds.append(time.monotonic() - self._begin)
        z_AND = encode_states(self._run.parts.trainer.encode, progress.state, self._run.feed)
        self.steps.append(progress.step)
        self.scores.append([self._score(z_ND) for z_ND in z_AND])
        last = sharding.fetch(progress.metrics or {})
        self.told = {name: last[name][:, -1] for name in LOGGED if name in last}
        self._begin = time.monotonic()

    def rows(self, seeds: Sequence[int]) -> Rows:
        """Returns the curve of each agent as a row, with what was logged last."""
        return [
            {"part": "run", "seed": seed, "steps": self.steps,
             "scores": [round(of_agents[k], 5) for of_agents in self.scores],
             **{key: round(float(values[k]), 5) for key, values in self.told.items()}}
            for k, seed in enumerate(seeds)
        ]  # fmt: skip
