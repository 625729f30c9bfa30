"""The training loop. Every objective, sweep and coupled run goes through `fit`.

Starting and resuming are one path: build the state of step 0, put a checkpoint in its place if
there is one, go on from `state.step`.
"""

import dataclasses
import importlib.metadata
import json
import pathlib
import platform
import tempfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from socialjepa_jax import agents as agents_lib
from socialjepa_jax import config as config_lib
from socialjepa_jax import evaluation, report, sharding
from socialjepa_jax.agents import AgentData, AgentState, Trainer
from socialjepa_jax.checkpoint import Checkpoints, write_json
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.resident import channel_statistics
from socialjepa_jax.interruption import Interrupted, Interruption, Stopped
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.validate import InputError
from socialjepa_jax.writers import Writer

_FEWEST_STATES = 4  # below, an evaluation has no meaning


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run leaves in memory; the workdir holds the same on disk.

    Attributes:
        state: the agents after the last step.
        dataset: what they were trained and measured on.
        latents: f32[A, N, D], of all states.
        untrained: the same before training.
        rows: the rows of `alignment.json`.
        report: path of the page.
    """

    state: AgentState
    dataset: ViewDataset
    latents: np.ndarray
    untrained: evaluation.Untrained
    rows: list[evaluation.Row]
    report: pathlib.Path


def fit(experiment: Experiment, workdir: pathlib.Path) -> Result:
    """Trains the agents of an experiment, or goes on where an earlier process stopped.

    Args:
        experiment: what to run.
        workdir: the run's folder; made if missing.

    Returns:
        The trained agents and what was measured.

    Raises:
        InputError: the workdir cannot be written, or holds another experiment.
        Stopped: the loss is not finite.
        Interrupted: a signal came, and the state is saved.
    """
    with Interruption() as interruption:
        return _fit(experiment, workdir.resolve(), interruption)


def _fit(experiment: Experiment, workdir: pathlib.Path, interruption: Interruption) -> Result:
    _prepare(workdir, experiment)
    dataset = experiment.data.load(cache_folder(workdir))
    _describe(dataset)
    _check_splits(dataset)
    trainer = make_trainer(experiment)
    data = place(experiment, dataset, trainer)
    hparams = make_hparams(experiment)
    initial = trainer.init(hparams)
    baseline = encode_states(trainer, initial, data, dataset.num_states, experiment)
    with Checkpoints(workdir / "checkpoints", experiment.run.keep_checkpoints) as checkpoints:
        state = checkpoints.restore(abstract_state(initial)) or initial
        del initial
        state, latents = _train(
            experiment, workdir, dataset, trainer, data, hparams, state, checkpoints, interruption
        )
    save_latents(workdir, dataset, latents)
    untrained = evaluation.Untrained(
        baseline, encode_same_init(trainer, hparams, data, dataset.num_states, experiment)
    )
    if interruption.requested:
        raise Interrupted("training is done and saved; the same command makes the table")
    rows = evaluation.table(experiment, dataset, latents, untrained)
    write_json(workdir / "alignment.json", {"schema": 1, "rows": rows})
    page = report.write_run_report(workdir, dataset)
    return Result(state, dataset, latents, untrained, rows, page)


def cache_folder(workdir: pathlib.Path) -> pathlib.Path:
    """Where runs with the same parent folder keep what they can share."""
    return workdir.resolve().parent / "cache"


def _describe(dataset: ViewDataset) -> None:
    logging.info(
        "%s: %d states of %d objects, %d cameras, %d states to train on; "
        "%.0f %% of the pictures are also another camera's; %d states dropped",
        dataset.name,
        dataset.num_states,
        len(np.unique(dataset.instance_ids)),
        dataset.num_cameras,
        len(dataset.train_rows),
        100 * dataset.overlap,
        dataset.num_dropped,
    )


def _check_splits(dataset: ViewDataset) -> None:
    """Refuses before training what could not be measured after it."""
    for split in evaluation.splits(dataset):
        for part, rows in (("fit on", split.train), ("test on", split.test)):
            if len(rows) < _FEWEST_STATES:
                raise InputError(
                    f"config.data.splits leaves {len(rows)} states to {part} in the {split.name} "
                    f"split; at least {_FEWEST_STATES} are needed"
                )


def _train(
    experiment: Experiment,
    workdir: pathlib.Path,
    dataset: ViewDataset,
    trainer: Trainer,
    data: AgentData,
    hparams: HParams,
    state: AgentState,
    checkpoints: Checkpoints,
    interruption: Interruption,
) -> tuple[AgentState, np.ndarray]:
    """Steps from `state` to the end; returns the last state and its latents [A, N, D]."""
    run = experiment.run
    step = first = int(jax.device_get(state.step)[0])
    if step:
        logging.info("Resuming at step %d of %d.", step, run.steps)
    if step % run.steps_per_call:
        raise InputError(
            f"config.run.steps_per_call={run.steps_per_call} must divide {step}, the step to "
            "resume at"
        )
    manifest = {"config": config_lib.to_plain(experiment), "versions": versions()}
    latents = metrics = None
    with Writer(workdir, step, run.steps) as writer:
        while True:
            ends = step == run.steps
            evaluates = ends or step % run.eval_every == 0
            saves = (ends or step % run.save_every == 0 or interruption.requested) and step > first
            if metrics is not None and (evaluates or saves):
                _refuse_non_finite(metrics, step, run.steps_per_call)
            if evaluates:
                latents = encode_states(trainer, state, data, dataset.num_states, experiment)
                if step == 0 or step > first:  # a resumed run has this line already
                    scalars = evaluation.scalars(experiment, dataset, latents)
                    writer.write(step, "eval", scalars)
                    evaluation.warn_of_collapse(scalars, step)
            if saves:
                checkpoints.save(step, state, manifest)
            if ends:
                break
            if interruption.requested:
                checkpoints.wait()
                raise Interrupted(f"saved step {step} of {run.steps}; the same command goes on")
            state, metrics = trainer.step(state, data, hparams)
            step += run.steps_per_call
            if step % run.log_every == 0 or step == run.steps:
                _log(writer, step, jax.device_get(metrics), experiment)
        checkpoints.wait()
    assert latents is not None
    return state, latents


def _log(
    writer: Writer,
    step: int,
    metrics: Metrics,
    experiment: Experiment,
) -> None:
    """Writes the metrics of the last call, and stops the run if a loss is not finite."""
    run, num_agents = experiment.run, len(experiment.agents.seeds)
    scalars = {
        f"agent_{k}/{name}": float(values[k, -1])
        for k in range(num_agents)
        for name, values in metrics.items()
        if name != "learning_rate"
    }
    scalars["learning_rate"] = float(metrics["learning_rate"][0, -1])
    scalars["images_per_s"] = round(num_agents * run.batch_size * writer.steps_per_second(step), 1)
    writer.write(step, "train", scalars)
    losses = {f"loss[{k}]": scalars[f"agent_{k}/loss"] for k in range(num_agents)}
    writer.progress(step, scalars["images_per_s"], losses)
    _refuse_non_finite(metrics, step, run.steps_per_call)


def _refuse_non_finite(metrics: Metrics, step: int, steps_per_call: int) -> None:
    """Raises `Stopped` if a loss of the last call is not finite: it is never saved."""
    if not np.isfinite(jax.device_get(metrics["loss"])).all():
        raise Stopped(
            f"the loss is not finite between steps {step - steps_per_call} and {step}; "
            "the last checkpoint is from before"
        )


def make_trainer(experiment: Experiment) -> Trainer:
    """Builds the compiled program of an experiment for the devices at hand."""
    run = experiment.run
    on_cpu = jax.default_backend() == "cpu"
    return Trainer(
        objective=experiment.objective,
        optimizer=experiment.optim,
        augmentation=experiment.augment,
        total_steps=run.steps,
        batch_size=run.batch_size,
        steps_per_call=run.steps_per_call,
        mesh=sharding.make_mesh(len(experiment.agents.seeds), run.batch_size, jax.devices()),
        agent_map=("map" if on_cpu else "vmap") if run.agent_map == "auto" else run.agent_map,
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
    rows = dataset.train_rows
    if experiment.pretrain_on == "all":
        rows = np.arange(dataset.num_states)
    if len(rows) < experiment.run.batch_size:
        raise InputError(
            f"config.run.batch_size={experiment.run.batch_size} is more than the {len(rows)} "
            "training states"
        )
    return agents_lib.place(
        dataset.images, experiment.agents.cameras, rows, channel_statistics, trainer.mesh
    )


def encode_states(
    trainer: Trainer,
    state: AgentState,
    data: AgentData,
    num_states: int,
    experiment: Experiment,
    everything: bool = False,
) -> Any:
    """Encodes all states with all agents, in batches of one shape.

    Returns:
        The latents f32[A, N, D]; with `everything` a dict of every named latent.
    """
    encode = trainer.encode_all if everything else trainer.encode
    batch, num_agents = experiment.run.encode_batch, len(experiment.agents.seeds)
    parts = []
    for start in range(0, num_states, batch):
        rows = np.minimum(np.arange(start, start + batch), num_states - 1).astype(np.int32)
        tiled = jnp.asarray(np.tile(rows, (num_agents, 1)))
        parts.append(jax.device_get(encode(state, data, tiled)))
    return jax.tree.map(lambda *z: np.concatenate(z, axis=1)[:, :num_states], *parts)


def encode_same_init(
    trainer: Trainer, hparams: HParams, data: AgentData, num_states: int, experiment: Experiment
) -> np.ndarray:
    """Latents of untrained encoders that all share the first agent's initial parameters."""
    shared = {**hparams, "seed": jnp.full_like(hparams["seed"], hparams["seed"][0])}
    return encode_states(trainer, trainer.init(shared), data, num_states, experiment)


