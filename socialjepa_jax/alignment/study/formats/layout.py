"""The columns of a .csv or .tsv file, by its first two lines, and those that are embeddings."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from socialjepa_jax.alignment.study.formats.base import MAX_LINE
from socialjepa_jax.errors import InputError

ALL = "*"  # name of a matrix of columns without a common name
_BESIDE = {"", "id", "ids", "index", "row", "label", "labels", "class", "group", "groups"}
_NUMBERED = re.compile(r"(|.*\D)(\d+)\]?", re.DOTALL)


@dataclass(frozen=True)
class Layout:
    """Columns of a file.

    Attributes:
        path: of the file.
        header: whether the first line names the columns; else they are f0, f1, ...
        columns: names of the columns that can be read one by one.
        lists: those of them that hold lists of JSON.
        matrices: name -> columns that are its features.
    """

    path: Path
    header: bool
    columns: Sequence[str]
    lists: frozenset[str]
    matrices: dict[str, list[str]]

    @staticmethod
    def of(path: Path) -> Layout:
        """Reads the first two lines.

        Raises:
            InputError: the file is empty, or two columns have one name.
        """
        head, first = _first_lines(path)
        counts = len(head) > 1 and head in (_counted(head, 0), _counted(head, 1))
        if all(map(is_number, head)) and not counts:
            columns = [f"f{i}" for i in range(len(head))]  # the names that Arrow gives
            return Layout(path, False, columns, frozenset(), {ALL: columns} if head[1:] else {})
        if len(set(head)) < len(head):
            raise InputError(f"{path}: two columns have one name")
        cells = dict(zip(head, first))
        lists = frozenset(name for name, cell in cells.items() if cell.lstrip().startswith("["))
        matrices = _numbered(head)
        features = {name for columns in matrices.values() for name in columns}
        if not matrices and not lists:
            matrices = _all_columns(head, cells)
        return Layout(path, True, [n for n in head if n not in features], lists, matrices)

    @property
    def delimiter(self) -> str:
        """Character between the columns."""
        return _delimiter(self.path)

    def names(self) -> dict[str, int]:
        """Returns the number of axes of every array."""
        single = self.columns if self.header or not self.matrices else ()
        columns = {name: 1 + (name in self.lists) for name in single}
        return columns | dict.fromkeys(self.matrices, 2)


def is_number(cell: str) -> bool:
    """True for what Python reads as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix == ".tsv" else ","


def _first_lines(path: Path) -> tuple[list[str], list[str]]:
    with path.open("rb") as file:
        start = file.read(MAX_LINE).decode("utf-8-sig", "replace")  # may end inside a letter
    try:
        lines = csv.reader(io.StringIO(start, newline=""), delimiter=_delimiter(path))
        records = list(itertools.islice(lines, 2))
    except csv.Error as error:
        raise InputError(f"{path}: damaged or not a {path.suffix} file ({error})") from error
    head, first = [*records, [], []][:2]
    if not head:
        raise InputError(f"{path}: begins with an empty line")
    if len(head) == 1 and head[0].count(";") > 1:
        raise InputError(f"{path}: columns are separated by ;, expected {_delimiter(path)!r}")
    return head, first


def _counted(head: Sequence[str], start: int) -> list[str]:
    return [str(start + i) for i in range(len(head))]


def _numbered(head: Sequence[str]) -> dict[str, list[str]]:
    """Finds columns that are numbered from 0 or 1 without a gap, in any order: name -> columns."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in head:
        if match := _NUMBERED.fullmatch(name):
            found.setdefault(match[1], []).append((int(match[2]), name))
    sets = {}
    for stem, columns in found.items():
        numbers = sorted(columns)
        start = numbers[0][0]
        if start <= 1 < len(numbers) and [n for n, _ in numbers] == [
            start + i for i in range(len(numbers))
        ]:
            name = stem.rstrip("_.- [") or ALL
            sets[stem if name in sets else name] = [column for _, column in numbers]
    return sets


def _all_columns(head: Sequence[str], cells: dict[str, str]) -> dict[str, list[str]]:
    """Returns the columns of a file that holds numbers only, but for those that name its rows."""
    features = [name for name in head if name.strip().lower() not in _BESIDE]
    alone = len(features) > 1 and all(is_number(cells.get(name, "")) for name in features)
    return {ALL: features} if alone else {}
