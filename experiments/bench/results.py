"""Measured figures beside their targets, as rows of a JSON file and lines of a table."""

import dataclasses
import pathlib
import tempfile
from typing import Any

import jax

from socialjepa_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Result:
    """A measured figure and what it should be.

    Attributes:
        name: of the figure.
        value: measured.
        target: to be met; None: there is none.
        at_least: whether the value must reach the target, or stay below it.
        stretch: what would be excellent; None: not said.
        note: what it was made of.
    """

    name: str
    value: float
    target: float | None = None
    at_least: bool = True
    stretch: float | None = None
    note: str = ""

    def verdict(self) -> str:
        """ "stretch" | "met" | "missed" | "" without a target."""
        if self.target is None:
            return ""
        if self.stretch is not None and self._reaches(self.stretch):
            return "stretch"
        return "met" if self._reaches(self.target) else "missed"

    def _reaches(self, target: float) -> bool:
        return self.value >= target if self.at_least else self.value <= target

    def describe(self) -> str:
        """One line."""
        wanted = ""
        if self.target is not None:
            wanted = f"{'>=' if self.at_least else '<='} {self.target:g}"
        columns = f"{self.name:46s} {self.value:10.4g}  {wanted:10s} {self.verdict():8s}"
        return f"{columns} {self.note}".rstrip()

    def row(self) -> dict[str, Any]:
        """For JSON."""
        return {**dataclasses.asdict(self), "verdict": self.verdict()}


def from_row(row: dict[str, Any]) -> Result:
    """The result that a row of JSON describes."""
    values = {field.name: row[field.name] for field in dataclasses.fields(Result)}
    return Result(**values | {"value": float("nan") if row["value"] is None else row["value"]})


def out_file(name: str | None) -> pathlib.Path | None:
    """Where `--out` wants the figures; None: nowhere. To be asked before anything is measured.

    Raises:
        InputError: no file can be there.
    """
    if not name:
        return None
    path = pathlib.Path(name)
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"--out={name} must be a file in a folder that exists")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"--out={name} cannot be written: {error.strerror}") from None
    return path


def here() -> dict[str, str]:
    """What the figures of a file are of."""
    return {"device": jax.devices()[0].device_kind, "jax": jax.__version__}


def show(results: list[Result]) -> str:
    """All lines."""
    return "\n".join(result.describe() for result in results)
