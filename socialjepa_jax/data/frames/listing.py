"""Lists the frames of synchronised cameras, and the states that a table gives for them.

Shape key: K cameras, T moments, L states.
"""

import dataclasses
import math
import pathlib
import re

import numpy as np

from socialjepa_jax.data.folder.listing import SUFFIXES, read_table, visible_entries
from socialjepa_jax.errors import InputError, shown

FRAME = "frame"  # column of the table that names the moment


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
    """All moments of a recording, in order.

    Attributes:
        names: of the moments, T of them.
        files: str[K, T], relative to the folder; "" where a camera has no frame.
    """

    names: tuple[str, ...]
    files: np.ndarray


def list_moments(folder: pathlib.Path, cameras: tuple[str, ...], match: str) -> Moments:
    """Lists the frames of all cameras.

    Args:
        folder: holds a folder of images for each camera.
        cameras: names of these folders.
        match: "name": frames of one moment have the same name, but for the suffix | "order": the
            n-th frames of all cameras belong together; moments are named as the first camera's.

    Raises:
        InputError: a folder is missing or empty, or holds something else, or two frames of one
            name; or as many frames are needed and there are not.
    """
    frames = [_frames(folder, camera) for camera in cameras]
    if match == "order":
        counts = {camera: len(found) for camera, found in zip(cameras, frames)}
        if len(set(counts.values())) > 1:
            raise InputError(f"{folder}: match='order' needs equally many frames, here {counts}")
        files = np.array([list(found.values()) for found in frames])
        return Moments(tuple(frames[0]), files)
    names = sorted(set().union(*frames), key=_in_order)
    files = np.array([[found.get(name, "") for name in names] for found in frames])
    return Moments(tuple(names), files)


def read_states(
    path: pathlib.Path, names: tuple[str, ...], columns: tuple[str, ...]
) -> tuple[np.ndarray, int]:
    """Reads the states of the moments from a CSV table with the column `FRAME`.

    Args:
        path: of the table.
        names: of the moments.
        columns: of the states.

    Returns:
        f64[T, L], NaN for moments that the table lacks, and its number of rows without a moment.

    Raises:
        InputError: the table cannot be read, a value is no finite number, or a frame occurs twice.
    """
    number = {name: t for t, name in enumerate(names)}
    states = np.full((len(names), len(columns)), np.nan)
    seen, strangers = set(), 0
    for line, row in enumerate(read_table(path, (FRAME, *columns)), 1):
        name = row[FRAME]
        if name in seen:
            raise InputError(f"{path}: the frame {shown(name)} occurs twice")
        seen.add(name)
        values = [_number(row[column], f"{path}: row {line}: {column}") for column in columns]
        if name in number:
            states[number[name]] = values
        else:
            strangers += 1
    return states, strangers


def _frames(folder: pathlib.Path, camera: str) -> dict[str, str]:
    """Lists the frames of a camera in order: name without suffix -> file."""
    place = folder / camera
    if not place.is_dir():
        raise InputError(f"{place}: no such folder, of cameras={camera!r}")
    found: dict[str, str] = {}
    for entry in sorted(visible_entries(place), key=lambda entry: _in_order(entry.name)):
        stem, suffix = pathlib.PurePath(entry.name).stem, pathlib.PurePath(entry.name).suffix
        if not entry.is_file() or suffix.lower() not in SUFFIXES:
            raise InputError(f"{entry.path}: is no {', '.join(SUFFIXES)} file")
        if stem in found:
            raise InputError(f"{entry.path}: {pathlib.Path(found[stem]).name} has the same name")
        found[stem] = f"{camera}/{entry.name}"
    if not found:
        raise InputError(f"{place}: holds no frames")
    return found


def _in_order(name: str) -> tuple[tuple[int, str], ...]:
    """Key that sorts names by the values of the numbers in them."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((int(part), "") if i % 2 else (0, part) for i, part in enumerate(parts))


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{what}={shown(text)} must be a finite number")
    return value
