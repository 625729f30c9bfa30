"""All pairs on accelerators: blocks of rows against all rows, entirely on the device.

Shape suffixes: N samples (padded), D and E features, B rows of a block, S blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from socialjepa_jax.alignment.distances import neighbors
from socialjepa_jax.alignment.distances.histogram import (
    PairStatistics,
    Table,
    count_pairs,
    equal_mass_tables,
)
from socialjepa_jax.alignment.moments import Float64

_MAX_PAIRS = 1 << 31  # that an int32 can count

Normed = tuple[jax.Array, jax.Array]  # latents [N, D] and their squared norms [N]
Space = tuple[Normed, Normed]  # in the dtype of the histogram and in float64


def run(
    x_ND: Float64,
    y_NE: Float64,
    ks: tuple[int, ...],
    bins: int,
    mesh: Mesh | None,
) -> PairStatistics:
    """Computes the statistics of all pairs of samples.

    Args:
        x_ND, y_NE: two spaces.
        ks: numbers of neighbours, below N.
        bins: side of the joint histogram of float32 distances; 0 for no histogram and float64.
        mesh: devices to share the work; None for one.
    """
    count = len(x_ND)
    fine = [neighbors.padded(z, "float64") for z in (x_ND, y_NE)]
    arrays = [neighbors.padded(z, "float32") if bins else z64 for z, z64 in zip((x_ND, y_NE), fine)]
    tables = equal_mass_tables(arrays, count, bins)
    spaces = [tuple(map(jnp.asarray, pair)) for pair in zip(arrays, fine)]
    blocks = neighbors.row_blocks(len(fine[0]))
    blocks = blocks[blocks[:, 0] < count]
    devices = 1 if mesh is None else mesh.size
    step = max(1, _MAX_PAIRS // (blocks.shape[1] * len(fine[0])) // devices) * devices
    overlaps, joint = np.zeros((2, len(ks))), np.zeros((bins, bins), np.int64)
    for start in range(0, len(blocks) if ks or bins else 0, step):
        part = blocks[start : start + step]
        filler = np.full((-len(part) % devices, blocks.shape[1]), len(fine[0]))  # masked rows
        part_SB = jnp.asarray(np.concatenate([part, filler]))
        sums, counts = _sums(*spaces, part_SB, count, tables, ks, bins, mesh)
        overlaps += np.asarray(sums)
        joint += np.asarray(counts)
    return PairStatistics(overlaps / count, joint if bins else None)


@partial(jax.jit, static_argnames=("ks", "bins", "mesh"))
def _sums(
    x: tuple[jax.Array, jax.Array],
    y: tuple[jax.Array, jax.Array],
    blocks_SB: jax.Array,
    count: jax.Array,
    tables: Sequence[Table],
    ks: tuple[int, ...],
    bins: int,
    mesh: Mesh | None,
) -> tuple[jax.Array, jax.Array]:
    """Computes sums of overlaps [2, len(ks)] and the joint histogram over blocks of rows.

    Both spaces are given in the dtype of the histogram and in float64.
    """

    def add_block(
        spaces: Sequence[Space], joint: jax.Array, rows_B: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        d = [neighbors.distances_to_others(*coarse, rows_B, count) for coarse, _ in spaces]
        sums = jnp.zeros((2, 0))
        if ks:
            shares = jnp.stack(_overlap(d, spaces, rows_B, count, ks))
            inside_B = (rows_B < count).astype(shares.dtype)
            sums = jnp.sum(shares * inside_B[None, :, None], axis=1, dtype=jnp.float64)
        if bins:
            column_1N = jnp.arange(len(x[0]))[None]
            pair_BN = (column_1N > rows_B[:, None]) & (column_1N < count)
            norms = [norm_N for (_, norm_N), _ in spaces]
            unresolved = [neighbors.unresolved(norm_N[rows_B], norm_N) for norm_N in norms]
            joint = count_pairs(joint, d, unresolved, tables, pair_BN)
        return joint, sums

    def of_shard(blocks: jax.Array) -> tuple[jax.Array, jax.Array]:
        spaces = [(_normed(coarse), _normed(fine)) for coarse, fine in (x, y)]
        add = partial(add_block, spaces)  # norms once, not in every block
        joint, sums = jax.lax.scan(add, jnp.zeros(bins * bins, jnp.int32), blocks)
        return jnp.sum(sums, axis=0)[None], joint.reshape(1, bins, bins)

    if mesh is not None:
        spec = PartitionSpec(mesh.axis_names)
        of_shard = jax.shard_map(
            of_shard, mesh=mesh, in_specs=spec, out_specs=(spec, spec), check_vma=False
        )
    sums, joint = of_shard(blocks_SB)
    return jnp.sum(sums, axis=0), jnp.sum(joint, axis=0, dtype=jnp.int32)


def _normed(z_ND: jax.Array) -> Normed:
    return z_ND, neighbors.squared_norms(z_ND)


def _overlap(
    d: Sequence[jax.Array],
    spaces: Sequence[Space],
    rows_B: jax.Array,
    count: jax.Array,
    ks: tuple[int, ...],
) -> tuple[jax.Array, jax.Array]:
    """Computes `neighbors.overlap` of a block of rows from its distances [B, N]."""
    k = max(ks) + 1
    lists = [
        neighbors.nearest_in_float64(d_BN, fine, norm_N, rows_B, count, k)
        if d_BN.dtype == jnp.float32
        else neighbors.nearest(d_BN, k)
        for d_BN, ((_, norm_N), fine) in zip(d, spaces)
    ]

    def distances() -> Sequence[jax.Array]:
        return [neighbors.distances_to_others(*fine, rows_B, count) for _, fine in spaces]

    return neighbors.overlap(lists, distances, ks)
