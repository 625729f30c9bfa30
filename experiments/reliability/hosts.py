"""Checks of runs in several processes: the same numbers, one end for all, any layout afterwards."""

import dataclasses
import itertools
import os
import pathlib
import signal
import socket
import time
from collections.abc import Sequence

import jax
import numpy as np

from experiments.reliability import runs
from experiments.reliability.fixture import Figures, Fixture, abstract_state, stderr, wait_for
from experiments.reliability.runs import Fault, Layout
from socialjepa_jax import sharding
from socialjepa_jax.config import Agents, Experiment
from socialjepa_jax.running.checkpoint import Checkpoints

Codes = Sequence[int | None]  # exit codes of a run's processes

STEPS = 12
LIMIT = 1e-5  # of differences between layouts, relative to a leaf's maximum
TWO_BY_TWO, ONE_BY_FOUR, FOUR_BY_ONE = Layout(2, 2), Layout(1, 4), Layout(4, 1)
THREE = Agents(cameras=(0, 1, 0), seeds=(0, 1, 2))  # each one's batch is on all four devices


def experiment(fixture: Fixture) -> Experiment:
    """The fixture's run, shorter and with three agents."""
    run = dataclasses.replace(fixture.experiment.run, steps=STEPS, eval_every=STEPS)
    return dataclasses.replace(fixture.experiment, run=run, agents=THREE)


def _last_state(experiment: Experiment, workdir: pathlib.Path) -> list[np.ndarray]:
    """Returns the arrays of the newest checkpoint, read in this process."""
    with Checkpoints(workdir / "checkpoints", 3) as checkpoints:
        return jax.tree.leaves(sharding.fetch(checkpoints.restore(abstract_state(experiment))))


def difference(experiment: Experiment, one: pathlib.Path, other: pathlib.Path) -> float:
    """Largest difference of two last states, relative to the leaf's maximum (at least 1)."""
    return max(
        float(np.abs(a.astype(np.float64) - b).max() / max(1.0, np.abs(a).max()))
        for a, b in zip(_last_state(experiment, one), _last_state(experiment, other), strict=True)
    )


def one_by_four(fixture: Fixture) -> pathlib.Path:
    """Workdir of the run of one process with four devices, which the others are compared with."""
    workdir = fixture.folder / "one_by_four"
    if not workdir.exists():
        codes = fixture.children.finish_group(experiment(fixture), workdir, ONE_BY_FOUR)
        if codes != [0]:
            raise RuntimeError(f"{workdir.name}: exit {codes}, {stderr(workdir)}")
    return workdir


def agreement(
    run: Experiment, workdir: pathlib.Path, codes: Codes, other: pathlib.Path, limit: float = LIMIT
) -> Figures:
    """Compares the end of a run with that of the same run in another workdir."""
    ended = all(code == 0 for code in codes)
    worst = difference(run, other, workdir) if ended else np.inf
    return Figures.of(exit_codes=(codes, ended), difference=(worst, worst <= limit))


def equal(fixture: Fixture) -> Figures:
    """Runs 2 processes x 2 devices to the end."""
    run, workdir = experiment(fixture), fixture.folder / "two_by_two"
    codes = fixture.children.finish_group(run, workdir, TWO_BY_TWO)
    return agreement(run, workdir, codes, one_by_four(fixture))


def stops(codes: list[Codes], steps: list[int], end: Figures) -> Figures:
    """Returns the figures of a run that was signalled, once in each of some layouts, and went on.

    Args:
        codes: exit codes of the processes after each signal.
        steps: the last saved after each signal.
        end: the end of the run.
    """
    later = all(a < b for a, b in itertools.pairwise([0, *steps, STEPS]))
    return Figures.of(
        signalled=(codes, all(code == 75 for group in codes for code in group)),
        saved=(steps, later and len(steps) == len(codes)),
        **end.named,
    )


def _stopped(fixture: Fixture, faults: list[tuple[Layout, int, Fault]], last: Layout) -> Figures:
    """Runs layouts of which one process gets a fault, one after the other, then the last one."""
    run, workdir = experiment(fixture), fixture.folder / f"stops_{last.processes}"
    codes, steps = [], []
    for layout, index, fault in faults:
        codes.append(fixture.children.finish_group(run, workdir, layout, {index: fault}))
        steps += runs.saved(workdir)[-1:]
    end = fixture.children.finish_group(run, workdir, last)
    return stops(codes, steps, agreement(run, workdir, end, one_by_four(fixture)))


