"""Everything the alignment tool finds out about two spaces, as data; nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from socialjepa_jax.alignment import cca, curves, geometry, local, pairing, resampling
from socialjepa_jax.alignment.maps import METHODS, LinearMap, fit
from socialjepa_jax.alignment.metrics import BACKS, evaluate, r2
from socialjepa_jax.alignment.moments import Float64, checked_pairs
from socialjepa_jax.alignment.novelty import fit_novelty
from socialjepa_jax.alignment.references import fit_stitch
from socialjepa_jax.validate import InputError, non_negative, one_of, positive

MIN_PAIRS = 20
_MAP_BINS = 48  # of the drawn histogram of distances
_CURVE_ROWS = 2000  # test pairs used for curves, nulls and intervals


@dataclass(frozen=True)
class Settings:
    """How a study is made.

    Attributes:
      method, ridge, standardize, rank: as for `fit`.
      test_fraction, seed: of the split, which keeps groups together.
      permutations, resamples: of the null and of the intervals.
    """

    method: str = "ridge"
    ridge: float | str = "auto"
    standardize: str = "full"
    rank: int | None = None
    test_fraction: float = 0.2
    seed: int = 0
    permutations: int = 20
    resamples: int = 200

    def __post_init__(self) -> None:
        one_of(METHODS, method=self.method)
        positive(permutations=self.permutations, resamples=self.resamples)
        non_negative(seed=self.seed)

    def fit(self, x: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> LinearMap:
        """Fits the map that the settings describe."""
        return fit(
            x,
            y,
            method=self.method,
            ridge=self.ridge,
            standardize=self.standardize,
            rank=self.rank,
            groups=groups,
        )


@dataclass(frozen=True, eq=False)
class Study:
    """What was found; test rows only unless said otherwise.

    Attributes:
      linear_map: fitted on the training rows.
      test_rows: int64 [M], rows of the given arrays.
      metrics: back -> the metrics of `evaluate`.
      intervals: back -> metric -> 95 % interval over groups.
      null: of r2 and of the map-free and forward geometry, pairs shuffled.
      references: name -> r2_raw of other ways to predict y.
      retrieval: direction -> recall@k, mrr, median_rank.
      budget, noise: rows of `curves`.
      joint: [H, H] counts of pairs by ranks of distance in x and y.
      row_errors: [M] standardised squared error of each test row, per feature.
      novelty: [M] percentile of every query among the training latents.
      group_r2: group -> r2 about the test mean, for groups with at least 2 test rows.
      ceiling: R2 that repeats of a state allow, NaN without repeats.
      similarity: map-free similarities by name.
    """

    linear_map: LinearMap
    test_rows: np.ndarray
    metrics: dict[str, dict[str, float]]
    intervals: dict[str, dict[str, resampling.Interval]]
    null: resampling.Null
    references: dict[str, float]
    retrieval: dict[str, dict[str, float]]
    budget: list[dict[str, float]]
    noise: list[dict[str, float]]
    joint: np.ndarray
    row_errors: Float64
    novelty: Float64
    group_r2: dict[str, float]
    ceiling: float
    similarity: dict[str, float]
    settings: Settings = field(default_factory=Settings)


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
      x, y: raw latents [N, D] and [N, E], row by row of the same states.
      settings: see there.
      groups: [N] what must not be split (objects, or states with repeats); None: rows.
      strata: [N] what the null keeps; None: nothing.

    Raises:
      InputError: if there are too few pairs, or the test part does not vary.
    """
    x, y = checked_pairs(x, y, "x", "y")
    if len(x) < MIN_PAIRS:
        raise InputError(f"{len(x)} pairs are too few, at least {MIN_PAIRS} are needed")
    group_N = np.arange(len(x)) if groups is None else groups
    test_N = pairing.hold_out(group_N, settings.test_fraction, settings.seed)
    train, test = (x[~test_N], y[~test_N]), (x[test_N], y[test_N])
    for name, part in (("x", test[0]), ("y", test[1])):
        if len(part) < 4 or not np.ptp(part.astype(np.float64), axis=0).any():
            raise InputError(f"{name}: the {len(part)} test rows are too few or all alike")
    linear_map = settings.fit(*train, groups=group_N[~test_N])
    few = _few(test_N, settings.seed)
    small = (x[few], y[few])
    metrics = {back: evaluate(linear_map, *test, back=back) for back in BACKS}
    fixed: dict[str, Any] = {
        "method": linear_map.method,
        "ridge": linear_map.ridge,
        "rank": settings.rank,
        "standardize": settings.standardize,
    }
    return Study(
        linear_map=linear_map,
        test_rows=np.flatnonzero(test_N),
        metrics=metrics,
        intervals=_intervals(linear_map, small, group_N[few], settings),
        null=_null(train, small, settings, fixed, group_N, strata, test_N, few),
        references=_references(linear_map, train, test, group_N[~test_N], settings),
        retrieval=_retrieval(linear_map, test),
        budget=curves.pair_budget(train, small, seed=settings.seed, back="forward", **fixed),
        noise=curves.pair_noise(train, small, seed=settings.seed, back="forward", **fixed),
        joint=_joint(linear_map, small),
        row_errors=_row_errors(linear_map, test),
        novelty=fit_novelty(train[0]).score(test[0]),
        group_r2={} if groups is None else _group_r2(linear_map, test, groups[test_N]),
        ceiling=_ceiling(linear_map, y, groups),
        similarity={
            "r2_whitened": cca.r2_whitened(*test),
            "svcca": cca.svcca(*test),
            "pwcca": cca.pwcca(*test),
            "mutual_knn@10": local.mutual_knn(*small) if len(few) > 10 else float("nan"),
        },
        settings=settings,
    )


