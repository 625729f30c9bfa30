"""Search of items of one space among the held-out items of the other, through a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.neighbourhoods import match_ranks, retrieval_scores
from socialjepa_jax.alignment.study.intervals import Bounds, GroupBootstrap
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
    """Returns standardised (queries, gallery) for every direction of search, by name."""
    x, y = linear_map.standardize(x_test, y_test)
    return {
        "x -> y, forward": (x @ linear_map.w.T, y),
        "y -> x, regression": (y @ linear_map.w_back.T, x),
        "y -> x, inverse": (y @ linear_map.w_inv.T, x),
    }


def search_scores(linear_map: LinearMap, x_test: ArrayLike, y_test: ArrayLike) -> dict[str, float]:
    """Scores every direction of search; keys are `<direction>/<score>`."""
    return {
        f"{name}/{key}": value
        for name, spaces in search_spaces(linear_map, x_test, y_test).items()
        for key, value in retrieval_scores(*match_ranks(*spaces)).items()
    }


def run_searches(
    linear_map: LinearMap, test: Pair, resampled: np.ndarray, bootstrap: GroupBootstrap
) -> dict[str, Search]:
    """Searches in every direction.

    Args:
        linear_map: fitted on other pairs.
        test: the measured rows.
        resampled: bool [M], marks the rows that `bootstrap` draws from.
        bootstrap: draws of the resampled rows.
    """
    searches = {}
    for name, spaces in search_spaces(linear_map, *test).items():
        best, middle = match_ranks(*spaces)
        scores = retrieval_scores(best, middle)
        samples = resampling.resample_retrieval(
            best[resampled], middle[resampled], bootstrap.weights
        )
        searches[name] = Search(scores, bootstrap.intervals(samples, scores), middle)
    return searches
