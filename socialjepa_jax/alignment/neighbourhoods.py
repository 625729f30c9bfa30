"""Agreement of neighbourhoods: mutual kNN, CKNNA, chance-corrected NOS, and retrieval.

Shape suffixes: N samples, G gallery rows, B rows of a block, D features, K neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from socialjepa_jax.alignment.distances import compare, neighbors
from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs
from socialjepa_jax.errors import check_in_range, check_one_of

_CKNNA_EPS = 1e-6  # added to the denominator by the reference implementation


def nearest_neighbors(z: ArrayLike, k: int) -> np.ndarray:
    """Returns the k nearest other samples of every row of z [N, D], nearest first: int64 [N, k]."""
    z_ND = as_latents(z, "z")
    check_in_range(1, len(z_ND) - 1, k=k)
    with jax.enable_x64(True):
        padded = neighbors.padded(z_ND, "float64")
        blocks = jnp.asarray(neighbors.row_blocks(len(padded)))
        index = np.asarray(_nearest_rows(padded, blocks, len(z_ND), k))
    return index.reshape(-1, k)[: len(z_ND)].astype(np.int64)


@partial(jax.jit, static_argnames="k")
def _nearest_rows(z_ND: jax.Array, blocks: jax.Array, count: jax.Array, k: int) -> jax.Array:
    norm_N = neighbors.squared_norms(z_ND)

    def of_rows(rows_B: jax.Array) -> jax.Array:
        return neighbors.nearest(neighbors.distances_to_others(z_ND, norm_N, rows_B, count), k)[1]

    return jax.lax.map(of_rows, blocks)


def chance_corrected_nos(nos: float, k: int, count: int) -> float:
    """NOS@k divided by its chance level 1 - k / (N - 1): 0 for equal neighbours, 1 for chance.

    NOS itself depends on N: one data set gave .44, .51 and .57 at N = 5,000, 10,000 and 20,000.

    Args:
        nos: NOS@k.
        k: number of neighbours.
        count: N.
    """
    return nos / (1 - k / (count - 1))


def mutual_knn(x: ArrayLike, y: ArrayLike, k: int = 10) -> float:
    """Share of common k nearest neighbours by cosine (Huh et al. 2024) of x [N, D], y [N, E]."""
    x_ND, y_NE = as_pairs(x, y, "x", "y")
    return compare.compare(unit_rows(x_ND), unit_rows(y_NE), (k,)).overlap[k]


def cknna(x: ArrayLike, y: ArrayLike, k: int = 10) -> float:
    """Debiased CKA of cosines, restricted to common k nearest neighbours (Huh et al. 2024).

    Args:
        x, y: [N, D] and [N, E], N >= 4; rows are normalised first.
        k: at least 2.
    """
    check_in_range(2, len(np.asanyarray(x)) - 1, k=k)
    return kernel_cknna(*(neighbor_kernel(z, k) for z in as_pairs(x, y, "x", "y")))


def kernel_cknna(x: sparse.csr_array, y: sparse.csr_array) -> float:
    """Computes `cknna` from the `neighbor_kernel` of each space."""
    common = x.astype(bool).multiply(y.astype(bool))
    cross = _sparse_hsic(*(kernel.multiply(common).tocsr() for kernel in (x, y)))
    selves = [_sparse_hsic(kernel, kernel) for kernel in (x, y)]
    return float(cross / (np.sqrt(selves[0] * selves[1]) + _CKNNA_EPS))


def unit_rows(z: Float64) -> Float64:
    """Divides every row of z [..., D] by its norm; rows of zeros stay."""
    norms = np.linalg.norm(z, axis=-1, keepdims=True)
    return z / np.where(norms == 0.0, 1.0, norms)


def neighbor_kernel(z_ND: Float64, k: int) -> sparse.csr_array:
    """Cosines of every row of z [N, D] with its k nearest rows by cosine, sparse [N, N]."""
    n, z_ND = len(z_ND), unit_rows(z_ND)
    index_NK = nearest_neighbors(z_ND, k)
    values_NK = np.einsum("nd,nkd->nk", z_ND, z_ND[index_NK])
    rows = np.arange(0, n * k + 1, k)
    return sparse.csr_array((values_NK.ravel(), index_NK.ravel(), rows), shape=(n, n))


def _sparse_hsic(a: sparse.csr_array, b: sparse.csr_array) -> float:
    """HSIC_1 of two kernels with zero diagonals, not necessarily symmetric."""
    n = a.shape[0]
    total = a.multiply(b.T).sum() + a.sum() * b.sum() / ((n - 1) * (n - 2))
    return float((total - 2 * (a.sum(axis=0) @ b.sum(axis=1)) / (n - 2)) / (n * (n - 3)))


def retrieval(
    queries: ArrayLike,
    gallery: ArrayLike,
    *,
    ks: Sequence[int] = (1, 5, 10),
    similarity: str = "l2",
) -> dict[str, float]:
    """Scores a search in which row i of `gallery` is the match of row i of `queries`.

    Args:
        queries, gallery: [N, D] in one space.
        ks: depths of recall.
        similarity: "l2", "cosine" or "dot".

    Returns:
        `recall@k` (the match is first among its ties), `mrr` and `median_rank` (ties share their
        mid-rank; ranks start at 1).
    """
    return retrieval_scores(*match_ranks(queries, gallery, similarity=similarity), ks)


def retrieval_scores(
    best_N: Float64, middle_N: Float64, ks: Sequence[int] = (1, 5, 10)
) -> dict[str, float]:
    """Computes the scores of `retrieval` from the ranks of `match_ranks`."""
    return {
        **{f"recall@{k}": float(np.mean(best_N <= k)) for k in ks},
        "mrr": float(np.mean(1 / middle_N)),
        "median_rank": float(np.median(middle_N)),
    }


def match_ranks(
    queries: ArrayLike, gallery: ArrayLike, *, similarity: str = "l2"
) -> tuple[Float64, Float64]:
    """Ranks row i of `gallery` for query i, starting at 1.

    Args:
        queries, gallery, similarity: as for `retrieval`.

    Returns:
        Two arrays [N]: the best rank among ties, and the mid-rank.
    """
    check_one_of(("l2", "cosine", "dot"), similarity=similarity)
    query_ND, gallery_ND = as_pairs(queries, gallery, "queries", "gallery")
    if similarity == "cosine":
        query_ND, gallery_ND = unit_rows(query_ND), unit_rows(gallery_ND)
    if similarity == "dot":
        query_ND, gallery_ND = _of_equal_length(query_ND, gallery_ND)
    centre_D = gallery_ND.mean(axis=0)
    best, middle = [], []
    with jax.enable_x64(True):
        gallery = jnp.asarray(gallery_ND - centre_D)
        for start in range(0, len(query_ND), 256):
            block = query_ND[start : start + 256] - centre_D
            rows = np.arange(start, start + len(block))
            closer, tied = _count_closer(jnp.asarray(block), gallery, rows)
            best.append(1 + np.asarray(closer))
            middle.append(1 + np.asarray(closer) + np.asarray(tied) / 2)
    return np.concatenate(best), np.concatenate(middle)


def _of_equal_length(query_ND: Float64, gallery_ND: Float64) -> tuple[Float64, Float64]:
    """Adds a feature by which all rows of the gallery are as long: products rank as distances."""
    square_N = np.sum(gallery_ND**2, axis=1)
    missing_N = np.sqrt(np.maximum(square_N.max() - square_N, 0.0))
    return np.pad(query_ND, ((0, 0), (0, 1))), np.column_stack([gallery_ND, missing_N])


@jax.jit
def _count_closer(
    block_BD: jax.Array, gallery_GD: jax.Array, rows_B: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Counts gallery rows nearer than each match, and others at the same distance: [B] each."""
    d_BG = neighbors.squared_distances(block_BD, gallery_GD)
    match_B1 = jnp.take_along_axis(d_BG, rows_B[:, None], axis=1)
    return jnp.sum(d_BG < match_B1, axis=1), jnp.sum(d_BG == match_B1, axis=1) - 1
