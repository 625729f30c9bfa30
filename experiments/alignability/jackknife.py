"""Alignment metrics with jackknife intervals over objects.

One held-out object after the other is left out of the test set (delete-one-group jackknife, Efron &
Stein, 1981), the map held fixed; the spread of a run's repetitions is added. The difference of two
rows is taken for every replicate, so that the variation which both share cancels. Ranks (DSC) and
neighbours (NOS) are those of the whole test set.

Shape key: N test samples, D features of x, E features of y, G objects.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from socialjepa_jax import alignment, evaluation

METRICS = (
    "r2",
    "shared_dims",
    "dsc",
    "dsc_no_map",
    "nos@10",
    "nos@10_no_map",
    "cka_debiased",
    "rankme",
)


@dataclass(frozen=True)
class Estimate:
    """A metric on all test samples, and without each object in turn.

    Attributes:
        value: on all samples, averaged over repetitions.
        without: [G], the same without each object.
        repeats: [R], the value of each repetition.
    """

    value: float
    without: np.ndarray
    repeats: np.ndarray

    def minus(self, other: "Estimate") -> "Estimate":
        """The difference, paired object by object."""
        return Estimate(
            self.value - other.value, self.without - other.without, self.repeats - other.repeats
        )

    @staticmethod
    def mean(estimates: "list[Estimate]") -> "Estimate":
        """The average over repetitions that were tested on the same objects."""
        return Estimate(
            float(np.mean([e.value for e in estimates])),
            np.mean([e.without for e in estimates], axis=0),
            np.concatenate([e.repeats for e in estimates]),
        )

    @staticmethod
    def of_pairs(estimates: "list[Estimate]") -> "Estimate":
        """The average over pairs of agents of one run, which is one repetition."""
        mean = Estimate.mean(estimates)
        return Estimate(mean.value, mean.without, np.array([mean.value]))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval over objects and repetitions.

        The two variances add; Student's t has the degrees of freedom of Welch and Satterthwaite.
        NaN with a single object.
        """
        if len(self.without) < 2:
            return float("nan"), float("nan")
        parts = [of_objects(self.without)]
        if len(self.repeats) > 1:
            parts.append(of_repeats(self.repeats))
        half = half_width(parts, level)
        return self.value - half, self.value + half


Part = tuple[float, int]  # a variance of the mean, and its degrees of freedom


def of_objects(without_G: np.ndarray) -> Part:
    """The jackknife's variance, from the values without each object."""
    return (len(without_G) - 1) * float(np.var(without_G)), len(without_G) - 1


def of_repeats(values_R: np.ndarray) -> Part:
    """The variance of the mean of independent repetitions."""
    return float(np.var(values_R, ddof=1)) / len(values_R), len(values_R) - 1


def half_width(parts: Sequence[Part], level: float = 0.95) -> float:
    """Half of the interval of a mean whose variances add.

    Student's t has the degrees of freedom of Welch and Satterthwaite.
    """
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return 0.0
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    return float(stats.t.ppf(0.5 + level / 2, freedom) * np.sqrt(variance))


def _estimate(value: float, without: np.ndarray) -> Estimate:
    """Estimate of a single run."""
    return Estimate(float(value), np.asarray(without), np.array([float(value)]))


def from_sums(sums_G: np.ndarray, counts_G: np.ndarray) -> Estimate:
    """A mean over samples, from each object's sum and count."""
    total, count = sums_G.sum(), counts_G.sum()
    return _estimate(total / count, (total - sums_G) / (count - counts_G))


def estimates(
    linear_map: alignment.LinearMap,
    x: np.ndarray,
    y: np.ndarray,
    split: evaluation.Split,
    objects: np.ndarray,
    names: Sequence[str] = METRICS,
) -> dict[str, Estimate]:
    """The named `METRICS` for one map, without those that need spaces of equal width.

    Args:
        linear_map: fitted on the split's training rows.
        x, y: raw latents of all states, [N, D] and [N, E].
        split: the rows.
        objects: the object of each state, [N].
        names: of the metrics.
    """
    _, index_N = np.unique(objects[split.test], return_inverse=True)

    def shared_dimensions(rows: np.ndarray) -> float:
        return alignment.shared_dimensions(linear_map, y[split.train], x[rows], y[rows])

    def shared() -> Estimate:
        without = [shared_dimensions(split.test[index_N != g]) for g in range(index_N.max() + 1)]
        return _estimate(shared_dimensions(split.test), np.array(without))

    x_test, y_test = x[split.test], y[split.test]
    x_ND, y_NE = linear_map.standardize_x(x_test), linear_map.standardize_y(y_test)
    back_ND = linear_map.backward(y_NE, standardized=True)
    forward_NE = linear_map.forward(x_ND, standardized=True)
    ways: dict[str, Callable[[], Estimate]] = {
        "shared_dims": shared,
        "r2": lambda: _r2(y_NE - forward_NE, y_NE, index_N),
        "dsc": lambda: _dsc(x_ND, back_ND, index_N),
        "nos@10": lambda: _nos(x_ND, back_ND, index_N, 10),
        "cka_debiased": lambda: _replicated(alignment.cka_debiased, (x_ND, y_NE), index_N),
        "rankme": lambda: _replicated(alignment.effective_rank, (y_test,), index_N),
    }
    if x_ND.shape[1] == y_NE.shape[1]:
        ways["dsc_no_map"] = lambda: _dsc(x_ND, y_NE, index_N)
        ways["nos@10_no_map"] = lambda: _nos(x_ND, y_NE, index_N, 10)
    return {name: way() for name, way in ways.items() if name in names}


