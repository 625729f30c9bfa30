"""The training loop. Every objective, sweep and coupled run goes through `fit`.

Starting and resuming are one path: build the state of step 0, put a checkpoint in its place if
there is one, go on from `state.step`.
"""

import contextlib
import dataclasses
import math
import pathlib

import jax
import numpy as np
from absl import logging

from socialjepa_jax import config as config_lib
from socialjepa_jax import evaluation, sharding
from socialjepa_jax.agents import AgentState, Trainer
from socialjepa_jax.batches import Batches, open_batches
from socialjepa_jax.build import abstract_state, make_hparams, make_trainer, same_init
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.data.resident import AgentData
from socialjepa_jax.data.streaming import StreamedData
from socialjepa_jax.errors import InputError, Interrupted, Stopped
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.performance import throughput
from socialjepa_jax.performance.profiling import Profiler, Window
from socialjepa_jax.records import versions, write_json
from socialjepa_jax.running import monitors
from socialjepa_jax.running import workdir as workdir_lib
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.hosts import ALONE, Group
from socialjepa_jax.running.signals import Interruption
from socialjepa_jax.running.writers import Silent, Writer


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


def fit(
    experiment: Experiment,
    workdir: pathlib.Path,
    profile: Window | None = None,
    group: Group = ALONE,
) -> Result:
    """Trains the agents of an experiment, or goes on where an earlier process stopped.

    Args:
        experiment: what to run.
        workdir: the run's folder; made if missing.
        profile: steps to trace, into workdir/profile.
        group: the processes of the run; all of them call this function alike, and the first one
            reads and writes the folder.

    Returns:
        The trained agents and what was measured.

    Raises:
        InputError: the workdir cannot be written, is in use, is too small or holds another
            experiment.
        Stopped: a monitor ended the run, or its state can no longer be saved.
        Interrupted: a signal came, and the state is saved.
    """
    workdir = workdir.resolve()
    if profile:
        profile.check(experiment.run.steps)
    with Interruption(group.stops_here) as interruption:
        group.listen(lambda: interruption.requested)
        with workdir_lib.locked(workdir) if group.is_first else contextlib.nullcontext():
            return _fit(experiment, workdir, interruption, profile, group)


def _fit(
    experiment: Experiment,
    workdir: pathlib.Path,
    interruption: Interruption,
    profile: Window | None,
    group: Group,
) -> Result:
    trainer = make_trainer(experiment)
    by_agent = sharding.by_agent(trainer.mesh)
    hparams = sharding.put(make_hparams(experiment), by_agent)
    abstract = abstract_state(trainer, hparams)
    with group.first_before_others("a usable workdir"):
        if group.is_first:
            workdir_lib.prepare(workdir, experiment, versions())
            _check_space(experiment, workdir, abstract)
    keep = experiment.run.keep_checkpoints
    with contextlib.ExitStack() as opened:
        with (
            Checkpoints(workdir / "checkpoints", keep, group) as checkpoints,
            Checkpoints(workdir / "checkpoints" / "best", 1, group) as best,
        ):
            restored = checkpoints.restore(abstract)  # before anything is compiled: it may refuse
            with group.first_before_others("data"):
                dataset = experiment.data.load(cache_folder(workdir))
            _describe(dataset)
            evaluation.check_splits(dataset)
            interruption.check()
            batches = open_batches(
                experiment, dataset, trainer, workdir, cache_folder(workdir), interruption.check
            )
            opened.enter_context(contextlib.closing(batches))
            # A collective would wait for ever, and not say for whom.
            group.barrier("the first computation")
            run = _Training(
                experiment, workdir, dataset, trainer, batches, hparams, interruption, checkpoints,
                best, trainer.init(hparams) if restored is None else restored, profile, group,
            )  # fmt: skip
            del restored
            latents = run.to_the_end()
        good = batches.good.copy()  # what breaks from now on is still in the table
        dataset, latents = dataset.subset(good), latents[:, good]
        if group.is_first:
            evaluation.save_latents(workdir, dataset, latents)
        try:
            baseline = run.baseline
            if baseline is None:  # step 0 was in another process; its state is drawn again
                baseline = batches.encode(trainer.init(hparams))
            same = sharding.put(same_init(make_hparams(experiment)), by_agent)
            again = batches.encode(trainer.init(same))
            untrained = evaluation.Untrained(baseline[:, good], again[:, good])
            rows = evaluation.alignment_rows(
                experiment, dataset, latents, untrained, interruption.check
            )
            interruption.check()
        except Interrupted:
            message = "training is done and saved; the same command makes the table"
            raise Interrupted(message) from None
    page = workdir / "report.html"
    if group.is_first:
        write_json(workdir / "alignment.json", {"schema": 1, "rows": rows})
        # Importing the figures costs half a second, for which no start should wait.
        from socialjepa_jax.report.run import page as run_page

        page = run_page.write_run_report(workdir, dataset)
    return Result(run.state, dataset, latents, untrained, rows, page)