def abstract_state(state: AgentState) -> AgentState:
    """Shapes, types and shardings of a state: what a checkpoint is restored into."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )


def save_latents(workdir: pathlib.Path, dataset: ViewDataset, latents_AND: np.ndarray) -> None:
    """Writes latents/agent_<k>.npz: latents beside the states' ids, labels and factors."""
    folder = workdir / "latents"
    folder.mkdir(exist_ok=True)
    for k, latents_ND in enumerate(latents_AND):
        np.savez(
            folder / f"agent_{k}.npz",
            latents=latents_ND.astype(np.float32),
            state_ids=dataset.state_ids,
            instance_ids=dataset.instance_ids,
            labels=dataset.labels,
            factors=dataset.factors,
            factor_names=np.array(dataset.factor_names),
            split_state=dataset.split_state,
            split_instance=dataset.split_instance,
        )


def use_compilation_cache(folder: pathlib.Path) -> None:
    """Keeps compiled programs in a folder, so that a second start of the same command is quick."""
    jax.config.update("jax_compilation_cache_dir", str(folder.resolve()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def versions() -> dict[str, str]:
    """Versions and hardware that a result depends on."""
    packages = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "socialjepa_jax")
    found = {name: importlib.metadata.version(name) for name in packages}
    device = jax.devices()[0]
    return {
        **found,
        "python": platform.python_version(),
        "devices": f"{len(jax.devices())} x {device.device_kind} ({device.platform})",
    }


def _prepare(workdir: pathlib.Path, experiment: Experiment) -> None:
    """Makes the workdir, checks that it can be written and that it is this experiment's."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=workdir):
            pass
    except OSError as error:
        raise InputError(f"--workdir={workdir} cannot be written: {error.strerror}") from None
    path, holds = workdir / "config.json", workdir / "checkpoints"
    plain = json.loads(json.dumps(config_lib.to_plain(experiment)))
    if holds.exists() and not holds.is_dir():
        raise InputError(f"--workdir={workdir}: checkpoints is a file")
    if holds.exists() and any(holds.iterdir()):
        # Without checkpoints there is nothing to lose, and a first try may have been a mistake.
        if not path.exists():
            raise InputError(f"--workdir={workdir} holds checkpoints but no config.json")
        try:
            old = json.loads(path.read_bytes())
        except ValueError:
            raise InputError(f"{path} is not a run's configuration; use another workdir") from None
        changed = config_lib.differences(old, plain)
        if changed:
            raise InputError(
                f"--workdir={workdir} holds another run ({'; '.join(changed[:3])}); "
                "use another workdir or the same settings"
            )
    write_json(path, plain)
    write_json(workdir / "environment.json", versions())
