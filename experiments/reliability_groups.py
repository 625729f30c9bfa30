"""Checks of runs in several processes: the same numbers, one end for all, any layout afterwards."""

import dataclasses
import pathlib
import signal
import time

import jax
import numpy as np

from experiments import reliability_runs as runs
from experiments.reliability_checks import Lab, Seen
from experiments.reliability_runs import Fault, Layout
from socialjepa_jax import loop, sharding
from socialjepa_jax.checkpoint import Checkpoints
from socialjepa_jax.config import Agents, Experiment

STEPS = 12
TWO_BY_TWO, ONE_BY_FOUR = Layout(2, 2), Layout(1, 4)


def small(lab: Lab) -> Experiment:
    """Three agents, so that each one's batch is spread over all four devices."""
    run = dataclasses.replace(lab.experiment.run, steps=STEPS, eval_every=STEPS)
    agents = Agents(cameras=(0, 1, 0), seeds=(0, 1, 2))
    return dataclasses.replace(lab.experiment, run=run, agents=agents)


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


def equal(lab: Lab) -> Seen:
    """2 processes x 2 devices against 1 x 4."""
    what, folders = small(lab), (lab.folder / "one_by_four", lab.folder / "two_by_two")
    codes = [
        lab.children.finish_group(what, folder, layout)
        for folder, layout in zip(folders, (ONE_BY_FOUR, TWO_BY_TWO))
    ]
    if any(map(any, codes)):
        return f"exit {codes}", False
    worst = difference(what, *folders)
    return f"difference {worst:.1e}", worst <= 1e-5


def stops_as_one(lab: Lab) -> Seen:
    """A signal to one process saves one step in all; another layout goes on from it."""
    what, workdir = small(lab), lab.folder / "group_signal"
    fault = {1: Fault(phase="step", after=5)}
    codes = lab.children.finish_group(what, workdir, TWO_BY_TWO, fault)
    stopped_at = runs.saved(workdir)[-1:]
    rest = lab.children.finish_group(what, workdir, ONE_BY_FOUR)
    worst = difference(what, lab.folder / "one_by_four", workdir)
    seen = f"signal: exit {codes} at {stopped_at}, on 1 x 4: exit {rest}, difference {worst:.1e}"
    early = bool(stopped_at) and stopped_at[0] < STEPS
    return seen, codes == [75, 75] and rest == [0] and early and worst <= 1e-5


def ends_together(lab: Lab, fault: Fault, name: str) -> Seen:
    """One process dies at a step: how long until the last one has ended."""
    workdir = lab.folder / f"group_{name}"
    children = lab.children.start_group(small(lab), workdir, TWO_BY_TWO, {1: fault})
    while children[1].is_alive():
        time.sleep(0.02)
    start = time.monotonic()
    codes = runs.join(children, 60)
    seconds = time.monotonic() - start
    return f"{name}: exit {codes} after {seconds:.1f} s", all(codes) and seconds <= 15


def processes(lab: Lab) -> Seen:
    """All of these, one after the other."""
    at_step_5 = Fault(phase="step", after=5)
    found = [
        equal(lab),
        stops_as_one(lab),
        ends_together(lab, dataclasses.replace(at_step_5, number=signal.SIGKILL), "kill"),
        ends_together(lab, dataclasses.replace(at_step_5, raises=True), "error"),
    ]
    return "; ".join(seen for seen, _ in found), all(passed for _, passed in found)
