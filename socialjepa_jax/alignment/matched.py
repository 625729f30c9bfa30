"""Two spaces compared at equal ranks: R2 of their first k principal components, for every k.

R2 of whole spaces rewards a space that holds little: one of three directions is easier to predict
than one of thirty. Here both spaces are cut to their k leading components, whitened, so that every
direction counts alike, and k runs over a range; no rank is chosen. All is float64 NumPy.

Shape suffixes: N samples, D and E features, K ranks, P and Q components, R shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs
from socialjepa_jax.alignment.similarity import RANK_CUTOFF
from socialjepa_jax.errors import InputError, check_positive

LEVEL = 0.95  # of the null


@dataclass(frozen=True, eq=False)
class Components:
    """Whitened principal components of one space.

    Attributes:
        mean: [D], of the rows that they were fitted on.
        directions: [D, P], largest variance first, each over the deviation along it.
    """

    mean: Float64
    directions: Float64

    def __call__(self, z: ArrayLike) -> Float64:
        """Returns the components [N, P] of latents [N, D]; unit variance on the fitted rows."""
        return (as_latents(z, "z") - self.mean) @ self.directions


def principal_components(z: ArrayLike, count: int) -> Components:
    """Fits the leading principal components of latents, whitened.

    Args:
        z: latents [N, D].
        count: components; fewer where the latents have a lower rank.
    """
    check_positive(count=count)
    z_ND = as_latents(z, "z")
    mean_D = z_ND.mean(axis=0)
    _, s, vt = np.linalg.svd(z_ND - mean_D, full_matrices=False)
    kept = min(count, int(np.sum(s > RANK_CUTOFF * s[0])))
    return Components(mean_D, vt[:kept].T * (np.sqrt(len(z_ND)) / s[:kept]))


@dataclass(frozen=True, eq=False)
class MatchedRank:
    """Held-out agreement of two spaces at equal ranks, beside that of shuffled pairs.

    Attributes:
        r2: [K], R2(k) for k = 1 ... K, see `matched_rank`.
        null_r2: [K], its 95 % quantile over shuffles.
        correlations: [min(P, Q)], canonical correlations fitted to the training rows, measured on
            the test rows; in the order of the fit.
        null_correlation: the 95 % quantile over shuffles of the largest of them, so that one
            false direction is counted in 5 % of comparisons.
    """

    r2: Float64
    null_r2: Float64
    correlations: Float64
    null_correlation: float

    @property
    def area(self) -> float:
        """Area under R2(k) over k = 1 ... K, as their mean: 1 if all K components are shared."""
        return float(self.r2.mean())

    @property
    def dimensions(self) -> int:
        """Number of canonical correlations above the null."""
        return int(np.sum(self.correlations > self.null_correlation))


def matched_rank(
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike,
    y_test: ArrayLike,
    *,
    ranks: int = 64,
    shuffles: int = 100,
    seed: int = 0,
) -> MatchedRank:
    """Measures how far the leading components of two spaces predict each other on held-out rows.

    Components are fitted on the training rows and whitened. There they are uncorrelated, so the
    least-squares map from the first k of x to the first k of y is the upper left k x k block of one
    matrix, their cross-covariance. R2(k) is pooled over k features, about the test mean. A feature
    that a space does not have, because its rank is below k, counts as one that is not explained:
    a space of few directions is not rewarded for them.

    Args:
        x_train, y_train: latents [N, D], [N, E] of paired states, for components and maps.
        x_test, y_test: the same of other states.
        ranks: K, the largest rank; the same for all spaces that are compared.
        shuffles: R, of the pairs of training rows and of test rows, for the null.
        seed: of the shuffles.

    Raises:
        InputError: there are fewer than four test rows, or a number is not positive.
    """
    check_positive(ranks=ranks, shuffles=shuffles)
    x_ND, y_NE = as_pairs(x_train, y_train, "x_train", "y_train")
    to_x, to_y = principal_components(x_ND, ranks), principal_components(y_NE, ranks)
    x, y = to_x(x_ND), to_y(y_NE)
    pairs = as_pairs(x_test, y_test, "x_test", "y_test")
    if len(pairs[0]) < 4:
        raise InputError(f"x_test has {len(pairs[0])} rows; at least 4 are needed")
    held_x, held_y = to_x(pairs[0]), to_y(pairs[1])
    rng, nulls = np.random.default_rng(seed), []
    for _ in range(shuffles):
        shuffled = (rng.permutation(y), held_x, rng.permutation(held_y))
        nulls.append((rank_curve(x, *shuffled, ranks), _held_out(x, *shuffled).max()))
    curves, largest = (np.stack(part) for part in zip(*nulls))
    return MatchedRank(
        rank_curve(x, y, held_x, held_y, ranks),
        np.quantile(curves, LEVEL, axis=0),
        _held_out(x, y, held_x, held_y),
        float(np.quantile(largest, LEVEL)),
    )


def rank_curve(
    x_NP: Float64, y_NQ: Float64, held_x: Float64, held_y: Float64, ranks: int
) -> Float64:
    """Returns R2(k), k = 1 ... K, of whitened components; see `matched_rank`.

    Args:
        x_NP, y_NQ: `principal_components` of the training rows.
        held_x, held_y: the same components of the test rows.
        ranks: K.
    """
    cross_PQ = x_NP.T @ y_NQ / len(x_NP)
    inner_PP, joint_PQ = held_x.T @ held_x, held_x.T @ held_y
    square_Q = np.square(held_y).sum(axis=0)
    total_Q = np.square(held_y - held_y.mean(axis=0)).sum(axis=0)
    found = []
    for k in range(1, ranks + 1):
        map_kk = cross_PQ[:k, :k]
        explained = np.sum(map_kk * (2.0 * joint_PQ[:k, :k] - inner_PP[:k, :k] @ map_kk))
        error = square_Q[:k].sum() - explained  # |y - x map|^2, from moments alone
        has = min(k, y_NQ.shape[1])
        found.append((1.0 - error / total_Q[:k].sum()) * has / k)
    return np.asarray(found)


def _held_out(x_NP: Float64, y_NQ: Float64, held_x: Float64, held_y: Float64) -> Float64:
    """Returns the correlations on held-out rows of the training rows' canonical variates."""
    u_PR, _, vt_RQ = np.linalg.svd(x_NP.T @ y_NQ, full_matrices=False)
    a, b = (z - z.mean(axis=0) for z in (held_x @ u_PR, held_y @ vt_RQ.T))
    norms = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    return (a * b).sum(axis=0) / np.maximum(norms, np.finfo(np.float64).tiny)
