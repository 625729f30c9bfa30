"""What the loop does when something goes wrong, on the smallest run there is."""

import dataclasses
import errno
import json
import math
import os
import shutil
import signal

import chex
import jax
import numpy as np
import pytest

from experiments.reliability import runs
from socialjepa_jax import build, config, evaluation, loop
from socialjepa_jax.config import Monitors
from socialjepa_jax.errors import Interrupted, Stopped
from socialjepa_jax.performance import hardware, throughput
from socialjepa_jax.report.run import page as run_page
from socialjepa_jax.running import monitors
from socialjepa_jax.running.checkpoint import Checkpoints

STEPS = 12


@pytest.fixture(autouse=True)
def no_page(monkeypatch):
    """The page is drawn for seconds, and nothing here depends on it."""
    monkeypatch.setattr(run_page, "write_run_report", lambda workdir, *_: workdir / "r.html")


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def experiment(parent):
    return runs.experiment(runs.write_pictures(parent), STEPS)


@pytest.fixture(scope="module")
def straight(parent, experiment):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_page, "write_run_report", lambda workdir, *_: workdir / "r.html")
        return loop.fit(experiment, parent / "straight"), parent / "straight"


def _lines(workdir, kind):
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def test_the_best_is_kept_beside_the_newest(straight, experiment):
    _, workdir = straight
    scores = {
        line["step"]: evaluation.best_metric("rankme", line)
        for line in _lines(workdir, "eval")
        if line["step"]
    }
    with Checkpoints(workdir / "checkpoints" / "best", 1) as best:
        (step,) = best.steps()
        assert best.manifest(step)["best"] == {"rankme": scores[step]}
        assert best.restore(build.build(experiment).abstract_state).step.tolist() == [step] * 2
    assert scores[step] == max(scores.values())
    with Checkpoints(workdir / "checkpoints", 3) as newest:
        assert newest.steps() == [4, 8, 12]


@pytest.mark.parametrize("change", ["r2", "damaged"])
def test_a_finished_run_whose_best_is_its_newest_state_starts_again(
    straight, experiment, parent, monkeypatch, change
):
    result, workdir = straight
    other = parent / f"again_{change}"
    shutil.copytree(workdir, other)
    folder = other / "checkpoints" / "best"
    shutil.rmtree(folder)
    with Checkpoints(folder, 1) as best:
        best.save(STEPS, result.state, {"best": {"rankme": 2.0}})
    name = "rankme" if change == "damaged" else "r2"
    if change == "damaged":
        (folder / str(STEPS) / "manifest" / "metadata").write_text("{")
    changed = dataclasses.replace(experiment, checkpoint=config.Checkpoint(name))
    monkeypatch.setattr(evaluation, "best_metric", lambda name, scalars: 3.0)
    again = loop.fit(changed, other)
    assert again.rows == result.rows
    with Checkpoints(folder, 1, read_only=True) as best:
        assert best.steps() == [STEPS]
        expected = {"rankme": 3.0 if change == "damaged" else 2.0}  # the same state either way
        assert best.manifest(STEPS)["best"] == expected
        chex.assert_trees_all_equal(
            best.restore(build.build(experiment).abstract_state), jax.device_get(result.state)
        )
    assert (folder / f"{STEPS}.damaged").exists() == (change == "damaged")


