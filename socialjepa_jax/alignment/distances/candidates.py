"""Exact nearest neighbours from square blocks of the distance matrix: prune by a bound, sort last.

Shape suffixes: N samples, B side of a block or rows of a slice, G groups, K neighbours, P pairs,
W largest number of candidates of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from socialjepa_jax.alignment.distances import neighbors
from socialjepa_jax.alignment.moments import Float64

MIN_CAPACITY = 1 << 22  # pairs in memory before candidates are pruned, at least
_SORTED_ROWS = 512  # rows sorted at once
_ELEMENTS = 1 << 22  # of differences in memory at once

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]  # i [P], j [P] and their distances [P]


class TooManyTies(Exception):
    """So many distances are equal that most pairs remain candidates."""


class Candidates:
    """Pairs i < j of which one can be among the K nearest of the other, added block by block.

    If the distances of a row are split into disjoint groups, the K-th smallest of the groups'
    minima is an upper bound of the row's K-th smallest distance. The bound decreases with every
    block; a pair above the bounds of both its rows is dropped. Bounds of float32 distances leave
    room for their errors.

    Args:
        z_ND: padded latents, in the dtype of the distances.
        k: number of neighbours K.
    """

    def __init__(self, z_ND: np.ndarray, k: int) -> None:
        count = len(z_ND)
        self._largest = np.finfo(z_ND.dtype).max
        self._minima_NK = np.full((count, k), self._largest, z_ND.dtype)
        self.sizes_N = None
        if z_ND.dtype == np.float32:
            self.sizes_N = np.einsum("nd,nd->n", z_ND, z_ND)
        self._pairs: list[Pairs] = []
        self._kept, self._capacity = 0, max(MIN_CAPACITY, 8 * k * count)

    def add(
        self, corner: tuple[int, int], d_BB: np.ndarray, minima_BG: Sequence[np.ndarray]
    ) -> None:
        """Adds the pairs of a block.

        Args:
            corner: first row and first column of the block.
            d_BB: distances, infinite for entries that are no pair.
            minima_BG: minima over groups of the distances of every row, and of every column.

        Raises:
            TooManyTies: if more than half of the capacity remains after pruning.
        """
        rows, columns = (slice(first, first + len(d_BB)) for first in corner)
        for part, minima in zip((rows, columns), minima_BG):
            self._lower_bounds(part, minima)
        of_rows, of_columns = (self._bounds(part) for part in (rows, columns))
        flat_P = np.flatnonzero(d_BB <= np.maximum(of_rows[:, None], of_columns[None]))
        i_P, j_P = np.divmod(flat_P.astype(np.int32), np.int32(len(d_BB)))
        distance_P = d_BB.ravel()[flat_P]
        self._pairs.append((i_P + np.int32(corner[0]), j_P + np.int32(corner[1]), distance_P))
        self._kept += len(distance_P)
        if self._kept > self._capacity:
            self._prune()

    def _bounds(self, part: slice = slice(None)) -> np.ndarray:
        """Returns the bounds of some rows, with room for the errors of float32 distances."""
        bound_B = self._minima_NK[part, -1]
        if self.sizes_N is None:
            return bound_B
        with np.errstate(over="ignore"):
            room_B = 2 * neighbors.distance_error(self.sizes_N[part], bound_B)
            return np.minimum(bound_B + room_B, self._largest)

    def _lower_bounds(self, part: slice, minima_BG: np.ndarray) -> None:
        k = self._minima_NK.shape[1]
        both = np.concatenate([self._minima_NK[part], minima_BG], axis=1)
        self._minima_NK[part] = np.partition(both, k - 1, axis=1)[:, :k]

    def _prune(self) -> None:
        i_P, j_P, d_P = self._all_pairs()
        bound_N = self._bounds()
        near = d_P <= np.maximum(bound_N[i_P], bound_N[j_P])
        self._pairs, self._kept = [(i_P[near], j_P[near], d_P[near])], int(near.sum())
        if self._kept > self._capacity // 2:
            raise TooManyTies

    def _all_pairs(self) -> Pairs:
        i_P, j_P, d_P = (np.concatenate(parts) for parts in zip(*self._pairs))
        return i_P, j_P, d_P

    def matrix(self) -> sparse.csr_array:
        """Returns the remaining distances in both directions [N, N], columns ascending."""
        i_P, j_P, d_P = self._all_pairs()
        bound_N = self._bounds()
        of_i, of_j = d_P <= bound_N[i_P], d_P <= bound_N[j_P]
        rows = np.concatenate([i_P[of_i], j_P[of_j]])
        columns = np.concatenate([j_P[of_i], i_P[of_j]])
        values = np.concatenate([d_P[of_i], d_P[of_j]])
        matrix = sparse.csr_array((values, (rows, columns)), shape=(len(self._minima_NK),) * 2)
        matrix.sort_indices()
        return matrix


@dataclass(frozen=True, eq=False)
class Space:
    """Candidates of one space.

    Attributes:
        distances: of the candidates [N, N], see `Candidates.matrix`.
        sizes: squared norms [N] if the distances are float32; None: they are float64.
        z: the latents [N, D] in float64, in the unit of the distances.
    """

    distances: sparse.csr_array
    sizes: np.ndarray | None
    z: np.ndarray


def overlap_sums(x: Space, y: Space, ks: tuple[int, ...]) -> Float64:
    """Sums NO@k over rows, by index and in expectation: [2, len(ks)]; see `neighbors.overlap`.

    Args:
        x, y: candidates, at least max(ks) + 1 per row.
        ks: numbers of neighbours.
    """
    sums = np.zeros((2, len(ks)))
    for start in range(0, x.distances.shape[0], _SORTED_ROWS):
        parts, nearest = zip(*(_sorted_rows(space, start, ks) for space in (x, y)))
        tied_B = np.zeros(parts[0].shape[0], bool)
        for _, d_BK in nearest:
            tied_B |= np.any([d_BK[:, k - 1] == d_BK[:, k] for k in ks], axis=0)
        untied, tied = (
            _common(*(index_BK[rows_B, :-1] for index_BK, _ in nearest))[np.asarray(ks) - 1]
            for rows_B in (~tied_B, tied_B)
        )
        sums[0] += untied + tied
        if tied_B.any():
            kth = [d_BK[tied_B] for _, d_BK in nearest]
            tied = [
                _expected_common([z[tied_B] for z in parts], [d[:, k - 1] for d in kth], k)
                for k in ks
            ]
        sums[1] += untied + tied
    return sums / ks


def _sorted_rows(
    space: Space, start: int, ks: tuple[int, ...]
) -> tuple[sparse.csr_array, tuple[np.ndarray, np.ndarray]]:
    """Returns the candidates of a slice of rows, and the max(ks) + 1 nearest of each.

    Rows of float32 distances that are too close to tell which of them are the k nearest are
    computed again in float64.
    """
    part = space.distances[start : start + _SORTED_ROWS]
    nearest = index_BK, d_BK = _nearest(part, max(ks) + 1)
    if space.sizes is None:
        return part, nearest
    gap_B = np.min([d_BK[:, k] - d_BK[:, k - 1] for k in ks], axis=0)
    sizes_B = space.sizes[start : start + len(gap_B)]
    unsure = np.flatnonzero(gap_B <= 2 * neighbors.distance_error(sizes_B, d_BK[:, -1]))
    part, d_BK = part.astype(np.float64), d_BK.astype(np.float64)
    if len(unsure):
        row_P = np.repeat(np.arange(len(gap_B)), np.diff(part.indptr))
        again_P = np.isin(row_P, unsure)
        i_P, j_P = start + row_P[again_P], part.indices[again_P]
        part.data[again_P] = _float64_distances(space.z, i_P, j_P)
        index_BK[unsure], d_BK[unsure] = _nearest(part[unsure], max(ks) + 1)
    return part, (index_BK, d_BK)


def _float64_distances(z_ND: np.ndarray, i_P: np.ndarray, j_P: np.ndarray) -> Float64:
    """Computes squared distances of pairs of rows from their differences, rounded: [P]."""
    distances_P, step = np.empty(len(i_P)), max(1, _ELEMENTS // z_ND.shape[1])
    for start in range(0, len(i_P), step):
        some = slice(start, start + step)
        apart_PD = z_ND[i_P[some]] - z_ND[j_P[some]]
        distances_P[some] = np.einsum("pd,pd->p", apart_PD, apart_PD)
    return neighbors.rounded(distances_P)


def _nearest(part: sparse.csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorts every row by (distance, column); returns the first k columns and distances [B, k]."""
    count_B = np.diff(part.indptr)
    row_P = np.repeat(np.arange(len(count_B)), count_B)
    slot_P = np.arange(part.nnz) - part.indptr[row_P]
    shape = len(count_B), max(k, count_B.max())
    d_BW, column_BW = np.full(shape, np.inf, part.dtype), np.full(shape, -1)
    d_BW[row_P, slot_P], column_BW[row_P, slot_P] = part.data, part.indices
    order_BK = np.argsort(d_BW, axis=1, kind="stable")[:, :k]
    return (
        np.take_along_axis(column_BW, order_BK, axis=1),
        np.take_along_axis(d_BW, order_BK, axis=1),
    )