def stops_as_one(fixture: Fixture) -> Figures:
    """Signals one process of two: both save the same step, and one process goes on from it."""
    fault = Fault(phase="step", after=3, slow=0.1)  # an answer takes a tenth of a second
    return _stopped(fixture, [(TWO_BY_TWO, 1, fault)], ONE_BY_FOUR)


def stops_by_every_signal(fixture: Fixture) -> Figures:
    """Sends SIGINT to one of four processes, then SIGUSR1 to the first of two."""
    interrupt = Fault(phase="step", number=signal.SIGINT, slow=0.3)
    user = dataclasses.replace(interrupt, number=signal.SIGUSR1)
    faults = [(FOUR_BY_ONE, 3, interrupt), (TWO_BY_TWO, 0, user)]
    return _stopped(fixture, faults, FOUR_BY_ONE)


def failure(codes: Codes, seconds: float) -> Figures:
    """Returns the figures of a run of which one process has failed: none goes on alone."""
    return Figures.of(exit_codes=(codes, all(codes)), seconds=(seconds, seconds <= 15))


def ends_together(fixture: Fixture, fault: Fault, name: str, index: int = 1) -> Figures:
    """Lets one process of two fail at a step and waits for the other."""
    workdir = fixture.folder / f"group_{name}"
    run, faults = experiment(fixture), {index: fault}
    children = fixture.children.start_group(run, workdir, TWO_BY_TWO, faults)
    children[index].join()
    start = time.monotonic()
    codes = runs.join(children, 60)
    return failure(codes, time.monotonic() - start)


def second_signal(fixture: Fixture) -> Figures:
    """Sends two signals to one process of two in a step of a minute: it ends, and the other too."""
    workdir = fixture.folder / "group_second"
    run, faults = experiment(fixture), {1: Fault(slow=60.0)}
    children = fixture.children.start_group(run, workdir, TWO_BY_TWO, faults)
    wait_for((workdir / "metrics.jsonl").exists, children)
    os.kill(children[1].pid or 0, signal.SIGTERM)
    wait_for(lambda: "SIGTERM: saving" in stderr(workdir, 1), children)
    os.kill(children[1].pid or 0, signal.SIGTERM)
    start = time.monotonic()
    children[1].join(60)
    own = time.monotonic() - start
    codes = runs.join(children, 60)
    killed = codes[1] == 128 + signal.SIGTERM
    all_ended = failure(codes, time.monotonic() - start)
    return Figures.of(own_seconds=(own, own <= 2 and killed), **all_ended.named)


def names_the_late(fixture: Fixture) -> Figures:
    """Lets one process of two look for its images for minutes, with a patience of 3 s."""
    run, workdir = experiment(fixture), fixture.folder / "group_late"
    layout = dataclasses.replace(TWO_BY_TWO, patience=3.0)
    start = time.monotonic()
    codes = fixture.children.finish_group(run, workdir, layout, {1: Fault(late=300.0)})
    seconds = time.monotonic() - start
    late = f"process 1 on {socket.gethostname()} did not reach 'the first computation' within 3 s"
    named = all(late in stderr(workdir, process) for process in range(2))
    right = named and codes == [3, 3]
    return Figures.of(named=(named, right), **failure(codes, seconds).named)


def processes(fixture: Fixture) -> Figures:
    """Runs all checks of this file."""
    error = Fault(phase="step", after=5, raises=True)
    kill = Fault(phase="step", after=5, number=signal.SIGKILL)
    return Figures.of_parts(
        two_by_two=equal(fixture),
        signal=stops_as_one(fixture),
        kill=ends_together(fixture, kill, "kill"),
        kill_of_the_first=ends_together(fixture, kill, "kill_first", 0),
        error=ends_together(fixture, error, "error"),
        SIGINT_and_SIGUSR1=stops_by_every_signal(fixture),
        second_signal=second_signal(fixture),
        late=names_the_late(fixture),
    )
