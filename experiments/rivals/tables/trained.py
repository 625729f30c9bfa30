"""Every method trained once on the toys; its latents are kept, and all tables are read from them.

Settings are chosen on one toy world and reported on another, whose objects differ, or on
photographs of ETH-80 in luma, on which nothing is chosen. In the first,
each of six agents of the first camera has one trial; the trial whose linear probe recognises the
categories of held-out objects best is chosen, as published methods are tuned. In the second, six
agents train with that trial, three on each of two cameras 160 degrees apart, and two more, one a
camera, with the published settings. All agents see the same number of images.

Shape key: C checkpoints, A agents, N states, D features.
"""

import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from configs import eth80_ijepa
from experiments import findings
from experiments.findings import Rows
from experiments.motion import pairs
from experiments.motion.pairs import InMemory
from experiments.rivals import methods, toys
from experiments.rivals.tables import measures
from experiments.rivals.tables.entrants import ENTRANTS, Supervised
from socialjepa_jax import collaboration
from socialjepa_jax.agents import AgentState
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.config import Agents, Alignment, Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation import controls
from socialjepa_jax.evaluation.latents import encode_states
from socialjepa_jax.evaluation.splits import Split, splits
from socialjepa_jax.performance import flops
from socialjepa_jax.running.hooks import Progress

STEPS = {"smoke": 50, "cpu": 500, "gpu": 2000, "paper": 2000}
TUNING_STEPS = {"smoke": 25, "cpu": 200, "gpu": 2000, "paper": 2000}
SEEDS = 3  # agents of a camera
CHECKPOINTS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)  # shares of the steps
TUNING_TOYS, TOYS = 11, 12  # seeds of the worlds
TUNING_SEED, FIRST_SEED = 9_000, 9_100  # of agents
CAMERAS = methods.CAMERAS
TUNED = SEEDS * CAMERAS  # agents with the chosen trial; those after them have the published one
CATEGORIES = 8  # of ETH-80
ENCODED = 64  # images at once, so that their features stay in a core's cache
FOLDER = "rivals_tables"
HOW = Alignment()  # W of all tables


@dataclass(frozen=True, eq=False)
class Trained:
    """The agents of a method, by what they make of all states.

    Attributes:
        name: of the method.
        latents: f32[C, A, N, D], the first of untrained agents; three agents of the first camera,
            three of the second, and one of each with the published settings.
        losses: f32[C, A], of the steps before each checkpoint; NaN for the first.
        steps: i32[C], of the checkpoints.
        rows: "trial" of each tuning trial, and "cost".
    """

    name: str
    latents: np.ndarray
    losses: np.ndarray
    steps: np.ndarray
    rows: Rows

    @property
    def untrained(self) -> np.ndarray:
        """f32[A, N, D]."""
        return self.latents[0]

    @property
    def final(self) -> np.ndarray:
        """f32[A, N, D]."""
        return self.latents[-1]

    @property
    def cost(self) -> dict[str, float]:
        """ "flops" of a step of one agent, "images_per_second" and "chosen", a trial's number."""
        return findings.select(self.rows, row="cost")[0]


def cross_pairs() -> list[tuple[int, int]]:
    """Returns all pairs of tuned agents of unlike cameras."""
    return [(i, SEEDS + j) for i in range(SEEDS) for j in range(SEEDS)]


