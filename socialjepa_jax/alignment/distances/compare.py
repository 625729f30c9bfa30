"""Agreement of two spaces on distances (DSC) and on neighbours, without an N x N array.

Up to 4,096 samples all results are exact, in float64. Beyond, one pass over float32 distances
finds neighbours, which float64 checks, and fills a joint histogram of the two distances, which
gives the rank correlation with a bound on its error. Several devices can share the pass.

Shape suffixes: N samples, D and E features, P pairs i < j, B rows of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import ArrayLike

from socialjepa_jax.alignment.distances import neighbors, on_accelerator, on_cpu
from socialjepa_jax.alignment.distances.candidates import TooManyTies
from socialjepa_jax.alignment.distances.histogram import PairStatistics, joint_spearman
from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs
from socialjepa_jax.errors import InputError

EXACT = 4096  # largest number of samples for which all distances are always ranked
MAX_EXACT = 20_000  # largest number for which they are ranked if the histogram is too coarse
MAX_BOUND = 1e-3  # on the error of the histogram
BINS = 2048  # side of the joint histogram


@dataclass(frozen=True, eq=False)
class Geometry:
    """Agreement of two spaces on distances and neighbours.

    Attributes:
        dsc: Spearman correlation of the distances of all pairs i < j, average ranks for ties.
        dsc_bound: bound on the error of `dsc`; 0 if it is exact. Above `MAX_BOUND` only beyond
            `MAX_EXACT` samples: `dsc` is then that of `MAX_EXACT` samples drawn at random.
        overlap: k -> NO@k, eq. (7), ties to the lowest index. Samples are removed from their own
            neighbours by index.
        overlap_expected: k -> expectation of NO@k if ties are broken at random.
        joint: counts int64 [H, H] of pairs in bins of the two distances, of about equal mass; None
            if `dsc` is exact.
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
        ks: numbers of neighbours; those >= N are left out.
        bins: side H of the joint histogram.
        exact: True to rank all distances in float64, False for the joint histogram; None for exact
            up to 4,096 samples. Where the bound of the histogram exceeds `MAX_BOUND`, distances are
            ranked nevertheless, of at most `MAX_EXACT` samples.
        mesh: devices to share the rows; None for one.
    """
    x_ND, y_NE = _checked(x, y)
    exact = len(x_ND) <= EXACT if exact is None else exact
    ks = tuple(k for k in ks if k < len(x_ND))
    pairs = _pair_statistics(x_ND, y_NE, ks, 0 if exact else bins, mesh)
    if pairs.joint is None:
        value, bound = _rank_correlation(x_ND, y_NE, pairs.distances), 0.0
    else:
        value, bound = joint_spearman(pairs.joint)
        if not bound <= MAX_BOUND:
            value, bound = _ranked(x_ND, y_NE, value, bound)
    by_index, expected = (dict(zip(ks, shares.tolist())) for shares in pairs.overlaps)
    return Geometry(value, bound, by_index, expected, pairs.joint)


def joint_histogram(x: ArrayLike, y: ArrayLike, *, bins: int = BINS) -> np.ndarray:
    """Counts pairs in bins of about equal mass of the distances in x and y: int64 [H, H]."""
    joint = _pair_statistics(*_checked(x, y), (), bins, None).joint
    assert joint is not None
    return joint


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[Float64, Float64]:
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    if len(x_ND) < 3:
        raise InputError(f"distances of at least 3 samples are needed, got {len(x_ND)}")
    return x_ND, y_NE


def _ranked(x_ND: Float64, y_NE: Float64, value: float, bound: float) -> tuple[float, float]:
    """Ranks distances of at most `MAX_EXACT` samples, where a histogram gave `value` +- `bound`.

    Returns:
        The correlation, and the bound on its difference to that of all samples.
    """
    if not min(np.ptp(z, axis=0).max() for z in (x_ND, y_NE)):
        return float("nan"), 0.0  # no distances to be ranked
    if len(x_ND) <= MAX_EXACT:
        return _rank_correlation(x_ND, y_NE), 0.0
    rows = np.random.default_rng(0).choice(len(x_ND), MAX_EXACT, replace=False)
    drawn = _rank_correlation(x_ND[rows], y_NE[rows])
    return drawn, float(np.nan_to_num(abs(drawn - value) + bound, nan=2.0))


def _rank_correlation(
    x_ND: Float64, y_NE: Float64, distances: Sequence[Float64] | None = None
) -> float:
    """Correlates the ranks of all distances; given distances are overwritten."""
    given = distances or _pair_statistics(x_ND, y_NE, (), 0, None).distances
    spaces = list(given or map(pair_distances, (x_ND, y_NE)))
    del distances, given  # every array of pairs counts: one takes 1.6 GB for 20,000 samples
    ranks = [_centred_ranks(spaces.pop(0)) for _ in range(2)]
    norms = np.sqrt(np.prod([r_P @ r_P for r_P in ranks]))
    return float(ranks[0] @ ranks[1] / norms) if norms > 0 else float("nan")


def _centred_ranks(distances_P: Float64) -> Float64:
    ranks_P = average_ranks(distances_P)
    ranks_P -= (len(ranks_P) - 1) / 2
    return ranks_P


def _pair_statistics(
    x_ND: Float64, y_NE: Float64, ks: tuple[int, ...], bins: int, mesh: Mesh | None
) -> PairStatistics:
    """Computes the statistics of all pairs by the method for the device."""
    with jax.enable_x64(True):
        if jax.default_backend() == "cpu":
            try:
                return on_cpu.run(x_ND, y_NE, ks, bins, mesh)
            except TooManyTies:  # `on_accelerator` keeps no candidates
                pass
        return on_accelerator.run(x_ND, y_NE, ks, bins, mesh)


def dsc(x: ArrayLike, y: ArrayLike, *, exact: bool | None = None) -> float:
    """Distance-structure consistency of x [N, D] and y [N, E]: `compare(x, y).dsc`."""
    return compare(x, y, (), exact=exact).dsc


def pair_distances(z: ArrayLike) -> Float64:
    """Squared distances of all pairs i < j of z [N, D], row by row: float64 [P]."""
    z_ND = as_latents(z, "z")
    count = len(z_ND)
    parts = []
    with jax.enable_x64(True):
        padded = jnp.asarray(neighbors.padded(z_ND, "float64", scaled=False))
        for rows_B in neighbors.row_blocks(len(padded)):
            d_BN = np.asarray(_block_distances(padded, rows_B))[rows_B < count, :count]
            parts.append(d_BN[np.arange(count)[None] > rows_B[rows_B < count, None]])
    return np.concatenate(parts)


@jax.jit
def _block_distances(z_ND: jax.Array, rows_B: jax.Array) -> jax.Array:
    return neighbors.squared_distances(z_ND[rows_B], z_ND)


def average_ranks(distances_P: Float64) -> Float64:
    """Ranks of rounded distances (of `neighbors.squared_distances`) from 0, averaged over ties.

    The ten digits of a distance and the index of its pair fit into one integer; sorting these
    integers takes half the time of an argsort. The distances are overwritten.
    """
    bits_P = distances_P.view(np.int64)
    bits_P >>= neighbors.ROUNDED_BITS
    bits_P -= bits_P.min(where=bits_P > 0, initial=bits_P.max()) - 1  # the least positive becomes 1
    np.maximum(bits_P, 0, out=bits_P)
    shift = len(bits_P).bit_length()
    first_P = np.ones(len(bits_P), bool)  # of its ties
    if int(bits_P.max()).bit_length() + shift < 64:
        bits_P <<= shift
        bits_P |= np.arange(len(bits_P))
        bits_P.sort()
        first_P[1:] = bits_P[1:] ^ bits_P[:-1] >= 1 << shift
        bits_P &= (1 << shift) - 1
        order_P = bits_P
    else:
        order_P = np.argsort(bits_P)
        bits_P = bits_P[order_P]
        first_P[1:] = bits_P[1:] != bits_P[:-1]
    ranks_P = np.empty(len(bits_P))
    ranks_P[order_P] = _averaged(first_P)
    return ranks_P


def _averaged(first_P: np.ndarray) -> Float64:
    """Ranks of sorted values, given which of them are the first of their ties."""
    ranks_P = np.arange(len(first_P), dtype=np.float64)
    last_P = np.append(first_P[1:], True)
    starts, ends = np.flatnonzero(first_P & ~last_P), np.flatnonzero(last_P & ~first_P)
    ranks_P[~(first_P & last_P)] = np.repeat((starts + ends) / 2, ends - starts + 1)
    return ranks_P
