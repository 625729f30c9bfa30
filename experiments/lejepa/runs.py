"""Worlds, small learners and measured runs, shared by the LeJEPA experiments on images.

Runs that differ in lambda, learning rate and seed are agents of one program; what changes an
array's shape needs a program of its own. `paper` spends what `gpu` does: ImageNet is not at hand.
"""

import functools
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from configs import eth80_ijepa, eth80_lejepa, toys_lejepa
from experiments.findings import Rows
from socialjepa_jax import build, collaboration, evaluation, loop, sharding
from socialjepa_jax.agents import AgentState, Trainer, choose_agent_map
from socialjepa_jax.data.arrays import ArraysData
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.data.base import Protocol, Splits, ViewDataset
from socialjepa_jax.data.protocols import Opening
from socialjepa_jax.data.resident import ResidentFeed
from socialjepa_jax.data.toys import ToysData
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import HParams
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.optim import AdamW
from socialjepa_jax.running.hooks import Progress


@dataclass(frozen=True)
class Budget:
    """Size of a run.

    Attributes:
        steps: updates.
        batch_size: images of a step.
        width, depth, heads: of the ViT.
        image_size, patch_size, local_size: pixels.
        local_views: small crops beside two large ones.
        slices: directions of SIGReg.
        instances: toy objects in each of five categories.
        seeds: repetitions.
    """

    steps: int
    batch_size: int
    width: int
    depth: int
    heads: int
    image_size: int
    patch_size: int
    local_size: int
    local_views: int
    slices: int
    instances: int
    seeds: int


# SIGReg grows with the batch: at 128 images a lambda is worth a quarter of what it is at 512.
LARGE = Budget(5000, 256, 192, 6, 3, 64, 8, 32, 6, 1024, 40, 3)
BUDGETS = {
    "smoke": Budget(2, 8, 8, 1, 2, 16, 8, 8, 2, 8, 3, 1),
    "cpu": Budget(250, 128, 32, 1, 2, 32, 8, 16, 2, 128, 12, 2),
    "gpu": LARGE,
    "paper": LARGE,
}
METRICS = ("loss", "prediction", "sigreg", "sigreg_null", "projection_rank", "latent_rank")


