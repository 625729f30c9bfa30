"""Checks of streamed data in one process: equal batches, broken files, resuming, no leftovers."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection

import numpy as np

from experiments.reliability import data, runs
from experiments.reliability.data import STEPS
from experiments.reliability.fixture import Figures, Fixture, last_line


def same_batches(fixture: Fixture) -> Figures:
    """Reads global batches by 1, 2, 4 processes, with 0, 1, 2 workers, from other first calls."""
    calls = data.calls(data.experiment(data.write_files(fixture.folder / "same_batches")))
    expected = data.batch_digests([calls], 0, 0, 20)  # beyond the first epoch
    ways = [(processes, 0, first) for processes in (1, 2, 4) for first in (0, 7, 13)]
    ways += [(1, 1, 0), (1, 2, 0), (2, 1, 3), (1, 2, 13)]
    wrong = [
        f"{processes} processes, {workers} workers from call {first}"
        for processes, workers, first in ways
        if data.batch_digests(data.parts(calls, processes), first, workers, 20 - first)
        != expected[first:]
    ]
    if len(set(expected)) < len(expected):
        wrong.append("two calls have the same batch")
    return Figures.of_cases(len(ways), wrong)


def broken_records(fixture: Fixture) -> Figures:
    """Breaks 1, 5 and 60 percent of the files: a few are listed and replaced, many end the run."""
    counts = {1: 0, 5: 1, 115: 0}  # workers
    return Figures.of_parts(**{f"{n}_broken": _broken(fixture, n, counts[n]) for n in counts})


def _broken(fixture: Fixture, count: int, workers: int) -> Figures:
    folder = data.write_files(fixture.folder / f"broken_{count}")
    experiment = data.experiment(folder, workers=workers, max_broken=0.1)
    calls = data.calls(experiment)
    whole = [calls[number] for number in range(8)]
    damaged = list(range(0, 192, 192 // count if count < 96 else 1))[:count]
    data.damage(folder, damaged)
    equal = all(_others_equal(whole[number], calls[number]) for number in range(8))
    workdir = fixture.folder / f"broken_{count}_run"
    code = fixture.children_with_workers.finish(experiment, workdir)
    lines = (workdir / "broken_files.txt").read_text().splitlines()
    listed = {line.split(":")[0] for line in lines}
    right = listed <= {f"{number}.png" for number in damaged}
    few = count < 20
    message = "" if few else last_line(workdir)
    return Figures.of(
        exit_code=(code, code == (0 if few else 3)),
        message=(message, few or "files are broken" in message),
        listed=(len(listed), right and (len(listed) == count or not few)),
        other_images_equal=(equal, equal),
    )


def _others_equal(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> bool:
    """True if only the places of broken files changed."""
    same = before["rows"] == after["rows"]
    kept = (before["images"][same] == after["images"][same]).all()
    return bool(kept) and (~same).any() == bool(after["broken"])


def same_losses(fixture: Fixture) -> Figures:
    """Trains on streamed and on resident data."""
    folder = data.write_files(fixture.folder / "same_losses")
    found = {}
    for read in ("resident", "stream"):
        workdir = fixture.folder / f"same_losses_{read}"
        experiment = data.experiment(folder, read=read, workers=1)
        code = fixture.children_with_workers.finish(experiment, workdir)
        found[read] = (code, runs.losses(workdir), runs.digests(workdir, STEPS))
    steps, equal = len(found["stream"][1]), found["resident"] == found["stream"]
    return Figures.of(logged_losses=(steps, steps > 0), equal=(equal, equal))


def stream_resumes(fixture: Fixture) -> Figures:
    """Signals a streamed run half-way and starts it again."""
    experiment = data.experiment(data.write_files(fixture.folder / "stream_resumes"), workers=0)
    straight, stopped = (fixture.folder / f"stream_{name}" for name in ("straight", "stopped"))
    finish = fixture.children_with_workers.finish
    finish(experiment, straight)
    fault = runs.Fault(phase="step", after=9)
    codes = [finish(experiment, stopped, fault), finish(experiment, stopped)]
    equal = runs.digests(straight, STEPS) == runs.digests(stopped, STEPS)
    equal &= runs.losses(straight) == runs.losses(stopped)
    return Figures.of(exit_codes=(codes, codes == [75, 0]), equal_end=(equal, equal))


def run_alone(folder: str, workdir: str, cache: str, fault: str) -> None:
    """Runs on files with two workers, in a process that `stream_leftovers` starts."""
    experiment = data.experiment(pathlib.Path(folder), workers=2)
    given = runs.Fault(**json.loads(fault))
    runs.child(experiment, pathlib.Path(workdir), pathlib.Path(cache), given)


def start_alone(function: Callable[..., None], *arguments: object) -> subprocess.Popen[bytes]:
    """Calls a function of a module, with texts, in a process that shares nothing with this one.

    Forked ones share their account of segments, and none is removed while one of them lives.
    """
    name = function.__name__
    code = f"import sys; from {function.__module__} import {name}; {name}(*sys.argv[1:])"
    root = pathlib.Path(__file__).parents[2]
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], cwd=root)


ENDS = {"end": 0, "kill": -signal.SIGKILL, "signal": 75, "exception": 1, "worker": 3}
"""How a streamed run with workers can end: name -> exit code."""


def stream_leftovers(fixture: Fixture) -> Figures:
    """Ends runs in every way of `ENDS`: no worker and no shared memory is left after 3 s."""
    folder = data.write_files(fixture.folder / "stream_leftovers")
    return Figures.of_parts(**{name: _ended(fixture, folder, name) for name in ENDS})


def _ended(fixture: Fixture, folder: pathlib.Path, name: str) -> Figures:
    workdir, before = fixture.folder / f"stream_{name}", segments()
    fault = runs.Fault(slow=0.0 if name == "end" else 0.2)
    if name == "exception":
        fault = dataclasses.replace(fault, phase="step", after=1, raises=True)
    given = json.dumps(dataclasses.asdict(fault))
    child = start_alone(run_alone, folder, workdir, fixture.folder / "xla", given)
    number = {"kill": signal.SIGKILL, "signal": signal.SIGTERM}.get(name)
    early = number or name == "worker"
    started = workers_until(lambda: early and len(runs.losses(workdir)) > 1, [child])
    if number is not None:
        child.send_signal(number)
    elif name == "worker":  # as the kernel does where memory is short
        os.kill(max(pid for pid in started if _is_worker(pid)), signal.SIGKILL)
    code = child.wait(60)
    left = workers_left(started, 3, before)
    return Figures.of(exit_code=(code, code == ENDS[name]), **left.named)


def workers_until(
    condition: Callable[[], object], children: Collection[subprocess.Popen[bytes]]
) -> set[int]:
    """Waits until a condition holds or a child has ended; returns the processes started by them.

    Raises:
        TimeoutError: neither happened in four minutes.
    """
    started: set[int] = set()
    deadline = time.monotonic() + 240
    while all(child.poll() is None for child in children):
        if time.monotonic() > deadline:
            raise TimeoutError("the runs neither logged losses nor ended")
        started |= {pid for child in children for pid in _descendants(child.pid)}
        if condition():
            break
        time.sleep(0.05)
    return started


def _is_worker(pid: int) -> bool:
    path = pathlib.Path(f"/proc/{pid}/cmdline")
    return path.exists() and b"spawn_main" in path.read_bytes()


def workers_left(started: Collection[int], expected: int, segments_before: set[str]) -> Figures:
    """Finds after 3 s the processes and the new pieces of shared memory that are still there.

    Args:
        started: ids of the processes that a run has started.
        expected: fewest of them, without which the check would be empty.
        segments_before: names of the shared memory before the run.
    """
    time.sleep(3)
    alive = [pid for pid in started if os.path.exists(f"/proc/{pid}")]
    shared = sorted(segments() - segments_before)
    return Figures.of(
        started=(len(started), len(started) >= expected),
        alive=(alive, not alive),
        shared_memory=(shared, not shared),
    )


def segments() -> set[str]:
    """Names of the pieces of shared memory and of the semaphores on this machine."""
    folder = pathlib.Path("/dev/shm")
    return {path.name for pattern in ("psm_*", "sem.mp-*") for path in folder.glob(pattern)}


def _descendants(pid: int) -> set[int]:
    """Processes that a process has started, and the processes started by them."""
    found: set[int] = set()
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children = {int(child) for child in path.read_text().split()}
            found |= children.union(*map(_descendants, children))
    return found
