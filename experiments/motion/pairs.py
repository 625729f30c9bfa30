"""Many independent pairs of agents in one world in motion, trained by one program.

Shape key: A agents, N states, D latents.
"""

import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np
from scipy import stats

from configs import motion_lejepa
from socialjepa_jax import alignment, build, evaluation, loop, sharding
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Agents, Experiment, from_config_dict
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.resident import chunks
from socialjepa_jax.evaluation import evidence, moving
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.evaluation.latents import encode_chunks
from socialjepa_jax.evaluation.splits import Split, splits
from socialjepa_jax.evaluation.table import Row
from socialjepa_jax.records import RowName
from socialjepa_jax.report.tables import Interval
from socialjepa_jax.running.hooks import Hook


def experiment(
    seeds: Sequence[int], *, cameras: Sequence[int] = (), **changes: object
) -> Experiment:
    """Returns the preset with one agent for each seed.

    Args:
        seeds: of the agents.
        cameras: of the agents; default: the first and the second in turn.
        **changes: of settings; a double underscore stands for the dot of a path.
    """
    config = changed(motion_lejepa.get_config(), changes)
    cameras = tuple(cameras) or tuple(k % 2 for k in range(len(seeds)))
    return dataclasses.replace(from_config_dict(config), agents=Agents(cameras, tuple(seeds)))


def changed(
    config: ml_collections.ConfigDict, changes: Mapping[str, object]
) -> ml_collections.ConfigDict:
    """Changes settings of a configuration; see `experiment`."""
    for path, value in changes.items():
        *groups, name = path.split("__")
        group = config
        for key in groups:
            group = group[key]
        with group.unlocked():
            group[name] = value
    return config


