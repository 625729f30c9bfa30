"""Queries read from files: their embeddings, and the documents that answer them.

Shape suffixes: Q queries, K answers of a query, N paired documents, F rows of the file of x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment.migration.queries import Queries
from socialjepa_jax.alignment.study import files
from socialjepa_jax.alignment.study.inputs import Column, Sources, Spaces, as_text, comparable_ids
from socialjepa_jax.errors import InputError

PAD = -1  # in place of a row number, or of an id that is an integer; "" or "-1" of one that is text


@dataclass(frozen=True)
class QuerySources:
    """Files of queries.

    Attributes:
        x, y: files of embeddings of the same queries by either encoder; None where there is none.
        answers: row numbers of the file of x, or ids where it has ids: [Q] or [Q, K].
    """

    x: str | None
    y: str | None
    answers: Column


def read_queries(queries: QuerySources, sources: Sources, spaces: Spaces) -> Queries:
    """Reads queries, and finds their answers among the paired documents.

    Queries without any answer there are left out, and with `drop_nonfinite` those with NaN or Inf.

    Raises:
        InputError: if a file cannot be used; the message names the file and the row.
    """
    paths = queries.x, queries.y
    x, y = (
        None if path is None else files.read_latents(path, key)
        for path, key in zip(paths, sources.keys)
    )
    answers_QK = _answers(queries.answers, sources, spaces)
    number = len(answers_QK)
    keep = np.asarray((answers_QK >= 0).any(axis=1))
    for path, z in zip(paths, (x, y)):
        if z is None:
            continue
        if len(z) != number:
            raise InputError(f"{path} has {len(z)} rows for {number} of {queries.answers.path}")
        bad = files.find_bad_rows(z)
        if len(bad) and not sources.drop_nonfinite:
            raise InputError(
                f"{path}: row {bad[0]} holds NaN or Inf; give --drop_nonfinite to leave it out"
            )
        keep[bad] = False
    if not keep.any():
        raise InputError(f"{queries.answers.path}: no query has an answer among the paired rows")
    rows = np.flatnonzero(keep)
    x, y = (None if z is None else np.asarray(z[rows], np.float64) for z in (x, y))
    return Queries(x, y, answers_QK[rows], number - len(rows))


def _answers(column: Column, sources: Sources, spaces: Spaces) -> np.ndarray:
    """Reads the answers as row numbers of the paired documents, -1 for those without partner."""
    values = files.read_array(column.path, column.key, option=column.option)
    if values.ndim not in (1, 2) or 0 in values.shape or values.dtype.kind not in "iuSU":
        raise InputError(
            f"{column.path}: answers must be integers or text, one or several for each query, got "
            f"{values.dtype} {values.shape}"
        )
    values_QK = as_text(values).reshape(len(values), -1)
    rows_N = spaces.rows[0]
    if len(sources.ids) == len(sources.spaces):
        file_QK = _rows_of_ids(column.path, values_QK, sources.ids[0])
    else:
        file_QK = _row_numbers(column.path, values_QK, spaces.counts[0].rows)
    place_F = np.full(spaces.counts[0].rows, -1)
    place_F[rows_N] = np.arange(len(rows_N))
    return np.where(file_QK >= 0, place_F[np.maximum(file_QK, 0)], -1)


def _row_numbers(path: str, values_QK: np.ndarray, count: int) -> np.ndarray:
    if values_QK.dtype.kind not in "iu":
        raise InputError(f"{path}: answers are text; give --ids_x and --ids_y to find them by")
    wrong = values_QK >= count
    if values_QK.dtype.kind == "i":
        wrong |= values_QK < PAD
    if wrong.any():
        row = int(np.argmax(wrong.any(axis=1)))
        value = values_QK[row][wrong[row]][0]
        raise InputError(f"{path}: row {row} names row {value}, x has rows 0 to {count - 1}")
    return values_QK.astype(np.int64)


def _rows_of_ids(path: str, values_QK: np.ndarray, column: Column) -> np.ndarray:
    """Finds the rows of ids in the file of x, -1 for padding."""
    ids_F = files.read_column(column.path, column.key, option=column.option)
    known_F, asked = comparable_ids((ids_F, values_QK.reshape(-1)), (column.path, path))
    order = np.argsort(known_F, kind="stable")
    place = np.minimum(np.searchsorted(known_F[order], asked), len(order) - 1)
    found = order[place]
    hit = known_F[found] == asked
    pad = np.isin(asked.astype(str), ("", str(PAD)))
    if not (hit | pad).all():
        index = int(np.argmin(hit | pad))
        raise InputError(
            f"{path}: row {index // values_QK.shape[1]} names {asked[index]}, which is no id of "
            f"{column.path}; with --ids_x and --ids_y answers are ids, not numbers of rows"
        )
    return np.where(hit, found, -1).reshape(values_QK.shape)
