"""What readers of all formats share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

UNREADABLE = -1  # number of axes of an array that its reader refuses
MAX_LINE = 1 << 22  # bytes of a line of a text file


@dataclass(frozen=True)
class Format:
    """Readers of one kind of file.

    Attributes:
        names: path -> number of axes of every named array, or `UNREADABLE`.
        read: (path, name) -> array.
    """

    names: Callable[[Path], Mapping[str, int]]
    read: Callable[[Path, str], np.ndarray]


def distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Makes a table of the pairs of a JSON object, whose names must differ."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table
