"""Agents on DMC Reacher, trained once and kept as what they make of the states of both conditions.

The experiments share agents: their latents are kept in the folder of results, so a condition that
one experiment trained costs the next one nothing, and an interrupted experiment goes on.

Shape key: A agents, N states, P pairs, D latents, H height, W width, C channels.
"""

import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from configs import reacher_lejepa
from experiments.motion import pairs
from socialjepa_jax import config, sharding
from socialjepa_jax.config import Experiment
from socialjepa_jax.data import ReacherData, cache
from socialjepa_jax.data.reacher.grid import Grid
from socialjepa_jax.models.cnn import CNNConfig
from socialjepa_jax.models.patch_net import PatchNetConfig

SEEDS = (6_000, 6_001, 6_002)  # of the reported agents; what is chosen is chosen on others
FACTOR = 0.1  # lambda over 1 - rho
PROCESSES = ("ou", "trajectory")
MOST_PAIRS = 2_000  # encoded to compare trained pairs with fresh ones
_CHUNK = 500
_FRESH = 1_000_003  # folded into the key of fresh pairs


def _small() -> dict[str, Any]:
    encoder = PatchNetConfig(image_size=16, widths=(8, 8), hidden=16)
    return {"data__pool": 64, "data__states": 64, "data__image_size": 16, "data__grid": (8, 8),
            "objective__encoder": config.to_plain(encoder), "run__batch_size": 16,
            **pairs.lasting(4)}  # fmt: skip


def _published() -> dict[str, Any]:
    """Settings of the paper: its encoder, pairs, batches, slices and steps."""
    encoder = CNNConfig(outputs=0)
    return {"data__pool": 100_000, "data__states": 20_000, "data__image_size": 64,
            "data__grid": (512, 256), "objective__encoder": config.to_plain(encoder),
            "objective__num_slices": 256, "run__batch_size": 256, "optim__warmup_fraction": 0.0,
            **pairs.lasting(39_000), "run__steps_per_call": 50}  # fmt: skip


CHANGES = {"smoke": _small, "cpu": lambda: pairs.lasting(2_400)}
CHANGES |= dict.fromkeys(("gpu", "paper"), _published)


@dataclasses.dataclass(frozen=True)
class Condition:
    """What agents are trained on.

    Attributes:
        rho: correlation of the Ornstein-Uhlenbeck process; 0: pairs of trajectories.
        stride: moments between the states of a pair of trajectories.
        weight: lambda of SIGReg.
        camera: number of the camera.
        trajectories: file of episodes; "": the built-in ones.
    """

    rho: float = 0.0
    stride: int = 8
    weight: float = 0.01
    camera: int = 0
    trajectories: str = ""

    @property
    def process(self) -> str:
        """ "ou" | "trajectory"."""
        return "ou" if self.rho else "trajectory"

    def experiment(self, scale: str, seeds: Sequence[int] = SEEDS, **more: object) -> Experiment:
        """Returns the experiment with one agent for each seed; there is one camera, the chosen.

        Args:
            scale: "smoke" | "cpu" | "gpu" | "paper".
            seeds: of the agents.
            **more: changes of other settings, see `pairs.experiment`.
        """
        cameras = ReacherData()
        changes = CHANGES[scale]() | {
            "data__tilts": (cameras.tilts[self.camera],),
            "data__turns": (cameras.turns[self.camera],),
            "data__process": self.process,
            "data__rho": (self.rho or 0.9,),
            "data__stride": self.stride,
            "data__trajectories": self.trajectories,
            "objective__weight": self.weight,
            "agents__cameras": (0,) * len(seeds),
            "agents__seeds": tuple(seeds),
            **more,
        }
        return config.from_config_dict(pairs.changed(reacher_lejepa.get_config(), changes))


