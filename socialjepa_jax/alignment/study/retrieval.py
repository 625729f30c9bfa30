"""Search of held-out items of one space for themselves among those of the other, through a map.

This is no search by queries: `migration` has that.

Shape suffixes: M measured rows, S of them resampled, D and E features, K neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.migration.search import offset, scaled
from socialjepa_jax.alignment.moments import Float64, as_pairs
from socialjepa_jax.alignment.neighbourhoods import match_ranks, retrieval_scores
from socialjepa_jax.alignment.study.intervals import Bounds, GroupBootstrap
from socialjepa_jax.alignment.study.scores import K
from socialjepa_jax.alignment.study.settings import Pair


@dataclass(frozen=True, eq=False)
class Search:
    """Result of one direction of search.

    Attributes:
        scores: recall@k, mrr and median_rank.
        intervals: of recall@1, recall@10 and mrr.
        ranks: [M] rank of every query's match; ties share their mid-rank.
    """

    scores: dict[str, float]
    intervals: Bounds
    ranks: Float64


def search_spaces(
    linear_map: LinearMap, x_test: ArrayLike, y_test: ArrayLike
) -> dict[str, tuple[Float64, Float64]]:
    """Returns raw (queries, gallery) for every direction of search, by name."""
    x, y = as_pairs(x_test, y_test, "x_test", "y_test")
    return {
        "x -> y, forward": (linear_map.forward(x), y),
        "y -> x, regression": (linear_map.backward(y, "regression"), x),
        "y -> x, inverse": (linear_map.backward(y, "inverse"), x),
    }


def search_scores(
    linear_map: LinearMap, x_test: ArrayLike, y_test: ArrayLike, similarity: str
) -> dict[str, float]:
    """Scores every direction of search; keys are `<direction>/<score>`."""
    return {
        f"{name}/{key}": value
        for name, spaces in search_spaces(linear_map, x_test, y_test).items()
        for key, value in retrieval_scores(*match_ranks(*spaces, similarity=similarity)).items()
    }


def run_searches(
    linear_map: LinearMap,
    test: Pair,
    resampled: np.ndarray,
    bootstrap: GroupBootstrap,
    similarity: str,
) -> dict[str, Search]:
    """Searches in every direction.

    Args:
        linear_map: fitted on other pairs.
        test: the measured rows.
        resampled: bool [M], marks the rows that `bootstrap` draws from.
        bootstrap: draws of the resampled rows.
        similarity: "cosine" | "dot" | "l2", of raw latents.
    """
    searches = {}
    for name, spaces in search_spaces(linear_map, *test).items():
        best, middle = match_ranks(*spaces, similarity=similarity)
        scores = retrieval_scores(best, middle)
        samples = resampling.resample_retrieval(
            best[resampled], middle[resampled], bootstrap.weights
        )
        searches[name] = Search(scores, bootstrap.intervals(samples, scores), middle)
    return searches


@dataclass(frozen=True)
class Overlap:
    """Share of common neighbours of items in an index reached through the map and in y itself.

    Attributes:
        value: mean over items.
        interval: 95 %.
    """

    value: float
    interval: resampling.Interval


def overlap_with_native(
    linear_map: LinearMap, sample: Pair, bootstrap: GroupBootstrap, similarity: str
) -> dict[str, Overlap]:
    """Compares the 10 nearest held-out items through the map with those that y itself finds.

    Args:
        linear_map: fitted on other pairs.
        sample: the resampled rows.
        bootstrap: draws of the resampled rows.
        similarity: "cosine" | "dot" | "l2", of raw latents.

    Returns:
        "y_back_in_x": items of y mapped back and searched in x; "y_in_x_forward": items of y
        searched among mapped items of x. With 30 items or fewer neither: by chance a third of
        their neighbours would be the same.
    """
    x, y = as_pairs(*sample, "x", "y")
    if len(x) <= 3 * K:
        return {}
    native = nearest_documents(y, y, K, similarity)
    spaces = {
        "y_back_in_x": (linear_map.backward(y, "regression"), x),
        "y_in_x_forward": (y, linear_map.forward(x)),
    }
    found = {}
    for name, (queries, gallery) in spaces.items():
        near = nearest_documents(queries, gallery, K, similarity)
        share_S = np.mean((near[:, :, None] == native[:, None, :]).any(axis=1), axis=1)
        samples = resampling.drawn_means(share_S, bootstrap.weights)
        value = float(share_S.mean())
        found[name] = Overlap(value, bootstrap.interval(samples, value))
    return found


def nearest_documents(
    queries_SD: Float64, gallery_SD: Float64, k: int, similarity: str
) -> np.ndarray:
    """Returns the k rows of a gallery most similar to each query but that of its own number.

    Args:
        queries_SD, gallery_SD: raw latents in one space.
        k: below S.
        similarity: "cosine" | "dot" | "l2".
    """
    queries_SD, gallery_SD = scaled(queries_SD, similarity), scaled(gallery_SD, similarity)
    similar_SS = queries_SD @ gallery_SD.T + offset(gallery_SD, similarity)
    np.fill_diagonal(similar_SS, -np.inf)
    return np.argpartition(-similar_SS, k - 1, axis=1)[:, :k]
