"""Checks of damaged checkpoints, a full disk and the time that a save takes from the steps."""

import collections
import dataclasses
import pathlib
import shutil
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from experiments.reliability import runs
from experiments.reliability.fixture import STEPS, Figures, Fixture, last_line
from socialjepa_jax.errors import InputError
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.storage import digests


def _flip_middle_bit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


DAMAGES: dict[str, dict[str, Callable[[bytes], bytes | None]]] = {
    "largest file": {
        "middle bit flipped": _flip_middle_bit,
        "cut in half": _half,
        "empty": lambda data: b"",
        "zeros": lambda data: bytes(len(data)),
        "gone": lambda data: None,
    },
    "manifest": {
        "gone": lambda data: None,
        "cut in half": _half,
        "not JSON": lambda data: b"\x80\x04\x95",
        "a digest altered": lambda data: data.replace(b'"seal": "', b'"seal": "0'),
    },
    "every file": {"cut in half": _half},
}
"""Damages of a checkpoint: files -> name -> function of their contents; None: no file."""


def _damage(step: pathlib.Path, which: str, change: Callable[[bytes], bytes | None]) -> None:
    files = _files(step)
    chosen = {
        "largest file": [max(files, key=lambda path: path.stat().st_size)],
        "manifest": [step / "manifest" / "metadata"],
        "every file": files,
    }
    for path in chosen[which]:
        data = change(path.read_bytes())
        path.unlink() if data is None else path.write_bytes(data)


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files below a folder that are not empty."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


def restored_digests(folder: pathlib.Path, abstract: object) -> dict[str, str] | None:
    """Digests of the state that a folder of checkpoints restores to; None if all are refused."""
    with Checkpoints(folder, 9) as checkpoints:
        try:
            return digests(checkpoints.restore(abstract))
        except InputError:
            return None


def bit_flips(fixture: Fixture, count: int) -> Figures:
    """Flips one random bit of a random file of a checkpoint and restores it, `count` times."""
    rng, outcomes = np.random.default_rng(0), collections.Counter[str]()
    source = fixture.uninterrupted / "checkpoints" / str(STEPS)
    for number in range(count):
        folder = fixture.folder / "flips" / str(number)
        shutil.copytree(source, folder / str(STEPS))
        paths = _files(folder)
        _flip_random_bit(paths[rng.integers(len(paths))], rng)
        found = restored_digests(folder, fixture.abstract_state)
        kind = "refused" if found is None else "intact" if found == fixture.digests else "silent"
        outcomes[kind] += 1
        shutil.rmtree(folder)
    silent, refused, intact = (outcomes[kind] for kind in ("silent", "refused", "intact"))
    return Figures.of(silent=(silent, not silent), refused=(refused, True), intact=(intact, True))


def _flip_random_bit(path: pathlib.Path, rng: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    path.write_bytes(bytes(data))


def damaged_latest(fixture: Fixture) -> Figures:
    """Damages the newest checkpoint in every way of `DAMAGES`: the one before is restored."""
    wrong, ways = [], [(which, how) for which, changes in DAMAGES.items() for how in changes]
    expected = runs.digests(fixture.uninterrupted, runs.saved(fixture.uninterrupted)[-2])
    for number, (which, how) in enumerate(ways):
        checkpoints = fixture.copy(f"damaged_{number}") / "checkpoints"
        _damage(checkpoints / str(STEPS), which, DAMAGES[which][how])
        found = restored_digests(checkpoints, fixture.abstract_state)
        if found != expected or not (checkpoints / f"{STEPS}.damaged").is_dir():
            wrong.append(f"{which}: {how}")
    return Figures.of_cases(len(ways), wrong)


def full_disk(fixture: Fixture) -> Figures:
    """Limits the size of files in a run that goes on from its checkpoints."""
    experiment = dataclasses.replace(fixture.experiment, objective=runs.Linear(dim=512))
    workdir = fixture.folder / "full"
    fixture.children.finish(experiment, workdir, runs.Fault(phase="step", after=9))
    before = runs.saved(workdir)
    expected = runs.digests(workdir, before[-1])
    code = fixture.children.finish(experiment, workdir, runs.Fault(file_limit=200_000))
    intact = runs.saved(workdir) == before and runs.digests(workdir, before[-1]) == expected
    message = last_line(workdir)
    return Figures.of(
        exit_code=(code, code == 3),
        message=(message, "cannot be written" in message),
        checkpoints=(len(before), intact),
        intact=(intact, intact),
    )


def blocking(fixture: Fixture) -> Figures:
    """Measures the time that a save of 64 MiB takes from the steps.

    The fastest of five counts, since other work on the machine slows the others.
    """
    state = {f"leaf_{k}": jax.random.normal(jax.random.key(k), (1 << 20,)) for k in range(16)}
    jax.block_until_ready(state)
    times = []
    with Checkpoints(fixture.folder / "large", 1) as checkpoints:
        for step in range(5):
            start = time.perf_counter()
            checkpoints.save(step, state, {})
            times.append(1e3 * (time.perf_counter() - start))
            checkpoints.wait()
    shutil.rmtree(fixture.folder / "large")
    median = statistics.median(times)
    return Figures.of(fastest_save_ms=(min(times), min(times) < 50), median_save_ms=(median, True))
