"""Checks of streamed data in several processes: the same pictures on the devices, one end for all.

One function a part of a line of the reliability table, as in `reliability_groups`.
"""

import dataclasses
import json
import pathlib
import subprocess
import time
from collections.abc import Mapping

import numpy as np

from experiments.reliability import data, groups, runs
from experiments.reliability.checks import Lab, Seen
from experiments.reliability.groups import ONE_BY_FOUR, STEPS, TWO_BY_TWO
from experiments.reliability.runs import Fault, Layout
from socialjepa_jax.config import Experiment

FOUR_BY_ONE = Layout(4, 1)
FEW = ((ONE_BY_FOUR, 1), (TWO_BY_TWO, 0), (FOUR_BY_ONE, 0))  # `signalled` has two workers
ALL = tuple((layout, n) for layout in (ONE_BY_FOUR, TWO_BY_TWO, FOUR_BY_ONE) for n in (0, 1, 2))


def experiment(lab: Lab, workers: int = 0) -> Experiment:
    """The run of `reliability_groups` on files."""
    folder = lab.folder / "group_files"
    if not folder.exists():
        folder.mkdir()
        data.write_files(folder)
    what = data.experiment(folder, workers=workers)
    run = dataclasses.replace(what.run, steps=STEPS, eval_every=STEPS)
    return dataclasses.replace(what, agents=groups.THREE, run=run)


def run_one(told: str) -> None:
    """One process of a run whose processes have workers: the whole of what `start_group` starts."""
    said = json.loads(told)
    lab, layout, index = Lab(pathlib.Path(said["lab"])), Layout(**said["layout"]), said["index"]
    place = layout.place(index, said["port"])
    what, workdir = experiment(lab, workers=said["workers"]), pathlib.Path(said["workdir"])
    runs.child(what, workdir, lab.folder / "xla", Fault(**said["fault"]), place, layout)


def start_group(
    lab: Lab, workdir: pathlib.Path, layout: Layout, workers: int, faults: Mapping[int, Fault]
) -> list[subprocess.Popen[bytes]]:
    """Starts all processes of a run; `faults` are of some of them, by index."""
    experiment(lab)  # before they all look for its files
    told = {
        "lab": str(lab.folder), "workdir": str(workdir), "layout": dataclasses.asdict(layout),
        "workers": workers, "port": runs.free_port(),
    }  # fmt: skip
    started = []
    for index in range(layout.processes):
        own = {"index": index, "fault": dataclasses.asdict(faults.get(index, Fault()))}
        started.append(data.start_alone(run_one, json.dumps(told | own)))
    return started


def finish(
    lab: Lab, workdir: pathlib.Path, layout: Layout, workers: int, faults: Mapping[int, Fault]
) -> list[int | None]:
    """Runs all to the end and returns their exit codes."""
    if not workers:  # forked ones start sooner
        return lab.children.finish_group(experiment(lab), workdir, layout, faults)
    started = start_group(lab, workdir, layout, workers, faults)
    try:
        return [process.wait(300) for process in started]
    finally:
        for process in started:
            process.kill()


