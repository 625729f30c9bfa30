"""Everything the alignment tool finds out about two spaces, as data; nothing is written here.

What is computed hundreds of times (nulls, intervals, curves) uses part of the rows, named below;
the metrics themselves use all that are held out, up to 20,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from socialjepa_jax.alignment import resampling, similarity
from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.maps import METHODS, LinearMap, fit
from socialjepa_jax.alignment.metrics import BACKS, evaluate
from socialjepa_jax.alignment.moments import Float64, checked_pairs
from socialjepa_jax.alignment.neighbourhoods import match_ranks, retrieval_scores
from socialjepa_jax.alignment.study import curves, files, pairing, scores
from socialjepa_jax.alignment.study import intervals as intervals_lib
from socialjepa_jax.alignment.study.intervals import Bounds, Pair, Reference, Search, some
from socialjepa_jax.alignment.study.novelty import Novelty, fit_novelty
from socialjepa_jax.errors import InputError, check_non_negative, check_one_of, check_positive

MIN_PAIRS = 20
MIN_TEST = 4
TRAIN_ROWS = 20_000  # training pairs of what is fitted many times
TEST_ROWS = 20_000  # held-out rows that are measured
FEW_ROWS = 1_000  # held-out rows of nulls, intervals and curves
_MAP_BINS = 64  # a side of the drawn histogram of distances; divides geometry.BINS


@dataclass(frozen=True)
class Settings:
    """How a study is made.

    Attributes:
      method, ridge, standardize, rank, trim, scale: as for `fit`.
      test_fraction, seed: of the split, which keeps groups together.
      permutations, resamples: of the null and of the intervals.
    """

    method: str = "ridge"
    ridge: float | str = "auto"
    standardize: str = "full"
    rank: int | None = None
    trim: float = 0.1
    scale: bool = False
    test_fraction: float = 0.2
    seed: int = 0
    permutations: int = 20
    resamples: int = 200

    def __post_init__(self) -> None:
        check_one_of(METHODS, method=self.method)
        check_positive(permutations=self.permutations, resamples=self.resamples)
        check_non_negative(seed=self.seed)

    def fit(self, x: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> LinearMap:
        """Fits the map that the settings describe."""
        ridge = 1e-3 if self.method == "procrustes" else self.ridge  # which has none to choose
        return fit(x, y, ridge=ridge, groups=groups, **self._fixed())

    def refit(self, linear_map: LinearMap) -> dict[str, Any]:
        """Options of `fit` that repeat a fit with the lambda that it has found."""
        return {**self._fixed(), "ridge": linear_map.ridge}

    def _fixed(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "standardize": self.standardize,
            "rank": self.rank,
            "trim": self.trim,
            "scale": self.scale,
        }


@dataclass(frozen=True, eq=False)
class Study:
    """What was found; measured rows only unless said otherwise.

    Attributes:
      linear_map: fitted on the training rows.
      test_rows: int64 [M], the measured rows of the given arrays.
      probe_rows: int64, training rows, 20,000 of them if there are more.
      num_test: how many rows are held out; more than M only beyond 20,000.
      few: how many of the measured rows serve the null, the intervals and the curves.
      metrics: back -> the metrics of `evaluate`.
      intervals: back -> metric -> 95 % interval over groups.
      differences: back -> metric -> interval of the paired difference to no map.
      null: of everything in `scores`, as `r2`, `forward/dsc`, `svcca`, `x -> y, forward/mrr` ...
      references: other ways to predict y.
      relative: (number of anchors, dsc, nos and cka of relative representations, intervals).
      searches: by direction.
      budget, noise: rows of `curves`.
      joint: [H, H] counts of pairs by ranks of distance in W x and y.
      dsc_bound: what `dsc` may be off by; 0 up to 4,096 rows.
      row_errors: [M] standardised squared error of each measured row, per feature.
      novelty: of queries, from the training latents of x.
      novelty_scores: [M] its scores of the measured rows.
      group_r2: group -> R2, for groups with at least 2 measured rows.
      ceiling: R2 that repeats of a state allow, NaN without repeats.
      similarity: map-free similarities by name, of the `few` rows.
      ranks: effective rank of x and of y, by name.
      settings: how the study was made.
    """

    linear_map: LinearMap
    test_rows: np.ndarray
    probe_rows: np.ndarray
    num_test: int
    few: int
    metrics: dict[str, dict[str, float]]
    intervals: dict[str, Bounds]
    differences: dict[str, Bounds]
    null: resampling.Null
    references: dict[str, Reference]
    relative: tuple[int, dict[str, float], Bounds]
    searches: dict[str, Search]
    budget: list[dict[str, float]]
    noise: list[dict[str, float]]
    joint: np.ndarray
    dsc_bound: float
    row_errors: Float64
    novelty: Novelty
    novelty_scores: Float64
    group_r2: dict[str, float]
    ceiling: float
    similarity: dict[str, float]
    ranks: dict[str, float]
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of one study, drawn once.

    Attributes:
      train, part: all training rows, and those of what is fitted many times.
      test, few: the measured rows, and those of nulls, intervals and curves.
      num_test: how many are held out.
    """

    train: np.ndarray
    part: np.ndarray
    test: np.ndarray
    few: np.ndarray
    num_test: int

    @staticmethod
    def draw(groups: np.ndarray, settings: Settings) -> _Rows:
        held_N = pairing.hold_out(groups, settings.test_fraction, settings.seed)
        train, held = np.flatnonzero(~held_N), np.flatnonzero(held_N)
        test = some(held, TEST_ROWS, settings.seed)
        return _Rows(
            train=train,
            part=some(train, TRAIN_ROWS, settings.seed),
            test=test,
            few=some(test, FEW_ROWS, settings.seed),
            num_test=len(held),
        )

    def sampling(self, groups: np.ndarray, settings: Settings) -> intervals_lib.Sampling:
        """Draws of groups among the few rows."""
        weights = resampling.group_weights(groups[self.few], settings.resamples, settings.seed)
        counts = [len(np.unique(groups[rows])) for rows in (self.few, self.test)]
        return intervals_lib.Sampling(weights, float(np.sqrt(counts[0] / counts[1])))