@dataclasses.dataclass(frozen=True, eq=False)
class Codes:
    """Agents of one condition, as what they encode.

    Attributes:
        condition: of their training.
        seeds: of the agents.
        states: process -> f64[N, 2], the states that are measured on.
        latents: process -> f32[A, N, D], of these states.
        untrained: the same before training.
        trained_pairs, fresh_pairs: f32[A, 2, P, D], of pairs that the agents were trained on, and
            of others of their condition.
    """

    condition: Condition
    seeds: tuple[int, ...]
    states: dict[str, np.ndarray]
    latents: dict[str, np.ndarray]
    untrained: dict[str, np.ndarray]
    trained_pairs: np.ndarray
    fresh_pairs: np.ndarray


def train(
    condition: Condition, scale: str, out: pathlib.Path, seeds: Sequence[int] = SEEDS
) -> Codes:
    """Trains agents of one condition, or takes what an earlier run kept of them.

    Args:
        condition: what they are trained on.
        scale: "smoke" | "cpu" | "gpu" | "paper".
        out: folder of results; the rendered images are in its cache too.
        seeds: of the agents.
    """
    folder, codes = out / "cache", []
    for seed in seeds:  # one by one, so that an interruption costs one agent
        chosen = condition.experiment(scale, (seed,))
        make = functools.partial(_train, chosen, folder)
        codes.append(cache.cached_array(kept(chosen, folder), make))
    codes_2ARD, data = np.concatenate(codes, axis=1), _data(chosen)
    states = {process: measured(data, process, folder) for process in PROCESSES}
    num, count = data.states, min(MOST_PAIRS, data.pool)
    ends = np.cumsum([num, num, 2 * count])
    parts = [np.split(codes, ends, axis=1) for codes in codes_2ARD]
    untrained, trained = (dict(zip(PROCESSES, part)) for part in parts)
    seen, fresh = (part.reshape(len(seeds), 2, count, part.shape[-1]) for part in parts[1][2:])
    return Codes(condition, tuple(seeds), states, trained, untrained, seen, fresh)


def kept(chosen: Experiment, folder: pathlib.Path) -> pathlib.Path:
    """Returns the file of what the agents of an experiment encode."""
    plain = json.dumps(config.to_plain(chosen), sort_keys=True)
    name = hashlib.sha256(plain.encode()).hexdigest()[:16]
    return folder / "reacher_codes" / f"{name}.npy"


def _data(chosen: Experiment) -> ReacherData:
    assert isinstance(chosen.data, ReacherData)
    return chosen.data


def measured(data: ReacherData, process: str, folder: pathlib.Path) -> np.ndarray:
    """Returns the states f64[N, 2] of a condition that agents are measured on."""
    return dataclasses.replace(data, process=process).measured(folder)


def _train(chosen: Experiment, folder: pathlib.Path) -> np.ndarray:
    """Trains agents; returns what they encode before and after: f32[2, A, R, D]."""
    run = pairs.in_memory(chosen, folder)
    shown_ARHWC = _shown(chosen, run.feed.at(0).frames, folder)
    size = min(_CHUNK, len(shown_ARHWC[0]))
    before = run.encode(run.fresh, shown_ARHWC, size)
    return np.stack([before, run.encode(run.train(), shown_ARHWC, size)])


def _shown(chosen: Experiment, frames_AP: jax.Array, folder: pathlib.Path) -> list[np.ndarray]:
    """Returns the images u8[R, H, W, C] that are shown to each agent, in the order of `train`."""
    data = _data(chosen)
    grid, count = Grid(data.grid), min(MOST_PAIRS, data.pool)
    images = data.images(0, folder)
    same = [images[grid.index(measured(data, process, folder))] for process in PROCESSES]
    process, params = data.world(folder, held_out=True)
    key = jax.random.fold_in(jax.random.key(data.seed), _FRESH)
    fresh = [images[grid.index(np.asarray(z))] for z in process.views(params, key, count)]
    own_A2P = np.swapaxes(sharding.fetch(frames_AP[:, :count]), 1, 2)
    return [np.concatenate([*same, *own, *fresh]) for own in own_A2P]


def steps(scale: str) -> int:
    """Returns the steps of a training."""
    return int(CHANGES[scale]()["run__steps"])
