"""The training loop: `run` steps agents, `fit` is a whole run with its folder.

Starting and resuming are one path: draw the state of step 0, put a checkpoint in its place if there
is one, go on from `state.step`.
"""

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from socialjepa_jax import build, config, evaluation, labels
from socialjepa_jax.agents import AgentState, Trainer
from socialjepa_jax.build import Parts
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.protocols import Feed, ImageFeed
from socialjepa_jax.errors import Interrupted
from socialjepa_jax.evaluation import evidence, moving
from socialjepa_jax.evaluation.encoders import Encoders
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.performance.profiling import Window
from socialjepa_jax.records import local_path, versions, write_json
from socialjepa_jax.running import folder, monitors, numerics, trained
from socialjepa_jax.running import workdir as workdir_lib
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.hooks import Hook, Progress
from socialjepa_jax.running.hosts import ALONE, Group
from socialjepa_jax.running.session import Session
from socialjepa_jax.running.signals import Interruption

Step = Callable[[AgentState, Any, HParams], tuple[AgentState, Metrics]]


def run(
    step: Step,
    feed: Feed,
    hparams: HParams,
    progress: Progress,
    steps_per_call: int,
    run_hooks: Sequence[Hook] = (),
) -> Progress:
    """Steps the agents to their last step; the one loop of the project.

    Args:
        step: `Trainer.step`, or a program compiled from it. Donates the state.
        feed: the source of every call.
        hparams: settings of the agents.
        progress: where to begin; advanced in place.
        steps_per_call: steps that `step` does.
        run_hooks: called in order before the first call and after every call.
    """
    for hook in run_hooks:
        hook(progress)
    while not progress.is_done:
        source = feed.at(progress.step)
        progress.state, progress.metrics = step(progress.state, source, hparams)
        progress.step += steps_per_call
        for hook in run_hooks:
            hook(progress)
    return progress


@numerics.fixed()
def train(
    trainer: Trainer,
    feed: Feed,
    hparams: HParams,
    run_hooks: Sequence[Hook] = (),
    start: AgentState | None = None,
) -> Any:
    """Trains agents to their last step, in memory; returns their state.

    Args:
        trainer, feed, hparams, run_hooks: see `run`.
        start: the agents at step 0, which is donated; by default they are drawn.
    """
    state = trainer.init(hparams) if start is None else start
    progress = Progress(state, 0, trainer.total_steps)
    return run(trainer.step, feed, hparams, progress, trainer.steps_per_call, run_hooks).state


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of a run.

    Attributes:
        state: the agents after the last step.
        dataset: the data they were trained and measured on, without broken images.
        latents: f32[A, N, D], of its states.
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


@numerics.fixed()
def fit(
    experiment: Experiment,
    workdir: str | pathlib.Path,
    profile: Window | None = None,
    group: Group = ALONE,
    trainer_class: Callable[..., Trainer] = Trainer,
) -> Result:
    """Trains the agents of an experiment, or goes on where an earlier process stopped.

    Args:
        experiment: what to run.
        workdir: the run's folder, on a local disk; made if missing.
        profile: steps to trace, into workdir/profile.
        group: the processes of the run; all of them call this function alike, and the first one
            reads and writes the folder.
        trainer_class: makes the trainer from its fields.

    Returns:
        The trained agents and their measurements.

    Raises:
        InputError: the workdir cannot be written, is in use, is too small or holds another
            experiment.
        Stopped: a monitor ended the run, or its files can no longer be written.
        Interrupted: a signal came, and the state is saved.
    """
    workdir = local_path("--workdir", workdir)
    if profile:
        profile.check(experiment.run.steps)
    with _held(workdir, group) as check, contextlib.ExitStack() as opened:
        teacher = _teacher(experiment)
        parts = build.build(experiment, trainer_class, teacher=teacher)
        with group.first_before_others("a usable workdir"):
            if group.is_first:
                _prepare(experiment, workdir, parts)
        newest = Checkpoints(workdir / "checkpoints", experiment.run.keep_checkpoints, group)
        best = Checkpoints(workdir / "checkpoints" / "best", 1, group)
        with newest, best:
            # Before anything is compiled: restoring may refuse.
            progress = Progress(newest.restore(parts.abstract_state), 0, experiment.run.steps)
            dataset = _load(experiment, workdir, group)
            check()
            parts = labels.given(parts, experiment, dataset, teacher)
            feed = build.open_feed(
                experiment, dataset, parts, workdir, cache_folder(workdir),
                check=check,
                settle=lambda: jax.block_until_ready(progress.state.step),
            )  # fmt: skip
            opened.enter_context(contextlib.closing(feed))
            session = Session(
                workdir=workdir, parts=parts, feed=feed, newest=newest, best=best, group=group,
                check=check, profile=profile if group.is_first else None,
                **_settings(experiment, dataset, feed),
            )  # fmt: skip
            latents = _train(session, progress)
        return _report(experiment, session, dataset, progress.state, latents)


def _teacher(experiment: Experiment) -> Encoders | None:
    """Loads the teacher of a migration; None for other objectives."""
    path = getattr(experiment.objective, "teacher", None)
    return None if path is None else trained.load(local_path("config.objective.teacher", path))


