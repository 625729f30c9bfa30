"""How well two spaces agree on who is near whom: DSC and neighbour overlap, no N x N array.

Up to 4,096 samples everything is exact, in float64. Beyond, one pass over blocks of float32
distances finds neighbours and fills a joint histogram of the two distances, from which the rank
correlation follows with a bound on its error. The rows can be spread over several devices.

Shape suffixes: N samples, D and E features, B rows of a block, H histogram bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import neighbors
from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs
from socialjepa_jax.validate import InputError

EXACT = 4096  # samples up to which all distances are ranked
BINS = 2048
_FINE = 1 << 16  # equal-width bins that are looked up to find the bin of equal mass
_SAMPLE_ROWS = 256  # rows whose distances set the bins
_TILE = 256  # side of a tile of the distance matrix
_MAX_COUNT = 1 << 31


@dataclass(frozen=True, eq=False)
class Geometry:
    """What two spaces have in common.

    Attributes:
      dsc: Spearman correlation of the distances of all pairs i < j, average ranks for ties.
      dsc_bound: the exact value differs from `dsc` by at most this; 0 where it is exact.
      overlap, overlap_expected: NO@k, eq. (7), by k: ties to the lowest index, or broken at
        random in expectation. Samples are removed from their own neighbours by index.
      joint: int64 [H, H] counts of pairs in bins of the two distances of about equal mass;
        None where `dsc` is exact.
    """

    dsc: float
    dsc_bound: float
    overlap: dict[int, float]
    overlap_expected: dict[int, float]
    joint: np.ndarray | None = None


def compare(
    x: ArrayLike,
    y: ArrayLike,
    ks: Sequence[int] = (10,),
    *,
    bins: int = BINS,
    exact: bool | None = None,
    mesh: Mesh | None = None,
) -> Geometry:
    """Compares the distances and neighbours of the same N samples in two spaces.

    Args:
      x, y: [N, D] and [N, E], N >= 3.
      ks: neighbourhood sizes; those that are not below N are left out.
      bins: bins a side of the joint histogram.
      exact: rank all distances, in float64; None: up to 4,096 samples.
      mesh: devices to spread the rows over; None: one.
    """
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    n = len(x_ND)
    if n < 3:
        raise InputError(f"distances of at least 3 samples are needed, got {n}")
    exact = n <= EXACT if exact is None else exact
    ks = tuple(k for k in ks if k < n)
    with jax.enable_x64(True):
        spaces = [neighbors.padded(z, "float64" if exact else "float32") for z in (x_ND, y_NE)]
        tables = [_no_table() if exact else _equal_mass_table(z, n, bins) for z in spaces]
        shares, joint = _pass(spaces, tables, n, ks, 0 if exact else bins, mesh)
        if exact:
            value = _pearson(*(_average_ranks(pair_distances(z)) for z in (x_ND, y_NE)))
            bound, counts = 0.0, None
        else:
            value, bound = joint_spearman(joint)
            counts = joint
    by_index, expected = (dict(zip(ks, share.tolist())) for share in shares)
    return Geometry(value, bound, by_index, expected, counts)


def dsc(x: ArrayLike, y: ArrayLike, *, exact: bool | None = None) -> float:
    """Distance-structure consistency alone: see `Geometry.dsc` and `compare`."""
    return compare(x, y, (), exact=exact).dsc


def pair_distances(z: ArrayLike) -> Float64:
    """Squared distances of all pairs i < j of z [N, D], row by row: float64 [N (N - 1) / 2]."""
    z_ND = as_latents(z, "z")
    count = len(z_ND)
    parts = []
    with jax.enable_x64(True):
        padded = neighbors.padded(z_ND, "float64")
        for rows_B in neighbors.row_blocks(len(padded)):
            d_BN = np.asarray(_block_distances(padded, rows_B))[rows_B < count, :count]
            parts.append(d_BN[np.arange(count)[None] > rows_B[rows_B < count, None]])
    return np.concatenate(parts)


def joint_spearman(joint_HH: np.ndarray) -> tuple[float, float]:
    """Spearman correlation of binned pairs, and a bound on what binning changed.

    The members of a bin share its mid-rank. With f the share of the rank variance that lies
    inside bins, the exact value differs by at most sqrt(f_x) + sqrt(f_y) + f_x + f_y
    (Cauchy-Schwarz); where order inside bins is unrelated, by about the squares of these.

    Args:
      joint_HH: int64 counts [H, H].
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
    value = ranks[0] @ joint_HH @ ranks[1] / np.sqrt(between[0] * between[1])
    return float(value), float(np.sum(np.sqrt(share) + share))


Table = tuple[jax.Array, jax.Array, jax.Array]  # lowest squared distance, bins a unit, bin [F]


def _no_table() -> Table:
    return jnp.zeros(()), jnp.zeros(()), jnp.zeros(1, jnp.int32)


