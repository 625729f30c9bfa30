"""Parquet files with a column of encoded images, as the Hugging Face hub holds ImageNet."""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from socialjepa_jax.data.files import Blob
from socialjepa_jax.data.records import index
from socialjepa_jax.data.records.blobs import Handles, Shards
from socialjepa_jax.errors import InputError

_OPEN = 256  # files at once
_INSIDE = ("bytes", "path")  # of a struct column of images


def open_file(path: str) -> pq.ParquetFile:
    """Opens a file.

    Raises:
        ValueError: it is truncated or no Parquet file.
    """
    try:
        return pq.ParquetFile(path, memory_map=True)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"is truncated or no Parquet file ({error})") from error


@dataclasses.dataclass(frozen=True, eq=False)
class ParquetRows:
    """The images of Parquet files; see `blobs.Blobs`.

    A row group is read for one row of it: the format knows no smaller part that can be found.

    Attributes:
        shards: the files.
        image: column of the encoded images, or the path of a member of a struct column.
    """

    shards: Shards
    image: str
    handles: Handles = dataclasses.field(default_factory=lambda: Handles(open_file, _OPEN))

    def read(self, numbers: Sequence[int]) -> list[Blob]:
        """Reads the images of some rows; what is wrong with one stands in its place."""
        return self.shards.read(numbers, self._of_file)

    def _of_file(self, path: str, positions: np.ndarray) -> list[Blob]:
        blobs: list[Blob] = [b""] * len(positions)
        try:
            with self.handles.use(path) as file:
                ends = np.cumsum(_group_sizes(file))
                groups = np.searchsorted(ends, positions, side="right")
                for group in np.unique(groups):
                    where = np.flatnonzero(groups == group)
                    first = ends[group - 1] if group else 0
                    found = self._of_group(file, int(group), positions[where] - first)
                    for place, blob in zip(where.tolist(), found):
                        blobs[place] = blob
        except ValueError as error:
            return [error] * len(positions)
        return blobs

    def _of_group(self, file: pq.ParquetFile, group: int, rows: np.ndarray) -> list[Blob]:
        try:
            table = file.read_row_group(group, columns=[self.image], use_threads=False)
            column = table.column(0).take(pa.array(rows))
        except (OSError, pa.ArrowException) as error:
            return [ValueError(f"row group {group} cannot be read ({error})")] * len(rows)
        if pa.types.is_struct(column.type):
            column = pc.struct_field(column, 0)
        return [
            ValueError("has no image") if value is None else value for value in column.to_pylist()
        ]


def _group_sizes(file: pq.ParquetFile) -> list[int]:
    metadata = file.metadata
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def scan(paths: Sequence[str], names: index.Names) -> tuple[ParquetRows, index.Index]:
    """Reads the labels and ids of all rows; images are not read.

    Raises:
        InputError: a file is damaged or has other columns.
    """
    labels: list[np.ndarray] = []
    ids: list[str] = []
    counts: list[int] = []
    schemas: list[_Schema] = []
    for path in paths:
        try:
            file = open_file(path)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
        schema = _Schema.of(path, file.schema_arrow, names)
        if schemas and schema != schemas[0]:
            raise InputError(f"{path}: has other columns than {os.path.basename(paths[0])}")
        schemas.append(schema)
        counts.append(file.metadata.num_rows)
        labels.append(_labels(path, file, names.label))
        if schema.id:
            ids += [text or "" for text in _column(path, file, schema.id).to_pylist()]
    shards = Shards(tuple(paths), tuple(counts))
    numbers = np.concatenate(labels)
    label_names = schemas[0].label_names or tuple(map(str, range(numbers.max(initial=0) + 1)))
    return ParquetRows(shards, schemas[0].image), index.Index(shards, numbers, label_names, ids)


@dataclasses.dataclass(frozen=True)
class _Schema:
    """Columns of a file.

    Attributes:
        image, id: column, or path of a member of a struct column; id may be empty.
        label_names: of the categories, if the file holds them.
    """

    image: str
    id: str
    label_names: tuple[str, ...]

    @classmethod
    def of(cls, path: str, schema: pa.Schema, names: index.Names) -> "_Schema":
        """Finds the columns.

        Raises:
            InputError: one is missing or of another type.
        """
        for name in (names.image, names.label):
            if name not in schema.names:
                raise InputError(f"{path}: no column {name!r}, it has {', '.join(schema.names)}")
        image, label = schema.field(names.image).type, schema.field(names.label).type
        members = [field.name for field in image] if pa.types.is_struct(image) else []
        inside = _INSIDE[0] in members
        content = image.field(_INSIDE[0]).type if inside else image
        if not (pa.types.is_binary(content) or pa.types.is_large_binary(content)):
            raise InputError(
                f"{path}: column {names.image!r} is {image}, must be binary or have 'bytes' inside"
            )
        if not pa.types.is_integer(label):
            raise InputError(f"{path}: column {names.label!r} is {label}, must be integer")
        own_id = names.id if names.id in schema.names else ""
        of_image = f"{names.image}.{_INSIDE[1]}" if _INSIDE[1] in members else ""
        return cls(
            f"{names.image}.{_INSIDE[0]}" if inside else names.image,
            own_id or of_image,
            _label_names(schema, names.label),
        )


def _label_names(schema: pa.Schema, label: str) -> tuple[str, ...]:
    """Returns the names that the hub's `datasets` writes beside the columns, if it did."""
    try:
        stored: Any = json.loads((schema.metadata or {})[b"huggingface"])
        return tuple(map(str, stored["info"]["features"][label]["names"]))
    except (KeyError, TypeError, ValueError):
        return ()


def _column(path: str, file: pq.ParquetFile, name: str) -> pa.ChunkedArray:
    try:
        column = file.read(columns=[name], use_threads=False).column(0)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: column {name!r} cannot be read ({error})") from None
    return pc.struct_field(column, 0) if pa.types.is_struct(column.type) else column


def _labels(path: str, file: pq.ParquetFile, name: str) -> np.ndarray:
    column = _column(path, file, name)
    if column.null_count:
        raise InputError(f"{path}: column {name!r} has {column.null_count} empty rows")
    return column.to_numpy().astype(np.int64)
