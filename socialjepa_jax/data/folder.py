"""Pictures from JPEG and PNG files: in class folders, or listed with their factors in a table."""

import csv
import dataclasses
import os
import pathlib
from collections.abc import Iterator

import numpy as np

from socialjepa_jax.data import base, manifest
from socialjepa_jax.data.files import Files
from socialjepa_jax.errors import InputError, check_in_range, check_one_of, check_positive

SUFFIXES = (".jpg", ".jpeg", ".png")
_FACTORS = ("category", "instance", "azimuth")  # what every table needs


@dataclasses.dataclass(frozen=True)
class FolderData:
    """A data set of files.

    Class folders are CATEGORY/FILE, every file an object of its own, or CATEGORY/OBJECT/FILE.
    Nothing is known of a file but its place, so one camera (azimuth 0) sees them all, and pictures
    of one object are told apart by the factor "picture", their number.

    Attributes:
        kind: "folder".
        path: the folder.
        table: CSV file in the folder with a header; its column "file" names the pictures relative
            to the folder. "": class folders.
        columns: (role, column of the table) of every factor, as in `ArraysData`. Category and
            instance may be any text, the others are integers.
        image_size: side in pixels that pictures are resized to.
        channels: 1 (RGB becomes luma) or 3 (grey is repeated).
        protocol: how states and cameras are made of the pictures.
        splits: what is held out.
        manifest: whether every file must be as the folder's manifest.json has it
            (`data.manifest`).
        read: "resident": all pictures are read at the start and live on the devices; a broken one
            is refused | "stream": they are read when a step needs them (`data.streaming`).
        workers: processes that read for a stream's steps, and as many for its evaluations, of each
            process of the run; 0: threads of its own.
        max_broken: share of the files that may be broken before a stream ends the run.
    """

    kind: str = "folder"
    path: str = ""
    table: str = ""
    columns: tuple[tuple[str, str], ...] = tuple((name, name) for name in _FACTORS)
    image_size: int = 64
    channels: int = 3
    protocol: base.Protocol = dataclasses.field(default_factory=base.Protocol)
    splits: base.Splits = dataclasses.field(default_factory=base.Splits)
    manifest: bool = False
    read: str = "resident"
    workers: int = 2
    max_broken: float = 0.01

    def __post_init__(self) -> None:
        check_one_of(("folder",), kind=self.kind)
        check_positive(image_size=self.image_size)
        check_one_of((1, 3), channels=self.channels)
        check_one_of(("resident", "stream"), read=self.read)
        check_in_range(0, 256, workers=self.workers)
        check_in_range(0.0, 1.0, max_broken=self.max_broken)
        roles = [role for role, _ in self.columns]
        for role in _FACTORS:
            if roles.count(role) != 1:
                raise InputError(f"columns={self.columns} must name {role!r} once")

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Lists and pairs the pictures, and reads them unless they are to be streamed.

        Raises:
            InputError: the folder, the table or a file is missing or not as described; the message
                names it.
        """
        del cache_dir
        folder = pathlib.Path(self.path).expanduser()
        if not self.path or not folder.is_dir():
            raise InputError(f"path={self.path!r}: no such folder")
        names, columns, labels = self._table(folder) if self.table else _class_folders(folder)
        files = Files(
            folder.resolve(),
            names,
            np.arange(len(names)),
            self.image_size,
            self.channels,
            self._digests(folder, names),
            broken_is_black=self.read == "stream",
        )
        images = files if self.read == "stream" else np.asarray(files)
        factors = np.stack(list(columns.values()), axis=1)
        table = base.ObservationTable(images, factors, tuple(columns), labels)
        return base.pair_views(table, self.protocol, self.splits, folder.resolve().name)

    def _digests(self, folder: pathlib.Path, names: tuple[str, ...]) -> tuple[str, ...]:
        if not self.manifest:
            return ()
        recorded = manifest.read(folder)
        if unknown := [name for name in names if name not in recorded]:
            raise InputError(f"{folder / unknown[0]}: is not in {manifest.NAME}")
        return tuple(recorded[name] for name in names)

    def _table(
        self, folder: pathlib.Path
    ) -> tuple[tuple[str, ...], dict[str, np.ndarray], tuple[str, ...]]:
        path = folder / self.table
        rows = _read_table(path, ("file", *(column for _, column in self.columns)))
        names = tuple(row["file"] for row in rows)
        for number, name in enumerate(names):
            if pathlib.PurePath(name).is_absolute() or ".." in pathlib.PurePath(name).parts:
                raise InputError(f"{path}: row {number + 1}: {name!r} leaves the folder")
            if not (folder / name).is_file():
                raise InputError(f"{folder / name}: no such file ({path.name})")
        columns: dict[str, np.ndarray] = {}
        labels: tuple[str, ...] = ()
        for role, column in self.columns:
            texts = [row[column] for row in rows]
            if role in ("category", "instance"):
                levels, columns[role] = _levels(texts)
                labels = levels if role == "category" else labels
            else:
                columns[role] = _integers(texts, path, column)
        return names, columns, labels


def _read_table(path: pathlib.Path, needed: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of a CSV file, each with a text in every needed column."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
            header = reader.fieldnames or ()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (csv.Error, UnicodeDecodeError) as error:
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


def _levels(texts: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The distinct texts, numbers in their order, and the level i64[M] of each."""
    distinct = sorted(set(texts), key=_natural)
    number = {text: level for level, text in enumerate(distinct)}
    return tuple(distinct), np.array([number[text] for text in texts], np.int64)


def _natural(text: str) -> tuple[int, int, str]:
    return (0, int(text), text) if text.isdecimal() else (1, 0, text)


def _integers(texts: list[str], path: pathlib.Path, column: str) -> np.ndarray:
    for number, text in enumerate(texts):
        if not text.strip().lstrip("-").isdecimal() or len(text) > 18:
            raise InputError(f"{path}: row {number + 1}: {column}={text!r} must be an integer")
    return np.array([int(text) for text in texts], np.int64)


def _class_folders(
    folder: pathlib.Path,
) -> tuple[tuple[str, ...], dict[str, np.ndarray], tuple[str, ...]]:
    """Files, factors and category names of CATEGORY/FILE and CATEGORY/OBJECT/FILE."""
    names: list[str] = []
    rows: list[tuple[int, int, int, int]] = []
    categories = [entry for entry in _entries(folder) if entry.is_dir()]
    for category, entry in enumerate(categories):
        for instance, thing in enumerate(_entries(pathlib.Path(entry.path))):
            inside = _entries(pathlib.Path(thing.path)) if thing.is_dir() else [thing]
            for number, file in enumerate(inside):
                if not file.is_file() or not file.name.lower().endswith(SUFFIXES):
                    raise InputError(f"{file.path}: is no {', '.join(SUFFIXES)} file")
                names.append(pathlib.Path(file.path).relative_to(folder).as_posix())
                rows.append((category, instance, number, 0))
    if not names:
        raise InputError(f"{folder}: there are no pictures in folders in it")
    columns = dict(zip(("category", "instance", "picture", "azimuth"), np.array(rows).T))
    return tuple(names), columns, tuple(entry.name for entry in categories)


def _entries(folder: pathlib.Path) -> list[os.DirEntry[str]]:
    """What is in a folder, sorted by name; hidden files are left out."""
    with os.scandir(folder) as entries:
        visible: Iterator[os.DirEntry[str]] = (e for e in entries if not e.name.startswith("."))
        return sorted(visible, key=lambda entry: entry.name)
