"""The check that bad folders are refused by name before anything is compiled."""

import dataclasses
import pathlib
import shutil
from unittest import mock

from experiments.reliability import runs
from experiments.reliability.fixture import STEPS, Figures, Fixture
from socialjepa_jax import build, loop
from socialjepa_jax.config import Experiment
from socialjepa_jax.errors import InputError


def refusals(fixture: Fixture) -> Figures:
    """Starts runs in bad folders: each is refused in its own words, no checkpoint changes."""
    folders, wrong = _bad_folders(fixture), list[str]()
    with mock.patch.object(build, "open_feed", side_effect=AssertionError("the run began")):
        for name, (workdir, experiment, words) in folders.items():
            wrong += _not_refused(name, experiment, workdir, words)
        full = shutil.disk_usage(fixture.folder)._replace(free=10)
        with mock.patch.object(shutil, "disk_usage", return_value=full):
            wrong += _not_refused("room", fixture.experiment, fixture.folder / "no_room", "room")
    for workdir, _, _ in folders.values():
        if (workdir / "checkpoints" / str(STEPS)).exists() and not fixture.ends_equal(workdir):
            wrong.append(f"{workdir.name}: its checkpoint changed")
    return Figures.of_cases(len(folders) + 1, wrong)


def _bad_folders(fixture: Fixture) -> dict[str, tuple[pathlib.Path, Experiment, str]]:
    """Returns name -> (workdir, experiment, words that the refusal must contain)."""
    run = fixture.experiment
    names = ("foreign", "other", "lost", "wide")
    foreign, other, lost, wide = (fixture.copy(name) for name in names)
    (foreign / "checkpoints" / "7000").mkdir()
    (lost / "config.json").unlink()
    blocked = fixture.folder / "blocked"
    blocked.mkdir()
    (blocked / "file").write_text("")
    (blocked / "checkpoints").write_text("")
    larger = dataclasses.replace(run, objective=runs.Linear(dim=24))
    config = (wide / "config.json").read_text()
    (wide / "config.json").write_text(config.replace('"dim": 16', '"dim": 24'))
    return {
        "a folder that cannot be made": (pathlib.Path("/proc/none"), run, "cannot be written"),
        "a file for a folder": (blocked / "file", run, "cannot be written"),
        "a file for the checkpoints": (blocked, run, "checkpoints is a file"),
        "a foreign folder": (foreign, run, "7000 is not a checkpoint"),
        "another setting": (other, dataclasses.replace(run, seed=1), "config.seed: 0 -> 1"),
        "no config.json": (lost, dataclasses.replace(run, seed=2), "config.seed: 0 -> 2"),
        "checkpoints of another shape": (wide, larger, "is no state of this run"),
    }


def _not_refused(name: str, experiment: Experiment, workdir: pathlib.Path, words: str) -> list[str]:
    """Returns an empty list if the run is refused in these words, else a line for the table."""
    try:
        loop.fit(experiment, workdir)
        said = "not refused"
    except (InputError, AssertionError) as error:
        said = str(error)
    return [] if words in said else [f"{name}: {said}"]
