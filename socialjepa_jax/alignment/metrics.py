"""Isomorphism metrics of a map on held-out pairs (section 3.6), each with one definition.

Shape suffixes: N test pairs, M training pairs, S states, D features of x, E features of y.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from socialjepa_jax.alignment import similarity
from socialjepa_jax.alignment.distances import compare
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64, as_latents, as_pairs
from socialjepa_jax.errors import InputError, as_array, check_one_of

BACKS = ("inverse", "regression", "none", "forward")


def r2(linear_map: LinearMap, x_test: ArrayLike, y_test: ArrayLike) -> float:
    """Coefficient of determination of y ~ W x on test pairs, pooled over features.

    1 - SSE / SST on latents standardised by training statistics; SST is about the *test* mean.
    NaN if y is constant over the test pairs.

    Args:
        linear_map: fitted on other pairs.
        x_test, y_test: raw latents [N, D] and [N, E].
    """
    x_ND, y_NE = as_pairs(x_test, y_test, "x_test", "y_test")
    return _pooled_r2(*_squares(linear_map, *linear_map.standardize(x_ND, y_NE)))


def prediction_r2(predicted: ArrayLike, y_test: ArrayLike, y_scale: ArrayLike) -> float:
    """Pooled R2 of any prediction of y, by the definition of `r2`.

    Args:
        predicted, y_test: [N, E] in raw units.
        y_scale: [E] training standard deviations, by which both are divided.
    """
    predicted_NE, y_NE = as_pairs(predicted, y_test, "predicted", "y_test")
    unit_E = 1 / as_array(y_scale, "y_scale", np.float64) ** 2
    sse_E = np.sum((y_NE - predicted_NE) ** 2, axis=0)
    sst_E = np.sum((y_NE - y_NE.mean(axis=0)) ** 2, axis=0)
    return _pooled_r2(sse_E * unit_E, sst_E * unit_E)


def shared_dimensions(
    linear_map: LinearMap, y_train: ArrayLike, x_test: ArrayLike, y_test: ArrayLike
) -> float:
    """Number of independent directions of y that the map predicts, not inflated by low rank.

    Latents of low rank have a high pooled R2 as soon as their few large directions are predicted.
    Here all principal components of y (of the standardised training latents) have equal weight:
    the sum of their held-out R2, each at least 0. The value is D for a rotation, r for a shared
    part of rank r, and 0 for unrelated spaces.

    Args:
        linear_map: fitted on the training pairs.
        y_train: raw latents [M, E], which define the components.
        x_test, y_test: raw latents [N, D] and [N, E].
    """
    x_ND, y_NE = as_pairs(x_test, y_test, "x_test", "y_test")
    x_ND, target_NE = linear_map.standardize(x_ND, y_NE)
    train_ME, residual_NE = linear_map.standardize_y(y_train), target_NE - x_ND @ linear_map.w.T
    _, components_EE = np.linalg.eigh(train_ME.T @ train_ME)
    error_E = np.sum((residual_NE @ components_EE) ** 2, axis=0)
    target_NE = target_NE @ components_EE
    total_E = np.sum((target_NE - target_NE.mean(axis=0)) ** 2, axis=0)
    varies_E = total_E > 1e-12 * total_E.max()
    return float(np.sum(np.maximum(0.0, 1.0 - error_E[varies_E] / total_E[varies_E])))


def evaluate(
    linear_map: LinearMap,
    x_test: ArrayLike,
    y_test: ArrayLike,
    *,
    back: str = "inverse",
    neighbors: Sequence[int] = (1, 5, 10, 20, 50),
    groups: ArrayLike | None = None,
) -> dict[str, float]:
    """Computes all metrics of a map on held-out pairs as Python floats (Algorithm 1, lines 7-8).

    Latents are standardised by training statistics. `dsc`, `nos@k` and `cka` compare two sets
    of latents in one space, chosen by `back`: "inverse" z1 with W_inv z2 (eq. 5, the paper);
    "regression" z1 with the reverse regression of z2; "none" z1 with z2, no map at all;
    "forward" W z1 with z2. For an orthogonal W all but "regression" coincide.

    Keys:
        mse: mean squared residual of z2 - W z1 per sample and feature; mse_sum: eq. (6), summed
            over features; mse_raw: per feature in raw units of y.
        r2: pooled over features, baseline the test mean; r2_uniform: mean R2 of single features (a
            constant feature scores 1 if predicted exactly, else 0); r2_raw: pooled, raw units.
        dsc: Spearman correlation of the distances of pairs i < j (`distances.compare`), of 20,000
            random pairs where there are more and a histogram is too coarse; dsc_bound: bound on its
            error, 0 where it is exact, at most 1e-3 up to 20,000 pairs.
        nos@k: eq. (8), 1 - share of common k nearest neighbours, self removed by index, ties to the
            lowest index; nos_expected@k: expectation if ties are broken at random. Chance level is
            1 - k / (N - 1). Only for k < N.
        cka, cka_debiased: linear CKA, biased and from the unbiased HSIC_1.
        procrustes_error: 2 - 2 ||A^T B||_* of z1 and z2 (no map), centred, unit norm.
        orthogonality: eq. (17); kappa, kappa_effective, rank, effective_rank: spectrum of W.
        n_train, n_test: numbers of pairs.

    Args:
        linear_map: fitted on other pairs.
        x_test, y_test: raw latents [N, D] and [N, E], N >= 4.
        back: common space, see above.
        neighbors: values of k.
        groups: [N] objects of the test rows; adds the key `n_groups`.

    Raises:
        InputError: if latents or options cannot be used.
    """
    x_ND, y_NE = as_pairs(x_test, y_test, "x_test", "y_test")
    if len(x_ND) < 4:
        raise InputError(f"an evaluation needs at least 4 test pairs, got {len(x_ND)}")
    x_ND, y_NE = linear_map.standardize(x_ND, y_NE)
    metrics = {
        **_regression(linear_map, x_ND, y_NE),
        **geometry_metrics(*common_space(linear_map, x_ND, y_NE, back), neighbors),
        "procrustes_error": similarity.procrustes_error(x_ND, y_NE),
        "orthogonality": linear_map.orthogonality,
        "kappa": linear_map.kappa,
        "kappa_effective": linear_map.kappa_effective,
        "rank": float(linear_map.rank),
        "effective_rank": linear_map.effective_rank,
        "n_train": float(linear_map.n_train),
        "n_test": float(len(x_ND)),
    }
    if groups is not None:
        metrics["n_groups"] = float(len(np.unique(as_array(groups, "groups"))))
    return metrics


def noise_ceiling(z: ArrayLike, states: ArrayLike) -> float:
    """Upper limit of the R2 of a map from states, estimated from repeats of the same state.

    1 - within-state variance / total variance, both unbiased and pooled over features.

    Args:
        z: latents [N, D].
        states: [N] labels; at least two states, one of them with repeats.
    """
    z_ND = as_latents(z, "z")
    labels_N = as_array(states, "states")
    _, state_N, counts_S = np.unique(labels_N, return_inverse=True, return_counts=True)
    repeats = len(z_ND) - len(counts_S)
    if repeats == 0 or len(counts_S) < 2:
        raise InputError("a noise ceiling needs at least 2 states and one repeat")
    sums_SD = np.zeros((len(counts_S), z_ND.shape[1]))
    np.add.at(sums_SD, state_N, z_ND)
    within = np.sum((z_ND - (sums_SD / counts_S[:, None])[state_N]) ** 2) / repeats
    total = np.sum((z_ND - z_ND.mean(axis=0)) ** 2) / (len(z_ND) - 1)
    return float(1 - within / total)


def _regression(linear_map: LinearMap, x_ND: Float64, y_NE: Float64) -> dict[str, float]:
    sse_E, sst_E = _squares(linear_map, x_ND, y_NE)
    unit_E = linear_map.y_scale**2
    mse = float(np.mean(sse_E)) / len(y_NE)
    return {
        "mse": mse,
        "mse_sum": mse * y_NE.shape[1],
        "mse_raw": float(np.mean(sse_E * unit_E)) / len(y_NE),
        "r2": _pooled_r2(sse_E, sst_E),
        "r2_uniform": _uniform_r2(sse_E, sst_E),
        "r2_raw": _pooled_r2(sse_E * unit_E, sst_E * unit_E),
    }


def _squares(linear_map: LinearMap, x_ND: Float64, y_NE: Float64) -> tuple[Float64, Float64]:
    """Returns sums of squares over samples of z2 - W z1, and of z2 about its mean: [E] each."""
    residual_NE = y_NE - x_ND @ linear_map.w.T
    return np.sum(residual_NE**2, axis=0), np.sum((y_NE - y_NE.mean(axis=0)) ** 2, axis=0)


def common_space(
    linear_map: LinearMap, x_ND: Float64, y_NE: Float64, back: str
) -> tuple[Float64, Float64]:
    """Returns two sets of standardised latents in the space named by `back`, see `evaluate`."""
    check_one_of(BACKS, back=back)
    if back == "none":
        return x_ND, y_NE
    if back == "forward":
        return x_ND @ linear_map.w.T, y_NE
    return x_ND, y_NE @ linear_map.back_matrix(back).T


def geometry_metrics(
    a: Float64, b: Float64, neighbors: Sequence[int], *, exact: bool | None = None
) -> dict[str, float]:
    """Computes dsc, dsc_bound, cka, cka_debiased, nos@k and nos_expected@k of latents in one space.

    Args:
        a, b: latents [N, D] in one space, or [N, D] and [N, E] in two.
        neighbors: values of k.
        exact: as for `distances.compare`.
    """
    geometry = compare.compare(a, b, neighbors, exact=exact)
    cka, cka_debiased = similarity.cka_pair(a, b)
    return {
        "dsc": geometry.dsc,
        "dsc_bound": geometry.dsc_bound,
        "cka": cka,
        "cka_debiased": cka_debiased,
        **{f"nos@{k}": 1 - share for k, share in geometry.overlap.items()},
        **{f"nos_expected@{k}": 1 - share for k, share in geometry.overlap_expected.items()},
    }


def _pooled_r2(sse_E: Float64, sst_E: Float64) -> float:
    sst = float(np.sum(sst_E))
    return 1 - float(np.sum(sse_E)) / sst if sst > 0 else float("nan")


def _uniform_r2(sse_E: Float64, sst_E: Float64) -> float:
    varies_E = sst_E > 0
    score_E = np.where(sse_E == 0, 1.0, 0.0)
    score_E[varies_E] = 1 - sse_E[varies_E] / sst_E[varies_E]
    return float(score_E.mean())
