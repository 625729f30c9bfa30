"""What streamed data must hold: the same batches whoever reads them, broken files, no leftovers.

One function a line of the reliability table, as in `reliability_checks`.
"""

import contextlib
import dataclasses
import hashlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

from experiments.reliability import runs
from experiments.reliability.checks import Lab, Seen
from socialjepa_jax import agents
from socialjepa_jax.build import make_hparams, train_rows
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import Protocol, Splits
from socialjepa_jax.data.folder import FolderData
from socialjepa_jax.data.streaming import Calls, Feed

_STEPS, _PER_CALL = 48, 2


def _children(lab: Lab) -> runs.Children:
    """Runs that may have workers."""
    return dataclasses.replace(lab.children, daemon=False)


def write_files(folder: pathlib.Path) -> pathlib.Path:
    """Writes the noise of `reliability_runs.write_pictures` as PNG files with a table."""
    with np.load(runs.write_pictures(folder)) as arrays:
        columns = {name: arrays[name] for name in arrays.files if name != "images"}
        images = arrays["images"]
    lines = [",".join(("file", *columns))]
    for number, image in enumerate(images):
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "PNG")
        (folder / f"{number}.png").write_bytes(stream.getvalue())
        lines.append(",".join((f"{number}.png", *(str(c[number]) for c in columns.values()))))
    (folder / "factors.csv").write_text("\n".join(lines))
    return folder


