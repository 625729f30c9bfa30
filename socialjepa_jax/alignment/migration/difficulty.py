"""Retention predicted from documents: with no queries as a curve, with few as a number.

Retention depends on how far queries lie from the documents that answer them. Documents that the map
was not fitted on are moved by offsets and become queries whose answers are known. Offsets of a few
real queries (query less answer, in y) moved to all held-out documents say more than these queries
alone; differences between random documents, at several scales, cover all degrees of difficulty.

Shape suffixes: N documents, P made queries, Q queries, R draws, E features of y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.migration.queries import Queries
from socialjepa_jax.alignment.migration.search import Index, answer_ranks
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.resampling import group_weights
from socialjepa_jax.alignment.study.settings import Pair, Settings

MADE = 1_000  # queries that are made at most, for the number and for each point of the curve
CURVE_DOCUMENTS = 20_000  # that the curve searches at most
SCALES = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0, 1.25, 1.6)  # of offsets between random documents
LEAST_RECALL = 0.1  # below which a ratio of recalls is noise
_DRAWS = 200
_90_PERCENT = 1.645  # deviations of a normal distribution on either side
_TRANSFER = 0.06  # deviation of predictions from truth beyond that of sampling, at retention 1/2
_SURE = 1e-3  # least deviation


@dataclass(frozen=True)
class Point:
    """A point of the curve.

    Attributes:
        scale: length of the offsets, in units of the distance between random documents.
        recall: recall@1 of full re-embedding on queries of this difficulty.
        retention: share of it that y mapped back into the index of x keeps.
    """

    scale: float
    recall: float
    retention: float


@dataclass(frozen=True)
class Prediction:
    """Retention of "y_back_in_x" for queries like the given ones.

    Attributes:
        value: expectation.
        low, high: 90 % interval.
        queries: number of queries it is calibrated to.
    """

    value: float
    low: float
    high: float
    queries: int


def retention_curve(
    linear_map: LinearMap, documents: Pair, held: np.ndarray, settings: Settings
) -> list[Point]:
    """Computes retention against the recall of full re-embedding, from documents alone.

    Args:
        linear_map: fitted without the held-out documents.
        documents: raw x [N, D] and y [N, E].
        held: row numbers of held-out documents.
        settings: similarity and seed.

    Returns:
        A point for each of `SCALES` at which full re-embedding finds `LEAST_RECALL`.
    """
    rng = np.random.default_rng(settings.seed)
    rows_P = _sampled(held, MADE, rng)
    documents, rows_P = _thinned(documents, rows_P, rng)
    ends = rng.integers(0, len(documents[1]), (2, len(rows_P)))
    y = (np.asarray(documents[1][rows], np.float64) for rows in ends)
    offset_PE = np.subtract(*y)
    points = []
    for scale in SCALES:
        made = _hits(linear_map, documents, rows_P, scale * offset_PE, settings.similarity)
        full, kept = (float(hit_P.mean()) for hit_P in made)
        if full >= LEAST_RECALL:
            points.append(Point(scale, full, kept / full))
    return points


def predict_retention(
    linear_map: LinearMap, documents: Pair, held: np.ndarray, queries: Queries, settings: Settings
) -> Prediction | None:
    """Predicts the retention of queries like the given ones; None without queries of y.

    The ratio measured on the queries themselves and that on made queries with their offsets are
    averaged with weights of one over their variances. The variance of the first is that of the
    discordant pairs, (b + c + 1) / Q^2 over the squared recall; that of the second is over draws of
    offsets, plus `_TRANSFER`^2 x 4 r (1 - r), since offsets may depend on their documents.

    Args:
        linear_map, documents, held, settings: as for `retention_curve`.
        queries: to calibrate to; 20 to 50 do.
    """
    if queries.y is None:
        return None
    query_QE = np.asarray(queries.y, np.float64)
    offset_QE = _offsets(query_QE, documents[1], queries.answers)
    rng = np.random.default_rng(settings.seed)
    rows_P = _sampled(held, MADE, rng)
    source_P = rng.permutation(len(rows_P)) % len(queries)  # every offset equally often
    full_P, kept_P = _hits(linear_map, documents, rows_P, offset_QE[source_P], settings.similarity)
    full_Q, kept_Q = _found(linear_map, documents, query_QE, queries.answers, settings.similarity)
    if not full_P.any() or not full_Q.any():
        return None
    made, measured = kept_P.sum() / full_P.sum(), kept_Q.sum() / full_Q.sum()
    spread = _spread(full_P, kept_P, source_P, settings.seed)
    made_variance = spread**2 + _TRANSFER**2 * 4.0 * min(made, 1.0) * (1.0 - min(made, 1.0))
    discordant = float(np.sum(full_Q != kept_Q))
    measured_variance = (discordant + 1.0) / full_Q.sum() ** 2
    weight = measured_variance / (measured_variance + made_variance)
    value = float(weight * made + (1.0 - weight) * measured)
    deviation = max(_SURE, float(np.sqrt(weight * made_variance)))
    reach = _90_PERCENT * deviation
    return Prediction(value, max(0.0, value - reach), value + reach, len(queries))


def _sampled(rows: np.ndarray, limit: int, rng: np.random.Generator) -> np.ndarray:
    return rows if len(rows) <= limit else np.sort(rng.choice(rows, limit, replace=False))


def _thinned(
    documents: Pair, rows_P: np.ndarray, rng: np.random.Generator
) -> tuple[Pair, np.ndarray]:
    """Leaves `CURVE_DOCUMENTS`, those of `rows_P` among them, and returns where these are."""
    x, y = documents
    others = np.setdiff1d(np.arange(len(x)), rows_P)
    kept = np.union1d(rows_P, _sampled(others, max(0, CURVE_DOCUMENTS - len(rows_P)), rng))
    if len(kept) == len(x):
        return documents, rows_P
    return (x[kept], y[kept]), np.searchsorted(kept, rows_P)


def _hits(
    linear_map: LinearMap,
    documents: Pair,
    rows_P: np.ndarray,
    offset_PE: Float64,
    similarity: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Marks moved documents that find themselves first in y, and through the map in x."""
    query_PE = np.asarray(documents[1][rows_P], np.float64) + offset_PE
    return _found(linear_map, documents, query_PE, rows_P[:, None], similarity)


