"""Checks of runs in several processes: the same numbers, one end for all, any layout afterwards."""

import dataclasses
import os
import pathlib
import signal
import socket
import time

import jax
import numpy as np

from experiments.reliability import runs
from experiments.reliability.checks import Lab, Seen
from experiments.reliability.runs import Fault, Layout
from socialjepa_jax import loop, sharding
from socialjepa_jax.config import Agents, Experiment
from socialjepa_jax.running.checkpoint import Checkpoints

STEPS = 12
TWO_BY_TWO, ONE_BY_FOUR = Layout(2, 2), Layout(1, 4)
THREE = Agents(cameras=(0, 1, 0), seeds=(0, 1, 2))  # each one's batch is on all four devices


def small(lab: Lab) -> Experiment:
    """The run of all checks, shorter."""
    run = dataclasses.replace(lab.experiment.run, steps=STEPS, eval_every=STEPS)
    return dataclasses.replace(lab.experiment, run=run, agents=THREE)


def last_state(what: Experiment, workdir: pathlib.Path) -> list[np.ndarray]:
    """The arrays of the newest checkpoint, read in this process."""
    trainer, hparams = loop.make_trainer(what), loop.make_hparams(what)
    with Checkpoints(workdir / "checkpoints", 3) as checkpoints:
        state = checkpoints.restore(loop.abstract_state(trainer, hparams))
    return jax.tree.leaves(sharding.fetch(state))


def difference(what: Experiment, one: pathlib.Path, other: pathlib.Path) -> float:
    """The largest difference of two last states, relative to the leaf's maximum (at least 1)."""
    return max(
        float(np.abs(a.astype(np.float64) - b).max() / max(1.0, np.abs(a).max()))
        for a, b in zip(last_state(what, one), last_state(what, other))
    )


def one_by_four(lab: Lab) -> pathlib.Path:
    """Workdir of the run on one process with four devices, which the others are held against."""
    workdir = lab.folder / "one_by_four"
    if not workdir.exists():
        codes = lab.children.finish_group(small(lab), workdir, ONE_BY_FOUR)
        assert codes == [0], (codes, (workdir / "stderr.txt").read_text())
    return workdir


def equal(lab: Lab) -> Seen:
    """2 processes x 2 devices against 1 x 4."""
    what, workdir = small(lab), lab.folder / "two_by_two"
    codes = lab.children.finish_group(what, workdir, TWO_BY_TWO)
    if any(codes):
        return f"exit {codes}", False
    worst = difference(what, one_by_four(lab), workdir)
    return f"difference {worst:.1e}", worst <= 1e-5


def stops_as_one(lab: Lab) -> Seen:
    """A signal to one process saves one step in all; another layout goes on from it."""
    what, workdir = small(lab), lab.folder / "group_signal"
    fault = {1: Fault(phase="step", after=3, slow=0.1)}  # an answer takes a tenth of a second
    codes = lab.children.finish_group(what, workdir, TWO_BY_TWO, fault)
    stopped_at = runs.saved(workdir)[-1:]
    rest = lab.children.finish_group(what, workdir, ONE_BY_FOUR)
    worst = difference(what, one_by_four(lab), workdir)
    seen = f"signal: exit {codes} at {stopped_at}, on 1 x 4: exit {rest}, difference {worst:.1e}"
    early = bool(stopped_at) and stopped_at[0] < STEPS
    return seen, codes == [75, 75] and rest == [0] and early and worst <= 1e-5


def ends_together(lab: Lab, fault: Fault, name: str, index: int = 1) -> Seen:
    """One process dies at a step: how long until the last one has ended."""
    workdir = lab.folder / f"group_{name}"
    children = lab.children.start_group(small(lab), workdir, TWO_BY_TWO, {index: fault})
    while children[index].is_alive():
        time.sleep(0.02)
    start = time.monotonic()
    codes = runs.join(children, 60)
    seconds = time.monotonic() - start
    return f"{name}: exit {codes} after {seconds:.1f} s", all(codes) and seconds <= 15


def stops_by_every_signal(lab: Lab) -> Seen:
    """SIGINT to one of four processes, SIGUSR1 to the first of two, then on to the end."""
    what, workdir = small(lab), lab.folder / "group_signals"
    codes, steps = [], [0]
    for layout, index, number in (
        (Layout(4, 1), 3, signal.SIGINT),
        (TWO_BY_TWO, 0, signal.SIGUSR1),
    ):
        fault = {index: Fault(phase="step", number=number, slow=0.3)}
        codes.append(lab.children.finish_group(what, workdir, layout, fault))
        steps += runs.saved(workdir)[-1:]
    codes.append(lab.children.finish_group(what, workdir, Layout(4, 1)))
    worst = difference(what, one_by_four(lab), workdir)
    seen = f"SIGINT, SIGUSR1: exit {codes} at {steps[1:]}, difference {worst:.1e}"
    right = codes == [[75] * 4, [75] * 2, [0] * 4] and sorted({*steps, STEPS}) == [*steps, STEPS]
    return seen, right and worst <= 1e-5


def second_signal(lab: Lab) -> Seen:
    """Two signals to one of two processes, in a step of a minute: it ends, and the other too."""
    workdir = lab.folder / "group_second"
    fault = {1: Fault(slow=60.0)}
    children = lab.children.start_group(small(lab), workdir, TWO_BY_TWO, fault)
    while all(child.is_alive() for child in children) and not (workdir / "metrics.jsonl").exists():
        time.sleep(0.02)
    log = workdir / "stderr_1.txt"
    for times in (1, 2):
        os.kill(children[1].pid or 0, signal.SIGTERM)
        start = time.monotonic()
        while times == 1 and "SIGTERM: saving" not in log.read_text():
            time.sleep(0.02)
    children[1].join(60)
    own = time.monotonic() - start
    codes = runs.join(children, 60)
    seconds = time.monotonic() - start
    seen = f"second signal: exit {codes} after {own:.1f} s, all after {seconds:.1f} s"
    return seen, codes[1] == 128 + signal.SIGTERM and all(codes) and own <= 2 and seconds <= 15


def names_the_late(lab: Lab) -> Seen:
    """One process of two looks for its pictures for minutes: all end, and say who was late."""
    workdir = lab.folder / "group_late"
    layout = dataclasses.replace(TWO_BY_TWO, patience=3.0)
    start = time.monotonic()
    codes = lab.children.finish_group(small(lab), workdir, layout, {1: Fault(late=300.0)})
    seconds = time.monotonic() - start
    expected = (
        f"process 1 on {socket.gethostname()} did not reach 'the first computation' within 3 s"
    )
    said = all(expected in (workdir / f"stderr{k}.txt").read_text() for k in ("", "_1"))
    seen = f"late: exit {codes} after {seconds:.1f} s, {'named' if said else 'NOT NAMED'}"
    return seen, codes == [3, 3] and seconds <= 15 and said


def processes(lab: Lab) -> Seen:
    """All of these, one after the other."""
    at_step_5 = Fault(phase="step", after=5)
    kill = dataclasses.replace(at_step_5, number=signal.SIGKILL)
    found = [
        equal(lab),
        stops_as_one(lab),
        ends_together(lab, kill, "kill"),
        ends_together(lab, kill, "kill of the first", 0),
        ends_together(lab, dataclasses.replace(at_step_5, raises=True), "error"),
        stops_by_every_signal(lab),
        second_signal(lab),
        names_the_late(lab),
    ]
    return "; ".join(seen for seen, _ in found), all(passed for _, passed in found)
