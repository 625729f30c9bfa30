"""Exact search of queries in an index, and scores of where their answers stand.

Shape suffixes: Q queries, D features, G documents of the index, K answers of a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment.moments import BLOCK_ROWS, Float64
from socialjepa_jax.alignment.neighbourhoods import unit_rows

SIMILARITIES = ("cosine", "dot", "l2")
DEPTH = 10  # of recall@10 and ndcg@10
_SLACK = 1e-12  # relative; similarities that differ by less are tied: products round differently
_QUERIES = 1024  # of a block

Rows = Callable[[np.ndarray], Float64]  # row numbers [B] -> documents [B, D]


@dataclass(frozen=True, eq=False)
class Index:
    """Documents that are searched.

    Attributes:
        rows: the documents at given row numbers, computed when they are needed.
        count: their number G.
    """

    rows: Rows
    count: int

    @staticmethod
    def of(z_GD: np.ndarray) -> Index:
        """Returns the rows of an array, possibly memory-mapped."""
        return Index(lambda rows: np.asarray(z_GD[rows], np.float64), len(z_GD))


def answer_ranks(
    queries_QD: Float64, index: Index, answers_QK: np.ndarray, similarity: str
) -> Float64:
    """Ranks the answers of every query among all documents of an index, by exact search.

    The k-th best answer has rank k + the number of documents that are more similar and no answers;
    such documents of equal similarity count half. So all ranks are the same if all documents are:
    the middle, and not the first.

    Args:
        queries_QD: queries in the space of the index.
        index: documents.
        answers_QK: row numbers of the right documents; -1 pads.
        similarity: "cosine" | "dot" | "l2".

    Returns:
        [Q, K] ranks from 1 on, ascending in every row; infinite for padding.
    """
    blocks = range(0, len(queries_QD), _QUERIES)
    parts = [slice(start, start + _QUERIES) for start in blocks]
    return np.concatenate(
        [_ranks(queries_QD[part], index, answers_QK[part], similarity) for part in parts]
    )


def _ranks(query_QD: Float64, index: Index, answers_QK: np.ndarray, similarity: str) -> Float64:
    given_QK = answers_QK >= 0
    q, k = answers_QK.shape
    answer_QKD = index.rows(np.maximum(answers_QK, 0).reshape(-1)).reshape(q, k, -1)
    centre_D = answer_QKD.mean(axis=(0, 1)) if similarity == "l2" else np.zeros(1)
    query_QD = scaled(query_QD - centre_D, similarity)
    answer_QKD = scaled(answer_QKD - centre_D, similarity)
    match_QK = np.einsum("qd,qkd->qk", query_QD, answer_QKD) + offset(answer_QKD, similarity)
    size_QK = np.linalg.norm(answer_QKD, axis=-1)
    slack_QK = _SLACK * size_QK * (np.linalg.norm(query_QD, axis=-1)[:, None] + size_QK)
    ahead_QK = np.zeros((q, k))
    for start in range(0, index.count, BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, index.count))
        block_BD = scaled(index.rows(rows) - centre_D, similarity)
        found_QB = query_QD @ block_BD.T + offset(block_BD, similarity)
        _remove(found_QB, answers_QK, start)
        for j in range(k):
            gap_QB = found_QB - match_QK[:, j, None]
            slack_Q1 = slack_QK[:, j, None]
            ahead_QK[:, j] += np.sum(gap_QB >= -slack_Q1, axis=1)
            ahead_QK[:, j] += np.sum(gap_QB > slack_Q1, axis=1)
    ahead_QK = np.where(given_QK, ahead_QK / 2.0, np.inf)
    return np.sort(ahead_QK, axis=1) + np.arange(1, k + 1)


def _remove(found_QB: Float64, answers_QK: np.ndarray, start: int) -> None:
    """Takes the answers of each query out of a block of similarities."""
    query, place = np.nonzero((answers_QK >= start) & (answers_QK < start + found_QB.shape[1]))
    found_QB[query, answers_QK[query, place] - start] = -np.inf


def scaled(z: Float64, similarity: str) -> Float64:
    """Returns queries or documents [..., D] for products: of length 1 for cosines."""
    return unit_rows(z) if similarity == "cosine" else z


def offset(z: Float64, similarity: str) -> Float64 | float:
    """Returns what is added to the products with documents z [..., D]: [...].

    For "l2" the sum is -|q - z|^2 / 2 but for a term of the query alone.
    """
    return -np.sum(z**2, axis=-1) / 2 if similarity == "l2" else 0.0


def query_scores(rank_QK: Float64) -> dict[str, Float64]:
    """Scores every query by the ranks of its answers: [Q] each.

    Args:
        rank_QK: of `answer_ranks`.

    Returns:
        `recall@1` and `recall@10` (1 if an answer is among the first), `mrr` (1 / rank of the first
        answer) and `ndcg@10` (binary relevance, discount 1 / log2(1 + rank)).
    """
    first_Q = rank_QK[:, 0]
    number_Q = np.sum(np.isfinite(rank_QK), axis=1)
    gain_QK = np.where(rank_QK <= DEPTH, 1.0 / np.log2(1.0 + rank_QK), 0.0)
    best_K = np.cumsum(1.0 / np.log2(1.0 + np.arange(1, DEPTH + 1)))
    return {
        "recall@1": (first_Q <= 1.0).astype(np.float64),
        f"recall@{DEPTH}": (first_Q <= DEPTH).astype(np.float64),
        "mrr": 1.0 / first_Q,
        f"ndcg@{DEPTH}": gain_QK.sum(axis=1) / best_K[np.minimum(number_Q, DEPTH) - 1],
    }


def chance_scores(number_Q: np.ndarray, count: int) -> dict[str, float]:
    """Computes the expectations of `query_scores` in a random order of the index.

    Args:
        number_Q: number of answers of each query.
        count: number of documents G.
    """
    place = np.arange(1, count + 1)
    discount = np.sum(1.0 / np.log2(1.0 + place[:DEPTH]))
    values, of_query_Q = np.unique(number_Q, return_inverse=True)
    scores = []
    for number in values:
        # P(first answer behind place r) = prod over i < r of (G - number - i) / (G - i).
        left = np.maximum(count - number - place + 1.0, 0.0) / (count - place + 1.0)
        behind = np.cumprod(left)
        first = np.concatenate([[1.0], behind[:-1]]) - behind
        ideal = np.sum(1.0 / np.log2(1.0 + place[: min(number, DEPTH)]))
        scores.append(
            {
                "recall@1": first[0],
                f"recall@{DEPTH}": first[:DEPTH].sum(),
                "mrr": np.sum(first / place),
                f"ndcg@{DEPTH}": number / count * discount / ideal,
            }
        )
    return {
        key: float(np.mean(np.array([score[key] for score in scores])[of_query_Q]))
        for key in scores[0]
    }
