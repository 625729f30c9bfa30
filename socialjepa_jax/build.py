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
from socialjepa_jax.data.protocols import ImageFeed, Opening, PairedFeed
from socialjepa_jax.data.resident import ResidentFeed
from socialjepa_jax.errors import InputError
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.models import attention
from socialjepa_jax.models.vit import vits
from socialjepa_jax.objectives.base import HParams
from socialjepa_jax.objectives.coupled import Migration


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
    teacher: Encoders | None = None,
) -> Parts:
    """Builds the parts of an experiment.

    Args:
        experiment: what to run.
        trainer_class: makes the trainer from its fields.
        devices: to run on; default all.
        teacher: of a migration; without it students can be encoded with and not stepped.

    Raises:
        InputError: the devices cannot do what the experiment asks for, or the teacher cannot teach
            it.
    """
    agents = experiment.agents
    # One number names the repetition and the agent, so that equal agent seeds of different
    # repetitions share nothing either.
    seeds, partners = (
        [experiment.seed * AGENT_SEEDS + seed for seed in part]
        for part in (agents.seeds, agents.partner_seeds)
    )
    hparams = make_hparams(seeds, experiment.run.steps)
    if partners:
        hparams["partner_seed"] = jnp.asarray(np.asarray(partners, np.uint32))
    trainer = make_trainer(experiment, trainer_class, devices)
    if teacher is not None:
        taught = _migration(experiment).bind(teacher.config.objective)
        trainer = dataclasses.replace(trainer, objective=taught)
        hparams["teacher"] = _teachers(experiment, teacher)
    return Parts(trainer, sharding.put(hparams, sharding.by_agent(trainer.mesh)))


def _migration(experiment: Experiment) -> Migration:
    objective = experiment.objective
    if not isinstance(objective, Migration):
        raise InputError(f"a teacher needs objective.kind='migration', got {objective!r}")
    return objective


def _teachers(experiment: Experiment, teacher: Encoders) -> dict[str, Any]:
    """Returns the constants of each student's teacher, leaves [A, ...].

    Raises:
        InputError: there is no such agent, its images are of another kind, or it was trained on
            states that the student is tested on.
    """
    path, chosen = _migration(experiment).teacher, teaching(experiment, teacher)
    theirs, ours = teacher.config, experiment
    for name in ("kind", "image_size", "channels"):
        if getattr(theirs.data, name) != getattr(ours.data, name):
            raise InputError(
                f"objective.teacher={path} saw data.{name}={getattr(theirs.data, name)!r}, the "
                f"student sees {getattr(ours.data, name)!r}"
            )
    if theirs.pretrain_on == "all" and ours.pretrain_on == "train":
        raise InputError(
            f"objective.teacher={path} was trained on the states that the student is tested on "
            "(pretrain_on='all')"
        )
    found = {"params": teacher.params, "aux": teacher.aux, "mean": teacher.mean, "std": teacher.std}
    for leaf in jax.tree.leaves(found["params"]):
        if not np.isfinite(np.asarray(leaf, np.float64)[list(chosen)]).all():
            raise InputError(f"objective.teacher={path} has parameters that are not finite")
    return jax.tree.map(lambda leaf: np.asarray(leaf)[list(chosen)], found)


def teaching(experiment: Experiment, teacher: Encoders) -> tuple[int, ...]:
    """Returns the agent that teaches each student of a migration; by default student k's is k.

    Raises:
        InputError: there is no such agent, or another number of them than of students.
    """
    path, count = _migration(experiment).teacher, len(experiment.agents.seeds)
    chosen = _migration(experiment).teachers or tuple(k % teacher.num_agents for k in range(count))
    if len(chosen) != count or not 0 <= min(chosen) <= max(chosen) < teacher.num_agents:
        raise InputError(
            f"objective.teachers={chosen} must name one of the {teacher.num_agents} agents of "
            f"{path} for each of {count} students"
        )
    return chosen


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
    run, partners = experiment.run, experiment.agents.partners
    _check_world(experiment)
    opening = Opening(
        cameras=experiment.agents.cameras,
        train_rows=train_rows(experiment, dataset),
        augmentation=experiment.augment,
        shuffle=experiment.shuffle,
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
    own = _open(experiment, dataset, opening)
    if not partners:
        return own
    second = dataclasses.replace(opening, cameras=partners, view=1)
    return PairedFeed(own, _open(experiment, dataset, second))


def _open(experiment: Experiment, dataset: ViewDataset, opening: Opening) -> ImageFeed:
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
