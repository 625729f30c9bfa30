"""Distances and exact nearest neighbours of blocks of rows, on the device.

Rows are padded to multiples, so that test sets of similar size share a compilation. Float32
distances find candidates; where their error leaves an order open, float64 decides.

Shape suffixes: N samples (padded), D features (padded), B rows of a block, G groups, C columns of
a group or candidates, M members of chosen groups, K neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.alignment.moments import Float64

ROUNDED_BITS = 19  # low bits of the mantissa that are zero in float64 distances
_BLOCK_ELEMENTS = 1 << 22  # distances in memory at once
_ROW_MULTIPLE = 256
_FEATURE_MULTIPLE = 32
_GROUP = 64  # columns per group of the two-level search
_CENTRE_ROWS = 4096  # rows whose median is the centre
_LARGEST = 1e15  # of float32 latents; squares of larger ones may overflow
_ERROR = 20 * np.finfo(np.float32).eps  # see `distance_error`
_UNRESOLVED = 4096  # roundings; smaller float32 distances than so many are no information
_MORE = 14  # candidates beyond the wanted neighbours


def padded(
    z: Float64, dtype: str, multiple: int = _ROW_MULTIPLE, *, scaled: bool = True
) -> np.ndarray:
    """Centres and scales latents [n, d] and pads them with zeros to [N, D].

    The centre is a median, which a few far rows do not move away from the others, and the scale a
    power of two, which is exact. Zero features do not change distances. The caller must mask rows
    from n on.

    Args:
        z: latents.
        dtype: float64 replaces "float32" for latents that span more than float32 can hold.
        multiple: N is a multiple of it.
        scaled: False to keep the unit of the distances.
    """
    n, d = z.shape
    sample = z[:: -(-n // _CENTRE_ROWS)]
    centre_D = np.median(sample, axis=0)
    centred_ND = z - centre_D
    typical = float(np.median(np.abs(sample - centre_D).max(axis=1)))
    if scaled and typical > 0:
        centred_ND *= 2.0 ** -np.floor(np.log2(typical))
    if np.abs(centred_ND).max() > _LARGEST:
        dtype = "float64"
    z_ND = np.zeros((n + -n % multiple, d + -d % _FEATURE_MULTIPLE), dtype)
    z_ND[:n, :d] = centred_ND
    return z_ND


def row_blocks(padded_rows: int) -> np.ndarray:
    """Returns the row numbers of blocks of equal size [blocks, B] that cover all padded rows."""
    block = _ROW_MULTIPLE
    while block > 8 and block * padded_rows > _BLOCK_ELEMENTS:
        block //= 2
    return np.arange(padded_rows).reshape(-1, block)


def squared_norms(z_ND: jax.Array) -> jax.Array:
    """Squared norms of rows: [N]."""
    return jnp.sum(z_ND**2, axis=1)


def squared_distances(
    a_BD: jax.Array, b_ND: jax.Array, norms: tuple[jax.Array, jax.Array] | None = None
) -> jax.Array:
    """Squared Euclidean distances of centred rows: [B, N], at least 0.

    In float64 they are rounded to ten digits, because mathematically equal distances differ in
    their last bits and must tie, and values below the rounding error of the inner products are
    zero. In float32 they are within `distance_error`.

    Args:
        a_BD, b_ND: rows.
        norms: their `squared_norms`, [B] and [N], where many blocks share them; None to compute
            them, which reads all rows once more.
    """
    a_B, b_N = norms or (squared_norms(a_BD), squared_norms(b_ND))
    size_BN = _sizes(a_B, b_N)
    d_BN = size_BN - 2 * jnp.matmul(a_BD, b_ND.T, precision=jax.lax.Precision.HIGHEST)
    if d_BN.dtype == jnp.float32:
        return jnp.maximum(d_BN, 0.0)
    d_BN = jnp.where(d_BN <= 500 * jnp.finfo(d_BN.dtype).eps * size_BN, 0.0, d_BN)
    return round_on_device(d_BN)


def round_on_device(d: jax.Array) -> jax.Array:
    """Rounds float64 to ten digits, as `rounded` does.

    XLA has no `reduce_precision` of float64 for TPUs, which emulate it by two float32.
    """
    return jax.lax.platform_dependent(
        d,
        tpu=round_by_sums,
        default=lambda d: jax.lax.reduce_precision(d, 11, 52 - ROUNDED_BITS),
    )


def round_by_sums(d: jax.Array) -> jax.Array:
    """The same but for ties, by Dekker's splitting (1971); for finite values below 1e300."""
    scaled = d * (2.0**ROUNDED_BITS + 1.0)
    return jnp.where(jnp.isfinite(scaled), scaled - (scaled - d), d)


def unresolved(a_B: jax.Array, b_N: jax.Array) -> jax.Array:
    """Squared distances up to which rounding hides the order of pairs, from norms: [B, N]."""
    return _UNRESOLVED * jnp.finfo(a_B.dtype).eps * _sizes(a_B, b_N)


def _sizes(a_B: jax.Array, b_N: jax.Array) -> jax.Array:
    """Sums of the squared norms of two rows: [B, N]."""
    return a_B[:, None] + b_N[None]


