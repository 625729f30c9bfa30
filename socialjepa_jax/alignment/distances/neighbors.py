"""Distances and exact nearest neighbours in blocks of rows, on the device.

Rows are padded to a few sizes, so that test sets of similar size share one compiled program.

Shape suffixes: N samples (padded), D features (padded), B rows of a block, K neighbours.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.alignment.moments import Float64

ROUNDED_BITS = 19  # of the mantissa of a float64 distance, which are zero
_BLOCK_ELEMENTS = 1 << 22  # distances held at once
_ROW_MULTIPLE = 256
_FEATURE_MULTIPLE = 32
_GROUP = 64  # columns whose minimum stands for them in the two-level search


def padded(z: Float64, dtype: str, multiple: int = _ROW_MULTIPLE) -> np.ndarray:
    """Latents [n, d], centred and filled up with zeros to [N, D], N a multiple.

    Zero features do not change a distance; rows from n on must be masked by the caller.
    """
    n, d = z.shape
    z_ND = np.zeros((n + -n % multiple, d + -d % _FEATURE_MULTIPLE), dtype)
    np.subtract(z, z.mean(axis=0), out=z_ND[:n, :d], casting="same_kind")
    return z_ND


def row_blocks(padded_rows: int) -> np.ndarray:
    """The row numbers of blocks of equal size, [blocks, B], that cover all padded rows."""
    block = _ROW_MULTIPLE
    while block > 8 and block * padded_rows > _BLOCK_ELEMENTS:
        block //= 2
    return np.arange(padded_rows).reshape(-1, block)


def squared_distances(a_BD: jax.Array, b_ND: jax.Array) -> jax.Array:
    """Squared Euclidean distances of centred rows: [B, N].

    In float64 they are rounded to ten digits: mathematically equal distances differ in their
    last bits, and a tie must not depend on them. What is below the rounding of the inner
    products is zero.
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
    """Squared distances [B, N] of the rows named; infinite to themselves and to padding."""
    d_BN = squared_distances(z_ND[rows_B], z_ND)
    column_1N = jnp.arange(len(z_ND))[None]
    return jnp.where((column_1N == rows_B[:, None]) | (column_1N >= count), jnp.inf, d_BN)


def nearest(d_BN: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """The k smallest of every row, ascending, ties to the lowest index: values and indices [B, k].

    Exact. float64 rows are searched in float32 first, which is ten times faster on CPUs; where
    rounding leaves doubt about the last place the whole rows are sorted.
    """
    if d_BN.dtype == jnp.float32:
        return _two_level(d_BN, k)
    num = min(k + 14, d_BN.shape[1])
    coarse_BC, index_BC = _two_level(d_BN.astype(jnp.float32), num)
    index_BC = jnp.sort(index_BC, axis=1)
    values_BK, place_BK = _smallest(jnp.take_along_axis(d_BN, index_BC, axis=1), k)
    found = values_BK, jnp.take_along_axis(index_BC, place_BK, axis=1)
    sure = jnp.all(values_BK[:, -1].astype(jnp.float32) < coarse_BC[:, -1]) | (num == d_BN.shape[1])
    return jax.lax.cond(sure, lambda: found, lambda: _smallest(d_BN, k))


def _two_level(d_BN: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """Top k of the members of the k groups of columns that have the smallest minima.

    Exact: a value outside these groups is preceded by k minima. Groups are put back into their
    order, so that ties still go to the lowest index.
    """
    groups = d_BN.shape[1] // _GROUP
    if groups <= 2 * k:
        return _smallest(d_BN, k)
    d_BGC = d_BN.reshape(len(d_BN), groups, _GROUP)
    group_BK = jnp.sort(_smallest(jnp.min(d_BGC, axis=2), k)[1], axis=1)
    members_BM = jnp.take_along_axis(d_BGC, group_BK[:, :, None], axis=1).reshape(len(d_BN), -1)
    values_BK, place_BK = _smallest(members_BM, k)
    chosen_BK = jnp.take_along_axis(group_BK, place_BK // _GROUP, axis=1)
    return values_BK, chosen_BK * _GROUP + place_BK % _GROUP


def _smallest(values_BN: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    negative_BK, index_BK = jax.lax.top_k(-values_BN, k)
    return -negative_BK, index_BK


def overlap(dx_BN: jax.Array, dy_BN: jax.Array, ks: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Share of common k nearest neighbours NO@k, eq. (7): two arrays [B, len(ks)].

    The first breaks ties by the lowest index; the second is the expectation when ties at the
    k-th distance are broken at random.

    Args:
      dx_BN, dy_BN: distances in two spaces, infinite where excluded; every row has more than
        max(ks) finite ones, or exactly as many.
      ks: neighbourhood sizes.
    """
    found = [nearest(d_BN, max(ks) + 1) for d_BN in (dx_BN, dy_BN)]
    same_BKK = found[0][1][:, :, None] == found[1][1][:, None, :]
    by_index = jnp.stack([jnp.sum(same_BKK[:, :k, :k], axis=(1, 2)) / k for k in ks], axis=1)
    by_index = by_index.astype(dx_BN.dtype)
    tied = jnp.stack([v[:, k - 1] == v[:, k] for v, _ in found for k in ks])

    def at_random() -> jax.Array:
        shares = []
        for k in ks:
            x_BN, y_BN = (_chance(d, v[:, k - 1], k) for d, (v, _) in zip((dx_BN, dy_BN), found))
            shares.append(jnp.sum(x_BN * y_BN, axis=1) / k)
        return jnp.stack(shares, axis=1)

    return by_index, jax.lax.cond(jnp.any(tied), at_random, lambda: by_index)


def _chance(d_BN: jax.Array, kth_B: jax.Array, k: int) -> jax.Array:
    """Probability [B, N] of being among the k nearest when ties are broken at random."""
    closer_BN, tied_BN = d_BN < kth_B[:, None], d_BN == kth_B[:, None]
    places_B1 = k - jnp.sum(closer_BN, axis=1, keepdims=True)
    share_B1 = (places_B1 / jnp.sum(tied_BN, axis=1, keepdims=True)).astype(d_BN.dtype)
    return jnp.where(closer_BN, 1.0, jnp.where(tied_BN, share_B1, 0.0))