def run_study(
    x: np.ndarray,
    y: np.ndarray,
    settings: Settings,
    *,
    groups: np.ndarray | None = None,
    strata: np.ndarray | None = None,
) -> Study:
    """Fits on a part of the pairs and measures on the rest.

    Args:
      x, y: raw latents [N, D] and [N, E], row by row of the same states; memory-mapped arrays
        may be larger than memory.
      settings: see there.
      groups: [N] what must not be split (objects, or states with repeats); None: rows.
      strata: [N] what the null keeps; None: nothing.

    Raises:
      InputError: if there are too few pairs, or the test part does not vary.
    """
    x, y = checked_pairs(x, y, "x", "y")
    check_pairs(len(x))
    group_N = np.arange(len(x)) if groups is None else groups
    rows = _Rows.draw(group_N, settings)
    part, test, few = ((x[r], y[r]) for r in (rows.part, rows.test, rows.few))
    for name, z in zip("xy", test):
        check_test(name, z)
    train = files.take_rows(x, rows.train), files.take_rows(y, rows.train)
    linear_map = settings.fit(*train, groups=group_N[rows.train])
    sampling, options = rows.sampling(group_N, settings), settings.refit(linear_map)
    metrics = {back: evaluate(linear_map, *test, back=back) for back in BACKS}
    intervals, differences = intervals_lib.intervals(linear_map, few, metrics, sampling)
    curve = {"seed": settings.seed, "back": "forward", **options}
    novelty = fit_novelty(part[0])
    unfitted = scores.Unfitted(linear_map.standardize_x(few[0]), linear_map.standardize_y(few[1]))
    joint, dsc_bound = _joint(linear_map, test)
    labels = [None if a is None else (a[rows.part], a[rows.few]) for a in (groups, strata)]
    return Study(
        linear_map=linear_map,
        test_rows=rows.test,
        probe_rows=rows.part,
        num_test=rows.num_test,
        few=len(rows.few),
        metrics=metrics,
        intervals=intervals,
        differences=differences,
        null=_null(part, few, labels, unfitted, options, settings),
        references=_references(linear_map, part, few, group_N[rows.part], sampling, settings),
        relative=intervals_lib.relative(part, few, sampling, settings.seed),
        searches=intervals_lib.searches(linear_map, test, np.isin(rows.test, rows.few), sampling),
        budget=curves.pair_budget(part, few, **curve),
        noise=curves.pair_noise(part, few, **curve),
        joint=joint,
        dsc_bound=dsc_bound if len(rows.test) > compare.EXACT else 0.0,
        row_errors=intervals_lib.squared_errors(linear_map, test) / y.shape[1],
        novelty=novelty,
        novelty_scores=novelty.score(test[0]),
        group_r2={} if groups is None else _group_r2(linear_map, test, groups[rows.test]),
        ceiling=_ceiling(linear_map, y, groups, settings.seed),
        similarity=unfitted(),
        ranks={name: similarity.effective_rank(z) for name, z in zip("xy", few)},
        settings=settings,
    )