@dataclass(frozen=True)
class World:
    """The images that all methods are measured on.

    Attributes:
        scale: of the run.
        out: folder of the results.
        photographs: file of ETH-80 (see `configs/eth80_ijepa.py`) instead of the toys.
    """

    scale: str
    out: pathlib.Path
    photographs: str | None = None

    @property
    def stem(self) -> str:
        """Begin of the names of files."""
        return f"{self.scale}_eth80" if self.photographs else self.scale

    @functools.cached_property
    def dataset(self) -> ViewDataset:
        """Images of both cameras."""
        return self.experiment("ijepa", TOYS).data.load(self.out / "cache")

    @functools.cached_property
    def split(self) -> Split:
        """Held-out objects."""
        return splits(self.dataset)[0]

    @functools.cached_property
    def pixels(self) -> np.ndarray:
        """Principal components of both cameras' pixels, as many as latents have: f32[2, N, D]."""
        train = self.split.train
        images = self.dataset.images
        return np.stack([controls.pixel_pca(each, train, measures.RANKS) for each in images])

    def rows_file(self, folder: str, name: str) -> pathlib.Path:
        """Returns the path of a method's kept rows of an experiment; see `kept`."""
        return self.out / folder / f"{self.stem}_{name.replace(' ', '_')}.json"

    def kept(self, folder: str, name: str, make: Callable[[], Rows]) -> Rows:
        """Returns a method's rows of an experiment, measured if `out` does not hold them.

        Args:
            folder: of the experiment in `out`.
            name: of the method or control; every row gets it as "method".
            make: measures the rows, with one thread for NumPy's products: what else is running
                would be waited for.
        """
        path = self.rows_file(folder, name)
        with one_blas_thread():
            return findings.kept(path, lambda: [{"method": name, **row} for row in make()])

    def measured(self, folder: str, names: Iterable[str], make: Callable[[str], Rows]) -> Rows:
        """Returns the rows of several methods, one after the other; see `kept`.

        Args:
            folder: of the experiment in `out`.
            names: of methods and controls.
            make: measures the rows of one.
        """
        return [row for name in names for row in self.kept(folder, name, lambda: make(name))]  # noqa: B023

    def trained(self, name: str) -> Trained:
        """Returns the agents of a method, trained if an earlier call has not left them in `out`."""
        stem = self.out / FOLDER / f"{self.stem}_{name}"
        arrays = stem.with_suffix(".npz")

        def make() -> Rows:
            rows, kept = _make(self, name, stem)
            np.savez(arrays, **kept)
            return rows

        rows = findings.kept(stem.with_suffix(".json"), make)
        with np.load(arrays) as kept:
            return Trained(name, kept["latents"], kept["losses"], kept["steps"], rows)

    def experiment(self, name: str, toys_seed: int, steps: int = 0) -> Experiment:
        """Returns a run of a method: six trials on the tuning toys, else the reported agents."""
        smoke = toys.SMOKE if self.scale == "smoke" else {}
        objective = ENTRANTS[name].objective
        chosen = methods.experiment("ijepa", steps or STEPS[self.scale], SEEDS, **smoke)
        tuning = toys_seed == TUNING_TOYS
        count, first = (6, TUNING_SEED) if tuning else (TUNED + CAMERAS, FIRST_SEED)
        cameras = (0,) * 6 if tuning else (*chosen.agents.cameras, *range(CAMERAS))
        data: Any = dataclasses.replace(chosen.data, seed=toys_seed)
        if self.photographs and not tuning:
            size = methods.VIT.image_size
            colour = eth80_ijepa.photographs(
                self.photographs, size, eth80_ijepa.PROTOCOL, eth80_ijepa.SPLITS
            )
            data = dataclasses.replace(colour, channels=methods.VIT.channels)
            if isinstance(objective, Supervised):
                objective = dataclasses.replace(objective, projector_dim=CATEGORIES)
        return dataclasses.replace(
            chosen,
            name=f"{'ETH-80' if self.photographs and not tuning else 'Toys'}, {name}",
            data=data,
            objective=objective,
            augment=ENTRANTS[name].augment,
            run=dataclasses.replace(chosen.run, encode_batch=ENCODED),
            agents=Agents(cameras, tuple(range(first, first + count))),
        )


def _make(world: World, name: str, stem: pathlib.Path) -> tuple[Rows, dict[str, np.ndarray]]:
    """Tunes and trains a method; returns its rows and arrays, and saves its encoders."""
    cache, entrant = world.out / "cache", ENTRANTS[name]
    rows = tuned(world, name)
    best = max(rows, key=lambda row: row["accuracy"])["trial"]
    settings = [entrant.trials[best]] * TUNED + [entrant.trials[0]] * CAMERAS
    reported = pairs.in_memory(world.experiment(name, TOYS), cache)
    watch = Checkpoints(reported)
    state = train(reported, settings, watch)
    run = reported.chosen.run
    speed = run.batch_size * len(settings) * run.steps_per_call / watch.seconds
    cost = {
        "row": "cost",
        "chosen": best,
        **entrant.trials[best],
        "flops": step_flops(reported),
        "images_per_second": speed,
    }
    if not isinstance(entrant.objective, Supervised):
        reported.encoders(state).save(f"{stem}_encoders")
    return [{"method": name, **row} for row in [*rows, cost]], watch.arrays()


