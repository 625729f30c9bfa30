"""Hooks: small objects that the loop calls between two calls of the compiled step.

A hook observes, saves or stops; it never changes the state. So the number of steps in a call is
free: it decides only where hooks may look.

Shape key: A agents, N states, S steps of a call, D latent dimensions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from socialjepa_jax import sharding
from socialjepa_jax.agents import AgentState
from socialjepa_jax.errors import Stopped
from socialjepa_jax.objectives.base import Metrics
from socialjepa_jax.performance.profiling import Profiler
from socialjepa_jax.performance.throughput import Stopwatch
from socialjepa_jax.running import monitors
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.monitors import SkipMonitor
from socialjepa_jax.running.writers import Silent, Writer


@dataclass
class Progress:
    """A run between two calls of its step.

    Attributes:
        state: of the agents, whole; None until it is drawn or restored.
        step: updates done so far.
        total: updates of the whole run.
        metrics: of the last call, [A, S]; None before the first one.
    """

    state: Any  # AgentState | None
    step: int
    total: int
    metrics: Metrics | None = None

    @property
    def is_done(self) -> bool:
        """True after the last step."""
        return self.step >= self.total

    def is_due(self, *every: int) -> bool:
        """True at a multiple of one of these numbers of steps, and at the end."""
        return self.is_done or any(self.step % number == 0 for number in every)


Hook = Callable[[Progress], None]


@dataclass(frozen=True)
class WatchSkips:
    """Reports skipped updates wherever another hook looks; `Diverged` ends the attempt.

    Attributes:
        monitor: counts skips.
        every: in steps.
    """

    monitor: SkipMonitor
    every: tuple[int, ...]

    def __call__(self, progress: Progress) -> None:
        """Reports if due."""
        if progress.is_due(*self.every):
            self.look(progress)

    def look(self, progress: Progress) -> None:
        """Reports now; waits for the devices."""
        state = progress.state
        total, in_a_row = sharding.fetch((state.skipped, state.in_a_row))
        self.monitor.watch(total, in_a_row, progress.step)


@dataclass(frozen=True)
class Log:
    """Writes the metrics of the last step of a call, and speeds.

    Attributes:
        writer: of the run.
        stopwatch: times stepping alone.
        skips: their counts are logged.
        every: in steps.
        images_per_step: of all agents.
        speeds: (images per second) -> scalars.
        waiting: (seconds of stepping) -> scalars of the feed.
    """

    writer: Writer | Silent
    stopwatch: Stopwatch
    skips: SkipMonitor
    every: int
    images_per_step: int
    speeds: Callable[[float], dict[str, float]]
    waiting: Callable[[float], dict[str, float]]

    def __call__(self, progress: Progress) -> None:
        """Writes a line if due."""
        if progress.metrics is None or not progress.is_due(self.every):
            return
        scalars = _last_scalars(sharding.fetch(progress.metrics))
        losses = {
            f"loss[{k}]": scalars[f"agent_{k}/loss"] for k in range(len(progress.metrics["loss"]))
        }
        for k, count in self.skips.seen.items():
            scalars[f"agent_{k}/skipped"] = float(count)
        steps, seconds = self.stopwatch.lap(progress.step)
        speeds = self.speeds(self.images_per_step * steps / seconds)
        self.writer.write(progress.step, "train", scalars | self.waiting(seconds) | speeds)
        self.writer.progress(progress.step, losses, speeds)


def _last_scalars(metrics: Metrics) -> dict[str, float]:
    """Names the metrics of the last step of a call; the learning rate is the first agent's."""
    scalars = {
        f"agent_{k}/{name}": float(value)
        for name, values in metrics.items()
        for k, value in enumerate(values[:, -1])
        if name != "learning_rate"
    }
    return scalars | {"learning_rate": float(metrics["learning_rate"][0, -1])}


