"""From an experiment to its parts: the trainer, the settings of the agents, and the feed."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from socialjepa_jax import sharding
from socialjepa_jax.agents import AgentState, Trainer, choose_agent_map
from socialjepa_jax.config import AGENT_SEEDS, Experiment
from socialjepa_jax.data import MotionData, ReacherData
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.protocols import ImageFeed, Opening
from socialjepa_jax.data.resident import ResidentFeed
from socialjepa_jax.errors import InputError
from socialjepa_jax.models import attention
from socialjepa_jax.models.vit import vits
from socialjepa_jax.objectives.base import HParams


@dataclasses.dataclass(frozen=True)
class Parts:
    """The trainer of an experiment and the settings of its agents.

    Attributes:
        trainer: initialises, steps and encodes the agents.
        hparams: settings that differ between agents, arrays [A] on the devices.
    """

    trainer: Trainer
    hparams: HParams

    @functools.cached_property  # drawing a state is traced once
    def abstract_state(self) -> AgentState:
        """Shapes, dtypes and shardings of a state: what a checkpoint is restored into."""
        by_agent = sharding.by_agent(self.trainer.mesh)
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=by_agent),
            jax.eval_shape(self.trainer.init, self.hparams),
        )

    def fresh_state(self, same_init: bool = False) -> AgentState:
        """Draws the agents' states at step 0.

        Args:
            same_init: all agents start from the first agent's initial parameters.
        """
        hparams = self.hparams
        if same_init:
            seeds = np.asarray(sharding.fetch(hparams["seed"]))
            by_agent = sharding.by_agent(self.trainer.mesh)
            hparams = {**hparams, "seed": sharding.put(np.full_like(seeds, seeds[0]), by_agent)}
        return self.trainer.init(hparams)


def build(
    experiment: Experiment,
    trainer_class: Callable[..., Trainer] = Trainer,
    devices: Sequence[jax.Device] | None = None,
) -> Parts:
    """Builds the parts of an experiment.

    Args:
        experiment: what to run.
        trainer_class: makes the trainer from its fields.
        devices: to run on; default all.

    Raises:
        InputError: the devices cannot do what the experiment asks for.
    """
    trainer = make_trainer(experiment, trainer_class, devices)
    # One number names the repetition and the agent, so that equal agent seeds of different
    # repetitions share nothing either.
    seeds = [experiment.seed * AGENT_SEEDS + seed for seed in experiment.agents.seeds]
    hparams = make_hparams(seeds, experiment.run.steps)
    return Parts(trainer, sharding.put(hparams, sharding.by_agent(trainer.mesh)))


def make_trainer(
    experiment: Experiment,
    trainer_class: Callable[..., Trainer] = Trainer,
    devices: Sequence[jax.Device] | None = None,
) -> Trainer:
    """Makes the trainer of an experiment; nothing is put on the devices.

    Args:
        experiment, trainer_class, devices: see `build`.

    Raises:
        InputError: the devices cannot do what the experiment asks for.
    """
    run = experiment.run
    for vit in vits(experiment.objective):
        attention.check(vit.attention, vit.width // vit.heads, vit.dtype)
    return trainer_class(
        objective=experiment.objective,
        optimizer=experiment.optim,
        total_steps=run.steps,
        batch_size=run.batch_size,
        steps_per_call=run.steps_per_call,
        mesh=sharding.make_mesh(
            len(experiment.agents.seeds), run.batch_size, devices or jax.devices()
        ),
        agent_map=choose_agent_map(run.agent_map),
        max_skips=experiment.monitors.max_skips,
        gradient_sums=run.gradient_sums,
        overlap_sums=run.overlap_sums,
    )


def make_hparams(seeds: Sequence[int], total_steps: int, **columns: Any) -> HParams:
    """Makes the settings that differ between agents, as arrays [A].

    Args:
        seeds: of the agents.
        total_steps: length of the run.
        columns: further settings: one value for all agents, or one for each.

    Raises:
        InputError: a column has another number of values than there are seeds.
    """
    count = len(seeds)
    hparams = {
        "seed": jnp.asarray(np.asarray(seeds, np.uint32)),
        "total_steps": jnp.full(count, total_steps, jnp.int32),
    }
    for name, values in {"learning_rate": 1.0, **columns}.items():
        column = np.atleast_1d(np.asarray(values, np.float32))
        if column.shape not in ((1,), (count,)):
            raise InputError(f"{name} has {column.size} values for {count} runs")
        hparams[name] = jnp.asarray(np.broadcast_to(column, (count,)))
    return hparams


def train_rows(experiment: Experiment, dataset: ViewDataset) -> np.ndarray:
    """Returns i64[R], the states that may be trained on.

    Raises:
        InputError: there are fewer than a batch holds.
    """
    rows = dataset.train_rows
    if experiment.pretrain_on == "all":
        rows = np.arange(dataset.num_states)
    if len(rows) < experiment.run.batch_size:
        raise InputError(
            f"config.run.batch_size={experiment.run.batch_size} is more than the {len(rows)} "
            "training states"
        )
    return rows


def open_feed(
    experiment: Experiment,
    dataset: ViewDataset,
    parts: Parts,
    workdir: pathlib.Path,
    cache: pathlib.Path,
    *,
    check: Callable[[], None] = lambda: None,
    settle: Callable[[], None] = lambda: None,
) -> ImageFeed:
    """Opens the feed of an experiment: its data's own, or images that live on the devices.

    Args:
        experiment, dataset, parts: of the run.
        workdir: folder of the list of broken files.
        cache: folder of the pixel statistics of files.
        check: called while there is something to wait for.
        settle: blocks until the devices have done the steps dispatched so far.

    Raises:
        InputError: there are fewer training states than a batch holds, or a walk is too short.
        Stopped: too many files are broken.
    """
    run = experiment.run
    _check_world(experiment)
    opening = Opening(
        cameras=experiment.agents.cameras,
        train_rows=train_rows(experiment, dataset),
        augmentation=experiment.augment,
        mesh=parts.trainer.mesh,
        seeds=parts.hparams["seed"],
        batch_size=run.batch_size,
        steps_per_call=run.steps_per_call,
        total_steps=run.steps,
        chunk=run.encode_batch,
        workdir=workdir,
        cache=cache,
        check=check,
        settle=settle,
    )
    if hasattr(experiment.data, "open_feed"):
        return experiment.data.open_feed(dataset, opening)
    return ResidentFeed(np.asarray(dataset.images), opening)


def _check_world(experiment: Experiment) -> None:
    """Checks that latents of the objective can hold a world in motion and its walk.

    Raises:
        InputError: the walk is too short for the response to actions.
    """
    data, outputs = experiment.data, getattr(experiment.objective, "outputs", None)
    if not isinstance(data, MotionData | ReacherData) or outputs is None:
        return
    if outputs < data.latents_in_view:
        logging.warning(
            "objective.outputs=%d is less than the world's %d latents: they cannot be identified",
            outputs,
            data.latents_in_view,
        )
    if isinstance(data, ReacherData):
        return
    if 0 < data.walk < outputs + data.actions and data.process == "ou":
        raise InputError(
            f"config.data.walk={data.walk} must be 0 or at least {outputs + data.actions}: the "
            f"response of {outputs} outputs to {data.actions} actions is fitted to it"
        )
