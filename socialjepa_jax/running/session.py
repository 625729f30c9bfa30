"""A training run and its folder: its hooks, its attempts, and the way out when a signal comes.

Shape key: A agents, N states, D latent dimensions.
"""

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from absl import logging

from socialjepa_jax import config, evaluation, sharding
from socialjepa_jax.agents import AgentState
from socialjepa_jax.build import Parts
from socialjepa_jax.data.protocols import ImageFeed
from socialjepa_jax.errors import InputError
from socialjepa_jax.performance.profiling import Profiler, Window
from socialjepa_jax.performance.throughput import StepProgram, Stopwatch
from socialjepa_jax.running import hooks
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.hooks import Hook, Progress
from socialjepa_jax.running.hosts import Group
from socialjepa_jax.running.monitors import Diverged, SkipMonitor
from socialjepa_jax.running.writers import Silent, Writer


@dataclass(kw_only=True)
class Session:
    """Everything around the loop of one run.

    Attributes:
        workdir: the run's folder.
        rhythm: when to log, evaluate and save.
        limits: of skipped updates and roll-backs, and the reaction to collapse.
        best_metric: see `config.Checkpoint`.
        manifest: saved beside every state.
        parts, feed: of the run.
        newest, best: checkpoints.
        group: the processes of the run.
        check: raises `Interrupted` if a signal has come.
        measure: (latents f32[A, N, D]) -> scalars.
        profile: steps to trace; None: none.
        program: the compiled step.
        baseline: latents of step 0, if this process evaluated it.
    """

    workdir: pathlib.Path
    rhythm: config.Run
    limits: config.Monitors
    best_metric: str
    manifest: dict[str, Any]
    parts: Parts
    feed: ImageFeed
    newest: Checkpoints
    best: Checkpoints
    group: Group
    check: Callable[[], None]
    measure: Callable[[np.ndarray], dict[str, float]]
    profile: Window | None
    baseline: np.ndarray | None = field(default=None, init=False)
    _roll_backs: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        written = self.workdir if self.group.is_first else None
        self._stopwatch = Stopwatch(0)
        self.program = StepProgram(self.parts.trainer, self._stopwatch, written)

    def begin(self, progress: Progress) -> None:
        """Begins an attempt at the step of the state.

        Raises:
            InputError: no call of the program begins at that step.
        """
        progress.step, progress.metrics = int(sharding.fetch(progress.state.step)[0]), None
        call = self.rhythm.steps_per_call
        if progress.step % call:  # also where a roll-back finds an older checkpoint
            raise InputError(
                f"config.run.steps_per_call={call} must divide {progress.step}, the step to "
                "resume at"
            )
        self.best.drop_after(progress.step)  # of steps that are done again
        self.feed.begin(sharding.fetch(progress.state.passed_over))
        self._stopwatch.lap(progress.step)
        if progress.step and not self._roll_backs:
            logging.info("Resuming at step %d of %d.", progress.step, progress.total)
            if self.profile:
                self.profile.warn_if_past(progress.step)

    @contextlib.contextmanager
    def hooks(self, progress: Progress) -> Iterator[list[Hook]]:
        """Opens the logs of an attempt and yields its hooks, in their order."""
        every, step = self.rhythm, progress.step
        self._skips = hooks.WatchSkips(
            SkipMonitor(self.limits.max_skips),
            (every.log_every, every.save_every, every.eval_every),
        )
        self._save = hooks.Save(self.newest, self._stopwatch, every.save_every, self.manifest, step)
        with (
            self._writer(step) as writer,
            Profiler(self.profile, self.workdir / "profile", self.program) as profiler,
        ):
            self._evaluate = hooks.Evaluate(
                self.encode,
                self.measure,
                writer,
                self._stopwatch,
                every.eval_every,
                step,
                self._after_evaluation(),
                self.baseline,
            )
            log = hooks.Log(
                writer,
                self._stopwatch,
                self._skips.monitor,
                every.log_every,
                len(self.feed.cameras) * every.batch_size,
                speeds=self.program.scalars,
                waiting=self.feed.scalars,
            )
            trace = hooks.Trace(profiler, every.steps_per_call)
            try:
                yield [
                    trace.end,
                    self._skips,
                    log,
                    self._save,
                    self._signals,
                    self._evaluate,
                    self._signals,
                    trace.begin,
                ]
            finally:
                self.baseline = self._evaluate.baseline

    def _writer(self, step: int) -> Writer | Silent:
        return Writer(self.workdir, step, self.rhythm.steps) if self.group.is_first else Silent()

    def _after_evaluation(self) -> list[Callable[[Progress, dict[str, float]], None]]:
        stops = self.limits.on_collapse == "stop"
        collapse = hooks.stop_on_collapse if stops else hooks.warn_of_collapse
        name = self.best_metric
        if name == "none":
            return [collapse]

        def metric(scalars: dict[str, float]) -> float:
            return self.group.from_first(evaluation.best_metric(name, scalars))

        highest, step = self.best.value_of_best(name), self.best.newest_step()
        return [hooks.KeepBest(self.best, name, metric, self.manifest, highest, step), collapse]

    def _signals(self, progress: Progress) -> None:
        self.best.check()
        self.check()

    def encode(self, state: AgentState) -> np.ndarray:
        """Returns the latents f32[A, N, D] of all states."""
        return evaluation.encode_states(self.parts.trainer.encode, state, self.feed)

    def end(self) -> np.ndarray:
        """Waits for the checkpoints; returns the latents f32[A, N, D] of the last evaluation."""
        self.newest.wait()
        self.best.wait()
        assert self._evaluate.latents is not None
        return self._evaluate.latents

    def leave(self, progress: Progress) -> str:
        """Saves because of a signal, unless the state is to be undone; returns a message.

        Raises:
            Diverged: the run has come to its end anyway.
        """
        if progress.step == 0:
            return "no step was done yet; the same command starts anew"
        try:
            self._skips.look(progress)
        except Diverged:
            if not self._may_roll_back:
                raise
            self.newest.wait()
            return f"step {progress.step} is to be undone; the same command goes on before it"
        self._save.now(progress)
        self.newest.wait()
        return f"saved step {progress.step} of {progress.total}; the same command goes on"

    @property
    def _may_roll_back(self) -> bool:
        return self._roll_backs < self.limits.roll_backs

    def roll_back(self, progress: Progress, diverged: Diverged) -> None:
        """Restores the last checkpoint; the diverged agents pass over the draws since then.

        The other agents repeat the same steps.

        Raises:
            Diverged: no roll-back is left.
        """
        if not self._may_roll_back:
            raise diverged
        self._roll_backs += 1
        # Of the present state: the checkpoint does not know of roll-backs after it was written.
        end, passed_over = progress.step, sharding.fetch(progress.state.passed_over)
        state = self.newest.restore(self.parts.abstract_state)
        state = self.parts.fresh_state() if state is None else state
        first = int(sharding.fetch(state.step)[0])
        passed_over = passed_over + np.where(diverged.agents, end - first, 0)
        by_agent = sharding.by_agent(self.parts.trainer.mesh)
        passed_over = sharding.put(passed_over.astype(np.int32), by_agent)
        logging.warning("%s. Back to step %d, past the batches since.", diverged, first)
        # Or an agent that was saved amid skips would have no tries left.
        in_a_row = np.zeros_like(sharding.fetch(state.in_a_row))
        in_a_row = sharding.put(in_a_row, by_agent)
        progress.state = replace(state, passed_over=passed_over, in_a_row=in_a_row)
