"""Checks of workdirs: planted links, damaged files, odd places, and full disks."""

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Iterator
from unittest import mock

import numpy as np

from experiments.reliability import runs
from experiments.reliability.fixture import STEPS, Figures, Fixture, stderr
from socialjepa_jax import build, config, loop
from socialjepa_jax.config import Experiment
from socialjepa_jax.errors import InputError
from socialjepa_jax.records import json_lines
from socialjepa_jax.running import workdir as workdir_lib
from socialjepa_jax.running import writers

_LINKS = (
    "lock", ".probe.tmp", "config.json", "config.json.tmp", "environment.json.tmp",
    "statistics.json.tmp", "metrics.jsonl", "metrics.jsonl.tmp", "performance.json.tmp",
    "alignment.json.tmp", "report.html", "checkpoints", "checkpoints/best", "latents",
    "latents/agent_0.npz", "tensorboard",
)  # fmt: skip
_SMALL = ("config.json", "environment.json", "metrics.jsonl", "statistics.json", "lock")
_NAMES = ("a b", "ü%20#?&=", "two\nlines", "-dash", "'\"$(quotes)`", "x" * 200, "7", "1.damaged")
_LOCKS = (b"", b"process 1 on another host\n", b"\xff" * 4096, bytes(1_000_000))


def planted_links(fixture: Fixture) -> Figures:
    """Plants links to a file or folder under the names that a run writes: all are refused."""
    wrong = []
    victims = fixture.folder / "victims"
    victims.mkdir()
    (victims / "file").write_text("precious")
    with mock.patch.object(build, "open_feed", side_effect=AssertionError("the run began")):
        for number, name in enumerate(_LINKS):
            workdir = fixture.folder / f"links_{number}"
            (workdir / name).parent.mkdir(parents=True)
            (workdir / name).symlink_to(victims / ("file" if "." in name or name == "lock" else ""))
            try:
                loop.fit(fixture.experiment, workdir)
                wrong.append(f"{name}: not refused")
            except InputError as error:
                wrong += [] if name in str(error) else [f"{name}: {error}"]
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
    left = [path.name for path in victims.iterdir()]
    if left != ["file"] or (victims / "file").read_text() != "precious":
        wrong.append("a target changed")
    return Figures.of_cases(len(_LINKS), wrong)


def damaged_folders(fixture: Fixture, count: int) -> Figures:
    """Flips a random bit of a random small file and starts again, `count` times.

    The start is refused or goes on, and the log loses two lines at the most (a flipped line break
    joins two).
    """
    rng, wrong, refused = np.random.default_rng(0), list[str](), 0
    workdir = fixture.copy("damaged_folder")
    intact = {name: (workdir / name).read_bytes() for name in _SMALL}
    plain = config.to_plain(fixture.experiment)
    versions = json.loads(intact["environment.json"])
    lines = len(intact["metrics.jsonl"].splitlines())
    for _ in range(count):
        for name, data in intact.items():
            (workdir / name).write_bytes(data)
        name = _SMALL[rng.integers(len(_SMALL))]
        data = bytearray(intact[name])
        position, bit = int(rng.integers(len(data))), int(rng.integers(8))
        data[position] ^= 1 << bit
        (workdir / name).write_bytes(data)
        try:
            with workdir_lib.locked(workdir):
                workdir_lib.prepare(workdir, plain, versions)
            writers.truncate(workdir / "metrics.jsonl", STEPS)
            found = len(list(json_lines(workdir / "metrics.jsonl")))
            wrong += [] if found >= lines - 2 else [f"{name}: {lines - found} lines lost"]
        except InputError:
            refused += 1
        except Exception as error:
            wrong.append(f"{name}, byte {position}, bit {bit}: {type(error).__name__} {error}")
    shutil.rmtree(workdir)
    return Figures.of(refused=(refused, True), **Figures.of_cases(count, wrong).named)


def short(experiment: Experiment, steps: int = 12) -> Experiment:
    """Returns the run with fewer steps."""
    run = dataclasses.replace(experiment.run, steps=steps, eval_every=steps)
    return dataclasses.replace(experiment, run=run)


def places(fixture: Fixture) -> Figures:
    """Runs in folders with odd names, with stale locks, and on in a folder that was moved."""
    wrong, parent, experiment = list[str](), fixture.folder / "places", short(fixture.experiment)
    ends = set()
    for name in _NAMES:
        code = fixture.children.finish(experiment, parent / name)
        if code != 0:
            wrong.append(f"{name!r}: exit {code}, {stderr(parent / name)[-200:]}")
        else:
            ends.add(tuple(runs.digests(parent / name, 12).items()))
    if len(ends) > 1:
        wrong.append("the name changes the end")
    for number, content in enumerate(_LOCKS):
        workdir = fixture.copy(f"stale_{number}")
        (workdir / "lock").write_bytes(content)
        if (code := fixture.children.finish(fixture.experiment, workdir)) != 0:
            wrong.append(f"stale lock {number}: exit {code}")
    first, second = parent / "first", parent / "elsewhere" / "second"
    fixture.children.finish(fixture.experiment, first, runs.Fault(phase="step", after=9))
    second.parent.mkdir()
    first.rename(second)
    code = fixture.children.finish(fixture.experiment, second)
    if code != 0 or not fixture.ends_equal(second):
        wrong.append(f"moved: exit {code}")
    return Figures.of_cases(len(_NAMES) + len(_LOCKS) + 1, wrong)


def full_elsewhere(fixture: Fixture) -> Figures:
    """Lets a disk take nothing more, or makes it read-only, or takes the folder away.

    In a step, an evaluation and the table: exit code 3 with one line, and then on to the end.
    """
    cases = list(_full_cases())
    return Figures.of_cases(
        len(cases), [line for act, phase in cases for line in _stopped(fixture, act, phase)]
    )


def _full_cases() -> Iterator[tuple[str, str]]:
    for act in ("fill", "read only", "move", "remove"):
        if act != "read only" or os.geteuid() == 0:  # a mount of its own needs rights
            yield from ((act, phase) for phase in ("step", "evaluation", "table"))


def _stopped(fixture: Fixture, act: str, phase: str) -> list[str]:
    """Returns an empty list if a run stops as it must, else a line for the table."""
    workdir = fixture.folder / f"{act.replace(' ', '_')}_{phase}"
    after = {"step": 9, "evaluation": 1, "table": 0}[phase]
    code = fixture.children.finish(
        fixture.experiment, workdir, runs.Fault(phase=phase, after=after, act=act)
    )
    where = pathlib.Path(f"{workdir}_moved") if act == "move" else workdir
    text = "" if act == "remove" else stderr(where)
    words = "was moved or removed" if act == "move" else "cannot be written"
    said = [line for line in text.splitlines() if line.startswith("stopped: ")]
    if code != 3 or "Traceback" in text or (text and (len(said) != 1 or words not in said[0])):
        return [f"{act} in {phase}: exit {code}, {text[-200:]}"]
    if act == "remove":
        return []
    code = fixture.children.finish(fixture.experiment, where)
    equal = code == 0 and fixture.ends_equal(where)
    complete = equal and runs.losses(where) == runs.losses(fixture.uninterrupted)
    return [] if complete else [f"{act} in {phase}: then exit {code}"]