def experiment(folder: pathlib.Path, **changes: object) -> Experiment:
    """The run of the other checks, on files; changes are of its data."""
    names = ("category", "instance", "elevation", "azimuth")
    data = FolderData(
        path=str(folder),
        table="factors.csv",
        columns=tuple((name, name) for name in names),
        image_size=runs.SIDE,
        channels=1,
        protocol=Protocol("norb", azimuths=(0, 160)),
        splits=Splits(test_instances=2, test_states=0.25, seed=0),
        read="stream",
    )
    what = runs.experiment(folder / "noise.npz", _STEPS)
    run = dataclasses.replace(what.run, steps_per_call=_PER_CALL, log_every=_PER_CALL)
    data = dataclasses.replace(data, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(what, data=data, run=run)


def calls(what: Experiment) -> Calls:
    """The batches of all steps of a run, read by one process."""
    dataset = what.data.load(pathlib.Path())
    rows = train_rows(what, dataset)
    batch, count = what.run.batch_size, len(what.agents.seeds)
    epochs = what.run.steps // (len(rows) // batch) + 1
    keys = np.asarray(agents.order_keys(make_hparams(what)["seed"], epochs))
    return Calls(
        dataset.images,  # type: ignore[arg-type]
        what.agents.cameras,
        rows,
        keys,
        np.zeros(count, np.int64),
        batch,
        what.run.steps_per_call,
        agents=(0, count),
        slots=(0, batch),
    )


def batch_digests(what: Calls, first: int, processes: int, workers: int, count: int) -> list[str]:
    """SHA-256 of the global batches of `count` calls, read in parts by several processes."""
    size = what.batch_size // processes
    parts = [dataclasses.replace(what, slots=(size * p, size * (p + 1))) for p in range(processes)]
    with contextlib.ExitStack() as opened:
        feeds = [Feed(part, first, workers) for part in parts]
        for feed in feeds:
            opened.enter_context(contextlib.closing(feed))
        found = []
        for _ in range(count):
            elements = [feed.take() for feed in feeds]
            digest = hashlib.sha256()
            for name in ("rows", "images"):
                whole = np.concatenate([element[name] for element in elements], axis=2)
                digest.update(np.ascontiguousarray(whole))
            found.append(digest.hexdigest())
    return found


def same_batches(lab: Lab) -> Seen:
    """Global batches for 1, 2, 4 processes, 0, 1, 2 workers and other first steps."""
    folder = lab.folder / "same_batches"
    folder.mkdir()
    what = calls(experiment(write_files(folder)))
    expected = batch_digests(what, 0, 1, 0, 20)  # beyond the first epoch
    wrong = []
    cases = [(p, 0, s) for p in (1, 2, 4) for s in (0, 7, 13)]
    for processes, workers, first in [*cases, (1, 1, 0), (1, 2, 0), (2, 1, 3), (1, 2, 13)]:
        found = batch_digests(what, first, processes, workers, 20 - first)
        if found != expected[first:]:
            wrong.append(f"{processes} processes, {workers} workers from call {first}")
    seen = f"{len(cases) + 4 - len(wrong)} of {len(cases) + 4} ways equal {'; '.join(wrong)}"
    return seen.strip(), not wrong and len(set(expected)) == len(expected)


def damage(folder: pathlib.Path, numbers: list[int]) -> None:
    """Cuts files short."""
    for number in numbers:
        os.truncate(folder / f"{number}.png", 40)


def broken_records(lab: Lab) -> Seen:
    """1 and 5 broken files are counted, listed and moved past; 60 percent end the run."""
    seen, good = [], True
    for count, workers in ((1, 0), (5, 1), (115, 0)):
        folder = lab.folder / f"broken_{count}"
        folder.mkdir()
        what = experiment(write_files(folder), workers=workers, max_broken=0.1)
        before = calls(what)
        whole = [before[number] for number in range(8)]
        damaged = list(range(0, 192, 192 // count if count < 96 else 1))[:count]
        damage(folder, damaged)
        same = all(_others_equal(whole[number], before[number]) for number in range(8))
        workdir = lab.folder / f"broken_{count}_run"
        code = _children(lab).finish(what, workdir)
        listed = (workdir / "broken_files.txt").read_text().splitlines()
        names = {line.split(":")[0] for line in listed}
        right = names <= {f"{number}.png" for number in damaged} and same
        if count < 20:
            right &= code == 0 and len(names) == count
        else:
            last = (workdir / "stderr.txt").read_text().splitlines()[-1]
            right &= code == 3 and "files are broken" in last
        seen.append(f"{count} broken: exit {code}, {len(names)} listed")
        good &= right
    return "; ".join(seen), good


def _others_equal(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> bool:
    """Whether only the places of broken files changed."""
    same = before["rows"] == after["rows"]
    kept = (before["images"][same] == after["images"][same]).all()
    return bool(kept) and (~same).any() == bool(after["broken"])


def run_alone(folder: str, workdir: str, cache: str, slow: str) -> None:
    """The run on files with two workers: the whole of a process that `stream_leftovers` starts."""
    what = experiment(pathlib.Path(folder), workers=2)
    fault = runs.Fault(slow=float(slow))
    runs.child(what, pathlib.Path(workdir), pathlib.Path(cache), fault)


def start_alone(function: Callable[..., None], *arguments: object) -> subprocess.Popen[bytes]:
    """Calls a function of a module, with texts, in a process that shares nothing with this one.

    Forked ones share their account of segments, and none is removed while one of them lives.
    """
    name = function.__name__
    code = f"import sys; from {function.__module__} import {name}; {name}(*sys.argv[1:])"
    root = pathlib.Path(__file__).parents[2]
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], cwd=root)


def stream_leftovers(lab: Lab) -> Seen:
    """Workers and shared memory 3 s after the end, a kill, a signal and an exception."""
    folder = lab.folder / "stream_leftovers"
    folder.mkdir()
    write_files(folder)
    seen, good = [], True
    for name, expected in (("end", 0), ("kill", -9), ("signal", 75), ("exception", 1)):
        workdir, before = lab.folder / f"stream_{name}", segments()
        if name == "exception":  # the steps cannot be logged
            (workdir / "metrics.jsonl").mkdir(parents=True)
        slow = 0.0 if name == "end" else 0.2
        child = start_alone(run_alone, folder, workdir, lab.folder / "xla", slow)
        started: set[int] = set()
        deadline = time.monotonic() + 180
        while child.poll() is None and time.monotonic() < deadline:
            started |= descendants(child.pid)
            if name in ("kill", "signal") and len(_losses(workdir)) > 1:
                child.send_signal(signal.SIGKILL if name == "kill" else signal.SIGTERM)
                break
            time.sleep(0.05)
        code = child.wait(60)
        alive = alive_after(3, started)
        left = segments() - before
        good &= not alive and not left and len(started) >= 3 and code == expected
        seen.append(f"{name}: exit {code}, {alive} of {len(started)} alive, {len(left)} left")
    return "; ".join(seen), good


def _losses(workdir: pathlib.Path) -> dict[int, tuple[float, ...]]:
    return runs.losses(workdir) if (workdir / "metrics.jsonl").is_file() else {}


def alive_after(seconds: float, processes: set[int]) -> int:
    """How many of some processes are still there then."""
    time.sleep(seconds)
    return sum(pathlib.Path(f"/proc/{pid}").exists() for pid in processes)


def segments() -> set[str]:
    """Named pieces of shared memory, and semaphores."""
    folder = pathlib.Path("/dev/shm")
    return {path.name for pattern in ("psm_*", "sem.mp-*") for path in folder.glob(pattern)}


def descendants(pid: int) -> set[int]:
    """Processes that a process has started, and those that they have."""
    found: set[int] = set()
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children = {int(child) for child in path.read_text().split()}
            found |= children.union(*(descendants(child) for child in children))
    return found


def same_losses(lab: Lab) -> Seen:
    """Training from a stream and from resident data: the same losses, step for step."""
    folder = lab.folder / "same_losses"
    folder.mkdir()
    write_files(folder)
    found = {}
    for read in ("resident", "stream"):
        workdir = lab.folder / f"same_losses_{read}"
        code = _children(lab).finish(experiment(folder, read=read, workers=1), workdir)
        found[read] = (code, runs.losses(workdir), runs.digests(workdir, _STEPS))
    equal = found["resident"] == found["stream"]
    steps = len(found["stream"][1])
    return f"{steps} logged losses and the last state equal: {equal}", equal and steps > 0


def stream_resumes(lab: Lab) -> Seen:
    """A streamed run that is killed or signalled half-way ends as if it had not been."""
    folder = lab.folder / "stream_resumes"
    folder.mkdir()
    what = experiment(write_files(folder), workers=0)
    straight, stopped = lab.folder / "stream_straight", lab.folder / "stream_stopped"
    _children(lab).finish(what, straight)
    first = _children(lab).finish(what, stopped, runs.Fault(phase="step", after=9))
    second = _children(lab).finish(dataclasses.replace(what), stopped)
    equal = runs.digests(straight, _STEPS) == runs.digests(stopped, _STEPS)
    equal &= runs.losses(straight) == runs.losses(stopped)
    return f"exit {first}, then {second}, equal at the end: {equal}", (first, second, equal) == (
        75,
        0,
        True,
    )
