"""An experiment's compiled program: the trainer, what differs between agents, what they see."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax import agents as agents_lib
from socialjepa_jax import config as config_lib
from socialjepa_jax import sharding
from socialjepa_jax.agents import AgentState, Trainer
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.resident import AgentData, channel_statistics, put_on_devices
from socialjepa_jax.errors import InputError
from socialjepa_jax.models import attention
from socialjepa_jax.models.vit import vits
from socialjepa_jax.objectives.base import HParams


def make_trainer(experiment: Experiment) -> Trainer:
    """Builds the compiled program of an experiment for the devices at hand.

    Raises:
        InputError: they cannot do what it asks for.
    """
    run = experiment.run
    for vit in vits(experiment.objective):
        attention.check(vit.attention, vit.width // vit.heads, vit.dtype)
    return Trainer(
        objective=experiment.objective,
        optimizer=experiment.optim,
        augmentation=experiment.augment,
        total_steps=run.steps,
        batch_size=run.batch_size,
        steps_per_call=run.steps_per_call,
        mesh=sharding.make_mesh(len(experiment.agents.seeds), run.batch_size, jax.devices()),
        agent_map=agents_lib.choose_agent_map(run.agent_map, run.exact_shards),
        max_skips=experiment.monitors.max_skips,
        exact_shards=run.exact_shards,
    )


def make_hparams(experiment: Experiment) -> HParams:
    """What differs between agents, as arrays [A]."""
    # One number names the repetition and the agent, so that equal agent seeds of different
    # repetitions share nothing either.
    seeds = [experiment.seed * config_lib.AGENT_SEEDS + seed for seed in experiment.agents.seeds]
    return {
        "seed": jnp.asarray(np.asarray(seeds, np.uint32)),
        "learning_rate": jnp.ones(len(seeds), jnp.float32),
        "total_steps": jnp.full(len(seeds), experiment.run.steps, jnp.int32),
    }


def place(experiment: Experiment, dataset: ViewDataset, trainer: Trainer) -> AgentData:
    """Puts each agent's own pictures on its devices."""
    rows = train_rows(experiment, dataset)
    return put_on_devices(
        np.asarray(dataset.images),
        experiment.agents.cameras,
        rows,
        channel_statistics,
        trainer.mesh,
    )


def train_rows(experiment: Experiment, dataset: ViewDataset) -> np.ndarray:
    """i64[R], the states that are trained on.

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


def encode_states(
    trainer: Trainer,
    state: AgentState,
    data: AgentData,
    num_states: int,
    experiment: Experiment,
    everything: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Any:
    """Encodes all states with all agents, in batches of one shape; `check` is called between them.

    Returns:
        The latents f32[A, N, D]; with `everything` a dict of every named latent.
    """
    encode = trainer.encode_all if everything else trainer.encode
    batch = experiment.run.encode_batch
    return agents_lib.encode_in_batches(encode, state, data, num_states, batch, check)


def same_init(hparams: HParams) -> HParams:
    """Settings under which all agents share the first one's initial parameters."""
    return {**hparams, "seed": jnp.full_like(hparams["seed"], hparams["seed"][0])}


def abstract_state(trainer: Trainer, hparams: HParams) -> AgentState:
    """Shapes, types and shardings of a state: what a checkpoint is restored into."""
    place = sharding.by_agent(trainer.mesh)
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
        jax.eval_shape(trainer.init, hparams),
    )