def _check_space(experiment: Experiment, workdir: pathlib.Path, abstract: AgentState) -> None:
    """Refuses a disk without room for the newest states, one being written, and the best."""
    state_bytes = sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(abstract))
    best = 0 if experiment.checkpoint.best_metric == "none" else 2
    states = experiment.run.keep_checkpoints + 1 + best
    workdir_lib.check_space(workdir, state_bytes, states)


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


class _Training:
    """The agents on their way, and what they leave on disk.

    Attributes:
        state: of the agents; whole whenever a method of this class is entered.
        step: updates done so far.
        baseline: latents f32[A, N, D] of the untrained agents, if this process began with them.
    """

    def __init__(
        self,
        experiment: Experiment,
        workdir: pathlib.Path,
        dataset: ViewDataset,
        trainer: Trainer,
        batches: Batches,
        hparams: HParams,
        interruption: Interruption,
        checkpoints: Checkpoints,
        best: Checkpoints,
        state: AgentState,
        profile: Window | None,
        group: Group,
    ) -> None:
        self._profile = profile if group.is_first else None
        self._program: throughput.CompiledStep | None = None
        self._experiment, self._workdir, self._dataset = experiment, workdir, dataset
        self._trainer, self._batches, self._hparams = trainer, batches, hparams
        self._interruption = interruption
        self.baseline: np.ndarray | None = None
        self._checkpoints, self._best, self._group = checkpoints, best, group
        self._best_value = best.value_of_best(experiment.checkpoint.best_metric)
        self._manifest = {"config": config_lib.to_plain(experiment), "versions": versions()}
        self._roll_backs = 0
        self._begin_at(state)
        if self.step:
            logging.info("Resuming at step %d of %d.", self.step, experiment.run.steps)
            if self._profile:
                self._profile.warn_if_past(self.step)

    def _begin_at(self, state: AgentState) -> None:
        self.state = state
        self.step = self._first = self._saved = int(sharding.fetch(state.step)[0])
        call = self._experiment.run.steps_per_call
        if self.step % call:  # also where a roll-back finds an older checkpoint
            raise InputError(
                f"config.run.steps_per_call={call} must divide {self.step}, the step to resume at"
            )
        self._skips = monitors.SkipMonitor(self._experiment.monitors.max_skips)

    def to_the_end(self) -> np.ndarray:
        """Steps to the end, if need be in several attempts; returns the last latents [A, N, D]."""
        while True:
            try:
                return self._attempt()
            except monitors.Diverged as diverged:
                self._roll_back(diverged)
            except Interrupted:
                raise Interrupted(self._leave()) from None

    def _data(self) -> AgentData | StreamedData | None:
        """What the next call takes; None at the end."""
        ended = self.step == self._experiment.run.steps
        return None if ended else self._batches.at(self.step, self.state)

    def _attempt(self) -> np.ndarray:
        self._stopwatch = throughput.Stopwatch(self.step)
        run, data = self._experiment.run, self._data()
        if data is not None and self._program is None:
            workdir = self._workdir if self._group.is_first else None
            with self._stopwatch.paused():
                self._program = throughput.prepare(
                    self._trainer, (self.state, data, self._hparams), workdir
                )
        program = self._program.compiled if self._program else None
        with (
            self._writer() as writer,
            Profiler(self._profile, self._workdir / "profile", program) as profiler,
        ):
            latents = self._between_calls(writer)
            while data is not None and program is not None:
                profiler.before(self.step, run.steps_per_call)
                self.state, metrics = program.call(self.state, data, self._hparams)
                self.step += run.steps_per_call
                profiler.after(self.step, metrics)
                if self.step % run.log_every == 0 or self.step == run.steps:
                    self._log(writer, sharding.fetch(metrics))
                latents = self._between_calls(writer)
                data = self._data()
        self._checkpoints.wait()
        self._best.wait()
        assert latents is not None
        return latents

    def _writer(self) -> Writer | Silent:
        if not self._group.is_first:
            return Silent()
        return Writer(self._workdir, self.step, self._experiment.run.steps)

    def _between_calls(self, writer: Writer | Silent) -> np.ndarray | None:
        """Saves, evaluates and obeys signals; returns the latents if it evaluated."""
        run, ends = self._experiment.run, self.step == self._experiment.run.steps
        self._checkpoints.check()
        self._best.check()
        saves = ends or self.step % run.save_every == 0
        evaluates = ends or self.step % run.eval_every == 0
        if saves or evaluates:
            self._watch_skips()
        with self._stopwatch.paused() if saves or evaluates else contextlib.nullcontext():
            # What has just been skipped may be the first sign that the parameters are spoilt.
            if saves and (ends or not sharding.fetch(self.state.in_a_row).any()):
                self._save()
            self._interruption.check()
            latents = self._evaluate(writer) if evaluates else None
            self._interruption.check()
        return latents

    def _save(self) -> None:
        if self.step != self._saved:  # as a resumed state is, and the untrained one may be
            self._checkpoints.save(self.step, self.state, self._manifest)
            self._saved = self.step

    def _leave(self) -> str:
        """Saves because of a signal, unless the state is one to go back from, and says so."""
        run = self._experiment.run
        if self.step == 0:
            return "no step was done yet; the same command starts anew"
        try:
            self._watch_skips()
        except monitors.Diverged:
            if not self._may_roll_back():
                raise
            self._checkpoints.wait()
            return f"step {self.step} is to be undone; the same command goes on before it"
        self._save()
        self._checkpoints.wait()
        return f"saved step {self.step} of {run.steps}; the same command goes on"

    def _watch_skips(self) -> None:
        total, in_a_row = sharding.fetch((self.state.skipped, self.state.in_a_row))
        self._skips.watch(total, in_a_row, self.step)

    def _evaluate(self, writer: Writer | Silent) -> np.ndarray:
        latents, good = self._batches.encode(self.state), self._batches.good
        monitors.refuse_non_finite(latents, self.step)
        measured = self._dataset.subset(good)
        scalars = evaluation.scalars(self._experiment, measured, latents[:, good])
        if self.step > self._first or not writer.holds(self.step, "eval"):
            writer.write(self.step, "eval", scalars)
        if self.step == 0:
            self.baseline = latents
        else:
            self._keep_if_best(scalars)
            collapsed = monitors.collapsed_agents(scalars)
            if collapsed and self._experiment.monitors.on_collapse == "stop":
                raise Stopped(f"{', '.join(collapsed)} collapsed before step {self.step}")
        return latents

    def _keep_if_best(self, scalars: dict[str, float]) -> None:
        metric = self._experiment.checkpoint.best_metric
        if metric == "none":
            return
        value = self._group.from_first(evaluation.best_metric(metric, scalars))
        if value > self._best_value:
            self._best.save(self.step, self.state, {**self._manifest, "best": {metric: value}})
            self._best_value = value

    def _may_roll_back(self) -> bool:
        return self._roll_backs < self._experiment.monitors.roll_backs

    def _roll_back(self, diverged: monitors.Diverged) -> None:
        """Goes back to the last checkpoint; the agents that diverged pass over what came since.

        The others do the same steps again.
        """
        if not self._may_roll_back():
            raise diverged
        self._roll_backs += 1
        # Of the present state: the checkpoint does not know of earlier roll-backs to it.
        end, over = self.step, sharding.fetch(self.state.passed_over)
        state = self._checkpoints.restore(abstract_state(self._trainer, self._hparams))
        state = self._trainer.init(self._hparams) if state is None else state
        first = int(sharding.fetch(state.step)[0])
        over = over + np.where(diverged.agents, end - first, 0)
        over = sharding.put(over.astype(np.int32), sharding.by_agent(self._trainer.mesh))
        logging.warning("%s. Back to step %d, past the batches since.", diverged, first)
        self._begin_at(dataclasses.replace(state, passed_over=over))

    def _log(self, writer: Writer | Silent, metrics: Metrics) -> None:
        """Writes the metrics of the last step of a call."""
        run, num_agents = self._experiment.run, len(self._experiment.agents.seeds)
        self._watch_skips()
        scalars = {
            f"agent_{k}/{name}": float(values[k, -1])
            for k in range(num_agents)
            for name, values in metrics.items()
            if name != "learning_rate"
        }
        for k, count in self._skips.seen.items():
            scalars[f"agent_{k}/skipped"] = float(count)
        scalars["learning_rate"] = float(metrics["learning_rate"][0, -1])
        steps, seconds = self._stopwatch.lap(self.step)
        assert self._program is not None
        speeds = self._program.scalars(num_agents * run.batch_size * steps / seconds)
        writer.write(self.step, "train", scalars | self._batches.scalars(seconds) | speeds)
        losses = {f"loss[{k}]": scalars[f"agent_{k}/loss"] for k in range(num_agents)}
        writer.progress(self.step, losses, speeds)
