"""Claims as experiments stored them, each with the command, the file and the versions behind it."""

import ast
import json
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from experiments import reproduce
from experiments.findings import VERDICTS
from socialjepa_jax.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
MOTION_TABLE = ROOT / "socialjepa_jax" / "report" / "run" / "motion_table.json"
MODULES = {name: module for name, (module, _) in reproduce.MODULES.items()}
MODULES["motion_table"] = "experiments.motion.table"
_COMMAND = re.compile(r"^Command: (.*?)(?=^Cost)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """One claim.

    Attributes:
        experiment: its name.
        claim: its id in the experiment's file.
        paper: the printed number or the prediction; "" where the file stores none.
        ours: the measured number.
        std: spread of `ours`, as the experiment states it; None if there is none.
        agrees: True | False | None, as in `findings.Claim`.
        note: the sentence on what was measured, without the verdict; "" where there is none.
    """

    experiment: str
    claim: str
    paper: str
    ours: float
    std: float | None
    agrees: bool | None
    note: str

    @property
    def mark(self) -> str:
        """The name by which documents cite the claim: `EXPERIMENT/CLAIM`."""
        return f"{self.experiment}/{self.claim}"


@dataclass(frozen=True)
class Source:
    """A stored file and its claims.

    Attributes:
        experiment: its name.
        file: path below the repository's root.
        command: that made it, from the head of the experiment's module.
        facts: what the file says of its run: scale, date, settings, versions, revision.
        entries: its claims.
    """

    experiment: str
    file: str
    command: str
    facts: dict[str, str] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()


def sources(paths: list[pathlib.Path] | None = None) -> list[Source]:
    """Reads the stored files that hold claims, in the order of the experiments.

    Args:
        paths: of files; all under `tests/golden`, and the table of a world in motion, if None.

    Raises:
        InputError: a file's experiment is unknown, or two claims have one name.
    """
    found = paths if paths is not None else [MOTION_TABLE, *sorted(GOLDEN.rglob("*.json"))]
    read = [source for path in found if (source := _source(path))]
    marks = [entry.mark for source in read for entry in source.entries]
    if twice := sorted({mark for mark in marks if marks.count(mark) > 1}):
        raise InputError(f"claim {twice[0]!r} is stored twice")
    order = list(MODULES)
    return sorted(read, key=lambda source: order.index(source.experiment))


def _source(path: pathlib.Path) -> Source | None:
    """Reads one file; None if it holds no claims."""
    stored = json.loads(path.read_text("utf-8"))
    if not isinstance(stored, dict) or not stored.get("claims"):
        return None
    name = stored.get("name", path.stem)
    if name not in MODULES:
        raise InputError(f"{path}: {name!r} is no experiment of experiments/reproduce.py")
    file = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    entries = tuple(_entry(name, claim) for claim in _claims(stored))
    return Source(name, file, command(name), _facts(stored), entries)


def _claims(stored: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the claims of a file, with those of worlds that must fail under the world's name."""
    yield from stored["claims"]
    for world, part in stored.get("failing", {}).get("worlds", {}).items():
        for claim in part["claims"]:
            yield {**claim, "id": f"{world}/{claim['id'].removeprefix(f'{world}/')}"}


def _entry(experiment: str, claim: dict[str, Any]) -> Entry:
    bounds = [f"at {bound} {claim[bound]:g}" for bound in ("least", "most") if bound in claim]
    verdict = VERDICTS[claim["agrees"]]
    return Entry(
        experiment,
        claim["id"],
        str(claim.get("paper", "")) or ", ".join(bounds),
        claim["ours"],
        claim.get("std"),
        claim["agrees"],
        claim.get("note", "").removeprefix(f"{verdict}: "),
    )


def _facts(stored: dict[str, Any]) -> dict[str, str]:
    environment = stored.get("environment", {})
    given = {
        "scale": stored.get("scale"),
        "date": stored.get("date"),
        "pairs of agents": stored.get("pairs"),
        **stored.get("settings", {}),
        "Python": environment.get("python"),
        "jax": environment.get("jax"),
        "revision": environment.get("revision", "")[:7],
    }
    return {name: str(value) for name, value in given.items() if value}


def command(experiment: str) -> str:
    """Returns the command that an experiment's head states, in one line."""
    path = ROOT / (MODULES[experiment].replace(".", "/") + ".py")
    head = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    stated = _COMMAND.search(head)
    if not stated:
        raise InputError(f"{path}: its head states no command")
    return " ".join(stated[1].replace("\\\n", " ").split()).removesuffix(".")