def check_pairs(count: int) -> None:
    """Raises `InputError` if there are too few pairs for a fit and a test."""
    if count < MIN_PAIRS:
        raise InputError(f"{count} pairs are too few, at least {MIN_PAIRS} are needed")


def check_test(name: str, z: np.ndarray) -> None:
    """Raises `InputError` unless the held-out rows of a space can be measured."""
    if len(z) < MIN_TEST:
        raise InputError(
            f"{len(z)} rows are held out, at least {MIN_TEST} are needed: raise test_fraction or "
            "give more pairs"
        )
    if not np.ptp(z.astype(np.float64), axis=0).any():
        raise InputError(f"{name}: the {len(z)} held-out rows are all alike")


def _references(
    linear_map: LinearMap,
    part: Pair,
    few: Pair,
    groups: np.ndarray,
    sampling: intervals_lib.Sampling,
    settings: Settings,
) -> dict[str, Reference]:
    standardize, seed = settings.standardize, settings.seed
    return intervals_lib.other_maps(
        linear_map, part, few, groups, sampling, standardize=standardize, seed=seed
    )


def _null(
    train: Pair,
    few: Pair,
    labels: list[Pair | None],
    unfitted: scores.Unfitted,
    options: Mapping[str, Any],
    settings: Settings,
) -> resampling.Null:
    def score(x: Float64, y: Float64, x_test: Float64, y_test: Float64) -> dict[str, float]:
        linear_map = fit(x, y, **options)
        found = scores.of_map(linear_map, x_test, y_test)
        for name, spaces in scores.retrieval_spaces(linear_map, x_test, y_test).items():
            ranks = retrieval_scores(*match_ranks(*spaces))
            found |= {f"{name}/{key}": value for key, value in ranks.items()}
        return found

    return resampling.permutation_null(
        score,
        train,
        few,
        groups=labels[0],
        strata=labels[1],
        unfitted=unfitted,
        num=settings.permutations,
        seed=settings.seed,
    )


def _joint(linear_map: LinearMap, test: Pair) -> tuple[np.ndarray, float]:
    """The drawn histogram of distances, and the error bound of the fine one."""
    x, y = linear_map.standardize_x(test[0]), linear_map.standardize_y(test[1])
    found = compare.compare(x @ linear_map.w.T, y, (), exact=False, bins=compare.BINS)
    assert found.joint is not None  # exact=False always counts
    side = compare.BINS // _MAP_BINS
    coarse = found.joint.reshape(_MAP_BINS, side, _MAP_BINS, side).sum(axis=(1, 3))
    return coarse, found.dsc_bound


def _group_r2(linear_map: LinearMap, test: Pair, groups: np.ndarray) -> dict[str, float]:
    """R2 of every group about the mean of all measured rows."""
    y = linear_map.standardize_y(test[1])
    spread = np.sum((y - y.mean(axis=0)) ** 2, axis=1)
    errors = intervals_lib.squared_errors(linear_map, test)
    values, group_M, counts = np.unique(groups, return_inverse=True, return_counts=True)
    error_G, spread_G = (np.bincount(group_M, v, len(values)) for v in (errors, spread))
    ratio_G = 1 - error_G / np.where(spread_G > 0, spread_G, np.nan)
    return {str(values[g]): float(ratio_G[g]) for g in np.flatnonzero(counts > 1)}


def _ceiling(linear_map: LinearMap, y: np.ndarray, groups: np.ndarray | None, seed: int) -> float:
    if groups is None or len(np.unique(groups)) in (1, len(y)):
        return float("nan")
    if len(y) > TRAIN_ROWS:  # whole groups of them
        drawn = pairing.hold_out(groups, TRAIN_ROWS / len(y), seed)
        y, groups = y[drawn], groups[drawn]
    if len(np.unique(groups)) in (1, len(y)):
        return float("nan")
    return resampling.noise_ceiling(linear_map.standardize_y(y), groups)
