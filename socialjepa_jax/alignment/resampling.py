"""Group bootstrap of metrics: draws of whole groups, percentile intervals, paired differences.

Whole groups (objects, states) are drawn, because rows of one group are not independent. A draw
is a weight per row, so no latents are copied.

Shape suffixes: N samples, G groups, R draws, P pairs of samples, L rank levels, D and E features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import neighbourhoods
from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import common_space
from socialjepa_jax.alignment.moments import Float64, as_pairs
from socialjepa_jax.errors import InputError, as_array, check_in_range, check_non_negative

Samples = dict[str, Float64]  # metric -> [R] resampled values
_FEWEST_DRAWS = 10  # that give an interval
_LEVELS = 256  # rank levels of distances; binning lowers a bootstrapped DSC by about 1e-5


@dataclass(frozen=True)
class Interval:
    """A confidence interval [low, high]."""

    low: float
    high: float

    @property
    def known(self) -> bool:
        """False if there were no draws: both ends are NaN."""
        return not np.isnan(self.low)


ANY = Interval(-np.inf, np.inf)
UNKNOWN = Interval(np.nan, np.nan)


def intervals(samples: Mapping[str, Float64], level: float = 0.95) -> dict[str, Interval]:
    """Computes the percentile interval of every metric.

    Args:
        samples: metric -> [R] resampled values; NaN are ignored.
        level: coverage.
    """
    check_in_range(0.5, 1.0, level=level)
    tail = (1 - level) / 2
    return {
        key: Interval(*(float(q) for q in np.nanquantile(values, [tail, 1 - tail])))
        for key, values in samples.items()
    }


def corrected_interval(
    samples_R: Float64,
    value: float,
    *,
    within: Interval = ANY,
    shrinkage: float = 1.0,
) -> Interval:
    """Computes the 95 % percentile interval of draws shifted to have the measured value as mean.

    Args:
        samples_R: values of the draws; those that are not finite are ignored. With fewer than 10
            others both ends are NaN.
        value: measured.
        within: range of the quantity, to which the interval is clipped.
        shrinkage: factor of the deviations from the mean.
    """
    kept = samples_R[np.isfinite(samples_R)]
    if len(kept) < _FEWEST_DRAWS:
        return UNKNOWN
    centred = value + (kept - kept.mean()) * shrinkage
    return intervals({"": np.clip(centred, within.low, within.high)})[""]


def difference(a: Mapping[str, Float64], b: Mapping[str, Float64]) -> Samples:
    """Returns paired differences a - b of two bootstraps with the same seed and groups."""
    return {key: a[key] - b[key] for key in a if key in b}


def group_weights(groups: ArrayLike, num: int, seed: int) -> Float64:
    """Draws whole groups with replacement; returns how often each row is drawn: [R, N].

    Args:
        groups: [N] labels, at least two different ones.
        num: number of draws R.
        seed: of the draws.
    """
    check_non_negative(num=num)
    labels, group_N = np.unique(as_array(groups, "groups"), return_inverse=True)
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
    """Bootstraps metrics of a fixed map over the groups of a test set.

    Args:
        linear_map, x_test, y_test, back: as for `evaluate`.
        k: number of neighbours of NOS.
        groups: [N] labels of what is drawn; None: single rows.
        num: number of draws R.
        seed: equal seeds and groups give equal draws, as `difference` needs.

    Returns:
        mse, r2, dsc, nos@k and cka_debiased, [R] each.
    """
    x_ND, y_NE = as_pairs(x_test, y_test, "x_test", "y_test")
    groups_N = np.arange(len(x_ND)) if groups is None else as_array(groups, "groups")
    weights_RN = group_weights(groups_N, num, seed)
    squared_N = linear_map.squared_errors(x_ND, y_NE)
    x_ND, y_NE = linear_map.standardize(x_ND, y_NE)
    pair = common_space(linear_map, x_ND, y_NE, back)
    return {
        **resample_regression(squared_N, y_NE, weights_RN),
        **resample_geometry({back: pair}, weights_RN, k)[back],
    }


def resample_regression(squared_N: Float64, y_NE: Float64, weights_RN: Float64) -> Samples:
    """Bootstraps mse and r2 of a prediction of y.

    Args:
        squared_N: squared error of every row, summed over features.
        y_NE: the targets.
        weights_RN: of `group_weights`.
    """
    total_R = weights_RN.sum(axis=1)
    sse_R = weights_RN @ squared_N
    y_NE = y_NE - y_NE.mean(axis=0)
    sum_RE = weights_RN @ y_NE
    sst_R = weights_RN @ np.sum(y_NE**2, axis=1) - np.sum(sum_RE**2, axis=1) / total_R
    return {"mse": sse_R / (total_R * y_NE.shape[1]), "r2": 1 - sse_R / sst_R}


def resample_geometry(
    spaces: Mapping[str, tuple[Float64, Float64]], weights_RN: Float64, k: int
) -> dict[str, Samples]:
    """Bootstraps dsc, nos@k and cka_debiased of pairs of spaces of the same N samples.

    Copies of a row are neither pairs nor neighbours of one another: the weight of a pair in DSC
    and CKA is the product of the counts of its rows, and NOS@k averages, over drawn rows, the
    overlap of each in the full test set.

    Args:
        spaces: name -> latents [N, D] and [N, E] in one space.
        weights_RN: of `group_weights`.
        k: number of neighbours, below N.
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
    """Bootstraps recall@1, recall@10 and mrr over queries, from ranks in the full gallery.

    Args:
        best_N, middle_N: of `neighbourhoods.match_ranks`.
        weights_RN: of `group_weights`.
    """
    values = {"recall@1": best_N <= 1, "recall@10": best_N <= 10, "mrr": 1 / middle_N}
    return {key: drawn_means(value, weights_RN) for key, value in values.items()}


def drawn_means(value_N: np.ndarray, weights_RN: Float64) -> Float64:
    """Returns the mean of the values [N] in every draw of `group_weights`: [R]."""
    return weights_RN @ value_N.astype(np.float64) / weights_RN.sum(axis=1)


def _row_overlaps(a: Float64, b: Float64, k: int) -> Float64:
    sets = [neighbourhoods.nearest_neighbors(z, k) for z in (a, b)]
    return np.mean(sets[0][:, :, None] == sets[1][:, None, :], axis=(1, 2)) * k


def _weighted_dsc(
    spaces: Mapping[str, tuple[Float64, Float64]], weights_RN: Float64
) -> dict[str, Float64]:
    """Computes Spearman correlations [R] from joint histograms, ranked anew for every draw."""
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
    """Computes `similarity.cka_debiased` of every draw, without pairs of copies: [R]."""
    cross, first, second = (_weighted_hsic(p, q, weights_RN) for p, q in ((a, b), (a, a), (b, b)))
    return cross / np.sqrt(first * second)


def _weighted_hsic(p: Float64, q: Float64, w_RN: Float64) -> Float64:
    """Computes HSIC_1 of every draw up to a common factor: [R].

    K = P P^T is centred by the mean of the drawn rows: K_ij - u_i - u_j + c with u = K w / n and
    c = w.u / n.
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
