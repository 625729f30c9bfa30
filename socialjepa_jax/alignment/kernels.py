"""CKA of a Gaussian kernel, in blocks of rows: no N x N array.

Shape suffixes: N samples, D and E features, B rows of a block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import geometry
from socialjepa_jax.alignment.moments import Float64, as_pairs
from socialjepa_jax.validate import positive

_BLOCK = 512


def cka_rbf(x: ArrayLike, y: ArrayLike, *, width: float = 1.0) -> float:
    """Biased CKA of Gaussian kernels exp(-d^2 / 2 s^2) (Kornblith et al. 2019).

    Time grows with N^2 and so does finding the median distance, which is exact.

    Args:
      x, y: [N, D] and [N, E], N >= 3.
      width: s, as a multiple of the median distance of all pairs in each space.
    """
    positive(width=width)
    spaces = as_pairs(x, y, "x", "y")
    scaled = [z / (width * np.sqrt(np.median(geometry.pair_distances(z)))) for z in spaces]
    scaled = [z - z.mean(axis=0) for z in scaled]
    products, row_sums = np.zeros(3), np.zeros((2, len(scaled[0])))
    for start in range(0, len(scaled[0]), _BLOCK):
        k_BN, l_BN = (_gaussian(z[start : start + _BLOCK], z) for z in scaled)
        products += [np.sum(k_BN * l_BN), np.sum(k_BN**2), np.sum(l_BN**2)]
        row_sums[:, start : start + _BLOCK] = k_BN.sum(axis=1), l_BN.sum(axis=1)
    pairs = ((0, 1), (0, 0), (1, 1))
    cross, first, second = (
        product - _mean_part(row_sums[a], row_sums[b]) for product, (a, b) in zip(products, pairs)
    )
    return float(cross / np.sqrt(first * second))


def _gaussian(block_BD: Float64, z_ND: Float64) -> Float64:
    squared_BN = np.sum(block_BD**2, axis=1)[:, None] + np.sum(z_ND**2, axis=1)
    return np.exp(-np.maximum(squared_BN - 2 * block_BD @ z_ND.T, 0.0) / 2)


def _mean_part(k_N: Float64, l_N: Float64) -> float:
    """What centring takes away: <K, L> - <HKH, L>, from the row sums of both kernels."""
    n = len(k_N)
    return float(2 * k_N @ l_N / n - k_N.sum() * l_N.sum() / n**2)
