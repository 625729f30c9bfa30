"""Many independent pairs of agents in one world in motion, trained by one program.

Shape key: A agents, N states, D latents.
"""

import dataclasses
import pathlib
import tempfile
from collections.abc import Mapping, Sequence

import ml_collections
import numpy as np
from scipy import stats

from configs import motion_lejepa
from socialjepa_jax import build, evaluation, loop, sharding
from socialjepa_jax.config import Agents, Experiment, from_config_dict
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation import evidence, moving
from socialjepa_jax.evaluation.table import Row
from socialjepa_jax.records import RowName


def experiment(seeds: Sequence[int], **changes: object) -> Experiment:
    """Returns the preset with one agent for each seed, on the first and second camera in turn.

    Args:
        seeds: two for each pair.
        **changes: of settings; a double underscore stands for the dot of a path.
    """
    config = changed(motion_lejepa.get_config(), changes)
    cameras = tuple(k % 2 for k in range(len(seeds)))
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
    encoded, rows = trained_and_encoded(chosen, **columns), []
    count = len(chosen.agents.seeds)
    for first in range(0, count, 2):
        pixels = moving.Pixels(encoded.dataset) if controls and first == 0 else None
        found = moving.pair_rows(encoded, (first, first + 1), pixels=pixels, controls=controls)
        if controls and count > 2:
            ceiling = (first, (first + 2) % count)
            found += moving.pair_rows(encoded, ceiling, pixels=None)
        rows += [{**row, "seed": first // 2} for row in found]
    return rows


def trained_and_encoded(
    chosen: Experiment, dataset: ViewDataset | None = None, **columns: Sequence[float]
) -> evidence.Encoded:
    """Trains all agents of an experiment and encodes the states of its world; see `train`."""
    return train(chosen, dataset, **columns).encoded


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The agents of an experiment after training.

    Attributes:
        encoded: what they make of the states and of their walks.
        rho_hat: f64[A], the correlation of successive embeddings that each measured on its training
            pairs, a running mean.
    """

    encoded: evidence.Encoded
    rho_hat: np.ndarray


def train(
    chosen: Experiment, dataset: ViewDataset | None = None, **columns: Sequence[float]
) -> Outcome:
    """Trains all agents of an experiment in memory and encodes the states of its world.

    Args:
        chosen: the experiment.
        dataset: of the experiment, if it is loaded already.
        **columns: `hparams` that differ between agents, one value for each.
    """
    dataset = chosen.data.load(pathlib.Path()) if dataset is None else dataset
    parts = build.build(chosen)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        feed = build.open_feed(chosen, dataset, parts, path, path)
    fresh = parts.fresh_state()
    seen = evidence.gather(parts.trainer, fresh, fresh, feed)
    hparams = {name: np.asarray(values, np.float32) for name, values in columns.items()}
    by_agent = sharding.by_agent(parts.trainer.mesh)
    state = loop.train(parts.trainer, feed, parts.hparams | sharding.put(hparams, by_agent))
    latents_AND = evaluation.encode_states(parts.trainer.encode, state, feed)
    walks = evidence.encode_walks(parts.trainer, state, feed)
    seen = dataclasses.replace(seen, walks=walks)
    rho_hat = np.asarray(sharding.fetch(state.aux["rho"]), np.float64)
    return Outcome(evidence.Encoded(chosen, dataset, latents_AND, seen), rho_hat)


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


def interval(numbers: Sequence[float]) -> dict[str, float]:
    """Returns mean, half width of the 95 % t-interval, and number of values."""
    n = len(numbers)
    half = float("nan")
    if n > 1:
        half = stats.t.ppf(0.975, n - 1) * np.std(numbers, ddof=1) / np.sqrt(n)
    return {"mean": float(np.mean(numbers)), "half": float(half), "n": n}
