"""Checks of what surrounds a process: its environment, the clock, pauses, rivals, long runs."""

import dataclasses
import os
import pathlib
import signal
import time
from multiprocessing.process import BaseProcess

from experiments.reliability import hosts, runs
from experiments.reliability.fixture import Figures, Fixture, last_line, wait_for

_OPTIONS = {
    "jax_enable_x64": True,
    "jax_default_prng_impl": "rbg",
    "jax_threefry_partitionable": False,
    "jax_random_seed_offset": 5,
}


def environments(fixture: Fixture) -> Figures:
    """Sets options of jax that would change the numbers: the end is the same, or is refused."""
    wrong = []
    for name, value in _OPTIONS.items():
        workdir = fixture.folder / f"environment_{name}"
        fault = runs.Fault(options=((name, value),))
        code = fixture.children.finish(fixture.experiment, workdir, fault)
        if code != 0 or not fixture.ends_equal(workdir):
            wrong.append(f"{name}: exit {code}, another end")
    workdir = fixture.folder / "environment_precision"
    fixture.children.finish(fixture.experiment, workdir, runs.Fault(phase="step", after=9))
    precision = runs.Fault(options=(("jax_default_matmul_precision", "float32"),))
    code = fixture.children.finish(fixture.experiment, workdir, precision)
    if code != 2 or "matmul_precision: None -> float32" not in last_line(workdir):
        wrong.append(f"another precision: exit {code}")
    code = fixture.children.finish(fixture.experiment, workdir)
    if code != 0 or not fixture.ends_equal(workdir):
        wrong.append(f"the first precision again: exit {code}")
    return Figures.of_cases(len(_OPTIONS) + 2, wrong)


def clock_jumps(fixture: Fixture) -> Figures:
    """Lets the clock jump by hours and years, forth and back: nothing but times changes."""
    workdir = fixture.folder / "clock"
    first = runs.Fault(clock=True, phase="step", after=9)
    codes = [fixture.children.finish(fixture.experiment, workdir, first)]
    codes.append(fixture.children.finish(fixture.experiment, workdir, runs.Fault(clock=True)))
    equal = codes == [75, 0] and fixture.ends_equal(workdir)
    same = runs.losses(workdir) == runs.losses(fixture.uninterrupted)
    return Figures.of(
        exit_codes=(codes, codes == [75, 0]), equal_end=(equal, equal), equal_losses=(same, same)
    )


def races(fixture: Fixture, count: int = 4) -> Figures:
    """Starts runs at once in one workdir: one of them gets it."""
    workdir = fixture.folder / "races"
    children = [fixture.children.start(fixture.experiment, workdir) for _ in range(count)]
    codes = sorted(code for code in runs.join(children, 300) if code is not None)
    equal = codes[:1] == [0] and fixture.ends_equal(workdir)
    return Figures.of(
        exit_codes=(codes, codes == [0] + [2] * (count - 1)), equal_end=(equal, equal)
    )


def pauses(fixture: Fixture) -> Figures:
    """Stops processes with SIGSTOP and lets them go on: alone, signalled meanwhile, one of two."""
    codes, workdir = [], fixture.folder / "paused"
    for number in (signal.SIGTERM, None):
        child = fixture.children.start(fixture.experiment, workdir, runs.Fault(slow=0.02))
        before = len(runs.losses(workdir))
        wait_for(lambda: len(runs.losses(workdir)) > before, [child], seconds=120)  # noqa: B023
        _pause(child.pid, 1.0, number)
        codes += runs.join([child], 300)
    alone = codes == [75, 0] and fixture.ends_equal(workdir)

    workdir, run = fixture.folder / "paused_pair", hosts.experiment(fixture)
    slow = runs.Fault(slow=0.1)
    pair = fixture.children.start_group(run, workdir, hosts.TWO_BY_TWO, {0: slow, 1: slow})
    wait_for((workdir / "metrics.jsonl").exists, pair, seconds=120)
    _pause(pair[1].pid, 3.0)  # less than the heartbeat
    end = hosts.agreement(run, workdir, runs.join(pair, 300), hosts.one_by_four(fixture))
    own = Figures.of(exit_codes=(codes, codes == [75, 0]), equal_end=(alone, alone))
    return Figures.of_parts(alone=own, pair=end)


def _pause(pid: int | None, seconds: float, number: int | None = None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    if number is not None:
        os.kill(pid, number)
    os.kill(pid, signal.SIGCONT)


def growth(fixture: Fixture, steps: int) -> Figures:
    """Runs many steps, with saves and evaluations: neither memory nor open files grow."""
    workdir = fixture.folder / "growth"
    run = dataclasses.replace(
        fixture.experiment.run, steps=steps, eval_every=steps // 20, save_every=steps // 40
    )
    experiment = dataclasses.replace(fixture.experiment, run=run)
    child = fixture.children.start(experiment, workdir)
    early, late = (_memory_and_files(child, workdir, steps * n // 8) for n in (3, 7))
    (code,) = runs.join([child], 600)
    megabytes, files = late[0] - early[0], late[1] - early[1]
    return Figures.of(
        steps=(steps, code == 0),
        memory_MB=(early[0], True),
        more_MB=(megabytes, megabytes < 20),
        files=(early[1], True),
        more_files=(files, files <= 2),
    )


def _memory_and_files(child: BaseProcess, workdir: pathlib.Path, step: int) -> tuple[float, int]:
    """Resident memory in MB and the number of open files of a run after a step.

    The fewest of several counts, since a save has files open for a while.
    """
    wait_for(lambda: max(runs.losses(workdir), default=0) >= step, [child], 600, 0.1)
    folder, counts = pathlib.Path(f"/proc/{child.pid}"), []
    for _ in range(20):
        pages = int((folder / "statm").read_text().split()[1])
        counts.append(
            (pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(list((folder / "fd").iterdir())))
        )
        time.sleep(0.02)
    memory, files = zip(*counts)
    return min(memory), min(files)
