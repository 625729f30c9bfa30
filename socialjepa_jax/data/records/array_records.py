"""ArrayRecord files whose records are `tf.train.Example` messages."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from socialjepa_jax.data.files import Blob
from socialjepa_jax.data.records import example, index
from socialjepa_jax.data.records.blobs import Handles, RecordNames, Shards
from socialjepa_jax.errors import InputError

_OPEN = 256  # files at once; ImageNet has 1,024, as many as a process may open at all
# Random access: nothing is read ahead, and the places of the records are kept.
_OPTIONS = "readahead_buffer_size:0,index_storage_option:in_memory"


def open_file(path: str) -> Any:
    """Opens a file.

    Raises:
        ValueError: it cannot be read to its end.
    """
    from array_record.python import array_record_module  # half a second

    try:
        reader = array_record_module.ArrayRecordReader(path, _OPTIONS)
        whole = reader.ok()  # a truncated file opens, with no records
    except RuntimeError as error:
        raise ValueError(f"is no ArrayRecord file ({error})") from error
    if not whole:
        raise ValueError("is truncated or no ArrayRecord file")
    return reader


def shards(paths: Sequence[str]) -> Shards:
    """Opens all files and counts their records.

    Raises:
        InputError: a file is damaged.
    """
    counts = []
    for path in paths:
        try:
            counts.append(open_file(path).num_records())
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
    return Shards(tuple(paths), tuple(counts))


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayRecords:
    """The images of ArrayRecord files; see `blobs.Blobs`.

    Attributes:
        shards: the files.
        names: of the features that hold image, label and id.
    """

    shards: Shards
    names: index.Names
    handles: Handles = dataclasses.field(default_factory=lambda: Handles(open_file, _OPEN))

    def read(self, numbers: Sequence[int]) -> list[Blob]:
        """Reads the images of some records; what is wrong with one stands in its place."""
        return [_image(record, self.names.image) for record in self._records(numbers)]

    def rows(self, numbers: Sequence[int]) -> list[index.Row | ValueError]:
        """Reads labels and ids; an error stands in the place of a damaged record.

        Raises:
            InputError: a record is whole and has no image or no label.
        """
        return [
            self._row(number, record) for number, record in zip(numbers, self._records(numbers))
        ]

    def _row(self, number: int, record: Blob) -> index.Row | ValueError:
        try:
            features = _parsed(record)
        except ValueError as error:
            return error
        try:
            example.only(features, self.names.image, bytes)
            label = example.only(features, self.names.label, int)
            has_id = self.names.id in features
            text = example.only(features, self.names.id, bytes) if has_id else b""
        except ValueError as error:
            raise InputError(f"{RecordNames(self.shards)[number]}: {error}") from None
        return label, text.decode(errors="replace")

    def _records(self, numbers: Sequence[int]) -> list[Blob]:
        return self.shards.read(numbers, self._of_file)

    def _of_file(self, path: str, positions: np.ndarray) -> list[Blob]:
        try:
            with self.handles.use(path) as reader:
                try:
                    return reader.read(positions.tolist())
                except RuntimeError:  # one damaged record fails all
                    return [_one(reader, position) for position in positions.tolist()]
        except ValueError as error:
            return [error] * len(positions)


def scan(
    paths: Sequence[str], names: index.Names, cache: pathlib.Path
) -> tuple[ArrayRecords, index.Index]:
    """Reads the labels and ids of all records, or finds them in the cache.

    Raises:
        InputError: a file is damaged, or its records have other features.
    """
    files = shards(paths)
    records = ArrayRecords(files, names)
    key = hashlib.sha256(f"array_record {names} {files.stamp()}".encode()).hexdigest()
    found = index.cached(cache, key, lambda: index.scan(len(files), records.rows))
    label_names = tuple(map(str, range(found["labels"].max(initial=0) + 1)))
    return records, index.Index(files, found["labels"], label_names, found["ids"].tolist())


def _one(reader: Any, position: int) -> Blob:
    try:
        return reader.read([position])[0]
    except RuntimeError as error:
        return ValueError(f"cannot be read ({error})")


def _parsed(record: Blob) -> example.Features:
    if isinstance(record, ValueError):
        raise record
    return example.parse(record)


def _image(record: Blob, name: str) -> Blob:
    try:
        return example.only(_parsed(record), name, bytes)
    except ValueError as error:
        return error
