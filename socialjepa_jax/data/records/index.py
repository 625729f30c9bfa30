"""The index of records: what each is labelled, found in one pass over the files and then cached."""

import dataclasses
import io
import pathlib
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from socialjepa_jax.data import base
from socialjepa_jax.data.cache import cached_array
from socialjepa_jax.data.records.blobs import RecordNames, Shards
from socialjepa_jax.errors import InputError, shown

UNREAD = -(2**63)  # in the place of the label of a record that cannot be read
_CHUNK = 256  # records of a pass that are read at once


@dataclasses.dataclass(frozen=True)
class Names:
    """Names of the features or columns of a record.

    Attributes:
        image: that holds the encoded image.
        label: that holds its category, an integer.
        id: that tells the record from all others, where records have it.
    """

    image: str = "image"
    label: str = "label"
    id: str = "file_name"


Row = tuple[int, str]  # label and id of a record


@dataclasses.dataclass(frozen=True, eq=False)
class Index:
    """What is known of the records of a data set.

    Attributes:
        shards: their files.
        labels: i64[M], category of every record; `UNREAD` where it cannot be read.
        label_names: names of the categories.
        ids: text that tells a record from all others; empty: none is stored.

    Raises:
        InputError: a label is out of range, or two records have the same id.
    """

    shards: Shards
    labels: np.ndarray
    label_names: tuple[str, ...]
    ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = RecordNames(self.shards)
        if not len(names):
            raise InputError(f"{self.shards.paths[0]}: there are no records")
        negative = (self.labels < 0) & (self.labels != UNREAD)
        outside = negative | (self.labels >= len(self.label_names))
        if outside.any():
            first = int(np.argmax(outside))
            raise InputError(
                f"{names[first]}: label={self.labels[first]} must be 0 to "
                f"{len(self.label_names) - 1}; a split without labels cannot be read"
            )
        if (self.labels == UNREAD).all():
            raise InputError(f"{self.shards.paths[0]}: none of the {len(names)} records is whole")
        self._check_ids(names)

    def _check_ids(self, names: RecordNames) -> None:
        first: dict[str, int] = {}
        for number, text in enumerate(self.ids):
            if text and first.setdefault(text, number) != number:
                raise InputError(
                    f"{names[first[text]]} and {names[number]} have the same id {shown(text)}"
                )

    def counts(self) -> str:
        """Numbers of records, files and categories, and of records that cannot be read."""
        unread = int((self.labels == UNREAD).sum())
        return (
            f"{len(self.labels)} in {len(self.shards.paths)} files, {len(self.label_names)} "
            f"categories; {unread} of them could not be read when they were counted."
        )

    def table(self, images: base.Images) -> base.ObservationTable:
        """Returns the table of all records, each an object of its own, seen by one camera.

        A record that cannot be read stands in the first category until its image is found broken,
        which takes it out of everything that is measured.
        """
        labels = np.maximum(self.labels, 0)
        order = np.argsort(labels, kind="stable")
        counts = np.bincount(labels, minlength=len(self.label_names))
        within = np.empty(len(labels), np.int64)
        within[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
        factors = np.stack([labels, within, np.zeros_like(labels)], axis=1)
        return base.ObservationTable(images, factors, base.REQUIRED_FACTORS, self.label_names)


def cached(
    cache: pathlib.Path, key: str, make: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Returns the arrays of a pass over records, from the cache if it holds them.

    Args:
        cache: folder of the caches.
        key: digest of all that the arrays depend on.
        make: makes the arrays, without objects.
    """

    def packed() -> np.ndarray:
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **make())
        return np.frombuffer(stream.getbuffer(), np.uint8)

    stored = cached_array(cache / f"records_{key[:32]}.npy", packed)
    with np.load(io.BytesIO(stored.tobytes()), allow_pickle=False) as arrays:
        return dict(arrays)


def complete(folder: pathlib.Path, names: Sequence[str]) -> None:
    """Checks files called like `train-00003-of-00256`: there are as many as the names say.

    Raises:
        InputError: some are missing.
    """
    groups: dict[tuple[str, str, str], set[int]] = {}
    for name in names:
        if parts := re.fullmatch(r"(.*?)(\d+)-of-(\d+)(.*)", name):
            start, number, total, end = parts.groups()
            groups.setdefault((start, total, end), set()).add(int(number))
    for (start, total, end), found in groups.items():
        if missing := sorted(set(range(int(total))) - found):
            raise InputError(
                f"{folder}: there are {len(found)} files {start}*-of-{total}{end}, the first that "
                f"is missing is number {missing[0]}"
            )


def scan(count: int, rows: Callable[[range], Iterable[Row | ValueError]]) -> dict[str, np.ndarray]:
    """Reads the label and the id of every record.

    Args:
        count: M.
        rows: reads those of some records; an error in the place of a record that is damaged.

    Returns:
        'labels' i64[M], `UNREAD` where a record is damaged, and 'ids' U[M].
    """
    labels, ids = np.full(count, UNREAD), [""] * count
    for start in range(0, count, _CHUNK):
        numbers = range(start, min(start + _CHUNK, count))
        for number, row in zip(numbers, rows(numbers), strict=True):
            if not isinstance(row, ValueError):
                labels[number], ids[number] = row
    return {"labels": labels, "ids": np.array(ids)}