@dataclass
class Save:
    """Writes checkpoints.

    Attributes:
        checkpoints: of the run.
        stopwatch: paused while a state is copied.
        every: in steps.
        manifest: what stands beside every state.
        saved: step of the newest checkpoint, or of the start.
    """

    checkpoints: Checkpoints
    stopwatch: Stopwatch
    every: int
    manifest: dict[str, Any]
    saved: int

    def __call__(self, progress: Progress) -> None:
        """Saves if due, unless the last update was skipped."""
        self.checkpoints.check()
        if not progress.is_due(self.every):
            return
        # Updates skipped just now may be the first sign of spoilt parameters.
        if progress.is_done or not sharding.fetch(progress.state.in_a_row).any():
            with self.stopwatch.paused():
                self.now(progress)

    def now(self, progress: Progress) -> None:
        """Saves the state unless it is saved already."""
        if progress.step != self.saved:
            self.checkpoints.save(progress.step, progress.state, self.manifest)
            self.saved = progress.step


@dataclass
class Evaluate:
    """Encodes all states and measures the agents.

    Attributes:
        encode: (state) -> latents f32[A, N, D].
        measure: (latents) -> scalars.
        writer: of the run.
        stopwatch: paused meanwhile.
        every: in steps.
        first: step of the start, whose line an earlier process may have written.
        then: called with (progress, scalars) after every evaluation but that of step 0.
        latents: of the last evaluation, f32[A, N, D].
        baseline: those of step 0, if this process evaluated it.
    """

    encode: Callable[[AgentState], np.ndarray]
    measure: Callable[[np.ndarray], dict[str, float]]
    writer: Writer | Silent
    stopwatch: Stopwatch
    every: int
    first: int
    then: Sequence[Callable[[Progress, dict[str, float]], None]] = ()
    latents: np.ndarray | None = field(default=None, init=False)
    baseline: np.ndarray | None = None

    def __call__(self, progress: Progress) -> None:
        """Evaluates if due."""
        if not progress.is_due(self.every):
            return
        with self.stopwatch.paused():
            self._evaluate(progress)

    def _evaluate(self, progress: Progress) -> None:
        self.latents = self.encode(progress.state)
        monitors.refuse_non_finite(self.latents, progress.step)
        scalars = self.measure(self.latents)
        if progress.step > self.first or not self.writer.holds(progress.step, "eval"):
            self.writer.write(progress.step, "eval", scalars)
        if progress.step == 0:
            self.baseline = self.latents
            return
        for follow in self.then:
            follow(progress, scalars)


@dataclass
class KeepBest:
    """Keeps the state of the best evaluation; follows `Evaluate`.

    Attributes:
        checkpoints: holds the best state alone.
        name: of the metric, for the manifest.
        metric: scalars -> the number that is compared, the same in every process.
        manifest: what stands beside the state.
        best: the highest value so far.
        step: of the state that is kept; evaluated again, it is not saved again.
    """

    checkpoints: Checkpoints
    name: str
    metric: Callable[[dict[str, float]], float]
    manifest: dict[str, Any]
    best: float
    step: int

    def __call__(self, progress: Progress, scalars: dict[str, float]) -> None:
        """Saves the state if it is the best so far."""
        value = self.metric(scalars)
        if value > self.best and progress.step != self.step:
            manifest = {**self.manifest, "best": {self.name: value}}
            self.checkpoints.save(progress.step, progress.state, manifest)
            self.best, self.step = value, progress.step


def stop_on_collapse(progress: Progress, scalars: dict[str, float]) -> None:
    """Ends the run if an agent has collapsed; follows `Evaluate`.

    Raises:
        Stopped: naming the agents.
    """
    if collapsed := monitors.collapsed_agents(scalars):
        raise Stopped(f"{', '.join(collapsed)} collapsed before step {progress.step}")


def warn_of_collapse(progress: Progress, scalars: dict[str, float]) -> None:
    """Logs a warning for every agent that has collapsed; follows `Evaluate`."""
    monitors.collapsed_agents(scalars)


@dataclass(frozen=True)
class Trace:
    """Traces a window of steps: `begin` as the last hook and `end` as the first.

    Attributes:
        profiler: knows the window.
        steps_per_call: steps of the next call.
    """

    profiler: Profiler
    steps_per_call: int

    def begin(self, progress: Progress) -> None:
        """Begins the trace if the next call is in the window."""
        if not progress.is_done:
            self.profiler.before(progress.step, self.steps_per_call)

    def end(self, progress: Progress) -> None:
        """Ends the trace if the last call was the window's last."""
        if progress.metrics is not None:
            self.profiler.after(progress.step, progress.metrics)
