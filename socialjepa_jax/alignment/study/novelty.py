"""Novelty of queries: distance to the latents that a map was fitted on."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.moments import Float64, as_latents
from socialjepa_jax.errors import as_array

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

    def score(self, z: ArrayLike) -> Float64:
        """Returns the share of training rows that are nearer to the mean; near 1 far out.

        Args:
            z: [N, D], or one vector [D].

        Returns:
            [N], or a scalar array for one vector.
        """
        z_ND = as_latents(np.atleast_2d(as_array(z, "z")), "z").reshape(*np.shape(z))
        distances_N = np.linalg.norm((z_ND - self.mean) @ self.whitening, axis=-1)
        return np.searchsorted(self.distances, distances_N) / len(self.distances)


def save_novelty(spaces: Mapping[str, Novelty], path: str | os.PathLike[str]) -> None:
    """Writes an .npz without pickles: `<space>_mean`, `<space>_whitening`, `<space>_distances`."""
    arrays = {
        f"{name}_{field.name}": getattr(novelty, field.name)
        for name, novelty in spaces.items()
        for field in dataclasses.fields(novelty)
    }
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


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
