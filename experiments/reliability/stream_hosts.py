"""Checks of streamed data in several processes: the same images on the devices, one end for all."""

import dataclasses
import json
import pathlib
import subprocess
import time
from collections.abc import Mapping

import numpy as np

from experiments.reliability import data, hosts, runs, streams
from experiments.reliability.fixture import Figures, Fixture
from experiments.reliability.hosts import FOUR_BY_ONE, ONE_BY_FOUR, STEPS, TWO_BY_TWO
from experiments.reliability.runs import Fault, Layout
from socialjepa_jax.config import Experiment

Faults = Mapping[int, Fault]  # of some of a run's processes, by index
FEW = ((ONE_BY_FOUR, 1), (TWO_BY_TWO, 0), (FOUR_BY_ONE, 0))  # `signalled` has two workers
ALL = tuple((layout, n) for layout in (ONE_BY_FOUR, TWO_BY_TWO, FOUR_BY_ONE) for n in (0, 1, 2))


def experiment(fixture: Fixture, workers: int = 0) -> Experiment:
    """Returns the run of `hosts` on image files."""
    folder = fixture.folder / "group_files"
    if not folder.exists():
        data.write_files(folder)
    streamed = data.experiment(folder, workers=workers)
    run = dataclasses.replace(streamed.run, steps=STEPS, eval_every=STEPS)
    return dataclasses.replace(streamed, agents=hosts.THREE, run=run)


def run_process(description: str) -> None:
    """Runs one process of a run with workers, as the JSON of `_start_group` describes it."""
    given = json.loads(description)
    fixture, layout = Fixture(pathlib.Path(given["folder"])), Layout(**given["layout"])
    run, workdir = experiment(fixture, given["workers"]), pathlib.Path(given["workdir"])
    spec, fault = layout.process(given["index"], given["port"]), Fault(**given["fault"])
    runs.child(run, workdir, fixture.folder / "xla", fault, spec, layout)


def _start_group(
    fixture: Fixture, workdir: pathlib.Path, layout: Layout, workers: int, faults: Faults
) -> list[subprocess.Popen[bytes]]:
    """Starts all processes of a run."""
    experiment(fixture)  # writes the files before the processes look for them
    given = {"folder": str(fixture.folder), "workdir": str(workdir), "workers": workers}
    given |= {"layout": dataclasses.asdict(layout), "port": runs.free_port()}
    children = []
    for index in range(layout.processes):
        own = {"index": index, "fault": dataclasses.asdict(faults.get(index, Fault()))}
        children.append(streams.start_alone(run_process, json.dumps(given | own)))
    return children


def _finish(
    fixture: Fixture, workdir: pathlib.Path, layout: Layout, workers: int, faults: Faults
) -> hosts.Codes:
    """Runs all processes to the end and returns their exit codes."""
    if not workers:  # forked processes start sooner
        return fixture.children.finish_group(experiment(fixture), workdir, layout, faults)
    children = _start_group(fixture, workdir, layout, workers, faults)
    try:
        return [child.wait(300) for child in children]
    finally:
        for child in children:
            child.kill()


def unequal_calls(experiment: Experiment, workdir: pathlib.Path) -> list[str]:
    """Calls of a run whose batches on the devices differ from those that one process reads.

    Every position of a batch must have been on one device, of any process, and on no other.
    """
    parts: dict[int, list[tuple[tuple[slice, ...], str]]] = {}
    for path in workdir.glob("batches_*.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            where = tuple(slice(*bounds) for bounds in line["place"])
            parts.setdefault(line["step"], []).append((where, line["digest"]))
    calls, unequal = data.calls(experiment, workdir / "cache"), []
    for number in range(experiment.run.steps // experiment.run.steps_per_call):
        batch = calls[number]
        times_held = np.zeros(batch["rows"].shape, int)
        equal = True
        for where, digest in parts.get(number * experiment.run.steps_per_call, []):
            times_held[where] += 1
            equal &= digest == runs.batch_digest(batch["rows"][where], batch["images"][where])
        if not equal or (times_held != 1).any():
            unequal.append(f"call {number}")
    return unequal


def ways(fixture: Fixture, chosen: tuple[tuple[Layout, int], ...]) -> Figures:
    """Runs layouts with numbers of workers, against resident data on 1 process x 4 devices."""
    equal, differences = zip(*(_way(fixture, *way) for way in chosen))
    return Figures.of(
        ways=(len(chosen), True),
        with_equal_batches=(sum(equal), all(equal)),
        difference_of_losses_and_end=(max(differences), max(differences) <= hosts.LIMIT),
    )


def _way(fixture: Fixture, layout: Layout, workers: int) -> tuple[bool, float]:
    run, workdir = experiment(fixture, workers=workers), _workdir(fixture, layout, workers)
    records = {index: Fault(records=True) for index in range(layout.processes)}
    if any(_finish(fixture, workdir, layout, workers, records)):
        return False, np.inf
    resident = hosts.one_by_four(fixture)
    ours, theirs = runs.losses(workdir), runs.losses(resident)
    worst = hosts.difference(run, resident, workdir)
    for step, values in ours.items():  # not of every step, since a call does several
        worst = max(worst, *np.abs(np.subtract(values, theirs[step]) / values))
    return bool(ours) and not unequal_calls(run, workdir), float(worst)


def _workdir(fixture: Fixture, layout: Layout, workers: int) -> pathlib.Path:
    return fixture.folder / f"stream_{layout.processes}_by_{layout.devices}_{workers}"


def signalled(fixture: Fixture) -> Figures:
    """Signals one of two processes with workers: both stop, and both go on to the same end."""
    run, workdir = experiment(fixture), fixture.folder / "stream_group_signal"
    record = Fault(records=True)
    faults = {0: record, 1: Fault(phase="step", after=1, slow=0.3, records=True)}
    interrupted = _finish(fixture, workdir, TWO_BY_TWO, 2, faults)
    steps = runs.saved(workdir)[-1:]
    ended = _finish(fixture, workdir, TWO_BY_TWO, 2, {0: record, 1: record})
    unequal = unequal_calls(run, workdir)  # before and after the signal, each once
    end = hosts.agreement(run, workdir, ended, _workdir(fixture, TWO_BY_TWO, 0), limit=0.0)
    stopped = hosts.stops([interrupted], steps, end)
    return Figures.of(**stopped.named, unequal_calls=(unequal, not unequal))


def killed(fixture: Fixture) -> Figures:
    """Kills one of two processes with workers: nothing is left, and one process goes on."""
    run, workdir = experiment(fixture), fixture.folder / "stream_group_kill"
    before, slow = streams.segments(), Fault(slow=0.3)
    pair = _start_group(fixture, workdir, TWO_BY_TWO, 2, {0: slow, 1: slow})
    started = streams.workers_until(lambda: len(runs.losses(workdir)) >= 2, pair)
    pair[1].kill()
    start = time.monotonic()
    codes = [process.wait(60) for process in pair]
    ended = hosts.failure(codes, time.monotonic() - start)
    left = streams.workers_left(started, 8, before)
    rest = fixture.children.finish_group(run, workdir, ONE_BY_FOUR)
    end = hosts.agreement(run, workdir, rest, hosts.one_by_four(fixture))
    return Figures.of_parts(pair=ended, workers=left, one_by_four=end)


def stream_processes(fixture: Fixture, every: bool = False) -> Figures:
    """Runs all checks of this file, of `ALL` ways or of `FEW`."""
    streamed = ways(fixture, ALL if every else FEW)
    return Figures.of_parts(streamed=streamed, signal=signalled(fixture), kill=killed(fixture))
