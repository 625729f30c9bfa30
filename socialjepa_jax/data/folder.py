"""Dataset of JPEG and PNG files, in class folders or listed with their factors in a CSV table."""

import csv
import dataclasses
import os
import pathlib
import re

import numpy as np
from absl import logging

from socialjepa_jax.data import base, manifest
from socialjepa_jax.data.files import Files, check_reading, printable
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.data.protocols import ImageFeed, Opening
from socialjepa_jax.data.records.views import TwoViews
from socialjepa_jax.errors import ImageSize, InputError, check_one_of, expand_user, shown

SUFFIXES = (".jpg", ".jpeg", ".png")
SINGLE = (
    "Every state counts as an object of its own, so held-out objects are single states; subfolders "
    "CATEGORY/OBJECT say which of them show one object."
)

# File names relative to the folder, factor name -> levels i64[M], and the categories' names.
_Listing = tuple[tuple[str, ...], dict[str, np.ndarray], tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class FolderData:
    """Dataset of image files.

    Class folders are CATEGORY/FILE, where every file is an object of its own, or
    CATEGORY/OBJECT/FILE. They carry no azimuths, so one camera (azimuth 0) sees all images, and
    the factor "picture" numbers the images of an object. Folders without images are left out, as
    are hidden ones and `__MACOSX`.

    With `cameras`, every camera has a folder of its name, CAMERA/FILE, CAMERA/CATEGORY/FILE or
    CAMERA/CATEGORY/OBJECT/FILE, and files of one path below it show the same state; or the table
    has a column "camera" with these names in place of azimuths.

    Attributes:
        kind: "folder".
        path: the folder.
        table: CSV file in the folder with a header; its column "file" names the images relative
            to the folder. "": class folders.
        columns: (factor, column of the table) of every factor, as in `ArraysData`. Category and
            instance may be any text, the other factors are integers.
        cameras: names of cameras; () takes them from the protocol's azimuths.
        image_size: side, or (height, width), that images are resized to, pixels.
        channels: 1 (RGB becomes luma) or 3 (grey is repeated).
        protocol: which images show the same state, and where the cameras stand; not read with
            `cameras`.
        splits: what is held out.
        manifest: if true, every file must have the SHA-256 in the folder's manifest.json
            (`data.manifest`).
        read: "resident": all images are read at the start and stay on the devices, and a broken
            file is refused | "stream": files are read when a step needs them (`data.streaming`).
        workers: worker processes that read for the training steps of a stream, and as many for
            its evaluations, per process of the run; 0: threads of the process itself.
        max_broken: share of the files that may be broken before a stream ends the run.
        views: two cameras that see every picture of one camera through a recipe each.
    """

    kind: str = "folder"
    path: str = ""
    table: str = ""
    columns: tuple[tuple[str, str], ...] = tuple((name, name) for name in base.REQUIRED_FACTORS)
    cameras: tuple[str, ...] = ()
    image_size: ImageSize = 64
    channels: int = 3
    protocol: base.Protocol = base.Protocol()
    splits: base.Splits = base.Splits()
    manifest: bool = False
    read: str = "resident"
    workers: int = 2
    max_broken: float = 0.01
    views: TwoViews = TwoViews()

    def __post_init__(self) -> None:
        check_one_of(("folder",), kind=self.kind)
        check_reading(self.image_size, self.channels, self.read, self.workers, self.max_broken)
        self.views.num_cameras(self.seen)
        if self.cameras:
            self._check_cameras()
        base.check_columns(self.columns, self._required)

    def _check_cameras(self) -> None:
        if len(set(self.cameras)) < max(2, len(self.cameras)) or not all(self.cameras):
            raise InputError(f"cameras={self.cameras} must be two names or more, all different")
        if self.table and "azimuth" in dict(self.columns):
            raise InputError(
                f"columns={self.columns} must name category and instance, and no azimuth, which "
                "the column 'camera' replaces; a factor 'pose' may take the column azimuth"
            )

    @property
    def _required(self) -> tuple[str, ...]:
        """Factors that the columns must name; a camera's name takes the place of its azimuth."""
        given = ("azimuth",) if self.cameras else ()
        return tuple(name for name in base.REQUIRED_FACTORS if name not in given)

    @property
    def seen(self) -> base.Protocol:
        """The protocol; named cameras stand at azimuths 0, 1, ..., which are their numbers."""
        if not self.cameras:
            return self.protocol
        return base.Protocol("norb", azimuths=tuple(range(len(self.cameras))))

    @property
    def num_cameras(self) -> int:
        """Cameras that see every state."""
        return self.views.num_cameras(self.seen)

    def load(self, cache_dir: pathlib.Path) -> base.ViewDataset:
        """Lists and pairs the images, and reads them if `read` is "resident".

        Args:
            cache_dir: unused.

        Returns:
            The view dataset; its images are `Files` if `read` is "stream".

        Raises:
            InputError: the folder, the table or a file is missing or not as described; the message
                names it.
        """
        del cache_dir
        folder = pathlib.Path(expand_user(self.path, "path"))
        if not self.path or not os.path.isdir(folder):
            raise InputError(f"path={self.path!r}: no such folder")
        names, columns, labels = self._listing(folder)
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
        name = printable(folder.resolve().name)
        dataset = pair_views(table, self.seen, self.splits, name)
        if self.cameras and not self.table and not columns["picture"].any():
            logging.warning("%s: %s", name, SINGLE)
            dataset = dataclasses.replace(dataset, facts=(*dataset.facts, ("Objects", SINGLE)))
        return self.views.of(dataset)

    def open_feed(self, dataset: base.ViewDataset, opening: Opening) -> ImageFeed:
        """Opens a stream of the files, or puts all images on the devices."""
        return self.views.open_feed(dataset, opening, self.workers, self.max_broken)

    def _listing(self, folder: pathlib.Path) -> _Listing:
        if self.table:
            return self._table(folder)
        return _camera_folders(folder, self.cameras) if self.cameras else _class_folders(folder)

    def _digests(self, folder: pathlib.Path, names: tuple[str, ...]) -> tuple[str, ...]:
        if not self.manifest:
            return ()
        recorded = manifest.read(folder)
        if unknown := [name for name in names if name not in recorded]:
            raise InputError(f"{folder / unknown[0]}: is not in {manifest.NAME}")
        return tuple(recorded[name] for name in names)

    def _table(self, folder: pathlib.Path) -> _Listing:
        path = folder / expand_user(self.table, "table")
        camera = ("camera",) if self.cameras else ()
        rows = read_table(path, ("file", *camera, *(column for _, column in self.columns)))
        names = tuple(row["file"] for row in rows)
        for number, name in enumerate(names):
            if pathlib.PurePath(name).is_absolute() or ".." in pathlib.PurePath(name).parts:
                raise InputError(f"{path}: row {number + 1}: {name!r} leaves the folder")
            if not os.path.isfile(folder / name):
                fault = "is a broken link" if os.path.islink(folder / name) else "no such file"
                raise InputError(f"{folder / name}: {fault} ({path.name})")
        columns: dict[str, np.ndarray] = {}
        labels: tuple[str, ...] = ()
        if self.cameras:
            columns["azimuth"] = self._camera_of(rows, path)
        for factor, column in self.columns:
            texts = [row[column] for row in rows]
            if factor in ("category", "instance"):
                levels, columns[factor] = _levels(texts)
                labels = levels if factor == "category" else labels
            else:
                columns[factor] = _integers(texts, path, column)
        return names, columns, labels

    def _camera_of(self, rows: list[dict[str, str]], path: pathlib.Path) -> np.ndarray:
        """Returns the number of every row's camera: i64[M]."""
        for number, row in enumerate(rows):
            if row["camera"] not in self.cameras:
                raise InputError(
                    f"{path}: row {number + 1}: camera={shown(row['camera'])} must be one of "
                    f"{', '.join(self.cameras)}"
                )
        return np.array([self.cameras.index(row["camera"]) for row in rows], np.int64)


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


def _levels(texts: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Returns the sorted distinct texts (numbers by value) and the level i64[M] of each text."""
    distinct = sorted(set(texts), key=_natural)
    number = {text: level for level, text in enumerate(distinct)}
    return tuple(distinct), np.array([number[text] for text in texts], np.int64)


def _natural(text: str) -> tuple[int, int, str]:
    try:
        return (0, int(text), text) if text.isdecimal() else (1, 0, text)
    except ValueError:  # more digits than Python reads
        return 1, 0, text


def _integers(texts: list[str], path: pathlib.Path, column: str) -> np.ndarray:
    for number, text in enumerate(texts):
        if not re.fullmatch(r"\s*-?\d{1,18}\s*", text):
            raise InputError(f"{path}: row {number + 1}: {column}={shown(text)} must be an integer")
    return np.array([int(text) for text in texts], np.int64)


def _class_folders(folder: pathlib.Path) -> _Listing:
    """Lists CATEGORY/FILE and CATEGORY/OBJECT/FILE. Folders without images are left out."""
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


def _camera_folders(folder: pathlib.Path, cameras: tuple[str, ...]) -> _Listing:
    """Lists CAMERA/FILE, CAMERA/CATEGORY/FILE and CAMERA/CATEGORY/OBJECT/FILE.

    Files of a camera's folder itself are of one category, every one an object of its own.
    """
    found = [(k, *file) for k, camera in enumerate(cameras) for file in _states(folder / camera)]
    camera_M, category_M, thing_M, state_M, path_M = map(list, zip(*found))
    labels, levels_M = _levels(category_M)
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
