"""Shared by the checks: their figures, their folder, and the run that nothing interrupts."""

import dataclasses
import functools
import math
import pathlib
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from multiprocessing.process import BaseProcess
from typing import Any, Self

from experiments.reliability import runs
from socialjepa_jax import build
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Experiment

STEPS = 120


@dataclasses.dataclass(frozen=True)
class Figures:
    """Figures of a check.

    Attributes:
        named: name -> (value, True if it is as it must be); True too where nothing is asked of it.
    """

    named: Mapping[str, tuple[Any, bool]]

    @classmethod
    def of(cls, **named: tuple[Any, bool]) -> Self:
        """Returns figures with these names, where an underscore stands for a space."""
        return cls({name.replace("_", " "): figure for name, figure in named.items()})

    @classmethod
    def of_cases(cls, total: int, wrong: Collection[str]) -> Self:
        """Returns the figures of cases of which none may be wrong; `wrong` describes the wrong."""
        return cls.of(cases=(total, total > 0), wrong=(list(wrong), not wrong))

    @classmethod
    def of_parts(cls, **parts: Self) -> Self:
        """Returns the figures of several checks, each name after the name of its check."""
        names = {part: part.replace("_", " ") for part in parts}
        return cls({f"{names[p]}: {n}": f for p in parts for n, f in parts[p].named.items()})

    @property
    def passed(self) -> bool:
        """True if every figure is as it must be."""
        return all(holds for _, holds in self.named.values())

    def __getitem__(self, name: str) -> Any:
        return self.named[name][0]

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, (value, _) in self.named.items()
        )


@dataclasses.dataclass(frozen=True)
class Fixture:
    """The folder of the checks, and the run that they interrupt, damage and repeat.

    Attributes:
        folder: parent of every workdir.
    """

    folder: pathlib.Path

    @functools.cached_property
    def children(self) -> runs.Children:
        """Launcher of runs that share one cache of compiled programs."""
        return runs.Children(self.folder / "xla")

    @functools.cached_property
    def children_with_workers(self) -> runs.Children:
        """Launcher of runs that may start worker processes of their own."""
        return dataclasses.replace(self.children, daemon=False)

    @functools.cached_property
    def experiment(self) -> Experiment:
        """The run of most checks."""
        return runs.experiment(runs.write_pictures(self.folder), STEPS)

    @functools.cached_property
    def uninterrupted(self) -> pathlib.Path:
        """Workdir of the run without kills, signals and damage."""
        workdir = self.folder / "uninterrupted"
        code = self.children.finish(self.experiment, workdir)
        if code != 0:
            raise RuntimeError(f"the uninterrupted run: exit {code}, {stderr(workdir)}")
        return workdir

    @functools.cached_property
    def digests(self) -> Mapping[str, str]:
        """Digests of the uninterrupted run's last state."""
        return runs.digests(self.uninterrupted, STEPS)

    @functools.cached_property
    def abstract_state(self) -> AgentState:
        """`abstract_state` of the run."""
        return abstract_state(self.experiment)

    def copy(self, name: str) -> pathlib.Path:
        """Copies the uninterrupted run's workdir to `name` and returns the copy."""
        return pathlib.Path(shutil.copytree(self.uninterrupted, self.folder / name))

    def ends_equal(self, workdir: pathlib.Path) -> bool:
        """True if a run's last state is the uninterrupted run's, to the bit."""
        return runs.digests(workdir, STEPS) == self.digests


def abstract_state(experiment: Experiment) -> AgentState:
    """Shapes and types of a run's state, to restore checkpoints into."""
    return build.build(experiment).abstract_state


def stderr(workdir: pathlib.Path, process: int = 0) -> str:
    """Returns the standard error of a process of a run."""
    return (workdir / f"stderr{f'_{process}' if process else ''}.txt").read_text()


def last_line(workdir: pathlib.Path) -> str:
    """Returns the last line of a run's standard error."""
    return stderr(workdir).splitlines()[-1]


def wait_for(
    condition: Callable[[], object],
    children: Collection[BaseProcess],
    seconds: float = math.inf,
    poll: float = 0.02,
) -> None:
    """Waits until a condition holds, one of the children has ended or the time is over."""
    deadline = time.monotonic() + seconds
    while all(child.is_alive() for child in children) and time.monotonic() < deadline:
        if condition():
            return
        time.sleep(poll)
