"""Measured figures and their targets, as rows of a JSON file and lines of a table."""

import dataclasses
import pathlib
import tempfile
from typing import Any

import jax

from socialjepa_jax.errors import InputError
from socialjepa_jax.records import write_json


@dataclasses.dataclass(frozen=True)
class Result:
    """A measured figure and its target.

    Attributes:
        name: of the figure.
        value: the measurement; NaN misses every target.
        target: the value to be met; None: there is none.
        at_least: True if the value must reach the target, False if it must not exceed it.
        stretch: a target beyond the target; None: there is none.
        note: details for the table.
    """

    name: str
    value: float
    target: float | None = None
    at_least: bool = True
    stretch: float | None = None
    note: str = ""

    def verdict(self) -> str:
        """Returns "stretch" | "met" | "missed", or "" without a target."""
        if self.target is None:
            return ""
        if self.stretch is not None and self._reaches(self.stretch):
            return "stretch"
        return "met" if self._reaches(self.target) else "missed"

    def _reaches(self, target: float) -> bool:
        return self.value >= target if self.at_least else self.value <= target

    def describe(self) -> str:
        """Returns the line of the table."""
        wanted = ""
        if self.target is not None:
            wanted = f"{'>=' if self.at_least else '<='} {self.target:g}"
        columns = f"{self.name:46s} {self.value:10.4g}  {wanted:10s} {self.verdict():8s}"
        return f"{columns} {self.note}".rstrip()

    def row(self) -> dict[str, Any]:
        """Returns the row of the JSON file: the attributes and the verdict."""
        return {**dataclasses.asdict(self), "verdict": self.verdict()}


def from_row(row: dict[str, Any]) -> Result:
    """Returns the result of a row of a JSON file, where NaN is null."""
    values = {field.name: row[field.name] for field in dataclasses.fields(Result)}
    return Result(**values | {"value": float("nan") if row["value"] is None else row["value"]})


def out_file(name: str | None, option: str = "--out") -> pathlib.Path | None:
    """Checks the file that a flag names before minutes of measuring.

    Args:
        name: value of the flag; None or "": the figures are not written.
        option: the flag, named in messages.

    Returns:
        The path of the file, or None.

    Raises:
        InputError: no file can be written there.
    """
    if not name:
        return None
    path = pathlib.Path(name)
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"{option}={name} must be a file in a folder that exists")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{option}={name} cannot be written: {error.strerror}") from None
    return path


def here() -> dict[str, str]:
    """Returns the device and the version of jax, for the head of a file."""
    return {"device": jax.devices()[0].device_kind, "jax": jax.__version__}


def publish(found: list[Result], out: pathlib.Path | None, **about: str) -> None:
    """Prints the table, and writes the figures to a file.

    Args:
        found: figures.
        out: JSON file, or None.
        **about: entries of the file's head beside, or in place of, those of `here`.
    """
    print(show(found))
    if out:
        write_json(out, {**here(), **about, "rows": [result.row() for result in found]})


def show(results: list[Result]) -> str:
    """Returns the table."""
    return "\n".join(result.describe() for result in results)
