"""All pairs on CPUs: XLA computes square blocks of the distance matrix, NumPy selects from them.

Only blocks on and above the diagonal are computed: a block gives its rows neighbours among its
columns, and its columns neighbours among its rows. `top_k`, which `on_accelerator` uses, is slow
in XLA on CPUs; comparisons with a bound are fast.

Shape suffixes: N samples (padded), D and E features, S blocks of rows, B side of a block,
G groups in a block, H bins.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from socialjepa_jax.alignment.distances import neighbors
from socialjepa_jax.alignment.distances.candidates import Candidates, Space, overlap_sums
from socialjepa_jax.alignment.distances.histogram import (
    PairStatistics,
    Table,
    count_pairs,
    equal_mass_tables,
)
from socialjepa_jax.alignment.moments import Float64

_SIDES = (256, 512)  # of a block; the larger one to find neighbours of at least 1,024 samples
_MAX_BLOCKS = (1 << 31) // _SIDES[1] ** 2  # blocks whose pairs an int32 can count

# First row and column; distances [B, B] in both spaces; group minima [B, G] of rows and columns.
Block = tuple[tuple[int, int], list[np.ndarray], list[list[np.ndarray]]]


def run(
    x_ND: Float64,
    y_NE: Float64,
    ks: tuple[int, ...],
    bins: int,
    mesh: Mesh | None,
) -> PairStatistics:
    """Computes the statistics of all pairs; arguments as for `on_accelerator.run`.

    Raises:
        TooManyTies: if too many distances are equal to keep all candidates.
    """
    count = len(x_ND)
    side = _SIDES[bool(ks) and count >= 4 * _SIDES[0]]
    spaces = [neighbors.padded(z, "float32" if bins else "float64", side) for z in (x_ND, y_NE)]
    groups = min(side, 1 << max(ks).bit_length()) if ks else 0  # more than max(ks)
    blocks = _Blocks(spaces, equal_mass_tables(spaces, count, bins), side, groups, bins, mesh)
    if bins and not ks:
        blocks.count_all(count)
        return PairStatistics(np.zeros((2, 0)), joint=blocks.joint)
    candidates = [Candidates(z, max(ks) + 1) for z in spaces] if ks else []
    distances = [] if bins else [np.empty(count * (count - 1) // 2) for _ in spaces]
    filled = 0
    for corner, d, minima in blocks.compute(count):
        for space, d_BB, minima_BG in zip(candidates, d, minima):
            space.add(corner, d_BB, minima_BG)
        if not bins:
            is_pair_BB = np.isfinite(d[0])
            start, filled = filled, filled + int(is_pair_BB.sum())
            for all_P, d_BB in zip(distances, d):
                all_P[start:filled] = d_BB[is_pair_BB]
    sums: Float64 = np.zeros((2, 0))
    if ks:
        x, y = (
            Space(c.matrix()[:count], c.sizes_N, _in_float64(z_ND, padded, side))
            for c, z_ND, padded in zip(candidates, (x_ND, y_NE), spaces)
        )
        sums = overlap_sums(x, y, ks)
    joint = blocks.joint if bins else None
    return PairStatistics(sums / count, joint, distances or None)


def _in_float64(z_ND: Float64, padded: np.ndarray, side: int) -> np.ndarray:
    """Returns the padded latents in float64."""
    return padded if padded.dtype == np.float64 else neighbors.padded(z_ND, "float64", side)


class _Blocks:
    """Computes blocks on devices and accumulates their joint histogram in `joint`."""

    def __init__(
        self,
        spaces: Sequence[np.ndarray],
        tables: Sequence[Table],
        side: int,
        groups: int,
        bins: int,
        mesh: Mesh | None,
    ) -> None:
        self.joint = np.zeros((bins, bins), np.int64)
        self._spaces = [z.reshape(-1, side, z.shape[1]) for z in spaces]
        self._tables, self._side, self._groups = tables, side, groups
        self._devices = jax.local_devices()[:1] if mesh is None else list(mesh.devices.flat)

    def compute(self, count: int) -> Iterator[Block]:
        """Yields all blocks, those on the diagonal first; every device computes one ahead."""
        parts = [list(z_SBD) for z_SBD in self._spaces], self._tables
        inputs = [jax.device_put(parts, device) for device in self._devices]
        for indices in self._batches():
            joints = [jnp.zeros(self.joint.size, jnp.int32, device=d) for d in self._devices]
            waiting: deque[tuple] = deque()
            for n, (i, j) in enumerate(indices.tolist()):
                corner, device = (i * self._side, j * self._side), n % len(joints)
                (x, y), tables = inputs[device]
                joints[device], *block = _block(
                    joints[device],
                    ((x[i], x[j]), (y[i], y[j])),
                    tables,
                    np.asarray([*corner, count], np.int32),
                    self._groups,
                    len(self.joint),
                )
                waiting.append((corner, block))
                if len(waiting) > len(joints):
                    yield _to_host(*waiting.popleft())
            yield from itertools.starmap(_to_host, waiting)
            self._add(joints)

    def count_all(self, count: int) -> None:
        """Accumulates the joint histogram of all blocks without copying distances to the host."""
        inputs = [jax.device_put((self._spaces, self._tables), device) for device in self._devices]
        for indices in self._batches():
            shares = (indices[n :: len(inputs)] for n in range(len(inputs)))
            self._add([_count(*z, s, count, len(self.joint)) for z, s in zip(inputs, shares)])

    def _batches(self) -> Iterator[np.ndarray]:
        """Yields (row, column) indices of blocks, int32 [n, 2], n small enough for int32 counts."""
        indices = np.stack(np.triu_indices(len(self._spaces[0])), axis=1).astype(np.int32)
        order = np.argsort(indices[:, 1] - indices[:, 0], kind="stable")
        for start in range(0, len(order), _MAX_BLOCKS):
            yield indices[order[start : start + _MAX_BLOCKS]]

    def _add(self, joints: Sequence[jax.Array]) -> None:
        for joint in joints:
            self.joint += np.asarray(joint).reshape(self.joint.shape)


def _to_host(corner: tuple[int, int], block: list) -> Block:
    d, minima = jax.tree.map(np.asarray, block)
    return corner, d, minima


@partial(jax.jit, static_argnames=("groups", "bins"), donate_argnums=0)
def _block(
    joint: jax.Array,
    sides: Sequence[tuple[jax.Array, jax.Array]],
    tables: Sequence[Table],
    bounds: jax.Array,
    groups: int,
    bins: int,
) -> tuple[jax.Array, list[jax.Array], list[tuple[jax.Array, jax.Array]]]:
    """Computes one block.

    Args:
        joint: flat joint histogram, int32 [H * H].
        sides: latents of the rows and of the columns of the block, [B, D], for both spaces.
        tables: bins of both spaces.
        bounds: first row, first column, and number of samples.
        groups: number of groups G; 0 for no minima.
        bins: H.

    Returns:
        The histogram with the pairs added; distances [B, B] of both spaces, infinite for entries
        that are no pair; and their minima [B, G] over groups, by row and by column.
    """
    row, column, count = bounds
    offset_B = jnp.arange(len(sides[0][0]), dtype=jnp.int32)
    row_B1, column_1B = row + offset_B[:, None], column + offset_B[None]
    is_pair_BB = (column_1B > row_B1) & (column_1B < count)
    norms = [(neighbors.squared_norms(a), neighbors.squared_norms(b)) for a, b in sides]
    d = [neighbors.squared_distances(*rows, sizes) for rows, sizes in zip(sides, norms)]
    if bins:
        unresolved = [neighbors.unresolved(*sizes) for sizes in norms]
        joint = count_pairs(joint, d, unresolved, tables, is_pair_BB)
    d = [jnp.where(is_pair_BB, d_BB, jnp.inf) for d_BB in d]
    return joint, d, [_minima(d_BB, groups) for d_BB in d] if groups else []


@partial(jax.jit, static_argnames="bins")
def _count(
    spaces: Sequence[jax.Array],
    tables: Sequence[Table],
    indices: jax.Array,
    count: jax.Array,
    bins: int,
) -> jax.Array:
    """Computes the joint histogram of many blocks, given their (row, column) indices."""

    def add(joint: jax.Array, index: jax.Array) -> tuple[jax.Array, None]:
        sides = [(z_SBD[index[0]], z_SBD[index[1]]) for z_SBD in spaces]
        bounds = jnp.append(index * spaces[0].shape[1], count)
        return _block(joint, sides, tables, bounds, 0, bins)[0], None

    return jax.lax.scan(add, jnp.zeros(bins**2, jnp.int32), indices)[0]


def _minima(d_BB: jax.Array, groups: int) -> tuple[jax.Array, jax.Array]:
    """Returns minima [B, G] over groups of columns of every row, and of rows of every column."""
    side = len(d_BB)
    of_rows = jnp.min(d_BB.reshape(side, side // groups, groups), axis=1)
    return of_rows, jnp.min(d_BB.reshape(side // groups, groups, side), axis=0).T
