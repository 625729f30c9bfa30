"""Hooks alone: when they act, and what they leave untouched."""

import contextlib

import numpy as np
import pytest

from socialjepa_jax.errors import Stopped
from socialjepa_jax.running import hooks, monitors
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.hooks import Progress


class Watch:
    """A stopwatch that counts its pauses."""

    pauses = 0

    def paused(self):
        self.pauses += 1
        return contextlib.nullcontext()


class Lines:
    """A writer that keeps its lines."""

    def __init__(self, held=()):
        self.lines, self.held = [], set(held)

    def write(self, step, kind, scalars):
        self.lines.append((step, kind, scalars))

    def progress(self, step, losses, speeds):
        self.lines.append((step, "progress", losses))

    def holds(self, step, kind):
        return (step, kind) in self.held


class State:
    """What hooks read of the agents."""

    def __init__(self, in_a_row=(0, 0), skipped=(0, 0)):
        self.in_a_row, self.skipped = np.asarray(in_a_row), np.asarray(skipped)


def progress(step, total=12, metrics=None, **state):
    return Progress(State(**state), step, total, metrics)


def test_a_hook_is_due_at_multiples_and_at_the_end():
    assert [step for step in range(13) if progress(step).is_due(5)] == [0, 5, 10, 12]
    assert [step for step in range(13) if progress(step).is_due(4, 6)] == [0, 4, 6, 8, 12]


def test_skips_are_watched_where_others_look_and_end_the_attempt():
    watch = hooks.WatchSkips(monitors.SkipMonitor(3), (4,))
    watch(progress(3, in_a_row=(9, 0), skipped=(9, 0)))  # nobody looks
    watch(progress(4, in_a_row=(2, 0), skipped=(2, 0)))
    assert watch.monitor.seen == {0: 2, 1: 0}
    with pytest.raises(monitors.Diverged, match="agent_0"):
        watch(progress(8, in_a_row=(3, 0), skipped=(5, 0)))


def test_the_log_names_the_last_step_of_a_call():
    writer, watch = Lines(), Watch()
    watch.lap = lambda step: (4, 2.0)
    skips = monitors.SkipMonitor(3, {0: 1})
    log = hooks.Log(writer, watch, skips, 4, 10, lambda rate: {"rate": rate}, lambda s: {"wait": s})
    log(progress(4))  # no call yet
    log(progress(3, metrics={"loss": np.ones((2, 1))}))
    assert not writer.lines
    metrics = {"loss": np.array([[5.0, 1.0], [5.0, 2.0]]), "learning_rate": np.full((2, 2), 0.5)}
    log(progress(4, metrics=metrics))
    step, kind, scalars = writer.lines[0]
    assert (step, kind) == (4, "train")
    assert scalars == {
        "agent_0/loss": 1.0, "agent_1/loss": 2.0, "agent_0/skipped": 1.0, "learning_rate": 0.5,
        "rate": 20.0, "wait": 2.0,
    }  # fmt: skip
    assert writer.lines[1] == (4, "progress", {"loss[0]": 1.0, "loss[1]": 2.0})


class Saved:
    """Checkpoints that remember their steps."""

    def __init__(self):
        self.saves, self.manifests = [], []

    def check(self):
        pass

    def save(self, step, state, manifest):
        self.saves.append(step)
        self.manifests.append(manifest)


def test_a_state_is_saved_once_and_not_amid_skips():
    checkpoints, watch = Saved(), Watch()
    save = hooks.Save(checkpoints, watch, 4, {}, saved=4)
    for step, in_a_row in ((4, 0), (6, 0), (8, 1), (12, 1)):
        save(progress(step, in_a_row=(0, in_a_row)))
    assert checkpoints.saves == [12]  # the last one whatever happened
    save.now(progress(12))
    assert checkpoints.saves == [12]


def test_an_evaluation_writes_one_line_a_step_and_keeps_the_first_latents():
    writer, after = Lines(held={(4, "eval")}), []
    evaluate = hooks.Evaluate(
        lambda state: np.ones((1, 2, 3)), lambda z: {"mean": float(z.mean())}, writer, Watch(), 4,
        first=4, then=[lambda p, scalars: after.append((p.step, scalars["mean"]))],
    )  # fmt: skip
    evaluate(progress(4))  # an earlier process wrote it
    evaluate(progress(6))
    assert not writer.lines and after == [(4, 1.0)] and evaluate.baseline is None
    evaluate(progress(8))
    assert writer.lines == [(8, "eval", {"mean": 1.0})] and after[-1] == (8, 1.0)
    start = hooks.Evaluate(evaluate.encode, evaluate.measure, Lines(), Watch(), 4, 0)
    start(progress(0))
    assert start.baseline is start.latents and start.writer.lines[0][:2] == (0, "eval")
    evaluate.encode = lambda state: np.full((1, 2, 3), np.nan)
    with pytest.raises(Stopped, match="agent_0 are not finite at step 12"):
        evaluate(progress(12))


def test_the_best_is_kept_and_the_same_step_not_twice():
    checkpoints = Saved()
    best = hooks.KeepBest(checkpoints, "r2", lambda s: s["r2"], {"v": 1}, best=0.5, step=4)
    for step, r2 in ((4, 0.9), (8, 0.4), (8, 0.7), (10, 0.6), (12, 0.7)):
        best(progress(step), {"r2": r2})
    assert checkpoints.saves == [8] and checkpoints.manifests == [{"v": 1, "best": {"r2": 0.7}}]


def test_bests_of_undone_steps_are_removed(tmp_path):
    with Checkpoints(tmp_path / "best", 3) as checkpoints:
        for step in (4, 8):
            checkpoints.save(step, {"x": np.ones(2, np.float32)}, {})
        checkpoints.wait()
        assert checkpoints.newest_step() == 8
        checkpoints.drop_after(4)
        assert checkpoints.steps() == [4] and checkpoints.newest_step() == 4
        checkpoints.drop_after(0)
        assert checkpoints.newest_step() == -1