def world(budget: Budget, out: pathlib.Path, eth80: str | None) -> ViewDataset:
    """The toy world seen by one camera, or all photographs of ETH-80; objects are held out."""
    if eth80 is None:
        config: ToysData | ArraysData = ToysData(
            instances=budget.instances,
            image_size=budget.image_size,
            samples_per_pixel_side=1,
            protocol=Protocol("norb", azimuths=(0,)),
            splits=Splits(test_instances=max(1, budget.instances // 4)),
        )
    else:
        protocol = Protocol("rig", azimuths=(0,), sector=(0, 360))
        config = eth80_ijepa.photographs(
            eth80, budget.image_size, protocol, Splits(test_instances=2)
        )
    return config.load(out / "cache")


def views(budget: Budget, channels: int, large: int = 2, small: int | None = None) -> MultiCrop:
    """Crops and colours of `configs/toys_lejepa.py` or, in colour, of `configs/eth80_lejepa.py`."""
    sizes = {
        "large": large,
        "small": budget.local_views if small is None else small,
        "local_size": budget.local_size,
    }
    if channels == 1:
        return toys_lejepa.views(toys_lejepa.GREY, flip=True, **sizes)
    return eth80_lejepa.views(**sizes)


def learner(budget: Budget, channels: int, **changes: Any) -> LeJepa:
    """A small LeJEPA with the paper's defaults but for its size, and with these fields changed.

    The projector has three layers: without its batch normalisation, runs as short as these ones
    hardly leave the collapse that a new ViT's nearly constant latent starts in.
    """
    encoder = ViTConfig(
        image_size=budget.image_size,
        patch_size=budget.patch_size,
        channels=channels,
        width=budget.width,
        depth=budget.depth,
        heads=budget.heads,
    )
    plain = LeJepa(
        encoder=encoder,
        projector_layers=3,
        projector_width=4 * budget.width,
        projector_dim=budget.width // 2,
        sigreg_slices=budget.slices,
        views=views(budget, channels),
    )
    return replace(plain, **changes)


@dataclass(frozen=True)
class Run:
    """One run of a program.

    Attributes:
        seed: of initialisation, order, views and slices.
        weight: lambda.
        rate: factor on the optimiser's learning rate.
        labels: what the run is, as columns of its row.
    """

    seed: int = 0
    weight: float = 0.05
    rate: float = 1.0
    labels: dict[str, Any] = field(default_factory=dict)


def study(
    dataset: ViewDataset,
    objective: LeJepa,
    runs: Sequence[Run],
    budget: Budget,
    learning_rate: float = 1e-3,
) -> Rows:
    """Trains the runs as agents of one program and probes each.

    Returns:
        A row a run: its labels, the mean of the training metrics over the last tenth of the steps,
        and accuracies of linear probes on the frozen latent (`probes`), trained and untrained.
    """
    trainer = _trainer(objective, len(runs), budget, learning_rate)
    hparams = build.make_hparams(
        [run.seed for run in runs],
        budget.steps,
        **{"lambda": [run.weight for run in runs], "learning_rate": [run.rate for run in runs]},
    )
    hparams = jax.device_put(hparams, sharding.by_agent(trainer.mesh))
    feed = _feed(dataset, trainer, hparams)
    untrained = [probes(dataset, z_ND) for z_ND in encode(trainer, trainer.init(hparams), feed)]
    curves = []

    def record(progress: Progress) -> None:
        if progress.metrics is not None:
            curves.append(jax.device_get({name: progress.metrics[name] for name in METRICS}))

    state = loop.train(trainer, feed, hparams, [record])
    last = max(1, budget.steps // 10)
    trained = encode(trainer, state, feed)
    rows = []
    for k, run in enumerate(runs):
        row = {"lambda": run.weight, "rate": run.rate, "seed": run.seed, **run.labels}
        for name in METRICS:
            values = np.concatenate([curve[name][k] for curve in curves])
            row[name] = float(values[-last:].mean())
        row |= probes(dataset, trained[k])
        row |= {f"{name}_untrained": value for name, value in untrained[k].items()}
        rows.append(row)
    return rows


def _trainer(objective: LeJepa, num_agents: int, budget: Budget, learning_rate: float) -> Trainer:
    return Trainer(
        objective=objective,
        optimizer=AdamW(learning_rate=learning_rate),
        total_steps=budget.steps,
        batch_size=budget.batch_size,
        steps_per_call=budget.steps // 2,
        mesh=sharding.make_mesh(num_agents, budget.batch_size, jax.devices()),
        agent_map=choose_agent_map("auto"),
    )


def _feed(dataset: ViewDataset, trainer: Trainer, hparams: HParams) -> ResidentFeed:
    """The images of the one camera, for every agent."""
    opening = Opening(
        cameras=(0,) * len(hparams["seed"]),
        train_rows=dataset.train_rows,
        augmentation=Augment(),
        mesh=trainer.mesh,
        seeds=hparams["seed"],
        batch_size=trainer.batch_size,
        steps_per_call=trainer.steps_per_call,
        total_steps=trainer.total_steps,
        chunk=256,
        workdir=pathlib.Path(),
        cache=pathlib.Path(),
    )
    return ResidentFeed(np.asarray(dataset.images), opening)


def encode(trainer: Trainer, state: AgentState, feed: ResidentFeed) -> np.ndarray:
    """Encodes all states: f32[A, N, D]."""
    return evaluation.encode_states(trainer.encode, state, feed)


def probes(dataset: ViewDataset, latents_ND: np.ndarray) -> dict[str, float]:
    """Accuracy of linear probes on a frozen latent.

    'accuracy': categories, on objects that neither encoder nor probe has seen. 'objects': which
    object it is, on states that neither has seen.
    """
    accuracy = functools.partial(_accuracy, latents_ND)
    return {
        "accuracy": accuracy(dataset.labels, dataset.split_instance),
        "objects": accuracy(dataset.instance_ids, dataset.split_state),
    }


def _accuracy(latents_ND: np.ndarray, labels_N: np.ndarray, split_N: np.ndarray) -> float:
    train, test = split_N == 0, split_N == 1
    classes = int(labels_N.max()) + 1
    probe = collaboration.fit_probe(latents_ND[train], labels_N[train], classes, ridge=1.0)
    return float(collaboration.accuracy(probe, latents_ND[test], labels_N[test]))


def settings(budget: Budget, dataset: ViewDataset, **more: Any) -> dict[str, Any]:
    """Returns the settings that a caption states."""
    names = (
        "steps",
        "batch_size",
        "width",
        "depth",
        "image_size",
        "local_views",
        "slices",
        "seeds",
    )
    return {
        "world": dataset.name,
        "states": dataset.num_states,
        **{name: getattr(budget, name) for name in names},
        **more,
    }
