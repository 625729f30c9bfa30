"""The pass over all pairs on CPUs: XLA makes square tiles of distances, NumPy selects from them.

Only tiles on and above the diagonal are made: a tile gives its rows neighbours among its columns
and its columns neighbours among its rows. `top_k`, on which accelerators rely (`rows.py`), is
slow in XLA on CPUs; comparisons with a limit are not.

Shape suffixes: N samples (padded), D and E features, T side of a tile, G groups in a tile, H bins.
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
from socialjepa_jax.alignment.distances.candidates import Candidates, overlap_sums
from socialjepa_jax.alignment.distances.histogram import (
    PairStatistics,
    Table,
    count_pairs,
    equal_mass_tables,
)
from socialjepa_jax.alignment.moments import Float64

_SIDES = (256, 512)  # of tiles; the larger for neighbours of at least 1,024 samples
_MAX_TILES = (1 << 31) // _SIDES[1] ** 2  # whose pairs an int32 can count

# First row and column, distances [T, T], minima of groups of every row's and column's [T, G].
Tile = tuple[tuple[int, int], list[np.ndarray], list[list[np.ndarray]]]


def run(
    x_ND: Float64,
    y_NE: Float64,
    ks: tuple[int, ...],
    bins: int,
    mesh: Mesh | None,
) -> PairStatistics:
    """Goes through all pairs of samples; see `rows.run`.

    Raises:
      TooManyTies: if too many distances are equal to be kept as candidates.
    """
    count = len(x_ND)
    side = _SIDES[bool(ks) and count >= 4 * _SIDES[0]]
    spaces = [neighbors.padded(z, "float32" if bins else "float64", side) for z in (x_ND, y_NE)]
    groups = min(side, 1 << max(ks).bit_length()) if ks else 0  # more than max(ks)
    sweep = _Sweep(spaces, equal_mass_tables(spaces, count, bins), side, groups, bins, mesh)
    if bins and not ks:
        sweep.only_count(count)
        return PairStatistics(np.zeros((2, 0)), joint=sweep.joint)
    found = [Candidates(len(z), max(ks) + 1, z.dtype) for z in spaces] if ks else []
    kept = []
    for corner, tile, minima in sweep.tiles(count):
        for candidates, d_TT, least in zip(found, tile, minima):
            candidates.add(corner, d_TT, least)
        if not bins:
            pairs_TT = np.isfinite(tile[0])
            kept.append([d_TT[pairs_TT] for d_TT in tile])
    sums: Float64 = np.zeros((2, 0))
    if ks:
        near_x, near_y = (candidates.matrix()[:count] for candidates in found)
        sums = overlap_sums(near_x, near_y, ks)
    if bins:
        return PairStatistics(sums / count, joint=sweep.joint)
    return PairStatistics(sums / count, distances=[np.concatenate(parts) for parts in zip(*kept)])


class _Sweep:
    """Tiles in the making on some devices, and the joint histogram of those made so far."""

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

    def tiles(self, count: int) -> Iterator[Tile]:
        """All tiles, the diagonal first; every device works ahead by one."""
        parts = [list(z_STD) for z_STD in self._spaces], self._tables
        held = [jax.device_put(parts, device) for device in self._devices]
        for places in self._batches():
            joints = [jnp.zeros(self.joint.size, jnp.int32, device=d) for d in self._devices]
            waiting: deque[tuple] = deque()
            for n, (i, j) in enumerate(places.tolist()):
                corner, on = (i * self._side, j * self._side), n % len(joints)
                (x, y), tables = held[on]
                joints[on], *tile = _tile(
                    joints[on],
                    ((x[i], x[j]), (y[i], y[j])),
                    tables,
                    np.asarray([*corner, count], np.int32),
                    self._groups,
                    len(self.joint),
                )
                waiting.append((corner, tile))
                if len(waiting) > len(joints):
                    yield _on_host(*waiting.popleft())
            yield from itertools.starmap(_on_host, waiting)
            self._add(joints)

    def only_count(self, count: int) -> None:
        """All tiles, without a look at their distances."""
        held = [jax.device_put((self._spaces, self._tables), device) for device in self._devices]
        for places in self._batches():
            shares = (places[n :: len(held)] for n in range(len(held)))
            self._add([_count(*h, s, count, len(self.joint)) for h, s in zip(held, shares)])

    def _batches(self) -> Iterator[np.ndarray]:
        """The places of tiles, int32 [S, 2], in batches that a device can count."""
        places_S2 = np.stack(np.triu_indices(len(self._spaces[0])), axis=1).astype(np.int32)
        order = np.argsort(places_S2[:, 1] - places_S2[:, 0], kind="stable")
        for start in range(0, len(order), _MAX_TILES):
            yield places_S2[order[start : start + _MAX_TILES]]

    def _add(self, joints: Sequence[jax.Array]) -> None:
        for joint in joints:
            self.joint += np.asarray(joint).reshape(self.joint.shape)


def _on_host(corner: tuple[int, int], tile: list) -> Tile:
    d, minima = jax.tree.map(np.asarray, tile)
    return corner, d, minima


@partial(jax.jit, static_argnames=("groups", "bins"), donate_argnums=0)
def _tile(
    joint: jax.Array,
    sides: Sequence[tuple[jax.Array, jax.Array]],
    tables: Sequence[Table],
    bounds: jax.Array,
    groups: int,
    bins: int,
) -> tuple[jax.Array, list[jax.Array], list[tuple[jax.Array, jax.Array]]]:
    """Counts the pairs of a tile; its distances, and what `Candidates` needs of them.

    Bounds are the first row, the first column and the number of samples.
    """
    row, column, count = bounds
    place_T = jnp.arange(len(sides[0][0]), dtype=jnp.int32)
    row_T1, column_1T = row + place_T[:, None], column + place_T[None]
    pair_TT = (column_1T > row_T1) & (column_1T < count)
    d = [neighbors.squared_distances(*rows) for rows in sides]
    if bins:
        joint = count_pairs(joint, d, tables, pair_TT)
    d = [jnp.where(pair_TT, d_TT, jnp.inf) for d_TT in d]
    return joint, d, [_minima(d_TT, groups) for d_TT in d] if groups else []


@partial(jax.jit, static_argnames="bins")
def _count(
    spaces: Sequence[jax.Array],
    tables: Sequence[Table],
    places_S2: jax.Array,
    count: jax.Array,
    bins: int,
) -> jax.Array:
    """The joint histogram of many tiles."""

    def add(joint: jax.Array, place: jax.Array) -> tuple[jax.Array, None]:
        sides = [(z_STD[place[0]], z_STD[place[1]]) for z_STD in spaces]
        bounds = jnp.append(place * spaces[0].shape[1], count)
        return _tile(joint, sides, tables, bounds, 0, bins)[0], None

    return jax.lax.scan(add, jnp.zeros(bins**2, jnp.int32), places_S2)[0]


def _minima(d_TT: jax.Array, groups: int) -> tuple[jax.Array, jax.Array]:
    """Minima [T, G] over groups of columns of every row, and of rows of every column."""
    side = len(d_TT)
    of_rows = jnp.min(d_TT.reshape(side, side // groups, groups), axis=1)
    return of_rows, jnp.min(d_TT.reshape(side // groups, groups, side), axis=0).T
