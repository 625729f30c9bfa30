"""The worlds in which students learn: in motion, toys, photographs; a run and a score for each.

Shape key: N states, D latents.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_collections
import numpy as np

from configs import eth80_ijepa, toys_ijepa
from experiments.motion import pairs
from socialjepa_jax import build
from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.collaboration.probe import accuracy
from socialjepa_jax.config import Agents, Experiment, from_config_dict
from socialjepa_jax.data import MotionData
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.evaluation.readouts import readout_r2
from socialjepa_jax.evaluation.splits import splits
from socialjepa_jax.models.vit import ViTConfig

EVALUATIONS = 20
Score = Callable[[np.ndarray], float]  # latents f32[N, D] -> score on held-out states


@dataclass(frozen=True)
class Scene:
    """A world, the run of a single agent in it, and what is asked of its latents.

    Attributes:
        name: of the folder of results.
        steps: of a run, by scale.
        tuning: changes that make another world of it, in which methods are tuned.
        score_name: in words.
        experiment: (seeds, changes) -> the single run.
        score: data set -> the score of latents.
        small: changes for smoke tests.
        memory: pairs that moments hold, in smoke tests and otherwise.
        crops: True: training draws crops, so that latents of whole images are others.
        tuned_in: another scene in whose tuning world methods are tuned; None: this one.
        classes: categories of the states; 0: there are none.
    """

    name: str
    steps: Mapping[str, int]
    tuning: Mapping[str, object]
    score_name: str
    experiment: Callable[[tuple[int, ...], Mapping[str, object]], Experiment]
    score: Callable[[ViewDataset], Score]
    small: Mapping[str, object]
    memory: tuple[int, int]
    crops: bool = False
    tuned_in: "Scene | None" = None
    classes: int = 0

    def run(
        self, scale: str, seeds: tuple[int, ...], share: float = 1.0, **changes: object
    ) -> Experiment:
        """Returns the single run with one agent for each seed.

        Args:
            scale: "smoke" | "cpu" | "gpu" | "paper".
            seeds: of the agents.
            share: of the steps of a whole run, which ends its schedule earlier.
            **changes: of settings, see `pairs.experiment`.
        """
        steps = max(2, round(self.steps[scale] * share))
        call = max(1, self.steps[scale] // EVALUATIONS)  # the same however long the run is
        small = self.small if scale == "smoke" else {}
        rhythm = pairs.lasting(steps) | {"run__steps_per_call": call}
        return self.experiment(seeds, {**small, **rhythm, **changes})


def _in_motion(seeds: tuple[int, ...], changes: Mapping[str, object]) -> Experiment:
    return pairs.experiment(seeds, **{"data__walk": 0, **changes})


def _state_r2(dataset: ViewDataset) -> Score:
    """Mean R2 of ridge readouts of the states."""
    states, split = dataset.states, splits(dataset)[0]
    assert states is not None
    return lambda z_ND: float(readout_r2(z_ND, states, split).mean())


@dataclass(frozen=True)
class _OnPictures:
    """I-JEPA on pictures, with the small encoder of `rivals_toys`; can be pickled.

    Attributes:
        config: of the pictures.
        path: of their file; "": there is none.
    """

    config: Callable[[], ml_collections.ConfigDict]
    path: str = ""

    def __call__(self, seeds: tuple[int, ...], changes: Mapping[str, object]) -> Experiment:
        file = {"data__path": self.path} if self.path else {}
        base = from_config_dict(pairs.changed(self.config(), {**file, **changes}))
        objective: Any = base.objective
        vit = ViTConfig(
            image_size=48, patch_size=8, channels=base.data.channels, width=48, depth=2, heads=3,
            init_std=0.08,
        )  # fmt: skip
        objective = dataclasses.replace(objective, vit=vit, latent_encoder="context")
        agents = Agents((0,) * len(seeds), seeds)
        return dataclasses.replace(base, objective=objective, agents=agents)


def _categories(dataset: ViewDataset) -> Score:
    """Accuracy of a logistic probe of the category on held-out objects."""
    split = splits(dataset)[0]
    classes = np.unique(dataset.labels, return_inverse=True)[1]
    train, test = split.train, split.test

    def score(z_ND: np.ndarray) -> float:
        probe = fit_logistic(z_ND[train], classes[train], int(classes.max()) + 1)
        return accuracy(probe, z_ND[test], classes[test])

    return score


def pool_of(chosen: Experiment, dataset: ViewDataset) -> int:
    """Returns the number of states that an agent trains on."""
    if isinstance(chosen.data, MotionData):
        return chosen.data.pool
    return len(build.train_rows(chosen, dataset))


MOTION = Scene(
    "table9",
    {"smoke": 8, "cpu": 500, "gpu": 1000, "paper": 1000},
    {"data__seed": 1, "data__rho": (0.85,)},
    "R² of the state",
    _in_motion,
    _state_r2,
    {"data__pool": 64, "data__states": 64, "run__batch_size": 16},
    (64, 1024),
)
TOYS = Scene(
    "table9_toys",
    {"smoke": 4, "cpu": 400, "gpu": 1600, "paper": 1600},
    {"data__seed": 1},
    "accuracy of the category",
    _OnPictures(toys_ijepa.get_config),
    _categories,
    {"data__instances": 4, "data__splits__test_instances": 2, "run__batch_size": 16},
    (512, 1024),
    crops=True,
    classes=5,
)


def photographs(path: str) -> Scene:
    """Returns the scene of ETH-80, whose methods are tuned on the toys.

    Args:
        path: of the file that `configs/eth80_ijepa.py` describes.
    """
    return dataclasses.replace(
        TOYS,
        name="table9_eth80",
        experiment=_OnPictures(eth80_ijepa.get_config, path),
        small={"run__batch_size": 16},
        tuned_in=TOYS,
        classes=8,
    )