def _few(test_N: np.ndarray, seed: int) -> np.ndarray:
    """At most 2,000 test rows, for what is computed many times."""
    rows = np.flatnonzero(test_N)
    if len(rows) <= _CURVE_ROWS:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, _CURVE_ROWS, replace=False))


def _intervals(
    linear_map: LinearMap, test: tuple[np.ndarray, np.ndarray], groups: np.ndarray, s: Settings
) -> dict[str, dict[str, resampling.Interval]]:
    k = min(10, len(test[0]) - 1)
    return {
        back: resampling.intervals(
            resampling.bootstrap(
                linear_map, *test, back=back, k=k, groups=groups, num=s.resamples, seed=s.seed
            )
        )
        for back in BACKS
    }


def _null(
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    settings: Settings,
    fixed: Mapping[str, Any],
    groups: np.ndarray,
    strata: np.ndarray | None,
    test_N: np.ndarray,
    few: np.ndarray,
) -> resampling.Null:
    def score(x: Float64, y: Float64, x_test: Float64, y_test: Float64) -> dict[str, float]:
        linear_map = fit(x, y, **fixed)
        metrics = evaluate(linear_map, x_test, y_test, back="forward", neighbors=(10,))
        return {k: metrics[k] for k in ("r2", "dsc", "nos@10", "cka_debiased") if k in metrics}

    parts = [None if a is None else (a[~test_N], a[few]) for a in (groups, strata)]
    return resampling.permutation_null(
        score,
        train,
        test,
        groups=parts[0],
        strata=parts[1],
        num=settings.permutations,
        seed=settings.seed,
    )


def _references(
    linear_map: LinearMap,
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    groups: np.ndarray,
    settings: Settings,
) -> dict[str, float]:
    rotation = fit(*train, method="procrustes", standardize=settings.standardize)
    robust = fit(*train, method="robust", ridge=max(linear_map.ridge, 1e-3))
    stitch = fit_stitch(linear_map, *train, groups=groups, seed=settings.seed)
    predicted = stitch.forward(test[0])
    centred = test[1] - test[1].mean(axis=0)
    scale = linear_map.y_scale
    stitched = 1 - np.sum(((test[1] - predicted) / scale) ** 2) / np.sum((centred / scale) ** 2)
    return {
        f"linear map ({linear_map.method})": r2(linear_map, *test),
        "rotation only (procrustes)": r2(rotation, *test),
        "without the worst tenth of the pairs (robust)": r2(robust, *test),
        "linear map + small MLP": float(stitched),
    }


def _retrieval(
    linear_map: LinearMap, test: tuple[np.ndarray, np.ndarray]
) -> dict[str, dict[str, float]]:
    x, y = linear_map.standardize_x(test[0]), linear_map.standardize_y(test[1])
    return {
        "x -> y, forward": local.retrieval(x @ linear_map.w.T, y),
        "y -> x, regression": local.retrieval(y @ linear_map.w_back.T, x),
        "y -> x, inverse": local.retrieval(y @ linear_map.w_inv.T, x),
    }


def _joint(linear_map: LinearMap, test: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    x, y = linear_map.standardize_x(test[0]), linear_map.standardize_y(test[1])
    joint = geometry.compare(x @ linear_map.w.T, y, (), exact=False, bins=_MAP_BINS).joint
    assert joint is not None  # exact=False always counts
    return joint


def _row_errors(linear_map: LinearMap, test: tuple[np.ndarray, np.ndarray]) -> Float64:
    x, y = linear_map.standardize_x(test[0]), linear_map.standardize_y(test[1])
    return np.mean((y - x @ linear_map.w.T) ** 2, axis=1)


def _group_r2(
    linear_map: LinearMap, test: tuple[np.ndarray, np.ndarray], groups: np.ndarray
) -> dict[str, float]:
    y = linear_map.standardize_y(test[1])
    spread = np.sum((y - y.mean(axis=0)) ** 2, axis=1) / y.shape[1]
    errors = _row_errors(linear_map, test)
    values, counts = np.unique(groups, return_counts=True)
    return {
        str(g): float(1 - errors[groups == g].sum() / spread[groups == g].sum())
        for g in values[counts > 1]
    }


def _ceiling(linear_map: LinearMap, y: np.ndarray, groups: np.ndarray | None) -> float:
    if groups is None or len(np.unique(groups)) in (1, len(y)):
        return float("nan")
    return resampling.noise_ceiling(linear_map.standardize_y(y), groups)
