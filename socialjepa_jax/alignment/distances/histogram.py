"""Statistics of all pairs, the joint histogram of their distances, and its rank correlation.

Shape suffixes: N samples, D features, B rows and C columns of a block, P pairs i < j, H histogram
bins, F fine bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.alignment.moments import Float64

_FINE = 1 << 16  # bins of equal width, each of which is mapped to a bin of equal mass
_SAMPLE_ROWS = 64  # rows whose distances determine the bins

# Least squared distance, number of fine bins per unit, and the bin of every fine bin, int32 [F].
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
    """Computes bins of about equal mass, from the distances of a sample of rows to all rows."""
    rows_BD = z_ND[np.unique(np.linspace(0, len(z_ND) - 1, _SAMPLE_ROWS).astype(int))]
    size_B, size_N = (np.einsum("nd,nd->n", z, z) for z in (rows_BD, z_ND))
    d_BN = size_B[:, None] + size_N - 2 * rows_BD @ z_ND.T
    high = d_BN.max()
    low = np.where(d_BN > 1e-6 * high, d_BN, high).min()  # smaller values are rounding errors
    low = low if low < high else np.zeros_like(high)
    scale = _FINE / (high - low) if high > low else np.ones_like(high)
    fine_BN = np.clip((d_BN - low) * scale, 0, _FINE - 1).astype(np.intp)
    counts_F = np.bincount(fine_BN.ravel(), minlength=_FINE)
    middle_F = np.cumsum(counts_F) - counts_F / 2
    table_F = np.minimum(middle_F * (bins / counts_F.sum()), bins - 1)
    return jnp.asarray(low), jnp.asarray(scale), jnp.asarray(table_F, jnp.int32)


def count_pairs(
    joint_H: jax.Array, d: Sequence[jax.Array], tables: Sequence[Table], pair_BC: jax.Array
) -> jax.Array:
    """Adds pairs to the joint histogram.

    Args:
        joint_H: flat histogram, int32 [H * H].
        d: squared distances [B, C] in both spaces.
        tables: bins of both spaces.
        pair_BC: marks the pairs to add.
    """
    bins = round(len(joint_H) ** 0.5)
    x_BC, y_BC = (_codes(d_BC, table) for d_BC, table in zip(d, tables))
    cell_BC = jnp.where(pair_BC, x_BC * bins + y_BC, bins * bins)
    return joint_H.at[cell_BC.ravel()].add(1, mode="drop")


def _codes(d_BC: jax.Array, table: Table) -> jax.Array:
    low, scale, bin_F = table
    fine_BC = jnp.clip((d_BC - low) * scale, 0, _FINE - 1).astype(jnp.int32)
    return bin_F[fine_BC]


def joint_spearman(joint_HH: np.ndarray) -> tuple[float, float]:
    """Computes the Spearman correlation of binned pairs, and a bound on its error from binning.

    The members of a bin share its mid-rank. With f the share of the rank variance within bins,
    the exact value differs by at most sqrt(f_x) + sqrt(f_y) + f_x + f_y (Cauchy-Schwarz). If the
    orders within bins are unrelated, the error is about the square of that.

    Args:
        joint_HH: counts int64 [H, H].

    Returns:
        The correlation and the bound; NaN if a space has all pairs in one bin.
    """
    total = int(joint_HH.sum())
    ranks, within, between = [], [], []
    for axis in (1, 0):
        counts_H = joint_HH.sum(axis=axis).astype(np.float64)
        ranks.append(np.cumsum(counts_H) - (counts_H + 1) / 2 - (total - 1) / 2)
        between.append(counts_H @ ranks[-1] ** 2)
        within.append(counts_H @ (counts_H**2 - 1) / 12)
    if min(between) == 0:
        return float("nan"), float("nan")
    share = np.asarray(within) / (np.asarray(within) + np.asarray(between))
    parts = range(0, len(joint_HH), 128)  # 128 rows of float64 fit into the cache
    mean_H = np.concatenate([joint_HH[i : i + 128].astype(np.float64) @ ranks[1] for i in parts])
    value = ranks[0] @ mean_H / np.sqrt(between[0] * between[1])
    return float(value), float(np.sum(np.sqrt(share) + share))
