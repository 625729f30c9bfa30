"""How sure a metric is: permutation nulls, intervals over groups, paired differences, ceilings.

Groups (objects, states) are what is exchanged or drawn, since rows of one group are not
independent; pairs of points are never drawn on their own.

Shape suffixes: N samples, G groups, R resamples, P pairs of samples, D and E features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import neighbourhoods
from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import common_space
from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs
from socialjepa_jax.errors import InputError, check_in_range, check_positive

Samples = dict[str, Float64]  # metric -> [R] resampled values
_LEVELS = 256  # rank levels of distances in the bootstrap of DSC, which they lower by 1e-5


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def intervals(samples: Mapping[str, Float64], level: float = 0.95) -> dict[str, Interval]:
    """Percentile intervals of every metric."""
    check_in_range(0.5, 1.0, level=level)
    tail = (1 - level) / 2
    return {
        key: Interval(*(float(q) for q in np.nanquantile(values, [tail, 1 - tail])))
        for key, values in samples.items()
    }


def difference(a: Mapping[str, Float64], b: Mapping[str, Float64]) -> Samples:
    """Paired differences of two bootstraps that were drawn with the same seed and groups."""
    return {key: a[key] - b[key] for key in a if key in b}


def group_weights(groups: ArrayLike, num: int, seed: int) -> Float64:
    """How often every row is drawn when whole groups are drawn with replacement: [R, N]."""
    check_positive(num=num)
    labels, group_N = np.unique(np.asarray(groups), return_inverse=True)
    g = len(labels)
    if g < 2:
        raise InputError("intervals need at least 2 groups")
    draws_RG = np.random.default_rng(seed).multinomial(g, np.full(g, 1 / g), size=num)
    return draws_RG[:, group_N].astype(np.float64)


def bootstrap(
    linear_map: LinearMap,
    x_test: ArrayLike,
    y_test: ArrayLike,
    *,
    back: str = "inverse",
    k: int = 10,
    groups: ArrayLike | None = None,
    num: int = 200,
    seed: int = 0,
) -> Samples:
    """Metrics on test sets drawn from the given one, the map held fixed.

    Args:
      linear_map, x_test, y_test, back: as for `evaluate`.
      k: of NOS.
      groups: [N] what is drawn; None: rows.
      num: resamples.
      seed: equal seeds and groups give equal draws, for `difference`.

    Returns:
      mse, r2, dsc, nos@k and cka_debiased, [num] each.
    """
    x_ND, y_NE = as_pairs(x_test, y_test, "x_test", "y_test")
    groups_N = np.arange(len(x_ND)) if groups is None else np.asarray(groups)
    weights_RN = group_weights(groups_N, num, seed)
    x_ND, y_NE = linear_map.standardize_x(x_ND), linear_map.standardize_y(y_NE)
    squared_N = np.sum((y_NE - x_ND @ linear_map.w.T) ** 2, axis=1)
    pair = common_space(linear_map, x_ND, y_NE, back)
    return {
        **resample_regression(squared_N, y_NE, weights_RN),
        **resample_geometry({back: pair}, weights_RN, k)[back],
    }


def resample_regression(squared_N: Float64, y_NE: Float64, weights_RN: Float64) -> Samples:
    """mse and r2 of a prediction of y [N, E] whose squared error of every row is given."""
    total_R = weights_RN.sum(axis=1)
    sse_R = weights_RN @ squared_N
    y_NE = y_NE - y_NE.mean(axis=0)
    sum_RE = weights_RN @ y_NE
    sst_R = weights_RN @ np.sum(y_NE**2, axis=1) - np.sum(sum_RE**2, axis=1) / total_R
    return {"mse": sse_R / (total_R * y_NE.shape[1]), "r2": 1 - sse_R / sst_R}


def resample_geometry(
    spaces: Mapping[str, tuple[Float64, Float64]], weights_RN: Float64, k: int
) -> dict[str, Samples]:
    """dsc, nos@k and cka_debiased of several pairs of spaces of the same N samples.

    Copies of a row are no pair and no neighbours of one another: a pair's weight in DSC and CKA
    is the product of its rows' counts, and NOS@k averages over the rows drawn the overlap that
    each has in the full test set. k must be below N.
    """
    dsc = _weighted_dsc(spaces, weights_RN)
    total_R = weights_RN.sum(axis=1)
    return {
        name: {
            "dsc": dsc[name],
            f"nos@{k}": 1 - weights_RN @ _row_overlaps(a, b, k) / total_R,
            "cka_debiased": _weighted_cka(a, b, weights_RN),
        }
        for name, (a, b) in spaces.items()
    }


def resample_retrieval(best_N: Float64, middle_N: Float64, weights_RN: Float64) -> Samples:
    """recall@1, recall@10 and mrr over drawn queries, whose ranks in the full gallery are given."""
    values = {"recall@1": best_N <= 1, "recall@10": best_N <= 10, "mrr": 1 / middle_N}
    total_R = weights_RN.sum(axis=1)
    return {key: weights_RN @ value.astype(np.float64) / total_R for key, value in values.items()}


def _row_overlaps(a: Float64, b: Float64, k: int) -> Float64:
    sets = [neighbourhoods.nearest_neighbors(z, k) for z in (a, b)]
    return np.mean(sets[0][:, :, None] == sets[1][:, None, :], axis=(1, 2)) * k


def _weighted_dsc(
    spaces: Mapping[str, tuple[Float64, Float64]], weights_RN: Float64
) -> dict[str, Float64]:
    """Spearman correlations [R] from joint histograms of rank levels, ranks taken anew a draw."""
    rows, columns = np.triu_indices(weights_RN.shape[1], 1)
    codes = {name: _rank_levels(a) * _LEVELS + _rank_levels(b) for name, (a, b) in spaces.items()}
    values: Samples = {name: np.empty(len(weights_RN)) for name in spaces}
    for r, weight_N in enumerate(weights_RN):
        weight_P = weight_N[rows] * weight_N[columns]
        for name, code_P in codes.items():
            counts = np.bincount(code_P, weight_P, _LEVELS**2).astype(np.float64)
            values[name][r] = _spearman(counts.reshape(_LEVELS, _LEVELS))
    return values


def _spearman(joint_LL: Float64) -> float:
    ranks = []
    for axis in (1, 0):
        mass = joint_LL.sum(axis=axis)
        rank = np.cumsum(mass) - mass / 2
        rank -= mass @ rank / mass.sum()
        ranks.append(rank / np.sqrt(mass @ rank**2))
    return float(ranks[0] @ joint_LL @ ranks[1])


def _rank_levels(z_ND: Float64) -> np.ndarray:
    distances_P = compare.pair_distances(z_ND)
    edges = np.quantile(distances_P, np.arange(1, _LEVELS) / _LEVELS)
    return np.searchsorted(edges, distances_P)


def _weighted_cka(a: Float64, b: Float64, weights_RN: Float64) -> Float64:
    """Debiased CKA of drawn rows, [R]: `similarity.cka_debiased` without the pairs of copies."""
    cross, first, second = (_weighted_hsic(p, q, weights_RN) for p, q in ((a, b), (a, a), (b, b)))
    return cross / np.sqrt(first * second)


def _weighted_hsic(p: Float64, q: Float64, w_RN: Float64) -> Float64:
    """HSIC_1 of drawn rows, up to a factor that a ratio does not see: [R].

    With K = P P^T, centred by the drawn mean: K_ij - u_i - u_j + c, u = K w / n, c = w.u / n.
    """
    n_R1 = w_RN.sum(axis=1, keepdims=True)
    n_R = n_R1[:, 0]
    p, q = p - p.mean(axis=0), q - q.mean(axis=0)
    u_RN, v_RN = (w_RN @ z @ z.T / n_R1 for z in (p, q))
    c_R1, d_R1 = (np.sum(w_RN * m, axis=1, keepdims=True) / n_R1 for m in (u_RN, v_RN))
    product_NN = (p @ p.T) * (q @ q.T)
    total_R = np.sum((w_RN @ product_NN) * w_RN, axis=1)
    total_R += -2 * n_R * np.sum(w_RN * u_RN * v_RN, axis=1) + (n_R1 * c_R1 * n_R1 * d_R1)[:, 0]
    k_RN, l_RN = (
        w_RN * (np.sum(z**2, axis=1) - 2 * m + e) for z, m, e in ((p, u_RN, c_R1), (q, v_RN, d_R1))
    )
    total_R -= np.sum(k_RN * l_RN, axis=1) + 2 * np.sum(w_RN * k_RN * l_RN, axis=1) / (n_R - 2)
    sums_R = np.sum(w_RN * k_RN, axis=1) * np.sum(w_RN * l_RN, axis=1)
    return total_R + sums_R / ((n_R - 1) * (n_R - 2))


@dataclass(frozen=True, eq=False)
class Null:
    """What a metric is when the pairs mean nothing.

    Attributes:
      observed: the metrics of the true pairs.
      samples: metric -> [R] values on permuted pairs.
    """

    observed: Mapping[str, float]
    samples: Samples

    def __len__(self) -> int:
        """The number of permutations."""
        return len(next(iter(self.samples.values())))

    def p_value(self, key: str, *, larger: bool = True) -> float:
        """Chance of a value at least as large (or small) under the null: (1 + hits) / (1 + R)."""
        values, observed = self.samples[key], self.observed[key]
        hits = np.sum(values >= observed if larger else values <= observed)
        return float((1 + hits) / (1 + len(values)))

    def calibrated(self, key: str, best: float) -> float:
        """(observed - null mean) / (best - null mean): 0 at chance, 1 at the best value."""
        mean = float(np.nanmean(self.samples[key]))
        return (self.observed[key] - mean) / (best - mean)


Score = Callable[[Float64, Float64, Float64, Float64], Mapping[str, float]]


def permutation_null(
    score: Score,
    train: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
    *,
    groups: tuple[ArrayLike, ArrayLike] | None = None,
    strata: tuple[ArrayLike, ArrayLike] | None = None,
    unfitted: Callable[[np.ndarray], Mapping[str, float]] | None = None,
    num: int = 20,
    seed: int = 0,
) -> Null:
    """Refits and rescores with the partners of x shuffled, in train and test separately.

    Args:
      score: (x_train, y_train, x_test, y_test) -> metrics; the fit happens inside.
      train, test: (x, y) raw latents.
      groups: of train and test rows; whole groups are exchanged.
      strata: of train and test rows; exchanged only with rows (groups) of the same stratum, for
        nulls that keep what the strata explain.
      unfitted: further metrics, from the order of the test rows of y alone.
      num: permutations.
      seed: of the permutations.
    """
    check_positive(num=num)
    (x0, y0), (x1, y1) = (as_pairs(*pair, "x", "y") for pair in (train, test))
    rng = np.random.default_rng(seed)
    part = lambda labels, i: None if labels is None else np.asarray(labels[i])  # noqa: E731

    def run(orders: Sequence[np.ndarray]) -> dict[str, float]:
        more = {} if unfitted is None else unfitted(orders[1])
        return {**score(x0, y0[orders[0]], x1, y1[orders[1]]), **more}

    observed = run([np.arange(len(y)) for y in (y0, y1)])
    runs = [
        run(
            [
                permute(len(y), rng, groups=part(groups, i), strata=part(strata, i))
                for i, y in enumerate((y0, y1))
            ]
        )
        for _ in range(num)
    ]
    return Null(observed, {key: np.asarray([run[key] for run in runs]) for key in observed})


def permute(
    count: int,
    rng: np.random.Generator,
    *,
    groups: np.ndarray | None = None,
    strata: np.ndarray | None = None,
) -> np.ndarray:
    """A random reordering of rows, int64 [N], that moves whole groups and stays in the strata.

    Row i of a group receives row i (modulo its size) of the group that takes its place. The
    stratum of a group is that of its first row.
    """
    groups = np.arange(count) if groups is None else groups
    strata = np.zeros(count, np.int64) if strata is None else strata
    _, first, group_N = np.unique(groups, return_index=True, return_inverse=True)
    members = np.split(np.argsort(group_N, kind="stable"), np.cumsum(np.bincount(group_N))[:-1])
    order = np.empty(count, np.int64)
    for stratum in np.unique(strata[first]):
        here = np.flatnonzero(strata[first] == stratum)
        moved = rng.permutation(here)
        if len(first) == count:  # every row is a group
            order[first[here]] = first[moved]
            continue
        for target, source in zip(here, moved):
            order[members[target]] = np.resize(members[source], len(members[target]))
    return order


def noise_ceiling(z: ArrayLike, states: ArrayLike) -> float:
    """The R2 that a perfect map of the state could reach, from repeats of the same state.

    1 - within-state variance / total variance of z [N, D], both unbiased and pooled over
    features.

    Args:
      z: latents.
      states: [N]; at least one state has repeats.
    """
    z_ND = as_latents(z, "z")
    _, state_N, counts = np.unique(np.asarray(states), return_inverse=True, return_counts=True)
    repeats = len(z_ND) - len(counts)
    if repeats == 0 or len(counts) < 2:
        raise InputError("a noise ceiling needs at least 2 states and one repeat")
    means = np.zeros((len(counts), z_ND.shape[1]))
    np.add.at(means, state_N, z_ND)
    within = np.sum((z_ND - (means / counts[:, None])[state_N]) ** 2) / repeats
    total = np.sum((z_ND - z_ND.mean(axis=0)) ** 2) / (len(z_ND) - 1)
    return float(1 - within / total)