def _common(a_BK: np.ndarray, b_BK: np.ndarray) -> np.ndarray:
    """Counts common entries among the first 1, 2, ... K columns, over all rows: [K]."""
    k = a_BK.shape[1]
    flat = np.flatnonzero(a_BK[:, :, None] == b_BK[:, None, :]) % (k * k)
    return np.bincount(np.maximum(*np.divmod(flat, k)), minlength=k).cumsum()


def _expected_common(parts: Sequence[sparse.csr_array], kth: Sequence[np.ndarray], k: int) -> float:
    """Expected number of common entries among the first k if ties are broken at random."""
    x, y = (_probability(part, kth_B, k) for part, kth_B in zip(parts, kth))
    return x.multiply(y).sum()


def _probability(part: sparse.csr_array, kth_B: np.ndarray, k: int) -> sparse.csr_array:
    """Probability of being among the k nearest if ties are broken at random."""
    count_B = np.diff(part.indptr)
    row_P = np.repeat(np.arange(len(count_B)), count_B)
    closer_P, tied_P = part.data < kth_B[row_P], part.data == kth_B[row_P]
    closer_B, tied_B = (np.bincount(row_P[z], minlength=len(count_B)) for z in (closer_P, tied_P))
    share_P = ((k - closer_B) / tied_B)[row_P]
    probability_P = np.where(closer_P, 1.0, np.where(tied_P, share_P, 0.0))
    return sparse.csr_array((probability_P, part.indices, part.indptr), shape=part.shape)
