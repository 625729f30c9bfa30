"""Checks of runs that are killed, signalled or started twice: they go on to the same end."""

import os
import pathlib
import re
import signal
import time

import numpy as np

from experiments.reliability import runs
from experiments.reliability.fixture import STEPS, Figures, Fixture, stderr, wait_for
from socialjepa_jax.running.signals import SIGNALS


def kills(fixture: Fixture, count: int) -> Figures:
    """Kills runs at random moments, every other time inside a save, then lets the last one end."""
    rng, ends, equal_ends = np.random.default_rng(0), 0, 0
    inside_saves = from_checkpoints = differing_losses = 0
    losses, workdir = runs.losses(fixture.uninterrupted), fixture.folder / "killed_0"
    for number in range(count):
        code = _start_and_kill(fixture, workdir, rng.uniform(0.0, 0.5), bool(number % 2))
        inside_saves += bool(_unfinished_saves(workdir))
        found = runs.losses(workdir)
        differing_losses += sum(losses[step] != found[step] for step in found)
        if code == 0:  # it had ended before the kill
            ends += 1
            equal_ends += fixture.ends_equal(workdir)
            workdir = fixture.folder / f"killed_{number + 1}"
        from_checkpoints += bool(runs.saved(workdir))
    code = fixture.children.finish(fixture.experiment, workdir)
    ends += 1
    equal_ends += code == 0 and fixture.ends_equal(workdir)
    differing_losses += runs.losses(workdir) != losses
    litter = [p.name for p in workdir.rglob("*") if re.search(r"tmp|\.removed$", p.name)]
    return Figures.of(
        kills=(count, True),
        inside_a_save=(inside_saves, inside_saves > 0),
        from_a_checkpoint=(from_checkpoints, 2 * from_checkpoints >= count),
        differing_losses=(differing_losses, differing_losses == 0),
        ends=(ends, True),
        equal_ends=(equal_ends, equal_ends == ends),
        leftover_files=(litter, not litter),
    )


def _start_and_kill(
    fixture: Fixture, workdir: pathlib.Path, delay: float, inside_save: bool
) -> int | None:
    """Starts a run, kills it `delay` seconds after its next loss and returns its exit code."""
    before = len(runs.losses(workdir))
    child = fixture.children.start(fixture.experiment, workdir, runs.Fault(slow=0.02))
    wait_for(lambda: len(runs.losses(workdir)) > before, [child], seconds=120, poll=0.01)
    time.sleep(delay)
    if inside_save:
        wait_for(lambda: _unfinished_saves(workdir), [child], poll=0.001)
    child.kill()
    child.join()
    return child.exitcode


def _unfinished_saves(workdir: pathlib.Path) -> list[pathlib.Path]:
    return list((workdir / "checkpoints").glob("*.orbax-checkpoint-tmp*"))


def signals(fixture: Fixture, phases: tuple[str, ...] = runs.PHASES) -> Figures:
    """Sends each signal in each phase: exit code 75, the last step saved; then on to the end.

    A signal during compilation ends the run before its first step, with nothing to save.
    """
    wrong = []
    for phase in phases:
        for number in SIGNALS:
            workdir = fixture.folder / f"signal_{phase}_{number}"
            code, saved = _signalled(fixture, workdir, phase, number)
            if code != 75 or not saved:
                wrong.append(f"{phase}/{signal.Signals(number).name}: exit {code}")
        code = fixture.children.finish(fixture.experiment, workdir)  # the last one goes on
        if code != 0 or not fixture.ends_equal(workdir):
            wrong.append(f"{phase}: another end")
    return Figures.of_cases(len(phases) * len(SIGNALS), wrong)


def _signalled(
    fixture: Fixture, workdir: pathlib.Path, phase: str, number: int
) -> tuple[int | None, bool]:
    """Returns the exit code of a signalled run, and True if the step that it names is saved."""
    first = {"step": 5, "evaluation": 1}  # the first evaluation is of the untrained state
    fault = runs.Fault(phase=phase, number=number, after=first.get(phase, 0))
    code = fixture.children.finish(fixture.experiment, workdir, fault)
    text = stderr(workdir)
    said = re.search(r"saved step (\d+) of|(training is done and saved)", text)
    if said is None:
        nothing_yet = phase == "compilation" and "no step was done yet" in text
        return code, nothing_yet and not runs.saved(workdir)
    step = int(said[1] or STEPS)
    return code, step > 0 and runs.saved(workdir)[-1:] == [step]


def locked(fixture: Fixture) -> Figures:
    """Starts a second run in a workdir while the first is alive, and again after its kill."""
    workdir = fixture.folder / "locked"
    first = fixture.children.start(fixture.experiment, workdir, runs.Fault(slow=0.5))
    wait_for(lambda: runs.losses(workdir), [first])
    second = fixture.children.finish(fixture.experiment, workdir)
    first.kill()
    first.join()
    after_kill = fixture.children.finish(fixture.experiment, workdir)
    named = f"is in use by process {first.pid} on" in stderr(workdir)
    equal = fixture.ends_equal(workdir)
    return Figures.of(
        second_exit_code=(second, second == 2),
        names_the_first=(named, named),
        exit_code_after_a_kill=(after_kill, after_kill == 0),
        equal_end=(equal, equal),
    )


def leftovers(fixture: Fixture) -> Figures:
    """Finds the processes and the shared memory that the runs of all checks have left behind."""
    mark = f"SOCIALJEPA_RELIABILITY={fixture.folder}".encode()
    alive = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            parent = int((path.parent / "stat").read_text().rsplit(")", 1)[1].split()[1])
            # Children of this process are the server that starts runs, and its helper.
            if mark in path.read_bytes() and parent != os.getpid():
                alive.append(path.parent.name)
        except OSError:
            continue  # ended meanwhile, or another user's
    shared = [path.name for path in pathlib.Path("/dev/shm").glob("psm_*")]
    return Figures.of(processes=(alive, not alive), shared_memory=(shared, not shared))