def _found(
    linear_map: LinearMap,
    documents: Pair,
    query_QE: Float64,
    answers_QK: np.ndarray,
    similarity: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Marks queries of y that have an answer first in y, and mapped back in x."""
    x, y = documents
    full = answer_ranks(query_QE, Index.of(y), answers_QK, similarity)
    back_QD = linear_map.backward(query_QE, "regression")
    kept = answer_ranks(back_QD, Index.of(x), answers_QK, similarity)
    return full[:, 0] <= 1.0, kept[:, 0] <= 1.0


def _offsets(query_QE: Float64, y: np.ndarray, answers_QK: np.ndarray) -> Float64:
    """Differences of queries and the nearest of their answers: [Q, E]."""
    offset_QKE = query_QE[:, None] - np.asarray(y[np.maximum(answers_QK, 0)], np.float64)
    distance_QK = np.where(answers_QK >= 0, np.linalg.norm(offset_QKE, axis=2), np.inf)
    return np.take_along_axis(offset_QKE, distance_QK.argmin(axis=1)[:, None, None], axis=1)[:, 0]


def _spread(full_P: np.ndarray, kept_P: np.ndarray, source_P: np.ndarray, seed: int) -> float:
    """Deviation of the ratio over draws of offsets."""
    if len(np.unique(source_P)) < 2:
        return 1.0
    weight_RP = group_weights(source_P, _DRAWS, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_R = (weight_RP @ kept_P) / (weight_RP @ full_P)
    return float(np.std(ratio_R[np.isfinite(ratio_R)]))
