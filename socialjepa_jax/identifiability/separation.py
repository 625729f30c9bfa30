"""Axes of a latent space by blind separation: no actions and no pairs, only how fast each forgets.

Independent latents of different rates are the directions in which all lagged covariances are
diagonal (second-order blind identification: Belouchrani et al., 1997). Signs remain open: for a
time-reversible Gaussian world every sign change leaves the law of a trajectory as it is, so one
pair of observations, actions or an irreversible world must tell them.

Shape key: N states, D features, K lags.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.errors import InputError, as_array, check_in_range


@dataclass(frozen=True, eq=False)
class Sources:
    """Uncorrelated sources s = (h - mean) W of unit variance, slowest first, signs arbitrary.

    Attributes:
        mean: f64[D].
        weights: W f64[D, D].
        correlations: f64[D], mean correlation of each source over the lags, decreasing.
    """

    mean: np.ndarray
    weights: np.ndarray
    correlations: np.ndarray

    def __call__(self, h_ND: np.ndarray) -> np.ndarray:
        """Applies the separation: f64[N, D] -> f64[N, D]."""
        return (as_array(h_ND, "h", np.float64) - self.mean) @ self.weights


def separate(walk_ND: np.ndarray, lags: Sequence[int], mean: np.ndarray | None = None) -> Sources:
    """Separates one trajectory into sources.

    Args:
        walk_ND: f64[N, D], successive latents.
        lags: at which sources are to be uncorrelated.
        mean: of the stationary law; default: of the walk.
    """
    walk_ND = as_array(walk_ND, "walk", np.float64)
    check_in_range(1, len(walk_ND) - 1, shortest_lag=min(lags), longest_lag=max(lags))
    mean = walk_ND.mean(0) if mean is None else np.asarray(mean, np.float64)
    variances, axes = np.linalg.eigh((walk_ND - mean).T @ (walk_ND - mean) / len(walk_ND))
    if variances[0] <= 1e-12 * variances[-1]:
        raise InputError("walk: a direction without variance cannot be separated")
    whiten_DD = axes / np.sqrt(variances)
    lagged_KDD = lagged_covariances((walk_ND - mean) @ whiten_DD, lags)
    turn_DD = joint_diagonaliser(lagged_KDD)
    correlations_D = np.einsum("di,kde,ei->i", turn_DD, lagged_KDD, turn_DD) / len(lagged_KDD)
    order = np.argsort(-correlations_D)
    return Sources(mean, whiten_DD @ turn_DD[:, order], correlations_D[order])


def lagged_covariances(walk_ND: np.ndarray, lags: Sequence[int]) -> np.ndarray:
    """Returns the symmetric parts of E[h_t h_{t+k}^T] of centred latents: f64[K, D, D]."""
    found = [walk_ND[:-k].T @ walk_ND[k:] / (len(walk_ND) - k) for k in lags]
    return np.stack([0.5 * (c + c.T) for c in found])


def joint_diagonaliser(
    matrices_KDD: np.ndarray, sweeps: int = 100, tolerance: float = 1e-12
) -> np.ndarray:
    """Returns orthogonal V such that V^T M V is as diagonal as possible for all M together.

    Jacobi rotations in closed form (Cardoso and Souloumiac, "Jacobi Angles for Simultaneous
    Diagonalization", 1996), for symmetric matrices.

    Args:
        matrices_KDD: symmetric.
        sweeps: over all planes, at most.
        tolerance: sine of an angle that is not worth a rotation.
    """
    matrices, dim = np.array(matrices_KDD, np.float64), matrices_KDD.shape[1]
    turn_DD = np.eye(dim)
    for _ in range(sweeps):
        largest = 0.0
        for p in range(dim - 1):
            for q in range(p + 1, dim):
                c, s = _angle(matrices[:, p, p] - matrices[:, q, q], 2.0 * matrices[:, p, q])
                largest = max(largest, abs(s))
                plane = np.array([[c, -s], [s, c]])
                matrices[:, :, [p, q]] = matrices[:, :, [p, q]] @ plane
                matrices[:, [p, q]] = plane.T @ matrices[:, [p, q]]
                turn_DD[:, [p, q]] = turn_DD[:, [p, q]] @ plane
        if largest <= tolerance:
            break
    return turn_DD


def _angle(apart_K: np.ndarray, mixed_K: np.ndarray) -> tuple[float, float]:
    """Returns cosine and sine of the rotation that most reduces the off-diagonal of a plane."""
    even = apart_K @ apart_K - mixed_K @ mixed_K
    theta = 0.25 * np.arctan2(2.0 * (apart_K @ mixed_K), even)
    return float(np.cos(theta)), float(np.sin(theta))


def map_of_sources(x: Sources, y: Sources, signs_D: np.ndarray) -> np.ndarray:
    """Returns W f64[E, D] of y - mean ~ W (x - mean) that matches sources in order, with signs."""
    return (x.weights * signs_D @ np.linalg.inv(y.weights)).T


def signs_of_pairs(x: Sources, y: Sources, x_NE: np.ndarray, y_NE: np.ndarray) -> np.ndarray:
    """Returns the sign of each source that N paired observations tell: f64[D]."""
    return np.where((x(x_NE) * y(y_NE)).sum(0) < 0, -1.0, 1.0)
