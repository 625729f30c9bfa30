"""Lists image files with the factors that a table or the names of their folders state.

Shape key: M files.
"""

import csv
import os
import pathlib
import re

import numpy as np
from absl import logging

from socialjepa_jax.data.files import printable
from socialjepa_jax.errors import InputError, shown

SUFFIXES = (".jpg", ".jpeg", ".png")

# File names relative to the folder, factor name -> levels i64[M], and the categories' names.
Listing = tuple[tuple[str, ...], dict[str, np.ndarray], tuple[str, ...]]


def read_table(path: pathlib.Path, needed: tuple[str, ...]) -> list[dict[str, str]]:
    """Reads the rows of a CSV file; each has a text in every needed column.

    Raises:
        InputError: the file cannot be read, lacks a column or has a row of another length.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            header = reader.fieldnames or ()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (csv.Error, ValueError) as error:
        raise InputError(f"{path}: is no CSV file ({error})") from error
    for column in needed:
        if column not in header:
            raise InputError(f"{path}: no column {column!r}, it has {', '.join(header)}")
    for number, row in enumerate(rows):
        if None in row or None in row.values() or not all(row[column] for column in needed):
            raise InputError(f"{path}: row {number + 1} has too many or too few entries")
    if not rows:
        raise InputError(f"{path}: has no rows")
    return rows


def levels(texts: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Returns the sorted distinct texts (numbers by value) and the level i64[M] of each text."""
    distinct = sorted(set(texts), key=_natural)
    number = {text: level for level, text in enumerate(distinct)}
    return tuple(distinct), np.array([number[text] for text in texts], np.int64)


def _natural(text: str) -> tuple[int, int, str]:
    try:
        return (0, int(text), text) if text.isdecimal() else (1, 0, text)
    except ValueError:  # more digits than Python reads
        return 1, 0, text


def integers(texts: list[str], path: pathlib.Path, column: str) -> np.ndarray:
    """Returns the texts of a column as i64[M].

    Raises:
        InputError: a text is no integer.
    """
    for number, text in enumerate(texts):
        if not re.fullmatch(r"\s*-?\d{1,18}\s*", text):
            raise InputError(f"{path}: row {number + 1}: {column}={shown(text)} must be an integer")
    return np.array([int(text) for text in texts], np.int64)


def class_folders(folder: pathlib.Path) -> Listing:
    """Lists CATEGORY/FILE and CATEGORY/OBJECT/FILE. Folders without images are left out.

    Raises:
        InputError: there are no images, or other files beside them.
    """
    names: list[str] = []
    rows: list[tuple[int, int, int, int]] = []
    categories: list[str] = []
    for entry in visible_entries(folder):
        things = _images_of(entry) if entry.is_dir() else []
        for instance, files in enumerate(things):
            for number, file in enumerate(files):
                names.append(pathlib.Path(file.path).relative_to(folder).as_posix())
                rows.append((len(categories), instance, number, 0))
        if things:
            categories.append(printable(entry.name))
        elif entry.is_dir():
            logging.warning("%s: no images in it, so it is no category", printable(entry.path))
    if not names:
        raise InputError(f"{folder}: there are no images in folders in it")
    columns = dict(zip(("category", "instance", "picture", "azimuth"), np.array(rows).T))
    return tuple(names), columns, tuple(categories)


def camera_folders(folder: pathlib.Path, cameras: tuple[str, ...]) -> Listing:
    """Lists CAMERA/FILE, CAMERA/CATEGORY/FILE and CAMERA/CATEGORY/OBJECT/FILE.

    Files of a camera's folder itself are of one category, every one an object of its own.

    Raises:
        InputError: a camera has no folder or no images, or other files beside them.
    """
    found = [(k, *file) for k, camera in enumerate(cameras) for file in _states(folder / camera)]
    camera_M, category_M, thing_M, state_M, path_M = map(list, zip(*found))
    labels, levels_M = levels(category_M)
    columns = {
        "category": levels_M,
        "instance": _within(category_M, thing_M),
        "picture": _within(thing_M, state_M),
        "azimuth": np.array(camera_M),
    }
    names = tuple(f"{cameras[camera]}/{path}" for camera, path in zip(camera_M, path_M))
    return names, columns, labels


def _within(wholes: list[str], parts: list[str]) -> np.ndarray:
    """Numbers the distinct parts of every whole from 0, by name: i64[M]."""
    of: dict[str, set[str]] = {}
    for whole, part in zip(wholes, parts):
        of.setdefault(whole, set()).add(part)
    number = {whole: {part: k for k, part in enumerate(sorted(of[whole]))} for whole in of}
    return np.array([number[whole][part] for whole, part in zip(wholes, parts)], np.int64)


def _states(folder: pathlib.Path) -> list[tuple[str, str, str, str]]:
    """Lists (category, object, state, path) of a camera's files."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of a camera")
    found = []
    for entry in visible_entries(folder):
        if entry.is_dir():
            files = [file for thing in _images_of(entry) for file in thing]
        else:
            files = [entry]
            _check_image(entry)
        for file in files:
            path = pathlib.Path(file.path).relative_to(folder)
            state = path.with_suffix("").as_posix()  # cameras may write other formats
            category = path.parts[0] if len(path.parts) > 1 else folder.parent.name
            thing = path.parent.as_posix() if len(path.parts) > 2 else state
            found.append((category, thing, state, path.as_posix()))
    if not found:
        raise InputError(f"{folder}: there are no images in it")
    return found


def _images_of(category: os.DirEntry[str]) -> list[list[os.DirEntry[str]]]:
    """Lists the images of every object of a category that has any."""
    things = []
    for thing in visible_entries(category):
        files = visible_entries(thing) if thing.is_dir() else [thing]
        for file in files:
            _check_image(file)
        if files:
            things.append(files)
    return things


def _check_image(entry: os.DirEntry[str]) -> None:
    if not entry.is_file() or not entry.name.lower().endswith(SUFFIXES):
        raise InputError(f"{entry.path}: is no {', '.join(SUFFIXES)} file")


def visible_entries(folder: os.PathLike[str]) -> list[os.DirEntry[str]]:
    """Lists a folder sorted by name, without hidden entries and what macOS adds to archives.

    Raises:
        InputError: the folder cannot be read, or holds a broken link.
    """
    try:
        with os.scandir(folder) as entries:
            visible = [e for e in entries if not e.name.startswith(".") and e.name != "__MACOSX"]
    except OSError as error:
        raise InputError(f"{os.fspath(folder)}: cannot be read ({error.strerror})") from error
    for entry in visible:
        if entry.is_symlink() and not os.path.exists(entry.path):
            raise InputError(f"{entry.path}: is a broken link")
    return sorted(visible, key=lambda entry: entry.name)
