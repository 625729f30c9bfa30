"""Distances and exact nearest neighbours of blocks of rows, on the device.

Rows are padded to multiples, so that test sets of similar size share a compilation.

Shape suffixes: N samples (padded), D features (padded), B rows of a block, G groups, C columns of
a group or candidates, M members of chosen groups, K neighbours.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.alignment.moments import Float64

ROUNDED_BITS = 19  # low bits of the mantissa that are zero in float64 distances
_BLOCK_ELEMENTS = 1 << 22  # distances in memory at once
_ROW_MULTIPLE = 256
_FEATURE_MULTIPLE = 32
_GROUP = 64  # columns per group of the two-level search


def padded(z: Float64, dtype: str, multiple: int = _ROW_MULTIPLE) -> np.ndarray:
    """Centres latents [n, d] and pads them with zeros to [N, D], N a multiple of `multiple`.

    Zero features do not change distances. The caller must mask rows from n on.
    """
    n, d = z.shape
    z_ND = np.zeros((n + -n % multiple, d + -d % _FEATURE_MULTIPLE), dtype)
    np.subtract(z, z.mean(axis=0), out=z_ND[:n, :d], casting="same_kind")
    return z_ND


def row_blocks(padded_rows: int) -> np.ndarray:
    """Returns the row numbers of blocks of equal size [blocks, B] that cover all padded rows."""
    block = _ROW_MULTIPLE
    while block > 8 and block * padded_rows > _BLOCK_ELEMENTS:
        block //= 2
    return np.arange(padded_rows).reshape(-1, block)


def squared_distances(a_BD: jax.Array, b_ND: jax.Array) -> jax.Array:
    """Squared Euclidean distances of centred rows: [B, N].

    In float64 they are rounded to ten digits, because mathematically equal distances differ in
    their last bits and must tie. Values below the rounding error of the inner products are zero.
    """
    a_B1 = jnp.sum(a_BD**2, axis=1, keepdims=True)
    b_1N = jnp.sum(b_ND**2, axis=1)[None]
    size_BN = a_B1 + b_1N
    d_BN = size_BN - 2 * jnp.matmul(a_BD, b_ND.T, precision=jax.lax.Precision.HIGHEST)
    d_BN = jnp.where(d_BN <= 500 * jnp.finfo(d_BN.dtype).eps * size_BN, 0.0, d_BN)
    if d_BN.dtype == jnp.float64:
        kept = 52 - ROUNDED_BITS
        d_BN = jax.lax.reduce_precision(d_BN, exponent_bits=11, mantissa_bits=kept)
    return d_BN


def distances_to_others(z_ND: jax.Array, rows_B: jax.Array, count: jax.Array) -> jax.Array:
    """Squared distances [B, N] of the given rows to all; infinite to themselves and to padding."""
    d_BN = squared_distances(z_ND[rows_B], z_ND)
    column_1N = jnp.arange(len(z_ND))[None]
    return jnp.where((column_1N == rows_B[:, None]) | (column_1N >= count), jnp.inf, d_BN)


def nearest(d_BN: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """Finds the k smallest values of every row, ascending, ties to the lowest index.

    Exact. float64 rows are searched in float32 first, which is ten times faster on CPUs; if the
    rounding leaves the k-th value uncertain, whole rows are searched in float64.

    Returns:
        Values and indices, [B, k] each.
    """
    if d_BN.dtype == jnp.float32:
        return _two_level(d_BN, k)
    num = min(k + 14, d_BN.shape[1])
    coarse_BC, index_BC = _two_level(d_BN.astype(jnp.float32), num)
    index_BC = jnp.sort(index_BC, axis=1)
    values_BK, slot_BK = _smallest(jnp.take_along_axis(d_BN, index_BC, axis=1), k)
    result = values_BK, jnp.take_along_axis(index_BC, slot_BK, axis=1)
    certain = jnp.all(values_BK[:, -1].astype(jnp.float32) < coarse_BC[:, -1])
    certain |= num == d_BN.shape[1]
    return jax.lax.cond(certain, lambda: result, lambda: _smallest(d_BN, k))


def _two_level(d_BN: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """Finds the k smallest values among the members of the k groups with the smallest minima.

    Exact: k minima precede any value outside these groups. Groups are sorted by index, so that
    ties go to the lowest index.
    """
    groups = d_BN.shape[1] // _GROUP
    if groups <= 2 * k:
        return _smallest(d_BN, k)
    d_BGC = d_BN.reshape(len(d_BN), groups, _GROUP)
    group_BK = jnp.sort(_smallest(jnp.min(d_BGC, axis=2), k)[1], axis=1)
    members_BM = jnp.take_along_axis(d_BGC, group_BK[:, :, None], axis=1).reshape(len(d_BN), -1)
    values_BK, slot_BK = _smallest(members_BM, k)
    chosen_BK = jnp.take_along_axis(group_BK, slot_BK // _GROUP, axis=1)
    return values_BK, chosen_BK * _GROUP + slot_BK % _GROUP


def _smallest(values_BN: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    negative_BK, index_BK = jax.lax.top_k(-values_BN, k)
    return -negative_BK, index_BK


def overlap(dx_BN: jax.Array, dy_BN: jax.Array, ks: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Share of common k nearest neighbours NO@k, eq. (7).

    Args:
        dx_BN, dy_BN: distances in two spaces, infinite for excluded columns; every row has at least
            max(ks) finite ones.
        ks: numbers of neighbours.

    Returns:
        Two arrays [B, len(ks)]: with ties to the lowest index, and in expectation if ties at the
        k-th distance are broken at random.
    """
    spaces = dx_BN, dy_BN
    lists = [nearest(d_BN, max(ks) + 1) for d_BN in spaces]
    same_BKK = lists[0][1][:, :, None] == lists[1][1][:, None, :]
    by_index = jnp.stack([jnp.sum(same_BKK[:, :k, :k], axis=(1, 2)) / k for k in ks], axis=1)
    by_index = by_index.astype(dx_BN.dtype)
    tied = jnp.stack([v[:, k - 1] == v[:, k] for v, _ in lists for k in ks])

    def at_random() -> jax.Array:
        shares = []
        for k in ks:
            x_BN, y_BN = (_probability(d, v[:, k - 1], k) for d, (v, _) in zip(spaces, lists))
            shares.append(jnp.sum(x_BN * y_BN, axis=1) / k)
        return jnp.stack(shares, axis=1)

    return by_index, jax.lax.cond(jnp.any(tied), at_random, lambda: by_index)


def _probability(d_BN: jax.Array, kth_B: jax.Array, k: int) -> jax.Array:
    """Probability [B, N] of being among the k nearest if ties are broken at random."""
    closer_BN, tied_BN = d_BN < kth_B[:, None], d_BN == kth_B[:, None]
    places_B1 = k - jnp.sum(closer_BN, axis=1, keepdims=True)
    share_B1 = (places_B1 / jnp.sum(tied_BN, axis=1, keepdims=True)).astype(d_BN.dtype)
    return jnp.where(closer_BN, 1.0, jnp.where(tied_BN, share_B1, 0.0))
