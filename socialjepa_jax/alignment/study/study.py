"""A study of the map between two spaces: everything the alignment tool measures, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import BACKS, evaluate, noise_ceiling
from socialjepa_jax.alignment.migration.ceilings import FITS, Ceilings, search_all
from socialjepa_jax.alignment.migration.difficulty import (
    Point,
    Prediction,
    predict_retention,
    retention_curve,
)
from socialjepa_jax.alignment.migration.queries import Queries, check_queries
from socialjepa_jax.alignment.migration.storage import stored_copies
from socialjepa_jax.alignment.moments import Float64, checked_pairs
from socialjepa_jax.alignment.permutation import Null
from socialjepa_jax.alignment.similarity import effective_rank
from socialjepa_jax.alignment.study import curves, files
from socialjepa_jax.alignment.study.intervals import Bounds, GroupBootstrap, map_intervals
from socialjepa_jax.alignment.study.novelty import Novelty, fit_novelty
from socialjepa_jax.alignment.study.references import Reference, compare_maps, relative_scores
from socialjepa_jax.alignment.study.retrieval import (
    Overlap,
    Search,
    overlap_with_native,
    run_searches,
    search_scores,
)
from socialjepa_jax.alignment.study.scores import (
    MapFreeScores,
    faint_columns,
    map_scores,
    row_errors,
    telling,
)
from socialjepa_jax.alignment.study.settings import (
    TRAIN_ROWS,
    Pair,
    Settings,
    Split,
    check_pairs,
    check_test,
    hold_out,
)
from socialjepa_jax.errors import as_array

Progress = Callable[[str], None]
Value = TypeVar("Value")

_DRAWN_BINS = 64  # side of the histogram of distances that is drawn; divides compare.BINS


@dataclass(frozen=True, eq=False)
class Study:
    """Results of a study; on the measured rows unless stated otherwise.

    Attributes:
        settings: of the study.
        split: row numbers of the given arrays.
        linear_map: fitted on all training rows.
        metrics: back -> metrics of `evaluate`.
        intervals: back -> metric -> 95 % interval over groups.
        differences: back -> metric -> interval of the paired difference to no map.
        null: on the resampled rows; its metrics are those of `scores` and `retrieval`, such as
            `r2`, `forward/dsc`, `svcca`, `x -> y, forward/mrr`.
        references: other ways to predict y, on the resampled rows.
        relative: number of anchors, scores and intervals of relative representations.
        searches: direction -> result of held-out items that look for themselves.
        overlap: of the 10 nearest items through the map and in y itself.
        ceilings: of the queries; None without queries.
        prediction: retention of queries like those; None without queries of y.
        curve: predicted retention of harder and harder queries.
        storage: copy of x -> what the map keeps; see `stored_copies`.
        faint: space -> features that vary too little to be divided by their deviation.
        budget, noise: rows of `curves`.
        joint: [H, H] counts of pairs by ranks of distance in W x and in y.
        row_errors: [M] error of each row in the units of the search; see `row_errors`.
        squared_errors: [M] standardised squared error of each row, per feature.
        novelty: "x" and "y" -> novelty of vectors of that space, fitted on its training latents.
        novelty_scores: "x" and "y" -> [M] scores of `novelty`.
        group_r2: group -> R2, for groups with at least 2 measured rows.
        ceiling: R2 that repeats of a state allow; NaN without repeats.
        similarity: map-free similarities by name, on the resampled rows.
        without_news: similarities that are left out of it, since shuffled rows reach this value.
        ranks: effective ranks of x and of y, on the resampled rows.
    """

    settings: Settings
    split: Split
    linear_map: LinearMap
    metrics: dict[str, dict[str, float]]
    intervals: dict[str, Bounds]
    differences: dict[str, Bounds]
    null: Null
    references: dict[str, Reference]
    relative: tuple[int, dict[str, float], Bounds]
    searches: dict[str, Search]
    overlap: dict[str, Overlap]
    ceilings: Ceilings | None
    prediction: Prediction | None
    curve: list[Point]
    storage: dict[str, dict[str, float]]
    faint: dict[str, np.ndarray]
    budget: list[curves.Row]
    noise: list[curves.Row]
    joint: np.ndarray
    row_errors: Float64
    squared_errors: Float64
    novelty: dict[str, Novelty]
    novelty_scores: dict[str, Float64]
    group_r2: dict[str, float]
    ceiling: float
    similarity: dict[str, float]
    without_news: dict[str, float]
    ranks: dict[str, float]

    @property
    def num_test(self) -> int:
        """Number of measured rows M."""
        return len(self.split.test)

    @property
    def dsc_bound(self) -> float:
        """Largest bound on the error of `dsc`; 0 if it is exact."""
        return max(metrics["dsc_bound"] for metrics in self.metrics.values())

    @property
    def num_resampled(self) -> int:
        """Number of resampled rows."""
        return len(self.split.resampled)


def run_study(
    x: np.ndarray,
    y: np.ndarray,
    settings: Settings,
    *,
    groups: np.ndarray | None = None,
    strata: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    queries: Queries | None = None,
    progress: Progress = lambda stage: None,
) -> Study:
    """Fits a map on one part of the pairs and measures it on the rest.

    Args:
        x, y: raw latents [N, D] and [N, E] of the same states, row by row; memory-mapped arrays may
            be larger than memory.
        settings: of fit, split and resampling.
        groups: [N] labels of rows that must not be split (objects, or states with repeats); None:
            single rows.
        strata: [N] labels within which the null shuffles pairs; None: all rows.
        labels: [N] classes, of which both parts of the split get equal shares, see `hold_out`.
        queries: of the index; their answers are held out first.
        progress: called with the name of every stage when it begins.

    Raises:
        InputError: if there are too few pairs, or the test part is constant.
    """
    groups, strata = _labels(groups, "groups"), _labels(strata, "strata")
    first = None
    group_N = np.arange(len(x)) if groups is None else groups
    if queries is not None:
        check_queries(queries, x, y)
        queries = queries.measured(group_N, settings.seed)
        first = queries.documents
    progress("fitting the map")
    x, y = checked_pairs(x, y, "x", "y")
    check_pairs(len(x))
    split = Split.draw(group_N, settings, first, _labels(labels, "labels"))
    train, test, sample, linear_map = _fit_split(x, y, group_N, settings, split)
    bootstrap = GroupBootstrap.of(group_N, split, settings)
    part = split.train_sample, split.resampled
    kept = [None if a is None else (a[part[0]], a[part[1]]) for a in (groups, strata)]
    similarity = settings.similarity

    def null_scores(linear_map: LinearMap, x: Float64, y: Float64) -> dict[str, float]:
        return {**map_scores(linear_map, x, y), **search_scores(linear_map, x, y, similarity)}

    progress(f"measuring {len(split.test):,} held-out pairs")
    count = len(split.test)
    metrics = {back: telling(evaluate(linear_map, *test, back=back), count) for back in BACKS}
    intervals, differences = map_intervals(linear_map, sample, metrics, bootstrap)
    map_free = MapFreeScores(*linear_map.standardize(*sample))
    novelty = {name: fit_novelty(z) for name, z in zip("xy", train)}
    resampled_M = np.isin(split.test, split.resampled)
    searches = run_searches(linear_map, test, resampled_M, bootstrap, similarity)
    ceilings, prediction = None, None
    if queries is not None:
        progress(f"searching {len(queries):,} queries among {len(x):,} documents")
        shuffled = settings.shuffled_maps(linear_map, train, kept, FITS)
        ceilings = search_all(linear_map, (x, y), queries, settings, shuffled)
        prediction = predict_retention(linear_map, (x, y), split.test, queries, settings)
    progress(f"fitting {settings.permutations} times on shuffled pairs")
    null = settings.null(linear_map, null_scores, train, sample, kept, map_free)
    without_news = map_free.without_news(settings.seed)
    progress("comparing other maps")
    references = compare_maps(linear_map, train, sample, group_N[part[0]], bootstrap, settings)
    progress("fitting fewer and wrong pairs")
    curve = {"seed": settings.seed, "back": "forward", **settings.refit(linear_map)}
    return Study(
        settings=settings,
        split=split,
        linear_map=linear_map,
        metrics=metrics,
        intervals=intervals,
        differences=differences,
        null=Null(_less(null.observed, without_news), _less(null.samples, without_news)),
        references=references,
        relative=relative_scores(train, sample, bootstrap, settings.seed),
        searches=searches,
        overlap=overlap_with_native(linear_map, sample, bootstrap, similarity),
        ceilings=ceilings,
        prediction=prediction,
        curve=retention_curve(linear_map, (x, y), split.test, settings),
        storage=stored_copies(linear_map, train[0], *sample, similarity),
        faint={name: faint_columns(z) for name, z in zip("xy", train)},
        budget=curves.pair_budget(train, sample, sizes=_budgets(len(train[0])), **curve),
        noise=curves.pair_noise(train, sample, **curve),
        joint=_joint(linear_map, test),
        row_errors=row_errors(linear_map, test, similarity),
        squared_errors=linear_map.squared_errors(*test) / len(linear_map.y_mean),
        novelty=novelty,
        novelty_scores={name: novelty[name].score(z) for name, z in zip("xy", test)},
        group_r2={} if groups is None else _group_r2(linear_map, test, groups[split.test]),
        ceiling=_ceiling(linear_map, y, groups, settings.seed),
        similarity=_less(map_free(), without_news),
        without_news=without_news,
        ranks={name: effective_rank(z) for name, z in zip("xy", sample)},
    )


def _less(values: Mapping[str, Value], without: Mapping[str, float]) -> dict[str, Value]:
    return {key: value for key, value in values.items() if key not in without}


def _budgets(pairs: int) -> tuple[int, ...]:
    """Numbers of pairs of the curve; half of them where the usual ones are too many."""
    return curves.BUDGETS if pairs >= 2 * curves.BUDGETS[0] else (pairs // 2, *curves.BUDGETS)


def _labels(values: np.ndarray | None, name: str) -> np.ndarray | None:
    return None if values is None else as_array(values, name)


def _fit_split(
    x: np.ndarray, y: np.ndarray, groups: np.ndarray, settings: Settings, split: Split
) -> tuple[Pair, Pair, Pair, LinearMap]:
    """Takes the rows of a split and fits the map.

    Returns:
        The pairs of `train_sample`, `test` and `resampled`; and the map of all training rows.
    """
    parts = (split.train_sample, split.test, split.resampled)
    train, test, sample = ((x[rows], y[rows]) for rows in parts)
    for name, z in zip("xy", test):
        check_test(name, z)
    all_x, all_y = (files.take_rows(z, split.train) for z in (x, y))
    return train, test, sample, settings.fit(all_x, all_y, groups[split.train])


def _joint(linear_map: LinearMap, test: Pair) -> np.ndarray:
    """Returns the drawn histogram of distances."""
    x, y = linear_map.standardize(*test)
    joint = compare.joint_histogram(x @ linear_map.w.T, y)
    width = compare.BINS // _DRAWN_BINS
    return joint.reshape(_DRAWN_BINS, width, _DRAWN_BINS, width).sum(axis=(1, 3))


def _group_r2(linear_map: LinearMap, test: Pair, groups: np.ndarray) -> dict[str, float]:
    """Computes the R2 of every group, about the mean of all measured rows."""
    y = linear_map.standardize_y(test[1])
    spread = np.sum((y - y.mean(axis=0)) ** 2, axis=1)
    errors = linear_map.squared_errors(*test)
    values, group_M, counts = np.unique(groups, return_inverse=True, return_counts=True)
    error_G, spread_G = (np.bincount(group_M, v, len(values)) for v in (errors, spread))
    ratio_G = 1 - error_G / np.where(spread_G > 0, spread_G, np.nan)
    return {str(values[g]): float(ratio_G[g]) for g in np.flatnonzero(counts > 1)}


def _ceiling(linear_map: LinearMap, y: np.ndarray, groups: np.ndarray | None, seed: int) -> float:
    """Computes the noise ceiling with groups as states; NaN if they have no repeats."""
    if groups is not None and len(y) > TRAIN_ROWS:
        rows = hold_out(groups, TRAIN_ROWS / len(y), seed)  # a sample of whole groups
        y, groups = y[rows], groups[rows]
    if groups is None or len(np.unique(groups)) in (1, len(y)):
        return float("nan")
    return noise_ceiling(linear_map.standardize_y(y), groups)