def _equal_mass_table(z_ND: jax.Array, count: int, bins: int) -> Table:
    """Bins that hold about the same number of pairs, from the distances of some rows to all."""
    rows = np.unique(np.linspace(0, count - 1, _SAMPLE_ROWS).astype(int))
    d_BN = np.asarray(neighbors.squared_distances(z_ND[rows], z_ND))[:, :count]
    low, high = d_BN[d_BN > 0].min(initial=np.inf), d_BN.max()
    if not low < high:
        low = 0.0
    scale = _FINE / (high - low) if high > low else 1.0
    counts = np.bincount(
        np.clip((d_BN.ravel() - low) * scale, 0, _FINE - 1).astype(int), minlength=_FINE
    )
    middle = np.cumsum(counts) - counts / 2
    table = np.minimum(bins * middle // counts.sum(), bins - 1)
    dtype = z_ND.dtype  # else the distances would be promoted
    return jnp.asarray(low, dtype), jnp.asarray(scale, dtype), jnp.asarray(table, jnp.int32)


def _codes(d_BN: jax.Array, table: Table) -> jax.Array:
    low, scale, bin_F = table
    fine_BN = jnp.clip((d_BN - low) * scale, 0, _FINE - 1).astype(jnp.int32)
    return bin_F[fine_BN]


def _pass(
    spaces: list[jax.Array],
    tables: list[Table],
    count: int,
    ks: tuple[int, ...],
    bins: int,
    mesh: Mesh | None,
) -> tuple[Float64, np.ndarray]:
    """Mean overlaps [2, len(ks)] and the joint histogram [bins, bins], int64."""
    padded = len(spaces[0])
    if ks:
        blocks = neighbors.row_blocks(padded)
        blocks = blocks[blocks[:, 0] < count]
        pairs = blocks.shape[1] * padded
    else:
        blocks = np.stack(np.triu_indices(padded // _TILE), axis=1) * _TILE
        pairs = _TILE**2
    devices = 1 if mesh is None else mesh.size
    step = max(1, _MAX_COUNT // pairs // devices) * devices
    overlaps, joint = np.zeros((2, len(ks))), np.zeros((bins, bins), np.int64)
    if not (ks or bins):
        return overlaps, joint
    for start in range(0, len(blocks), step):
        part = blocks[start : start + step]
        fill = np.full((-len(part) % devices, blocks.shape[1]), padded)  # rows that do not exist
        sums, counts = _sums(
            *spaces, jnp.asarray(np.concatenate([part, fill])), count, *tables, ks, bins, mesh
        )
        overlaps += np.asarray(sums)
        joint += np.asarray(counts)
    return overlaps / count, joint


@partial(jax.jit, static_argnames=("ks", "bins", "mesh"))
def _sums(
    x_ND: jax.Array,
    y_NE: jax.Array,
    blocks: jax.Array,
    count: jax.Array,
    table_x: Table,
    table_y: Table,
    ks: tuple[int, ...],
    bins: int,
    mesh: Mesh | None,
) -> tuple[jax.Array, jax.Array]:
    """Sums of overlaps [2, len(ks)] and the joint histogram over blocks.

    A block is a set of rows, seen against all rows; or, where no neighbours are asked for, the
    two corners of a square tile of the upper triangle.
    """

    def add_pairs(
        joint: jax.Array, d: Sequence[jax.Array], rows_B: jax.Array, columns_C: jax.Array
    ) -> jax.Array:
        code_BC = _codes(d[0], table_x) * bins + _codes(d[1], table_y)
        pair_BC = (columns_C[None] > rows_B[:, None]) & (columns_C < count)[None]
        return joint.at[jnp.where(pair_BC, code_BC, bins * bins).ravel()].add(1, mode="drop")

    def rows_step(joint: jax.Array, rows_B: jax.Array) -> tuple[jax.Array, jax.Array]:
        dx_BN = neighbors.distances_to_others(x_ND, rows_B, count)
        dy_BN = neighbors.distances_to_others(y_NE, rows_B, count)
        shares = jnp.stack(neighbors.overlap(dx_BN, dy_BN, ks))
        inside_B = (rows_B < count).astype(shares.dtype)
        sums = jnp.sum(shares * inside_B[None, :, None], axis=1, dtype=jnp.float64)
        if bins:
            joint = add_pairs(joint, (dx_BN, dy_BN), rows_B, jnp.arange(len(x_ND)))
        return joint, sums

    def tile_step(joint: jax.Array, corner_2: jax.Array) -> tuple[jax.Array, jax.Array]:
        d = []
        for z in (x_ND, y_NE):
            sides = [jax.lax.dynamic_slice_in_dim(z, corner, _TILE) for corner in corner_2]
            d.append(neighbors.squared_distances(*sides))
        rows_B, columns_C = (corner + jnp.arange(_TILE) for corner in corner_2)
        return add_pairs(joint, d, rows_B, columns_C), jnp.zeros((2, 0))

    def of_shard(blocks: jax.Array) -> tuple[jax.Array, jax.Array]:
        empty = jnp.zeros(bins * bins, jnp.int32)
        joint, sums = jax.lax.scan(rows_step if ks else tile_step, empty, blocks)
        return jnp.sum(sums, axis=0)[None], joint.reshape(1, bins, bins)

    if mesh is not None:
        spec = PartitionSpec(mesh.axis_names)
        of_shard = jax.shard_map(
            of_shard, mesh=mesh, in_specs=spec, out_specs=(spec, spec), check_vma=False
        )
    sums, joint = of_shard(blocks)
    return jnp.sum(sums, axis=0), jnp.sum(joint, axis=0, dtype=jnp.int32)


@jax.jit
def _block_distances(z_ND: jax.Array, rows_B: jax.Array) -> jax.Array:
    return neighbors.squared_distances(z_ND[rows_B], z_ND)


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