def _sum_by(values: np.ndarray, index_N: np.ndarray) -> np.ndarray:
    """Sums of [N] or [N, F] over the samples of each object."""
    result = np.zeros((index_N.max() + 1, *values.shape[1:]))
    np.add.at(result, index_N, values)
    return result


def _r2(residual_NE: np.ndarray, y_NE: np.ndarray, index_N: np.ndarray) -> Estimate:
    """Pooled R2 about the test mean, from each object's sums."""
    error_G = _sum_by(np.sum(residual_NE**2, axis=1), index_N)
    square_G = _sum_by(np.sum(y_NE**2, axis=1), index_N)
    sum_GE, count_G = _sum_by(y_NE, index_N), _sum_by(np.ones(len(y_NE)), index_N)

    def r2(error: np.ndarray, square: np.ndarray, total_E: np.ndarray, count: np.ndarray):
        return 1 - error / (square - np.sum(total_E**2, axis=-1) / count)

    whole = [a.sum(axis=0) for a in (error_G, square_G, sum_GE, count_G)]
    return _estimate(
        r2(*whole),
        r2(*(w - part for w, part in zip(whole, (error_G, square_G, sum_GE, count_G)))),
    )


def _distances(z_ND: np.ndarray) -> np.ndarray:
    z_ND = z_ND - z_ND.mean(axis=0)
    square_N = np.sum(z_ND**2, axis=1)
    return square_N[:, None] + square_N[None] - 2 * z_ND @ z_ND.T


def _dsc(a_ND: np.ndarray, b_NE: np.ndarray, index_N: np.ndarray) -> Estimate:
    """Spearman of pair distances; sums over pairs of objects give every replicate at once."""
    upper = np.triu_indices(len(a_ND), 1)
    count = index_N.max() + 1
    cell = index_N[upper[0]] * count + index_N[upper[1]]
    ranks = [stats.rankdata(_distances(z)[upper]) for z in (a_ND, b_NE)]
    u, v = (r / r.mean() - 1 for r in ranks)
    sums = np.stack(
        [
            np.bincount(cell, weights=w, minlength=count**2).reshape(count, count)
            for w in (np.ones_like(u), u, v, u * u, v * v, u * v)
        ]
    )
    sums = sums + sums.swapaxes(1, 2)  # each pair of samples now stands in two cells
    total = sums.sum(axis=(1, 2)) / 2
    touched = sums.sum(axis=2) - np.diagonal(sums, axis1=1, axis2=2) / 2
    return _estimate(_pearson(total), _pearson(total[:, None] - touched))


def _pearson(sums: np.ndarray) -> np.ndarray:
    n, u, v, uu, vv, uv = sums
    return (uv - u * v / n) / np.sqrt((uu - u * u / n) * (vv - v * v / n))


def _nos(a_ND: np.ndarray, b_NE: np.ndarray, index_N: np.ndarray, k: int) -> Estimate:
    """1 - overlap of the k nearest neighbours, averaged over samples."""
    k = min(k, len(a_ND) - 1)
    neighbours = []
    for z in (a_ND, b_NE):
        distances = _distances(z)
        np.fill_diagonal(distances, np.inf)
        mask = np.zeros(distances.shape, bool)
        np.put_along_axis(mask, np.argpartition(distances, k - 1, axis=1)[:, :k], True, axis=1)
        neighbours.append(mask)
    disagreement_N = 1 - np.sum(neighbours[0] & neighbours[1], axis=1) / k
    return from_sums(_sum_by(disagreement_N, index_N), _sum_by(np.ones(len(a_ND)), index_N))


def _replicated(metric, spaces: tuple[np.ndarray, ...], index_N: np.ndarray) -> Estimate:
    """A metric evaluated anew without each object."""
    without = [metric(*(z[index_N != g] for z in spaces)) for g in range(index_N.max() + 1)]
    return _estimate(metric(*spaces), np.array(without))