@contextlib.contextmanager
def _held(workdir: pathlib.Path, group: Group) -> Iterator[Callable[[], None]]:
    """Holds the run's folder; yields a check that ends a run by a signal or without its folder."""
    place: contextlib.AbstractContextManager[Callable[[], None]]
    place = workdir_lib.locked(workdir) if group.is_first else contextlib.nullcontext(lambda: None)
    with folder.stopping(workdir), Interruption(group.stops_here) as interruption:
        group.listen(lambda: interruption.requested)
        with place as check_place:

            def check() -> None:
                check_place()
                interruption.check()

            yield check


def _prepare(experiment: Experiment, workdir: pathlib.Path, parts: Parts) -> None:
    """Checks that the folder is this run's and has room for its checkpoints."""
    workdir_lib.prepare(workdir, config.to_plain(experiment), versions())
    # The newest states, one being written, and the best with its successor.
    best = 0 if experiment.checkpoint.best_metric == "none" else 2
    count = experiment.run.keep_checkpoints + 1 + best
    leaves = jax.tree.leaves(parts.abstract_state)
    size = sum(math.prod(x.shape) * x.dtype.itemsize for x in leaves)
    workdir_lib.check_space(workdir, size, count)


def _settings(experiment: Experiment, dataset: ViewDataset, feed: ImageFeed) -> dict[str, Any]:
    """Returns what a session needs of the experiment."""

    def measure(latents: np.ndarray) -> dict[str, float]:
        good = feed.good
        return evaluation.scalars(experiment, dataset.subset(good), latents[:, good])

    return {
        "rhythm": experiment.run,
        "limits": experiment.monitors,
        "best_metric": experiment.checkpoint.best_metric,
        "manifest": {"config": config.to_plain(experiment), "versions": versions()},
        "measure": measure,
    }


def _load(experiment: Experiment, workdir: pathlib.Path, group: Group) -> ViewDataset:
    """Loads the data set, the first process before the others, and logs its size."""
    with group.first_before_others("data"):
        dataset = experiment.data.load(cache_folder(workdir))
    logging.info(
        "%s: %d states of %d objects, %d cameras, %d states to train on; "
        "%.0f %% of the images are also another camera's; states dropped: %d",
        dataset.name,
        dataset.num_states,
        len(np.unique(dataset.instance_ids)),
        dataset.num_cameras,
        len(dataset.train_rows),
        100 * dataset.overlap,
        dataset.num_dropped,
    )
    evaluation.check_splits(dataset)
    return dataset


def _train(session: Session, progress: Progress) -> np.ndarray:
    """Trains to the end, in several attempts if updates diverge; returns latents f32[A, N, D]."""
    # A collective would wait for a slow process for ever, and could not name it.
    session.group.barrier("the first computation")
    if session.group.is_first:
        trained.save_statistics(session.workdir, session.feed)
    if progress.state is None:
        progress.state = session.parts.fresh_state()
    program, call = session.program, session.rhythm.steps_per_call
    while True:
        session.begin(progress)
        try:
            with session.hooks(progress) as between:
                run(program, session.feed, session.parts.hparams, progress, call, between)
            return session.end()
        except monitors.Diverged as diverged:
            session.roll_back(progress, diverged)
        except Interrupted:
            raise Interrupted(session.leave(progress)) from None


def _report(
    experiment: Experiment,
    session: Session,
    dataset: ViewDataset,
    state: AgentState,
    latents: np.ndarray,
) -> Result:
    """Measures the trained agents beside their controls and writes the folder's results."""
    good = session.feed.good.copy()  # files that break from now on are still in the table
    dataset, latents = dataset.subset(good), latents[:, good]
    workdir, fresh_state = session.workdir, session.parts.fresh_state
    if session.group.is_first:
        evaluation.save_latents(workdir, dataset, latents)
        how, cameras = experiment.alignment, experiment.agents.cameras
        evaluation.save_maps(workdir, how, cameras, dataset, latents)
    try:
        baseline = session.baseline
        if baseline is None:  # an earlier process did step 0; its state is drawn again
            baseline = session.encode(fresh_state())
        again = session.encode(fresh_state(same_init=True))
        untrained = evaluation.Untrained(baseline[:, good], again[:, good])
        if dataset.states is None:
            rows = evaluation.alignment_rows(experiment, dataset, latents, untrained, session.check)
        else:
            trainer, feed = session.parts.trainer, session.feed
            seen = evidence.gather(trainer, fresh_state(), state, feed)
            encoded = evidence.Encoded(experiment, dataset, latents, seen)
            rows = moving.alignment_rows(encoded, session.check)
        session.check()
    except Interrupted:
        message = "training is done and saved; the same command makes the table"
        raise Interrupted(message) from None
    page = workdir / "report.html"
    if session.group.is_first:
        write_json(workdir / "alignment.json", {"schema": 2, "rows": rows})
        # Importing the figures costs half a second, for which no start should wait.
        from socialjepa_jax.report.run import page as run_page

        film = experiment.data.film() if hasattr(experiment.data, "film") else None
        page = run_page.write_run_report(workdir, dataset, film)
    return Result(state, dataset, latents, untrained, rows, page)


def cache_folder(workdir: pathlib.Path) -> pathlib.Path:
    """Returns the folder that runs with the same parent folder share."""
    return workdir.resolve().parent / "cache"