def equal_batches(what: Experiment, workdir: pathlib.Path) -> int:
    """How many of a run's calls had their batches as this process reads them alone.

    Of each, all places must have been on a device once, in whatever process.
    """
    found: dict[int, list[tuple[tuple[slice, ...], str]]] = {}
    for path in workdir.glob("batches_*.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            place = tuple(slice(*part) for part in line["place"])
            found.setdefault(line["step"], []).append((place, line["digest"]))
    source, equal = data.calls(what), 0
    for call in range(what.run.steps // what.run.steps_per_call):
        expected, held = source[call], np.zeros(source[call]["rows"].shape, int)
        right = True
        for place, digest in found.get(call * what.run.steps_per_call, []):
            held[place] += 1
            parts = (expected[name][place] for name in ("rows", "images"))
            right &= digest == runs.batch_digest(*parts)
        equal += right and bool((held == 1).all())
    return equal


def one_way(lab: Lab, layout: Layout, workers: int) -> tuple[bool, float]:
    """Runs a layout: whether its batches are right, and how far its end is from resident data's."""
    what, workdir = experiment(lab, workers=workers), _workdir(lab, layout, workers)
    records = {index: Fault(records=True) for index in range(layout.processes)}
    if any(finish(lab, workdir, layout, workers, records)):
        return False, np.inf
    same = equal_batches(what, workdir) == STEPS // what.run.steps_per_call
    resident = groups.one_by_four(lab)
    ours, theirs = runs.losses(workdir), runs.losses(resident)
    worst = groups.difference(what, resident, workdir)
    for step, values in ours.items():  # not of every step, since a call does several
        worst = max(worst, *np.abs(np.subtract(values, theirs[step]) / values))
    return same and bool(ours), float(worst)


def _workdir(lab: Lab, layout: Layout, workers: int) -> pathlib.Path:
    return lab.folder / f"stream_{layout.processes}_by_{layout.devices}_{workers}"


def ways(lab: Lab, chosen: tuple[tuple[Layout, int], ...]) -> Seen:
    """Some layouts with some numbers of workers, one after the other."""
    found = [one_way(lab, *way) for way in chosen]
    same, worst = sum(right for right, _ in found), max(far for _, far in found)
    seen = f"batches of {same} of {len(chosen)} ways equal, losses and end to {worst:.1e}"
    return seen, same == len(chosen) and worst <= 1e-5


def signalled(lab: Lab) -> Seen:
    """A signal to one of two processes with workers: both stop, and both go on."""
    what, workdir = experiment(lab), lab.folder / "stream_group_signal"
    signals = Fault(phase="step", after=1, slow=0.3, records=True)
    faults = {0: Fault(records=True), 1: signals}
    first = finish(lab, workdir, TWO_BY_TWO, 2, faults)
    stopped_at = runs.saved(workdir)[-1:] or [STEPS]
    faults[1] = faults[0]
    second = finish(lab, workdir, TWO_BY_TWO, 2, faults)
    equal = equal_batches(what, workdir)  # before and after the signal, each once
    worst = groups.difference(what, _workdir(lab, TWO_BY_TWO, 0), workdir)
    seen = f"signal: exit {first} at {stopped_at}, then {second}, "
    seen += f"{equal} calls equal, difference {worst:g}"
    right = stopped_at[0] < STEPS and equal == STEPS // what.run.steps_per_call
    return seen, (first, second, right, worst) == ([75, 75], [0, 0], True, 0.0)


def killed(lab: Lab) -> Seen:
    """One of two processes with workers is killed: nothing is left, and one alone goes on."""
    what, workdir = experiment(lab), lab.folder / "stream_group_kill"
    before, slow = data.segments(), Fault(slow=0.3)
    pair = start_group(lab, workdir, TWO_BY_TWO, 2, {0: slow, 1: slow})
    workers: set[int] = set()
    while pair[1].poll() is None and len(runs.losses(workdir)) < 2:
        workers |= {pid for process in pair for pid in data.descendants(process.pid)}
        time.sleep(0.05)
    pair[1].kill()
    start = time.monotonic()
    codes = [process.wait(60) for process in pair]
    seconds = time.monotonic() - start
    alive, left = data.alive_after(3, workers), data.segments() - before
    rest = lab.children.finish_group(what, workdir, ONE_BY_FOUR)
    worst = groups.difference(what, groups.one_by_four(lab), workdir)
    seen = f"kill: exit {codes} after {seconds:.1f} s, {alive} of {len(workers)} workers alive, "
    seen += f"{len(left)} segments left, then {rest}, difference {worst:.1e}"
    gone = not alive and not left and len(workers) >= 8
    return seen, all(codes) and seconds <= 15 and gone and rest == [0] and worst <= 1e-5


def stream_groups(lab: Lab, every: bool = False) -> Seen:
    """All of these, one after the other, in `every` way or some."""
    found = [ways(lab, ALL if every else FEW), signalled(lab), killed(lab)]
    return "; ".join(seen for seen, _ in found), all(passed for _, passed in found)
