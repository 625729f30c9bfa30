"""Queries of a search index, with the documents that answer them.

Shape suffixes: Q queries, D and E features of x and y, K answers of a query, N documents.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.errors import InputError

MAX_QUERIES = 5_000  # that are measured
MAX_ANSWERED = (
    0.5  # largest share of the documents that answer measured queries: the map needs some
)


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries embedded by one or both encoders.

    Attributes:
        x, y: [Q, D] and [Q, E], the same queries; None where they were not embedded.
        answers: int64 [Q, K] row numbers of the documents that are right, in descending order and
            each once; -1 pads.
        left_out: number of queries that were given beside these.
    """

    x: np.ndarray | None
    y: np.ndarray | None
    answers: np.ndarray
    left_out: int = 0

    def __post_init__(self) -> None:
        if self.x is None and self.y is None:
            raise InputError("queries: give those of x, of y, or both")
        for name, z in (("x", self.x), ("y", self.y)):
            if z is not None and len(z) != len(self.answers):
                raise InputError(
                    f"queries of {name}: {len(z)} rows for {len(self.answers)} rows of answers"
                )
        if not len(self.answers):
            raise InputError("queries: none has an answer among the paired rows")
        if (self.answers < 0).all(axis=1).any():
            row = int(np.argmax((self.answers < 0).all(axis=1)))
            raise InputError(f"answers: row {row} holds no answer")
        answers = np.sort(self.answers, axis=1)[:, ::-1]  # an answer that is named twice is one
        answers[:, 1:] = np.where(answers[:, 1:] == answers[:, :-1], -1, answers[:, 1:])
        object.__setattr__(self, "answers", np.sort(answers, axis=1)[:, ::-1])

    def __len__(self) -> int:
        """Number of queries Q."""
        return len(self.answers)

    @property
    def documents(self) -> np.ndarray:
        """Row numbers of all answers, ascending."""
        return np.unique(self.answers[self.answers >= 0])

    def take(self, rows: np.ndarray) -> Queries:
        """Returns some of the queries; the others count as left out."""
        x, y = (None if z is None else np.asarray(z[rows]) for z in (self.x, self.y))
        left_out = self.left_out + len(self) - len(rows)
        return dataclasses.replace(self, x=x, y=y, answers=self.answers[rows], left_out=left_out)

    def measured(self, group_N: np.ndarray, seed: int) -> Queries:
        """Returns the queries that a study measures, at random where they are too many.

        Those are at most `MAX_QUERIES`, and so few that the groups of their answers hold at most
        `MAX_ANSWERED` of the documents.

        Args:
            group_N: [N] labels of documents that must not be split.
            seed: of the choice.

        Raises:
            InputError: if none can be measured.
        """
        labels, group_N, sizes = np.unique(group_N, return_inverse=True, return_counts=True)
        order = np.random.default_rng(seed).permutation(len(self))[:MAX_QUERIES]
        answers_QK = self.answers[order]
        group_QK = np.where(answers_QK >= 0, group_N[answers_QK], -1)
        held, rows = np.zeros(len(labels), bool), 0
        kept: list[int] = []
        for query, groups_K in zip(order, group_QK):
            new = np.unique(groups_K[groups_K >= 0])
            new = new[~held[new]]
            more = int(sizes[new].sum())
            if rows + more <= MAX_ANSWERED * len(group_N):
                held[new] = True
                rows += more
                kept.append(int(query))
        if not kept:
            raise InputError(
                "queries: the groups of the answers of each query hold more than half of the "
                "documents, and nothing would be left to fit"
            )
        return self.take(np.sort(np.asarray(kept)))


def check_queries(queries: Queries, x: np.ndarray, y: np.ndarray) -> None:
    """Raises `InputError` unless queries and answers fit the documents of both spaces."""
    for name, query, document in (("x", queries.x, x), ("y", queries.y, y)):
        if query is not None and query.shape[1] != document.shape[1]:
            raise InputError(
                f"queries of {name} have {query.shape[1]} features, {name} has {document.shape[1]}"
            )
    if queries.answers.max() >= len(x):
        raise InputError(f"answers: there is no row {queries.answers.max()} among {len(x)}")
