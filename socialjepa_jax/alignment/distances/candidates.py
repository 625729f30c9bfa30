"""Exact nearest neighbours from tiles of distances, in NumPy: a limit first, a small sort last.

Shape suffixes: N samples, B some rows, T side of a tile, G groups, K neighbours, P pairs, W the
largest number of candidates of a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from socialjepa_jax.alignment.moments import Float64

_ROOM = 1 << 22  # pairs kept at least
_BLOCK_ROWS = 512  # rows that are sorted at once


class TooManyTies(Exception):
    """So many distances are equal that the nearest cannot be told without keeping most pairs."""


class Candidates:
    """The pairs i < j of which one can be among the K nearest of the other, found tile by tile.

    The K-th smallest minimum of disjoint groups of a row's distances is never below its K-th
    smallest distance. This limit falls with every tile; a pair above both of its limits is out.
    """

    def __init__(self, count: int, k: int, dtype: np.dtype) -> None:
        self._least_NK = np.full((count, k), np.finfo(dtype).max, dtype)
        self._pairs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._kept, self._room = 0, max(_ROOM, 8 * k * count)

    def add(
        self, corner: tuple[int, int], d_TT: np.ndarray, least_TG: Sequence[np.ndarray]
    ) -> None:
        """Takes the distances of a tile's rows to its columns, infinite where there is no pair.

        Args:
          corner: the first row and the first column.
          d_TT: distances.
          least_TG: minima of groups of the distances of every row, and of every column.
        """
        row, column = (slice(first, first + len(d_TT)) for first in corner)
        for part, least in zip((row, column), least_TG):
            self._lower(part, least)
        limit_N = self._least_NK[:, -1]
        place_P = np.flatnonzero(d_TT <= np.maximum(limit_N[row, None], limit_N[None, column]))
        i_P, j_P = np.divmod(place_P.astype(np.int32), np.int32(len(d_TT)))
        self._keep(i_P + np.int32(corner[0]), j_P + np.int32(corner[1]), d_TT.ravel()[place_P])

    def _lower(self, part: slice, least_TG: np.ndarray) -> None:
        k = self._least_NK.shape[1]
        both = np.concatenate([self._least_NK[part], least_TG], axis=1)
        self._least_NK[part] = np.partition(both, k - 1, axis=1)[:, :k]

    def _keep(self, i_P: np.ndarray, j_P: np.ndarray, d_P: np.ndarray) -> None:
        self._pairs.append((i_P, j_P, d_P))
        self._kept += len(d_P)
        if self._kept > self._room:
            i_P, j_P, d_P = self._all()
            limit_N = self._least_NK[:, -1]
            near = d_P <= np.maximum(limit_N[i_P], limit_N[j_P])
            self._pairs, self._kept = [(i_P[near], j_P[near], d_P[near])], int(near.sum())
            if self._kept > self._room // 2:
                raise TooManyTies

    def _all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        i_P, j_P, d_P = (np.concatenate(parts) for parts in zip(*self._pairs))
        return i_P, j_P, d_P

    def matrix(self) -> sparse.csr_array:
        """What is left, both ways: distances by [row, column], columns ascending."""
        i_P, j_P, d_P = self._all()
        limit_N = self._least_NK[:, -1]
        down, up = d_P <= limit_N[i_P], d_P <= limit_N[j_P]
        rows = np.concatenate([i_P[down], j_P[up]])
        columns = np.concatenate([j_P[down], i_P[up]])
        values = np.concatenate([d_P[down], d_P[up]])
        matrix = sparse.csr_array((values, (rows, columns)), shape=(len(limit_N),) * 2)
        matrix.sort_indices()
        return matrix


def overlap_sums(x_NN: sparse.csr_array, y_NN: sparse.csr_array, ks: tuple[int, ...]) -> Float64:
    """Sums over rows of NO@k by index and in expectation, see `neighbors.overlap`: [2, len(ks)].

    Args:
      x_NN, y_NN: distances of candidates, at least max(ks) a row; see `Candidates.matrix`.
      ks: neighbourhood sizes.
    """
    sums = np.zeros((2, len(ks)))
    for start in range(0, x_NN.shape[0], _BLOCK_ROWS):
        blocks = [z[start : start + _BLOCK_ROWS] for z in (x_NN, y_NN)]
        nearest = [_nearest(block, max(ks) + 1) for block in blocks]
        tied_B = np.zeros(blocks[0].shape[0], bool)
        for _, d_BK in nearest:
            tied_B |= np.any([d_BK[:, k - 1] == d_BK[:, k] for k in ks], axis=0)
        sure, tied = (
            _shared(*(index_BK[rows_B, :-1] for index_BK, _ in nearest))[np.asarray(ks) - 1]
            for rows_B in (~tied_B, tied_B)
        )
        sums[0] += sure + tied
        if tied_B.any():
            kth = [d_BK[tied_B] for _, d_BK in nearest]
            tied = [
                _shared_by_chance([z[tied_B] for z in blocks], [d[:, k - 1] for d in kth], k)
                for k in ks
            ]
        sums[1] += sure + tied
    return sums / ks


def _nearest(block: sparse.csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k first by (distance, column) of every row: columns and distances [B, k]."""
    held_B = np.diff(block.indptr)
    row_P = np.repeat(np.arange(len(held_B)), held_B)
    place_P = np.arange(block.nnz) - block.indptr[row_P]
    shape = len(held_B), max(k, held_B.max())
    d_BW, column_BW = np.full(shape, np.inf, block.dtype), np.full(shape, -1)
    d_BW[row_P, place_P], column_BW[row_P, place_P] = block.data, block.indices
    order_BK = np.argsort(d_BW, axis=1, kind="stable")[:, :k]
    return (
        np.take_along_axis(column_BW, order_BK, axis=1),
        np.take_along_axis(d_BW, order_BK, axis=1),
    )


def _shared(a_BK: np.ndarray, b_BK: np.ndarray) -> np.ndarray:
    """The number of entries that the first 1, 2, ... K places have in common, over all rows."""
    k = a_BK.shape[1]
    place = np.flatnonzero(a_BK[:, :, None] == b_BK[:, None, :]) % (k * k)
    return np.bincount(np.maximum(*np.divmod(place, k)), minlength=k).cumsum()


def _shared_by_chance(
    blocks: Sequence[sparse.csr_array], kth: Sequence[np.ndarray], k: int
) -> float:
    """The expected number of entries in common among the first k, ties broken at random."""
    x, y = (_chance(block, kth_B, k) for block, kth_B in zip(blocks, kth))
    return x.multiply(y).sum()


def _chance(block: sparse.csr_array, kth_B: np.ndarray, k: int) -> sparse.csr_array:
    """The probability of being among the k nearest when ties are broken at random."""
    held_B = np.diff(block.indptr)
    row_P = np.repeat(np.arange(len(held_B)), held_B)
    closer_P, tied_P = block.data < kth_B[row_P], block.data == kth_B[row_P]
    closer_B, tied_B = (np.bincount(row_P[z], minlength=len(held_B)) for z in (closer_P, tied_P))
    chance_P = np.where(closer_P, 1.0, np.where(tied_P, ((k - closer_B) / tied_B)[row_P], 0.0))
    return sparse.csr_array((chance_P, block.indices, block.indptr), shape=block.shape)
