"""Generalised Procrustes: K spaces mapped to one hub, so that K agents need K maps.

Shape suffixes: N samples, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import solve
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64, as_latents
from socialjepa_jax.errors import InputError


@dataclass(frozen=True, eq=False)
class Hub:
    """Rotations and reflections of K spaces into one common space.

    Attributes:
        maps: map k between space k and the hub.
        consensus: mean shape [N, D], D the largest dimension.
        objective: sum_k |V_k R_k - M|^2 / sum_k |V_k|^2, centred; 0 for identical shapes.
    """

    maps: tuple[LinearMap, ...]
    consensus: Float64
    objective: float

    def translate(self, z: ArrayLike, source: int, target: int) -> Float64:
        """Maps raw latents of space `source` into space `target` through the hub."""
        return self.maps[target].backward(self.maps[source].forward(z))


def fit_hub(
    spaces: Sequence[ArrayLike],
    *,
    scale: bool = False,
    tolerance: float = 1e-12,
    max_iterations: int = 1000,
    kappa_max: float = 1e6,
) -> Hub:
    """Fits a hub by generalised Procrustes analysis (Gower 1975), centred, reflections allowed.

    Smaller spaces are padded with zero features. Starts from the first largest space and
    alternates between rotations and the mean shape until the objective decreases by less than
    `tolerance`.

    Args:
        spaces: K >= 2 raw latent matrices [N, D_k] of the same N states.
        scale: True to divide every space by its Frobenius norm first, which removes its unit.
        tolerance: least decrease of the objective that continues the iteration.
        max_iterations: limit of the iteration.
        kappa_max: conditioning threshold of the maps.
    """
    latents = [as_latents(z, f"spaces[{i}]") for i, z in enumerate(spaces)]
    if len(latents) < 2 or len({len(z) for z in latents}) != 1:
        raise InputError(f"a hub needs at least 2 spaces of equal length, {[*map(len, latents)]}")
    means = [z.mean(axis=0) for z in latents]
    norms = [float(np.linalg.norm(z - m)) if scale else 1.0 for z, m in zip(latents, means)]
    if min(norms) == 0:
        raise InputError(f"spaces[{norms.index(0)}] is constant")
    dim = max(z.shape[1] for z in latents)
    shapes = [
        np.pad((z - m) / n, ((0, 0), (0, dim - z.shape[1])))
        for z, m, n in zip(latents, means, norms)
    ]
    total = sum(float(np.sum(v**2)) for v in shapes)
    if total == 0:
        raise InputError("all spaces are constant")
    consensus = shapes[int(np.argmax([z.shape[1] for z in latents]))]
    objective = np.inf
    for _ in range(max_iterations):
        rotations = [solve.procrustes(v.T @ consensus)[0].T for v in shapes]
        turned = [v @ r for v, r in zip(shapes, rotations)]
        consensus = np.mean(turned, axis=0)
        previous, objective = objective, sum(np.sum((t - consensus) ** 2) for t in turned) / total
        if previous - objective < tolerance:
            break
    maps = tuple(
        _to_hub(z, m, n, r, kappa_max) for z, m, n, r in zip(latents, means, norms, rotations)
    )
    return Hub(maps, consensus, float(objective))


def _to_hub(
    z: Float64, mean: Float64, norm: float, rotation: Float64, kappa_max: float
) -> LinearMap:
    """Returns the map of one space [N, D_k] into the hub."""
    d, dim = z.shape[1], len(rotation)
    return LinearMap(
        w=rotation[:d].T,
        w_back=rotation[:d],
        x_mean=mean,
        x_scale=np.full(d, norm),
        y_mean=np.zeros(dim),
        y_scale=np.ones(dim),
        method="procrustes",
        ridge=0.0,
        n_train=len(z),
        kappa_max=kappa_max,
    )