def run(chosen: Experiment, controls: bool = True, **columns: Sequence[float]) -> list[Row]:
    """Trains all agents and measures pairs (0, 1), (2, 3), ... and the ceiling.

    Args:
        chosen: of an even number of agents.
        controls: False: the rows of trained agents only.
        **columns: `hparams` that differ between agents, one value for each.

    Returns:
        Rows as in alignment.json, with the number of their pair as 'seed'.
    """
    encoded, rows = train(chosen, **columns).encoded, []
    count = len(chosen.agents.seeds)
    for first in range(0, count, 2):
        pixels = moving.Pixels(encoded.dataset) if controls and first == 0 else None
        found = moving.pair_rows(encoded, (first, first + 1), pixels=pixels, controls=controls)
        if controls and count > 2:
            ceiling = (first, (first + 2) % count)
            found += moving.pair_rows(encoded, ceiling, pixels=None)
        rows += [{**row, "seed": first // 2} for row in found]
    return rows


@dataclasses.dataclass(frozen=True, eq=False)
class InMemory:
    """An experiment without a folder: its data and its agents before training.

    Attributes:
        chosen: the experiment.
        dataset: of the experiment.
        parts: trainer and settings of the agents.
        feed: what they are trained on; for a world in motion with `walks` and `actions`.
    """

    chosen: Experiment
    dataset: ViewDataset
    parts: build.Parts
    feed: Any

    @functools.cached_property
    def split(self) -> Split:
        """The states that maps and readouts are fitted and tested on."""
        return splits(self.dataset)[0]

    @functools.cached_property
    def fresh(self) -> AgentState:
        """The agents at step 0."""
        return self.parts.fresh_state()

    def train(
        self, run_hooks: Sequence[Hook] = (), start: AgentState | None = None,
        **columns: Sequence[float] | np.ndarray,
    ) -> AgentState:  # fmt: skip
        """Trains the agents; returns their state.

        Args:
            run_hooks, start: see `loop.train`.
            **columns: `hparams` that differ between agents, one value (or array) for each.
        """
        hparams = {name: np.asarray(values, np.float32) for name, values in columns.items()}
        by_agent = sharding.by_agent(self.parts.trainer.mesh)
        settings = self.parts.hparams | sharding.put(hparams, by_agent)
        return loop.train(self.parts.trainer, self.feed, settings, run_hooks, start)

    def encoders(self, state: AgentState) -> Encoders:
        """Returns the agents of a state as encoders, such as teachers are."""
        params, aux, mean, std = sharding.fetch(
            (state.params, state.aux, self.feed.mean, self.feed.std)
        )
        return Encoders(self.chosen, params, aux, mean, std)

    def encode(self, state: AgentState, shots: Sequence[np.ndarray], size: int) -> np.ndarray:
        """Encodes images u8[N, H, W, C] of each agent's own, `size` at once: f32[A, N, D]."""
        pieces = chunks(list(shots), size, lambda: None)
        return encode_chunks(self.parts.trainer.encode, state, self.feed, pieces, len(shots[0]))


def in_memory(
    chosen: Experiment, cache: pathlib.Path | None = None, teacher: Encoders | None = None
) -> InMemory:
    """Loads the data of an experiment and builds its agents; nothing is trained.

    Args:
        chosen: the experiment.
        cache: folder of what is costly to make again; default: none is kept.
        teacher: of a migration.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        dataset, parts = chosen.data.load(cache or path), build.build(chosen, teacher=teacher)
        feed = build.open_feed(chosen, dataset, parts, path, cache or path)
    return InMemory(chosen, dataset, parts, feed)


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The agents of an experiment after training.

    Attributes:
        encoded: what they make of the states and of their walks.
        state: the agents.
    """

    encoded: evidence.Encoded
    state: AgentState


def train(chosen: Experiment, **columns: Sequence[float]) -> Outcome:
    """Trains all agents of an experiment in memory and encodes the states of its world.

    Args:
        chosen: the experiment.
        **columns: `hparams` that differ between agents, one value for each.
    """
    run = in_memory(chosen)
    trainer, feed = run.parts.trainer, run.feed
    seen = evidence.gather(trainer, run.fresh, run.fresh, feed)
    state = run.train(**columns)
    latents_AND = evaluation.encode_states(trainer.encode, state, feed)
    seen = dataclasses.replace(seen, walks=evidence.encode_walks(trainer, state, feed))
    return Outcome(evidence.Encoded(chosen, run.dataset, latents_AND, seen), state)


def trained(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows of trained pairs under the configured map, one for each pair."""
    return [r for r in rows if (r["row"], r["back"]) == (RowName.TRAINED, "inverse")]


def measures(rows: Sequence[Row]) -> list[dict[str, list[float]]]:
    """Returns the R2 of each pair: of latents and state for both agents, of W ("r2") once."""
    found = []
    for row in trained(rows):
        metrics = row["metrics"]
        names = [key.partition("/")[2] for key in metrics if key.startswith("state_r2/")]
        ends = {name: f"/{name}" for name in names} | {"state": ""}
        found.append(
            {name: [metrics[f"state_r2{agent}{end}"] for agent in ("_x", "")]
             for name, end in ends.items()}
            | {"r2": [metrics["r2"]]}
        )  # fmt: skip
    return found


def lasting(steps: int) -> dict[str, int]:
    """Returns the changes for `experiment` that make a run of these steps one call."""
    rhythm = ("steps", "steps_per_call", "log_every", "eval_every", "save_every")
    return {f"run__{name}": steps for name in rhythm}


def r2_of_map(x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Fits y ~ W x by ridge on some rows of [N, D] and [N, E]; returns its R2 on others."""
    return alignment.r2(alignment.fit(x[train], y[train]), x[test], y[test])


def cell(numbers: Sequence[float]) -> Interval:
    """Returns the mean and the 95 % t-interval as a cell of a table."""
    found = interval(numbers)
    mean, half = found["mean"], found["half"]
    return Interval(mean, mean - half, mean + half)


def interval(numbers: Sequence[float]) -> dict[str, float]:
    """Returns mean, half width of the 95 % t-interval, and number of values."""
    n = len(numbers)
    half = float("nan")
    if n > 1:
        half = stats.t.ppf(0.975, n - 1) * np.std(numbers, ddof=1) / np.sqrt(n)
    return {"mean": float(np.mean(numbers)), "half": float(half), "n": n}
