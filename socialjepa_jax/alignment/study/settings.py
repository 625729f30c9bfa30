"""Settings of a study, and the rows that it fits and measures.

Metrics use all held-out rows up to `TEST_ROWS`. Nulls, intervals and curves, computed hundreds of
times, use at most `RESAMPLED_ROWS` of them and `TRAIN_ROWS` training pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from socialjepa_jax.alignment.fitting import METHODS, fit
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.migration.search import SIMILARITIES
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.permutation import Null, permutation_null, permute
from socialjepa_jax.alignment.study import stratify
from socialjepa_jax.errors import InputError, check_in_range, check_one_of

MIN_PAIRS = 20
MIN_TEST = 4
MIN_GROUPS = 2  # on either side of a split: folds choose the ridge, intervals resample
TRAIN_ROWS = 20_000
TEST_ROWS = 20_000
RESAMPLED_ROWS = 1_000
MAX_REPEATS = 100_000
MAX_SEED = 2**63 - 1  # of JAX's keys

Pair = tuple[np.ndarray, np.ndarray]  # x and y, row by row
Labels = Sequence[Pair | None]  # groups and strata, each of two sets of rows


@dataclass(frozen=True)
class Settings:
    """Settings of a study.

    Attributes:
        method, ridge, standardize, rank, trim, scale: as for `fit`.
        test_fraction: share of the rows that is held out, by whole groups.
        seed: of the split, the null and the intervals.
        permutations: number of fits on shuffled pairs; 0: no null.
        resamples: number of bootstrap draws; 0: no intervals.
        similarity: by which raw latents are searched, "cosine" | "dot" | "l2".
        retention: share of the recall@1 of full re-embedding, and of the accuracy of a probe above
            that of the most frequent class, that a map must keep to be advised.
        all_pairs: True: the map that is saved is fitted to all pairs, by the ridge chosen without
            those held out; what is measured stays the map fitted without them.
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
    similarity: str = "cosine"
    retention: float = 0.9
    all_pairs: bool = False

    def __post_init__(self) -> None:
        check_one_of(METHODS, method=self.method)
        check_one_of(SIMILARITIES, similarity=self.similarity)
        check_in_range(0, MAX_REPEATS, permutations=self.permutations, resamples=self.resamples)
        check_in_range(0.0, 1.0, retention=self.retention)
        check_in_range(0, MAX_SEED, seed=self.seed)

    def fit(self, x: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> LinearMap:
        """Fits the map that the settings describe."""
        ridge = 1e-3 if self.method == "procrustes" else self.ridge  # needs no choice
        return fit(x, y, groups=groups, **self._options(ridge))

    def refit(self, linear_map: LinearMap) -> dict[str, Any]:
        """Returns options of `fit` that repeat a fit with the ridge chosen for `linear_map`."""
        return self._options(linear_map.ridge)

    def _options(self, ridge: float | str) -> dict[str, Any]:
        names = ("method", "standardize", "rank", "trim", "scale")
        return {"ridge": ridge, **{name: getattr(self, name) for name in names}}

    def null(
        self,
        linear_map: LinearMap,
        score: Callable[[LinearMap, Float64, Float64], Mapping[str, float]],
        train: Pair,
        test: Pair,
        labels: Labels,
        map_free: Callable[[np.ndarray], Mapping[str, float]] | None = None,
    ) -> Null:
        """Repeats the fit of a map on shuffled pairs.

        Args:
            linear_map: map of the true pairs.
            score: (map, x_test, y_test) -> metrics.
            train, test, map_free: as for `permutation_null`.
            labels: groups and strata of (train, test).
        """
        options = self.refit(linear_map)
        return permutation_null(
            lambda x, y, *held_out: score(fit(x, y, **options), *held_out),
            train,
            test,
            groups=labels[0],
            strata=labels[1],
            map_free=map_free,
            num=self.permutations,
            seed=self.seed,
        )

    def shuffled_maps(
        self, linear_map: LinearMap, train: Pair, labels: Labels, most: int
    ) -> list[LinearMap]:
        """Repeats the fit on shuffled pairs, at most `permutations` times.

        Args:
            linear_map: map of the true pairs.
            train: those pairs.
            labels: as for `null`.
            most: largest number of fits.
        """
        rng, (x, y) = np.random.default_rng(self.seed), train
        parts = [None if pair is None else pair[0] for pair in labels]
        orders = [permute(len(y), rng, *parts) for _ in range(min(most, self.permutations))]
        return [fit(x, y[order], **self.refit(linear_map)) for order in orders]


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the parts of a study, int64.

    Attributes:
        train: all training rows.
        train_sample: sample of the training rows, for repeated fits.
        test: measured rows.
        resampled: sample of the measured rows, for nulls, intervals and curves.
        num_held_out: number of held-out rows, of which at most `TEST_ROWS` are measured.
        remarks: what keeps the classes from equal shares in both parts.
    """

    train: np.ndarray
    train_sample: np.ndarray
    test: np.ndarray
    resampled: np.ndarray
    num_held_out: int
    remarks: tuple[str, ...] = ()

    @staticmethod
    def draw(
        groups: np.ndarray,
        settings: Settings,
        first: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> Split:
        """Holds out whole groups and samples the rows of every part.

        Args:
            groups: [N] labels.
            settings: of the study.
            first: row numbers that must be held out, as the answers of queries must.
            labels: [N] classes, as for `hold_out`.
        """
        seed = settings.seed
        held_N = hold_out(groups, settings.test_fraction, seed, first, labels)
        train, held = np.flatnonzero(~held_N), np.flatnonzero(held_N)
        test = sample_rows(held, TEST_ROWS, seed)
        resampled = sample_rows(test, RESAMPLED_ROWS, seed)
        sample = sample_rows(train, TRAIN_ROWS, seed)
        remarks = () if labels is None else stratify.remarks(groups, labels, held_N)
        return Split(train, sample, test, resampled, len(held), remarks)


def hold_out(
    groups: np.ndarray,
    fraction: float,
    seed: int,
    first: np.ndarray | None = None,
    labels: np.ndarray | None = None,
) -> np.ndarray:
    """Marks whole groups, in random order, until `fraction` of all rows is held out: bool [N].

    At least two groups are on either side. The groups of the rows `first` are held out in any case.
    With labels, every class is held out to the same share, as nearly as its whole groups allow;
    unless a group holds several classes, which makes labels count for nothing.

    Raises:
        InputError: if the fraction or the number of groups leaves a part empty.
    """
    if not 0 < fraction < 1:
        raise InputError(f"test_fraction={fraction} must lie between 0 and 1")
    _, group_N, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    required = np.zeros(len(sizes), bool)
    required[group_N[[] if first is None else first]] = True
    order = order[np.argsort(~required[order], kind="stable")]
    class_G = None if labels is None else stratify.classes(group_N, labels)
    if class_G is not None:
        share_G = stratify.shares_before(order, sizes, class_G)
        order = order[np.lexsort((share_G[order], ~required[order]))]
    filled = int(np.searchsorted(np.cumsum(sizes[order]), fraction * len(groups))) + 1
    taken = min(max(filled, MIN_GROUPS, int(required.sum())), len(sizes) - MIN_GROUPS)
    if taken < max(MIN_GROUPS, required.sum()):
        raise InputError(
            f"{len(sizes)} group(s) cannot be split into train and test: at least "
            f"{2 * MIN_GROUPS} are needed, {MIN_GROUPS} on either side"
        )
    return np.isin(group_N, order[:taken])


def sample_rows(rows: np.ndarray, limit: int, seed: int) -> np.ndarray:
    """Returns at most `limit` of the rows, drawn at random and in their original order."""
    if len(rows) <= limit:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, limit, replace=False))


def check_pairs(count: int) -> None:
    """Raises `InputError` if there are too few pairs for a fit and a test."""
    if count < MIN_PAIRS:
        raise InputError(f"{count} pairs are too few, at least {MIN_PAIRS} are needed")


def check_test(name: str, z: np.ndarray) -> None:
    """Raises `InputError` unless the held-out rows of a space are enough and not constant."""
    if len(z) < MIN_TEST:
        raise InputError(
            f"{len(z)} rows are held out, at least {MIN_TEST} are needed: raise test_fraction or "
            "give more pairs"
        )
    if not np.ptp(z.astype(np.float64), axis=0).any():
        raise InputError(f"{name}: the {len(z)} held-out rows are all alike")
