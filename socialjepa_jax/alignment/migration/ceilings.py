"""Retrieval of real queries through a map, between its floor and full re-embedding.

Shape suffixes: N documents, Q queries, R draws, D and E features of x and y.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.migration.queries import Queries
from socialjepa_jax.alignment.migration.search import (
    Index,
    answer_ranks,
    chance_scores,
    query_scores,
)
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.neighbourhoods import unit_rows
from socialjepa_jax.alignment.resampling import UNKNOWN, Interval, corrected_interval, drawn_means
from socialjepa_jax.alignment.study.settings import Pair, Settings

RECALL = "recall@1"
CEILING, OLD = "y_in_y", "x_in_x"
BRIDGE = "y_back_in_x"  # the way to search that leaves the old index as it is
HUBS = "y_back_in_x_csls"  # for the cosine only
HUB_SAMPLE, HUB_NEIGHBOURS = 1_000, 10  # documents of y that stand for queries
FITS = 5  # of shuffled pairs
UNSEEN = 3.0  # events that may be expected where none was seen (95 %), which no draw shows
_SHARE, _RATIO, _DIFFERENCE = Interval(0.0, 1.0), Interval(0.0, np.inf), Interval(-1.0, 1.0)


@dataclass(frozen=True)
class Retrieval:
    """Scores of one way to search.

    Attributes:
        name: of `WAYS`, or "chance" or "shuffled".
        scores: means of `query_scores`.
        intervals: of the scores; empty without draws.
        retention: recall@1 over that of full re-embedding (`CEILING`); NaN where that is unknown
            or 0.
        interval: of `retention`; NaN without draws.
    """

    name: str
    scores: dict[str, float]
    intervals: dict[str, Interval]
    retention: float
    interval: Interval


@dataclass(frozen=True, eq=False)
class Ceilings:
    """All ways to search the same queries.

    Attributes:
        ways: name -> result, in the order of `WAYS`, then "chance" and "shuffled".
        gain: recall@1 of full re-embedding less that of the old index; NaN unless both were
            measured.
        gain_interval: of `gain`, paired over queries; NaN without draws.
        number: of queries measured.
        left_out: number of queries given beside these.
        documents: number of documents in the index.
    """

    ways: dict[str, Retrieval]
    gain: float
    gain_interval: Interval
    number: int
    left_out: int
    documents: int


@dataclass(frozen=True, eq=False)
class _Search:
    """What the ways to search have in common."""

    linear_map: LinearMap
    x: np.ndarray
    y: np.ndarray
    queries: Queries
    similarity: str
    seed: int

    def __call__(self, queries_QD: Float64, index: Index) -> dict[str, Float64]:
        ranks = answer_ranks(queries_QD, index, self.queries.answers, self.similarity)
        return query_scores(ranks)

    def of_x(self) -> Float64:
        """The queries embedded by x."""
        assert self.queries.x is not None
        return np.asarray(self.queries.x, np.float64)

    def of_y(self) -> Float64:
        """The queries embedded by y."""
        assert self.queries.y is not None
        return np.asarray(self.queries.y, np.float64)

    def mapped(self) -> Index:
        """The documents of x, mapped into the space of y."""
        return Index(lambda rows: self.linear_map.forward(self.x[rows]), len(self.x))

    def mixed(self) -> Index:
        """Documents of y and, in place of a random half of them, mapped ones; unit rows."""
        half = np.random.default_rng(self.seed).permutation(len(self.x)) < len(self.x) // 2
        mapped = self.mapped()

        def rows(numbers: np.ndarray) -> Float64:
            new, old = np.asarray(self.y[numbers], np.float64), mapped.rows(numbers)
            return unit_rows(np.where(half[numbers, None], old, new))

        return Index(rows, len(self.x))

    def hubs(self) -> tuple[Float64, Index]:
        """Queries of y mapped back, and documents of x that are near to many such rated lower.

        The cosine less half of the mean cosine of a document to its nearest mapped documents of y
        (CSLS; Conneau et al., 2018) is a product with one more feature.
        """
        back = unit_rows(self.linear_map.backward(self.of_y(), "regression"))
        queries = np.column_stack([back, np.ones(len(back))])
        rng, count = np.random.default_rng(self.seed), len(self.y)
        asked = rng.choice(count, min(HUB_SAMPLE, count), replace=False)
        asked_SD = unit_rows(self.linear_map.backward(self.y[asked], "regression"))

        def rows(numbers: np.ndarray) -> Float64:
            x = unit_rows(np.asarray(self.x[numbers], np.float64))
            near = np.partition(x @ asked_SD.T, -HUB_NEIGHBOURS, axis=1)[:, -HUB_NEIGHBOURS:]
            return np.column_stack([x, -near.mean(axis=1) / 2.0])

        return queries, Index(rows, count)


_Way = Callable[[_Search], dict[str, Float64]]
_OF_X: dict[str, _Way] = {
    OLD: lambda s: s(s.of_x(), Index.of(s.x)),
    "x_forward_in_y": lambda s: s(s.linear_map.forward(s.of_x()), Index.of(s.y)),
}
_OF_Y: dict[str, _Way] = {
    CEILING: lambda s: s(s.of_y(), Index.of(s.y)),
    "naive": lambda s: s(s.of_y(), Index.of(s.x)),
    BRIDGE: lambda s: s(s.linear_map.backward(s.of_y(), "regression"), Index.of(s.x)),
    "y_in_x_forward": lambda s: s(s.of_y(), s.mapped()),
    "mixed": lambda s: s(unit_rows(s.of_y()), s.mixed()),
    HUBS: lambda s: dataclasses.replace(s, similarity="dot")(*s.hubs()),
}
WAYS = (OLD, CEILING, "naive", BRIDGE, "x_forward_in_y", "y_in_x_forward", "mixed", HUBS)
"""Ways to search, queries first: "x" and "y" are the encoders, "forward" and "back" the map."""


def search_all(
    linear_map: LinearMap,
    documents: Pair,
    queries: Queries,
    settings: Settings,
    shuffled: Sequence[LinearMap] = (),
) -> Ceilings:
    """Searches the whole index in every way that the given queries allow.

    Args:
        linear_map: fitted without the documents that answer the queries.
        documents: raw x [N, D] and y [N, E] of all documents.
        queries: to search.
        settings: similarity, number of bootstrap draws over queries (those with the same first
            answer are drawn together), and the seed of the draws and of the mixed index.
        shuffled: maps fitted on shuffled pairs; their row is that of "y_back_in_x", or of
            "x_forward_in_y" without queries of y.
    """
    search = _Search(linear_map, *documents, queries, settings.similarity, settings.seed)
    possible = _possible(search)
    found = {name: possible[name](search) for name in WAYS if name in possible}
    weights_RQ = _draws(queries, settings.resamples, settings.seed)
    ways = {name: _result(name, found, weights_RQ) for name in found}
    numbers_Q = np.sum(queries.answers >= 0, axis=1)
    ways["chance"] = _without_draws("chance", chance_scores(numbers_Q, len(search.x)), ways)
    if shuffled:
        ways["shuffled"] = _without_draws("shuffled", _of_shuffled(search, shuffled), ways)
    gain, interval = _gain(found, weights_RQ)
    number, left_out = len(queries), queries.left_out
    return Ceilings(ways, gain, interval, number, left_out, len(search.x))


def _possible(search: _Search) -> dict[str, _Way]:
    ways = {} if search.queries.x is None else dict(_OF_X)
    if search.queries.y is not None:
        ways |= _OF_Y
        if search.x.shape[1] != search.y.shape[1]:
            del ways["naive"]
        if search.similarity != "cosine" or len(search.y) < HUB_NEIGHBOURS:
            del ways[HUBS]
    return ways


def _of_shuffled(search: _Search, maps: Sequence[LinearMap]) -> dict[str, float]:
    way = _OF_X["x_forward_in_y"] if search.queries.y is None else _OF_Y[BRIDGE]
    means = [_means(way(dataclasses.replace(search, linear_map=found))) for found in maps]
    return {key: float(np.mean([mean[key] for mean in means])) for key in means[0]}


def _draws(queries: Queries, resamples: int, seed: int) -> Float64:
    """Number of times that each draw holds each query: [R, Q]; no draws of a single answer."""
    first_Q = queries.answers.max(axis=1)
    if not resamples or len(np.unique(first_Q)) < 2:
        return np.empty((0, len(queries)))
    return resampling.group_weights(first_Q, resamples, seed)


def _means(scores_Q: Mapping[str, Float64]) -> dict[str, float]:
    return {key: float(value.mean()) for key, value in scores_Q.items()}


def _result(name: str, found: Mapping[str, dict[str, Float64]], weights_RQ: Float64) -> Retrieval:
    scores = _means(found[name])
    intervals = {
        key: corrected_interval(drawn_means(value, weights_RQ), scores[key], within=_SHARE)
        for key, value in found[name].items()
    }
    of_way, of_ceiling = found[name][RECALL], found.get(CEILING, {}).get(RECALL, np.zeros(1))
    if not of_ceiling.any():
        return Retrieval(name, scores, intervals, float("nan"), UNKNOWN)
    retention = scores[RECALL] / float(of_ceiling.mean())
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw without a hit of the ceiling
        ratio_R = drawn_means(of_way, weights_RQ) / drawn_means(of_ceiling, weights_RQ)
    between = corrected_interval(ratio_R, retention, within=_RATIO)
    if name != CEILING:
        between = _widened(between, retention, UNSEEN / float(of_ceiling.sum()), _RATIO)
    return Retrieval(name, scores, intervals, retention, between)


def _widened(interval: Interval, value: float, reach: float, within: Interval) -> Interval:
    """Returns an interval that holds [value - reach, value + reach], within a range."""
    low, high = min(interval.low, value - reach), max(interval.high, value + reach)
    return Interval(max(low, within.low), min(high, within.high)) if interval.known else interval


def _without_draws(name: str, scores: dict[str, float], ways: Mapping[str, Retrieval]) -> Retrieval:
    ceiling = ways[CEILING].scores[RECALL] if CEILING in ways else 0.0
    retention = scores[RECALL] / ceiling if ceiling else float("nan")
    return Retrieval(name, scores, {}, retention, UNKNOWN)


def _gain(found: Mapping[str, dict[str, Float64]], weights_RQ: Float64) -> tuple[float, Interval]:
    if CEILING not in found or "x_in_x" not in found:
        return float("nan"), UNKNOWN
    gain_Q = found[CEILING][RECALL] - found["x_in_x"][RECALL]
    gain = float(gain_Q.mean())
    between = corrected_interval(drawn_means(gain_Q, weights_RQ), gain, within=_DIFFERENCE)
    return gain, _widened(between, gain, UNSEEN / len(gain_Q), _DIFFERENCE)
