"""Distances and neighbours of two spaces, in blocks of rows on the device, in float64.

Distances that agree to about ten digits count as equal: mathematically equal distances differ
in their last bits, and a tie must not depend on them.

Shape suffixes: N samples, D and E features, B rows of a block, K neighbours.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.alignment.moments import Float64

EXACT_DSC = 4096  # test points up to which all ranks are sorted
BINS = 1 << 16
_BLOCK_ELEMENTS = 1 << 21  # distances held at once
_MANTISSA_BITS = 33
_GRAM_ROUNDING = 1e-13


def squared_distances(a_BD: jax.Array, b_ND: jax.Array) -> jax.Array:
    """Squared Euclidean distances [B, N] of centred float64 rows, rounded to ten digits."""
    a_B1 = jnp.sum(a_BD**2, axis=1, keepdims=True)
    b_1N = jnp.sum(b_ND**2, axis=1)[None]
    size_BN = a_B1 + b_1N
    d_BN = size_BN - 2 * jnp.matmul(a_BD, b_ND.T, precision=jax.lax.Precision.HIGHEST)
    d_BN = jnp.where(d_BN <= _GRAM_ROUNDING * size_BN, 0.0, d_BN)
    return jax.lax.reduce_precision(d_BN, exponent_bits=11, mantissa_bits=_MANTISSA_BITS)


def neighbor_overlap(x_ND: Float64, y_NE: Float64, ks: tuple[int, ...]) -> tuple[Float64, Float64]:
    """Share of common nearest neighbours NO@k, eq. (7), averaged over samples.

    Args:
      x_ND, y_NE: the same N samples in two spaces.
      ks: neighbourhood sizes, each below N.

    Returns:
      Two arrays [len(ks)]: with ties broken by the lowest index, and the expectation when ties
      at the k-th distance are broken at random. A sample is never its own neighbour; it is
      removed by index, so that duplicates of it remain.
    """
    block = max(1, min(len(x_ND), _BLOCK_ELEMENTS // len(x_ND)))
    with jax.enable_x64(True):
        sums = _overlap_sums(_centred(x_ND), _centred(y_NE), ks, block)
        by_index, expected = (np.asarray(value) for value in sums)
    return by_index / len(x_ND), expected / len(x_ND)


def dsc(x: Float64, y: Float64) -> float:
    """Distance-structure consistency: Spearman correlation of all pairwise distances.

    Pairs i < j, average ranks for ties. Up to 4,096 samples the ranks are exact; beyond,
    distances are sorted into 65,536 bins (see `binned_dsc`, which also returns a bound).

    Args:
      x, y: [N, D] and [N, E], the same N >= 3 samples in two spaces.
    """
    if len(x) > EXACT_DSC:
        return binned_dsc(x, y)[0]
    return _pearson(*(_average_ranks(_condensed(z)) for z in (x, y)))


def _centred(z: Float64) -> jax.Array:
    return jnp.asarray(z - z.mean(axis=0))


def _blocks(n: int, block: int) -> jax.Array:
    return jnp.arange(-(-n // block) * block).reshape(-1, block)


@partial(jax.jit, static_argnames=("ks", "block"))
def _overlap_sums(
    x_ND: jax.Array, y_NE: jax.Array, ks: tuple[int, ...], block: int
) -> tuple[jax.Array, jax.Array]:
    n = len(x_ND)

    def of_rows(rows_B: jax.Array) -> tuple[jax.Array, jax.Array]:
        weight_B1 = (rows_B < n).astype(x_ND.dtype)[:, None]
        nearest_x, nearest_y = (_nearest(z, rows_B, max(ks)) for z in (x_ND, y_NE))
        by_index_BK = _common(nearest_x[1], nearest_y[1], ks)
        expected_BK = jnp.stack(
            [jnp.sum(_chance(*nearest_x, k) * _chance(*nearest_y, k), axis=1) / k for k in ks], 1
        )
        return jnp.sum(weight_B1 * by_index_BK, axis=0), jnp.sum(weight_B1 * expected_BK, axis=0)

    sums = jax.lax.map(of_rows, _blocks(n, block))
    return jnp.sum(sums[0], axis=0), jnp.sum(sums[1], axis=0)


def _nearest(z_ND: jax.Array, rows_B: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """Distances [B, N] with self at infinity, and the indices [B, k] of the k smallest."""
    rows_B = jnp.minimum(rows_B, len(z_ND) - 1)
    d_BN = squared_distances(z_ND[rows_B], z_ND)
    d_BN = d_BN.at[jnp.arange(len(rows_B)), rows_B].set(jnp.inf)
    return d_BN, jax.lax.top_k(-d_BN, k)[1]


def _common(x_BK: jax.Array, y_BK: jax.Array, ks: tuple[int, ...]) -> jax.Array:
    """Share of common indices among the first k, for every k: [B, len(ks)]."""
    same_BKK = x_BK[:, :, None] == y_BK[:, None, :]
    return jnp.stack([jnp.sum(same_BKK[:, :k, :k], axis=(1, 2)) / k for k in ks], axis=1)


def _chance(d_BN: jax.Array, nearest_BK: jax.Array, k: int) -> jax.Array:
    """Probability [B, N] of being among the k nearest when ties are broken at random."""
    kth_B1 = jnp.take_along_axis(d_BN, nearest_BK[:, k - 1 : k], axis=1)
    closer_BN, tied_BN = d_BN < kth_B1, d_BN == kth_B1
    places_B1 = k - jnp.sum(closer_BN, axis=1, keepdims=True)
    share_B1 = places_B1 / jnp.sum(tied_BN, axis=1, keepdims=True)
    return jnp.where(closer_BN, 1.0, jnp.where(tied_BN, share_B1, 0.0))


@jax.jit
def _distance_rows(z_ND: jax.Array, rows_B: jax.Array) -> jax.Array:
    return squared_distances(z_ND[jnp.minimum(rows_B, len(z_ND) - 1)], z_ND)


def _condensed(z: Float64) -> Float64:
    """Squared distances of all pairs i < j, row by row: [N (N - 1) / 2]."""
    n = len(z)
    block = max(1, min(n, _BLOCK_ELEMENTS // n))
    parts = []
    with jax.enable_x64(True):
        z_ND = _centred(z)
        for rows_B in np.asarray(_blocks(n, block)):
            d_BN = np.asarray(_distance_rows(z_ND, rows_B))
            parts.append(d_BN[np.arange(n)[None] > rows_B[:, None]])
    return np.concatenate(parts)


def _average_ranks(values: Float64) -> Float64:
    """Ranks from 0 with ties at their average."""
    order = np.argsort(values)
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    counts = np.diff(np.append(starts, len(values)))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat(starts + (counts - 1) / 2, counts)
    return ranks


def _pearson(a: Float64, b: Float64) -> float:
    a, b = a - a.mean(), b - b.mean()
    norms = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / norms) if norms > 0 else float("nan")


def binned_dsc(x: Float64, y: Float64, *, bins: int = BINS) -> tuple[float, float]:
    """`dsc` with distances sorted into equal-width bins, streamed in O(block N) memory.

    One pass counts the distances of each space into bins; a bin's members share its mid-rank. A
    second pass sums the products of these ranks over all pairs.

    Returns:
      The correlation, and a bound on its error: with f the share of the rank variance that lies
      inside bins, the exact value differs by at most sqrt(f_x) + sqrt(f_y) + f_x + f_y (by
      Cauchy-Schwarz; the typical error is the square of it).
    """
    n = len(x)
    block = max(1, min(n, _BLOCK_ELEMENTS // n))
    with jax.enable_x64(True):
        spaces = [_centred(z) for z in (x, y)]
        tops = [2 * float(jnp.sqrt(jnp.max(jnp.sum(z**2, axis=1)))) for z in spaces]
        counts = np.zeros((2, bins), np.int64)
        for rows_B in np.asarray(_blocks(n, block)):
            codes = [_codes(z, rows_B, top, bins) for z, top in zip(spaces, tops)]
            counts += np.stack([np.asarray(_count(c, bins)) for c in codes])
        ranks = np.cumsum(counts, axis=1) - (counts + 1) / 2  # mid-ranks from 0
        total = counts[0].sum()
        ranks -= (total - 1) / 2
        cross = 0.0
        tables = [jnp.asarray(np.append(r, 0.0)) for r in ranks]
        for rows_B in np.asarray(_blocks(n, block)):
            codes = [_codes(z, rows_B, top, bins) for z, top in zip(spaces, tops)]
            cross += float(_cross(*codes, *tables))
    between = np.sum(counts * ranks**2, axis=1)
    within = np.sum(counts * (counts.astype(np.float64) ** 2 - 1) / 12, axis=1)
    if not (between > 0).all():
        return float("nan"), float("nan")
    share = within / (within + between)
    return float(cross / np.sqrt(between.prod())), float(np.sum(np.sqrt(share) + share))


@partial(jax.jit, static_argnames="bins")
def _codes(z_ND: jax.Array, rows_B: jax.Array, top: float, bins: int) -> jax.Array:
    """The bin of every distance [B, N]; pairs j <= i and rows beyond N get the code `bins`."""
    d_BN = jnp.sqrt(_distance_rows(z_ND, rows_B))
    codes_BN = jnp.minimum((d_BN * (bins / top)).astype(jnp.int32), bins - 1)
    return jnp.where(jnp.arange(len(z_ND))[None] > rows_B[:, None], codes_BN, bins)


@partial(jax.jit, static_argnames="bins")
def _count(codes_BN: jax.Array, bins: int) -> jax.Array:
    return jnp.zeros(bins, jnp.int32).at[codes_BN.ravel()].add(1, mode="drop")


@jax.jit
def _cross(x_BN: jax.Array, y_BN: jax.Array, ranks_x: jax.Array, ranks_y: jax.Array) -> jax.Array:
    return jnp.sum(ranks_x[x_BN] * ranks_y[y_BN])