def test_a_full_disk_at_the_end_stops_a_run_with_one_line(
    straight, experiment, parent, monkeypatch
):
    _, workdir = straight
    other = shutil.copytree(workdir, parent / "full")

    def fill(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(evaluation, "save_latents", fill)
    with pytest.raises(
        Stopped, match=r"full cannot be written: No space left .* checkpoints"
    ) as end:
        loop.fit(experiment, other)
    assert end.value.exit_code == 3 and runs.saved(other) == runs.saved(workdir)


@pytest.mark.nightly
def test_a_signal_in_an_evaluation_loses_nothing(straight, experiment, parent, monkeypatch):
    result, workdir = straight
    other, scalars = parent / "interrupted", evaluation.scalars
    calls = []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 2:  # the evaluation after step 6, where no save is due
            os.kill(os.getpid(), signal.SIGUSR1)
        return scalars(*args)

    monkeypatch.setattr(evaluation, "scalars", interrupted)
    with pytest.raises(Interrupted, match="saved step 6 of 12") as end:
        loop.fit(experiment, other)
    assert end.value.exit_code == 75
    resumed = loop.fit(experiment, other)
    chex.assert_trees_all_equal(jax.device_get(resumed.state), jax.device_get(result.state))
    for kind in ("train", "eval"):
        ours, theirs = _lines(other, kind), _lines(workdir, kind)
        for line in (*ours, *theirs):
            del line["time"]
            for name in hardware.SPEEDS:
                line.pop(name, None)
        assert ours == theirs


@pytest.mark.nightly
def test_bad_batches_are_skipped_or_passed_over(straight, experiment, parent):
    row = int(straight[0].dataset.train_rows[-1])
    bad = dataclasses.replace(experiment, objective=runs.Linear(bad_from=row), monitors=Monitors(3))
    skipping = loop.fit(bad, parent / "skipping")
    assert (np.asarray(skipping.state.skipped) > 0).all()
    assert not np.asarray(skipping.state.passed_over).any()
    assert _lines(parent / "skipping", "train")[-1]["agent_0/skipped"] > 0

    often = dataclasses.replace(bad.run, save_every=1)  # one step back, past one batch
    back = dataclasses.replace(bad, monitors=Monitors(max_skips=1, roll_backs=9), run=often)
    past = loop.fit(back, parent / "past")
    assert not np.asarray(past.state.skipped).any()
    assert (np.asarray(past.state.passed_over) > 0).all()
    assert np.asarray(past.state.step).tolist() == [STEPS] * 2
    losses = [line["agent_1/loss"] for line in _lines(parent / "past", "train")]
    assert len(losses) == STEPS and all(map(math.isfinite, losses))


@pytest.mark.nightly
def test_a_signal_at_the_last_skip_leaves_the_roll_back_to_the_next_start(
    experiment, parent, monkeypatch
):
    row = int(experiment.data.load(parent).train_rows[-1])
    bad = dataclasses.replace(
        experiment,
        objective=runs.Linear(bad_from=row),
        monitors=Monitors(max_skips=1, roll_backs=9),
        # Nothing but the signal looks at what was skipped before it.
        run=dataclasses.replace(experiment.run, log_every=STEPS, eval_every=STEPS),
    )
    straight = loop.fit(bad, parent / "rolled_back")
    assert (np.asarray(straight.state.passed_over) > 0).any()

    prepare, other, hit = throughput.prepare, parent / "signalled", []

    def signalling(*arguments):
        program = prepare(*arguments)

        def call(*arguments):
            state, metrics = program.compiled.call(*arguments)
            if state.step[0] > 4 and state.in_a_row.any() and not hit:
                hit.append(int(state.step[0]))
                os.kill(os.getpid(), signal.SIGTERM)
            return state, metrics

        return dataclasses.replace(
            program, compiled=dataclasses.replace(program.compiled, call=call)
        )

    with monkeypatch.context() as patch:
        patch.setattr(throughput, "prepare", signalling)
        with pytest.raises(Interrupted, match="is to be undone; the same command goes on") as end:
            loop.fit(bad, other)
    assert end.value.exit_code == 75
    assert hit[0] % 4 and runs.saved(other) == [hit[0] // 4 * 4]
    chex.assert_trees_all_equal(
        jax.device_get(loop.fit(bad, other).state), jax.device_get(straight.state)
    )
    # Where no roll-back is left, the run has come to its end, signal or not.
    last = dataclasses.replace(bad, monitors=Monitors(max_skips=1, roll_backs=1))
    with monkeypatch.context() as patch:
        hit.clear()
        patch.setattr(throughput, "prepare", signalling)
        with pytest.raises(monitors.Diverged, match="not finite"):
            loop.fit(last, parent / "ended")
        assert hit


def test_a_collapsed_run_stops_if_asked_to(experiment, parent, monkeypatch):
    monkeypatch.setattr(monitors, "has_collapsed", lambda *args: True)
    stop = dataclasses.replace(experiment, monitors=Monitors(on_collapse="stop"))
    with pytest.raises(Stopped, match="agent_0, agent_1 collapsed before step 6") as end:
        loop.fit(stop, parent / "collapsed")
    assert end.value.exit_code == 3