def distance_error(size: Any, distance: Any) -> Any:
    """Bounds the error of a float32 squared distance of two rows.

    Four roundings of the sum of both squared norms, which is at most five times the first one plus
    the distance.

    Args:
        size: squared norm of one of the rows.
        distance: their squared distance.
    """
    return _ERROR * (size + distance)


def rounded(distances: Float64) -> Float64:
    """Rounds float64 distances to ten digits, as `squared_distances` does, half to even."""
    bits = distances.view(np.int64)
    half = (1 << (ROUNDED_BITS - 1)) - 1 + ((bits >> ROUNDED_BITS) & 1)
    return ((bits + half) >> ROUNDED_BITS << ROUNDED_BITS).view(np.float64)


def distances_to_others(
    z_ND: jax.Array, norm_N: jax.Array, rows_B: jax.Array, count: jax.Array
) -> jax.Array:
    """Squared distances [B, N] of the given rows to all; infinite to themselves and to padding.

    Args:
        z_ND: all rows.
        norm_N: their `squared_norms`.
        rows_B: row numbers of the block.
        count: number of rows that are no padding.
    """
    d_BN = squared_distances(z_ND[rows_B], z_ND, (norm_N[rows_B], norm_N))
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
    num = min(k + _MORE, d_BN.shape[1])
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


def nearest_in_float64(
    d_BN: jax.Array,
    fine: tuple[jax.Array, jax.Array],
    coarse_norm_N: jax.Array,
    rows_B: jax.Array,
    count: jax.Array,
    k: int,
) -> tuple[jax.Array, jax.Array]:
    """Finds the k nearest by float64 distances, among candidates of the float32 search.

    Where the error of float32 leaves a row's candidates uncertain, whole rows are searched in
    float64.

    Args:
        d_BN: float32 distances of the given rows to others.
        fine: the latents [N, D] in float64, and their `squared_norms`.
        coarse_norm_N: `squared_norms` of the float32 latents.
        rows_B, count: as for `distances_to_others`.
        k: number of neighbours.

    Returns:
        Values and indices, [B, k] each, as `nearest` returns for float64 distances.
    """
    z_ND, norm_N = fine
    coarse_BC, index_BC = _two_level(d_BN, min(k + _MORE, d_BN.shape[1]))
    index_BC = jnp.sort(index_BC, axis=1)
    apart_BCD = z_ND[rows_B][:, None] - z_ND[index_BC]
    fine_BC = round_on_device(jnp.sum(apart_BCD**2, axis=2))
    other_BC = (index_BC != rows_B[:, None]) & (index_BC < count)
    values_BK, slot_BK = _smallest(jnp.where(other_BC, fine_BC, jnp.inf), k)
    result = values_BK, jnp.take_along_axis(index_BC, slot_BK, axis=1)
    size_B, last_B = coarse_norm_N[rows_B], coarse_BC[:, -1]
    certain_B = values_BK[:, -1] < last_B - distance_error(size_B, last_B)
    certain_B |= jnp.isinf(last_B) | (rows_B >= count)
    return jax.lax.cond(
        jnp.all(certain_B),
        lambda: result,
        lambda: _smallest(distances_to_others(z_ND, norm_N, rows_B, count), k),
    )


def overlap(
    lists: Sequence[tuple[jax.Array, jax.Array]],
    distances: Callable[[], Sequence[jax.Array]],
    ks: tuple[int, ...],
) -> tuple[jax.Array, jax.Array]:
    """Share of common k nearest neighbours NO@k, eq. (7).

    Args:
        lists: values and indices of the max(ks) + 1 nearest in two spaces, see `nearest`.
        distances: computes the rows [B, N] of both spaces in the dtype of `lists`, infinite for
            excluded columns; used only if there are ties.
        ks: numbers of neighbours.

    Returns:
        Two arrays [B, len(ks)]: with ties to the lowest index, and in expectation if ties at the
        k-th distance are broken at random.
    """
    same_BKK = lists[0][1][:, :, None] == lists[1][1][:, None, :]
    by_index = jnp.stack([jnp.sum(same_BKK[:, :k, :k], axis=(1, 2)) / k for k in ks], axis=1)
    by_index = by_index.astype(lists[0][0].dtype)
    tied = jnp.stack([v[:, k - 1] == v[:, k] for v, _ in lists for k in ks])

    def at_random() -> jax.Array:
        shares = []
        for k in ks:
            x_BN, y_BN = (_probability(d, v[:, k - 1], k) for d, (v, _) in zip(distances(), lists))
            shares.append(jnp.sum(x_BN * y_BN, axis=1) / k)
        return jnp.stack(shares, axis=1)

    return by_index, jax.lax.cond(jnp.any(tied), at_random, lambda: by_index)


def _probability(d_BN: jax.Array, kth_B: jax.Array, k: int) -> jax.Array:
    """Probability [B, N] of being among the k nearest if ties are broken at random."""
    closer_BN, tied_BN = d_BN < kth_B[:, None], d_BN == kth_B[:, None]
    places_B1 = k - jnp.sum(closer_BN, axis=1, keepdims=True)
    share_B1 = (places_B1 / jnp.sum(tied_BN, axis=1, keepdims=True)).astype(d_BN.dtype)
    return jnp.where(closer_BN, 1.0, jnp.where(tied_BN, share_B1, 0.0))
