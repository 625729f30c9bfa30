"""Slow feature analysis: linear, polynomial, and sequential (xSFA).

Baselines of "When Does LeJEPA Learn a World Model?", appendix "Connection to Slow Feature Analysis"
(Wiskott and Sejnowski, 2002; Sprekeler, Zito and Wiskott, 2014).

Shape key: N pairs, D input features, P expanded features, F slow features.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from socialjepa_jax.errors import InputError, as_array, check_in_range
from socialjepa_jax.identifiability.hermite import multi_indices, products


@dataclass(frozen=True, eq=False)
class SlowFeatures:
    """Linear features y = (x - mean) W of zero mean and unit covariance, slowest first.

    Attributes:
        mean: f64[P], mean of the input.
        weights: f64[P, F].
        correlations: f64[F], correlation of each feature between the views, decreasing.
    """

    mean: np.ndarray
    weights: np.ndarray
    correlations: np.ndarray

    def __call__(self, x_NP: np.ndarray) -> np.ndarray:
        """Applies the features: f64[N, P] -> f64[N, F]."""
        return (as_array(x_NP, "x", np.float64) - self.mean) @ self.weights


def linear_sfa(
    x_NP: np.ndarray, x_prime_NP: np.ndarray, num_features: int, rank_tolerance: float = 1e-9
) -> SlowFeatures:
    """Fits the decorrelated linear features with the largest correlation between views.

    Args:
        x_NP: first views.
        x_prime_NP: second views of the same rows.
        num_features: number of features F.
        rank_tolerance: principal directions with less variance than this share of the largest are
            dropped before whitening.

    Raises:
        InputError: if fewer directions than features are left.
    """
    x, x_prime = as_array(x_NP, "x", np.float64), as_array(x_prime_NP, "x_prime", np.float64)
    mean = 0.5 * (x.mean(0) + x_prime.mean(0))
    x, x_prime = x - mean, x_prime - mean
    covariance = (x.T @ x + x_prime.T @ x_prime) / (2.0 * len(x))
    variances, axes = linalg.eigh(covariance)
    keep = variances > rank_tolerance * variances[-1]
    if keep.sum() < num_features:
        raise InputError(
            f"num_features={num_features} is more than the {int(keep.sum())} directions of the data"
        )
    whiten = axes[:, keep] / np.sqrt(variances[keep])
    lagged = whiten.T @ (x.T @ x_prime) @ whiten / len(x)
    correlations, turns = linalg.eigh(0.5 * (lagged + lagged.T))
    last = slice(None, -num_features - 1, -1)
    return SlowFeatures(mean, whiten @ turns[:, last], correlations[last])


def monomials(x_ND: np.ndarray, degree: int) -> np.ndarray:
    """Returns all monomials of degree 1 .. `degree` in the columns of x: f64[N, P]."""
    check_in_range(1, 20, degree=degree)
    x_ND = as_array(x_ND, "x", np.float64)
    indices_PD = multi_indices(x_ND.shape[1], degree)[1:]
    powers = [np.ones_like(x_ND)]
    for _ in range(degree):
        powers.append(powers[-1] * x_ND)
    return products(np.stack(powers), indices_PD)


@dataclass(frozen=True, eq=False)
class PolynomialFeatures:
    """Slow features among the polynomials of the standardised input.

    Attributes:
        center, spread: f64[D], mean and standard deviation of the input.
        degree: degree of the polynomials.
        slow: linear features of the monomials.
    """

    center: np.ndarray
    spread: np.ndarray
    degree: int
    slow: SlowFeatures

    def expand(self, x_ND: np.ndarray) -> np.ndarray:
        """Returns the monomials of the standardised input: f64[N, P]."""
        return monomials((as_array(x_ND, "x", np.float64) - self.center) / self.spread, self.degree)

    def __call__(self, x_ND: np.ndarray) -> np.ndarray:
        """Applies the features: f64[N, D] -> f64[N, F]."""
        return self.slow(self.expand(x_ND))


def polynomial_sfa(
    x_ND: np.ndarray, x_prime_ND: np.ndarray, num_features: int, degree: int
) -> PolynomialFeatures:
    """Fits `linear_sfa` to all monomials up to `degree` of the standardised input."""
    x_ND = as_array(x_ND, "x", np.float64)
    center, spread = x_ND.mean(0), x_ND.std(0)
    first, second = (monomials((x - center) / spread, degree) for x in (x_ND, x_prime_ND))
    return PolynomialFeatures(center, spread, degree, linear_sfa(first, second, num_features))


def xsfa(
    x_ND: np.ndarray,
    x_prime_ND: np.ndarray,
    num_sources: int,
    degree: int,
    source_degree: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Extracts sources one at a time by extended SFA (Sprekeler et al., 2014, section 4).

    The slowest polynomial feature is a source. All polynomials of the sources so far are regressed
    out of the expanded data before the next source is extracted.

    Args:
        x_ND: first views.
        x_prime_ND: second views.
        num_sources: number of sources.
        degree: degree of the polynomials of x.
        source_degree: degree of the polynomials of the sources that are removed; default `degree`.

    Returns:
        Sources at the first views f64[N, num_sources], and their correlations between views.
    """
    first = polynomial_sfa(x_ND, x_prime_ND, 1, degree)
    num = len(x_ND)
    rest = np.concatenate([first.expand(x_ND), first.expand(x_prime_ND)])  # both views, stacked
    sources = np.zeros((2 * num, 0))
    correlations = []
    for _ in range(num_sources):
        if sources.shape[1]:
            rest = _without(rest, monomials(sources, source_degree or degree))
        slow = linear_sfa(rest[:num], rest[num:], 1)
        sources = np.concatenate([sources, slow(rest)], axis=1)
        correlations.append(slow.correlations[0])
    return sources[:num], np.array(correlations)


def _without(x_NP: np.ndarray, removed_NQ: np.ndarray) -> np.ndarray:
    """Returns the residual of the least-squares regression of x on the removed functions."""
    removed_NQ = removed_NQ - removed_NQ.mean(0)
    weights_QP = linalg.lstsq(removed_NQ, x_NP - x_NP.mean(0), lapack_driver="gelsy")[0]
    return x_NP - removed_NQ @ weights_QP