def train(world: InMemory, settings: list[dict[str, float]], *hooks: "Checkpoints") -> AgentState:
    """Trains agents with the settings of each; the reference with the categories as labels."""
    columns = {key: np.array([setting[key] for setting in settings]) for key in settings[0]}
    if isinstance(world.chosen.objective, Supervised):
        columns["labels"] = np.tile(world.dataset.labels, (len(settings), 1))
    return world.train(hooks, **columns)


def tuned(world: World, name: str) -> Rows:
    """Returns the rows of the trials, for photographs those of the toys."""
    if world.photographs:
        rows = World(world.scale, world.out).trained(name).rows
        return [{k: v for k, v in row.items() if k != "method"}
                for row in findings.select(rows, row="trial")]  # fmt: skip
    chosen = world.experiment(name, TUNING_TOYS, TUNING_STEPS[world.scale])
    return trials(pairs.in_memory(chosen, world.out / "cache"), name)


def trials(world: InMemory, name: str) -> Rows:
    """Trains one agent a trial; returns the accuracy of its probe on held-out objects."""
    settings = ENTRANTS[name].trials
    state = train(world, settings)
    latents = encode_states(world.parts.trainer.encode, state, world.feed)
    return [
        {"row": "trial", "trial": k, **setting, "accuracy": accuracy(world, latents[k])}
        for k, setting in enumerate(settings)
    ]


def accuracy(world: InMemory | World, z_ND: np.ndarray) -> float:
    """Returns the share of held-out states whose category a linear probe recognises."""
    split, labels = world.split, world.dataset.labels
    classes = len(world.dataset.label_names)
    probe = collaboration.fit_probe(z_ND[split.train], labels[split.train], classes)
    return float(collaboration.accuracy(probe, z_ND[split.test], labels[split.test]))


class Checkpoints:
    """A hook that encodes all states at `CHECKPOINTS`, and takes the CPU seconds of a call."""

    def __init__(self, world: InMemory) -> None:
        self._world, self._begin = world, 0.0
        run = world.chosen.run
        calls = [max(1, round(share * run.steps / run.steps_per_call)) for share in CHECKPOINTS]
        self._at = {0, *(call * run.steps_per_call for call in calls)}
        self._losses: list[np.ndarray] = []
        self._kept: list[tuple[int, np.ndarray, np.ndarray]] = []
        self.seconds = float("inf")

    def __call__(self, progress: Progress) -> None:
        """Encodes all states if the step is a checkpoint."""
        jax.block_until_ready(progress.state)
        if progress.step:
            self.seconds = min(self.seconds, time.process_time() - self._begin)
            self._losses.append(np.asarray(progress.metrics["loss"]).mean(-1))
        if progress.step in self._at:
            world = self._world
            z = encode_states(world.parts.trainer.encode, progress.state, world.feed)
            loss = np.mean(self._losses, axis=0) if self._losses else np.full(len(z), np.nan)
            self._kept.append((progress.step, loss, z))
            self._losses = []
        self._begin = time.process_time()

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays of `Trained`."""
        steps, losses, latents = (np.stack(part) for part in zip(*self._kept))
        return {"steps": steps, "losses": losses, "latents": latents.astype(np.float32)}


def step_flops(world: InMemory) -> float:
    """Returns the FLOPs of an update of one agent: loss and gradient of a batch."""
    objective, run = world.chosen.objective, world.chosen.run
    shape = world.dataset.images[0].shape[1:]
    labels = jax.ShapeDtypeStruct((world.dataset.num_states,), np.float32)
    return flops.step(objective, run.batch_size, shape, labels=labels)
