"""Statistics of all pairs, the joint histogram of their distances, and its rank correlation.

Shape suffixes: N samples, D features, B rows and C columns of a block, P pairs i < j, H histogram
bins, F cells, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.alignment.moments import Float64

_CELLS = (1 << 16, 1 << 20)  # of float32 bit patterns; more only where few give uneven bins
_EVEN = 1.02  # sum of the cubed masses of even bins, relative to that of equal bins, at most
_SAMPLE = 1 << 20  # distances that determine the bins
_LARGEST = np.finfo(np.float32).max

# Bits of the least distance, number of cells per bit, and the bin of every cell, int16 [F].
Table = tuple[jax.Array, jax.Array, jax.Array]


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """Statistics of all rows and pairs of two spaces.

    Attributes:
        overlaps: [2, len(ks)] mean shares of common neighbours, see `neighbors.overlap`.
        joint: counts of pairs int64 [H, H], or None.
        distances: squared distances of all pairs in both spaces, float64 [P] each in the same
            order, or None.
    """

    overlaps: Float64
    joint: np.ndarray | None = None
    distances: Sequence[Float64] | None = None


def equal_mass_tables(spaces: Sequence[np.ndarray], count: int, bins: int) -> list[Table]:
    """Computes the bins of every space from its first `count` rows; an empty list for 0 bins."""
    return [_equal_mass(z_ND[:count], bins) for z_ND in spaces if bins]


def _equal_mass(z_ND: np.ndarray, bins: int) -> Table:
    """Computes bins of about equal mass, from a sample of distances.

    Cells divide the bit patterns of distances, whose order is that of the distances and which are
    nearly logarithmic: no far row can press all other distances into one cell.
    """
    groups_GBD = _groups(z_ND)
    size_GB = np.einsum("gbd,gbd->gb", groups_GBD, groups_GBD)
    d_GBB = size_GB[:, :, None] + size_GB[:, None] - 2 * groups_GBD @ groups_GBD.swapaxes(1, 2)
    bits_GBB = np.clip(d_GBB, 0, _LARGEST).astype(np.float32).view(np.int32)
    bits_GBB[:, *np.diag_indices(bits_GBB.shape[1])] = 0
    low = bits_GBB.min(where=bits_GBB > 0, initial=np.iinfo(np.int32).max)
    width = max(1, int(bits_GBB.max()) - int(low))
    for cells in _CELLS:
        scale = np.float32(cells / width)
        counts_F = np.bincount(_cells(bits_GBB, low, scale, cells, np).ravel(), minlength=cells)
        counts_F[0] -= size_GB.size  # the diagonals
        total = counts_F.sum()
        table_F = np.cumsum(counts_F) - counts_F / 2
        table_F = np.minimum(table_F * (bins / total), bins - 1).astype(np.int16)
        masses_H = np.bincount(table_F, counts_F, bins) / total
        if np.sum(masses_H**3) * bins**2 <= _EVEN:
            break
    return jnp.asarray(low), jnp.asarray(scale), jnp.asarray(table_F)


def _groups(z_ND: np.ndarray) -> np.ndarray:
    """Draws groups of rows whose distances are the sample, of as many rows as fit: [G, B, D]."""
    n, d = z_ND.shape
    size = min(n, max(16, _SAMPLE // n))
    count = min(n // size, max(1, _SAMPLE // size**2))
    rows = np.random.default_rng(0).permutation(n)[: count * size]
    return z_ND[rows].reshape(count, size, d)


def _cells(bits: Any, low: Any, scale: Any, cells: int, xp: Any) -> Any:
    """Returns the cells of bit patterns, by NumPy or `jax.numpy`."""
    above = (xp.maximum(bits, low) - low).astype(xp.float32)
    return xp.minimum(above * scale, np.float32(cells - 1)).astype(xp.int32)


def count_pairs(
    joint_H: jax.Array,
    d: Sequence[jax.Array],
    unresolved: Sequence[jax.Array],
    tables: Sequence[Table],
    pair_BC: jax.Array,
) -> jax.Array:
    """Adds pairs to the joint histogram.

    Args:
        joint_H: flat histogram, int32 [H * H].
        d: squared distances [B, C] in both spaces.
        unresolved: distances [B, C] in both spaces up to which pairs share the first bin.
        tables: bins of both spaces.
        pair_BC: marks the pairs to add.
    """
    bins = round(len(joint_H) ** 0.5)
    x_BC, y_BC = (_codes(*space) for space in zip(d, unresolved, tables))
    cell_BC = jnp.where(pair_BC, x_BC * bins + y_BC, bins * bins)
    return joint_H.at[cell_BC.ravel()].add(1, mode="drop")


def _codes(d_BC: jax.Array, unresolved_BC: jax.Array, table: Table) -> jax.Array:
    low, scale, bin_F = table
    d_BC = jnp.where(d_BC <= unresolved_BC, 0.0, d_BC)
    bits_BC = jax.lax.bitcast_convert_type(d_BC.astype(jnp.float32), jnp.int32)
    return bin_F[_cells(bits_BC, low, scale, len(bin_F), jnp)].astype(jnp.int32)


def joint_spearman(joint_HH: np.ndarray) -> tuple[float, float]:
    """Computes the Spearman correlation of binned pairs, and a bound on its error from binning.

    The members of a bin share its mid-rank. The exact ranks are r = b + w, with b the mid-ranks and
    w the deviations, whose squares sum to at most `within`. w sums to 0 in every bin, so that the
    products of w of one space with b of the other are bounded by what the bins leave unexplained
    of b (Cauchy-Schwarz).

    Args:
        joint_HH: counts int64 [H, H].

    Returns:
        The correlation and the bound; NaN if a space has all pairs in one bin.
    """
    counts = [joint_HH.sum(axis=axis).astype(np.float64) for axis in (1, 0)]
    total = counts[0].sum()
    ranks = [np.cumsum(c_H) - (c_H + 1) / 2 - (total - 1) / 2 for c_H in counts]
    between = np.asarray([c_H @ rank_H**2 for c_H, rank_H in zip(counts, ranks)])
    within = np.asarray([c_H @ (c_H**2 - 1) / 12 for c_H in counts])
    if min(between) == 0:
        return float("nan"), float("nan")
    sums = [np.empty(len(joint_HH)), np.zeros(len(joint_HH))]  # of the other ranks, by bin
    for i in range(0, len(joint_HH), 128):  # 128 rows of float64 fit into the cache
        part = joint_HH[i : i + 128].astype(np.float64)
        sums[0][i : i + 128] = part @ ranks[1]
        sums[1] += ranks[0][i : i + 128] @ part
    left = [
        b - s_H**2 @ (1 / np.maximum(c_H, 1)) for b, s_H, c_H in zip(between[::-1], sums, counts)
    ]
    unit = np.sqrt(between[0] * between[1])
    value = float(ranks[0] @ sums[0] / unit)
    errors = np.sqrt(np.maximum(left, 0) * within).sum() + np.sqrt(within[0] * within[1])
    shrinkage = 1 - unit / np.sqrt(np.prod(between + within))
    return value, float(errors / unit + abs(value) * shrinkage)
