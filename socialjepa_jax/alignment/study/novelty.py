"""Novelty of queries: distance to the latents that a map was fitted on."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.moments import Float64, as_latents

_SHRINKAGE = 0.05  # weight of the mean variance in the shrunk covariance


@dataclass(frozen=True, eq=False)
class Novelty:
    """Mahalanobis distance to the training latents, as a quantile of their own distances.

    Attributes:
        mean: [D].
        whitening: [D, D]; (z - mean) @ whitening has unit variance in every direction.
        distances: sorted distances of training rows that `mean` and `whitening` were not fitted on.
    """

    mean: Float64
    whitening: Float64
    distances: Float64

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes mean, whitening and distances to an .npz without pickles."""
        with open(path, "wb") as file:
            np.savez(file, mean=self.mean, whitening=self.whitening, distances=self.distances)

    def score(self, z: ArrayLike) -> Float64:
        """Returns the share of training rows that are nearer to the mean [N]; near 1 far out."""
        distances_N = np.linalg.norm((as_latents(z, "z") - self.mean) @ self.whitening, axis=1)
        return np.searchsorted(self.distances, distances_N) / len(self.distances)


def fit_novelty(z: ArrayLike, *, seed: int = 0) -> Novelty:
    """Fits mean and shrunk covariance of the training latents z [N, D], N >= 3.

    A third of the rows, drawn from the seed, is held out and gives the distances: rows that a
    covariance is computed from are nearer to the mean than new rows.
    """
    z_ND = as_latents(z, "z")
    order = np.random.default_rng(seed).permutation(len(z_ND))
    held, fitted = np.split(order, [max(1, len(z_ND) // 3)])
    mean_D = z_ND[fitted].mean(axis=0)
    covariance_DD = np.atleast_2d(np.cov(z_ND[fitted].T, bias=True))
    variance_D, axes_DD = np.linalg.eigh(covariance_DD)
    floor = max(float(variance_D.mean()), np.finfo(np.float64).tiny)
    shrunk_D = (1 - _SHRINKAGE) * np.maximum(variance_D, 0) + _SHRINKAGE * floor
    whitening_DD = axes_DD / np.sqrt(shrunk_D)
    distances = np.sort(np.linalg.norm((z_ND[held] - mean_D) @ whitening_DD, axis=1))
    return Novelty(mean_D, whitening_DD, distances)
