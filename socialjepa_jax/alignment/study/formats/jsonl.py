"""Reader of .jsonl files: one object per line, such as {"id": "a", "embedding": [0.1, 0.2]}."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from socialjepa_jax.alignment.study.formats.base import MAX_LINE, UNREADABLE, Format, distinct
from socialjepa_jax.alignment.study.formats.values import from_json
from socialjepa_jax.errors import InputError


def _names(path: Path) -> dict[str, int]:
    """Describes the fields of the first object."""
    return {name: _axes(value) for name, value in next(_objects(path), {}).items()}


def _axes(value: Any) -> int:
    axes = 1
    while isinstance(value, list) and value:
        axes, value = axes + 1, value[0]
    return axes + 1 if value == [] else axes if isinstance(value, str | int | float) else UNREADABLE


def _read(path: Path, name: str) -> np.ndarray:
    return from_json(path, name, _fields(path, name))


def _fields(path: Path, name: str) -> Iterator[Any]:
    for row, entry in enumerate(_objects(path)):
        if name not in entry:
            raise InputError(f"{path}: row {row} has no {name!r}")
        yield entry[name]


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        for row, line in enumerate(iter(lambda: file.readline(MAX_LINE), "")):
            try:
                entry = json.loads(line, object_pairs_hook=distinct)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}: row {row} is no object of JSON ({error})") from error
            if not isinstance(entry, dict):
                raise InputError(f"{path}: row {row} is no object of JSON")
            yield entry


JSONL = Format(_names, _read)
