"""Every univariate test of N(0, 1) that LeJEPA (arXiv:2511.08544) compares with Epps-Pulley.

Public API: any of them can be the `statistic` of `sigreg`. Each takes samples u [..., N, M] and
returns a score for each of the M slices, [..., M], in float32 (in float64 if `u` has that type). A
small score means Gaussian. The scores are differentiable almost everywhere. With `axis_name` the N
samples are spread over that mesh axis and the score is that of the global sample: tests on moments
average over the axis, tests on order statistics gather the samples first.

Conventions follow the published code if it differs from the textbook; each docstring says so.

Shape key: N samples, M slices.
"""

import math
import statistics
from collections.abc import Sequence
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm

from socialjepa_jax.errors import InputError, check_in_range, check_one_of
from socialjepa_jax.sigreg import samples

# Smallest divisor for a variance: a collapsed slice scores high and no power underflows to 0.
_TINY = 1e-8


def _sorted(u: jax.Array, axis_name: str | None) -> jax.Array:
    """Order statistics of the samples of all shards: [..., N, M]."""
    return jnp.sort(samples.gather(u, axis_name), axis=-2)


def _centered_moments(
    u: jax.Array, axis_name: str | None, orders: Sequence[int]
) -> tuple[jax.Array, jax.Array, list[jax.Array]]:
    """Mean, unbiased variance, and E[(u - mean)^k] for each order."""
    mean = samples.mean(u, axis_name)
    gap = u - jnp.expand_dims(mean, -2)
    count = samples.count(u, axis_name)
    variance = jnp.maximum(samples.mean(gap**2, axis_name) * (count / max(count - 1, 1)), _TINY)
    return mean, variance, [samples.mean(gap**k, axis_name) for k in orders]


def jarque_bera(u: jax.Array, *, axis_name: str | None = None) -> jax.Array:
    """N/6 [skewness^2 + (kurtosis - 3)^2 / 4]: normality with any mean and variance.

    Skewness and kurtosis divide by the unbiased standard deviation, as in the published code.
    """
    u = samples.as_float(u)
    _, variance, (third, fourth) = _centered_moments(u, axis_name, (3, 4))
    skewness, kurtosis = third / variance**1.5, fourth / variance**2
    return samples.count(u, axis_name) / 6.0 * (skewness**2 + (kurtosis - 3.0) ** 2 / 4.0)


def vcreg(u: jax.Array, *, axis_name: str | None = None) -> jax.Array:
    """N mean^2 / variance + (N - 1) (variance - 1)^2 / 2: the first two moments.

    Zero in all directions means zero mean and identity covariance, VICReg's optimum without its
    invariance term (appendix B.14).
    """
    u = samples.as_float(u)
    count = samples.count(u, axis_name)
    mean, variance, _ = _centered_moments(u, axis_name, ())
    return count * mean**2 / variance + (count - 1) * (variance - 1.0) ** 2 / 2.0


def extended_jarque_bera(u: jax.Array, *, axis_name: str | None = None) -> jax.Array:
    """Jarque-Bera with the standard tests of mean 0 and variance 1 (section 4.2.1)."""
    return vcreg(u, axis_name=axis_name) + jarque_bera(u, axis_name=axis_name)


def moments(u: jax.Array, *, k_max: int = 4, axis_name: str | None = None) -> jax.Array:
    """|E u| + sum_{k=2}^{k_max} exp(-k) |E u^k - m_k|, with m_k = (k - 1)!! for even k, else 0.

    Raw moments; finitely many never identify the distribution (theorem 3).
    """
    check_in_range(1, 64, k_max=k_max)
    u = samples.as_float(u)
    total = jnp.abs(samples.mean(u, axis_name))
    for k in range(2, k_max + 1):
        target = 0.0 if k % 2 else math.prod(range(1, k, 2))
        total += math.exp(-k) * jnp.abs(samples.mean(u**k, axis_name) - target)
    return total


def cramer_von_mises(u: jax.Array, *, axis_name: str | None = None) -> jax.Array:
    """mean_i ((2i - 1) / (2N) - Phi(u_(i)))^2.

    The textbook statistic is W^2 = N times this + 1 / (12 N).
    """
    u = _sorted(u, axis_name)
    ranks = (np.arange(u.shape[-2]) + 0.5) / u.shape[-2]
    return samples.replicated(
        jnp.mean((samples.column(ranks, u) - norm.cdf(u)) ** 2, axis=-2), axis_name
    )


def watson(u: jax.Array, *, axis_name: str | None = None) -> jax.Array:
    """Cramer-von Mises less (mean_i Phi(u_i) - 1/2)^2: blind to rotations of the circle.

    The textbook statistic is U^2 = N times this + 1 / (12 N).
    """
    bias = samples.mean(norm.cdf(samples.as_float(u)), axis_name) - 0.5
    return cramer_von_mises(u, axis_name=axis_name) - bias**2


def anderson_darling(u: jax.Array, *, axis_name: str | None = None) -> jax.Array:
    """A^2 = -N - (1/N) sum_i (2i - 1) [log Phi(u_(i)) + log Phi(-u_(N+1-i))]."""
    u = _sorted(u, axis_name)
    count = u.shape[-2]
    tails = norm.logcdf(u) + norm.logcdf(-jnp.flip(u, axis=-2))
    weights = samples.column((2.0 * np.arange(count) + 1.0) / count, u)
    return samples.replicated(-count - jnp.sum(weights * tails, axis=-2), axis_name)


def order_statistics_nll(u: jax.Array, *, axis_name: str | None = None) -> jax.Array:
    """Mean over i of -log density of the i-th of N Gaussian order statistics at u_(i)."""
    u = _sorted(u, axis_name)
    count = u.shape[-2]
    rank = samples.column(np.arange(1, count + 1), u)
    log_count = gammaln(count + 1.0) - gammaln(rank) - gammaln(count - rank + 1.0)
    below, above = (rank - 1.0) * norm.logcdf(u), (count - rank) * norm.logcdf(-u)
    log_density = log_count + below + above + norm.logpdf(u)
    return samples.replicated(-jnp.mean(log_density, axis=-2), axis_name)


def shapiro_wilk(
    u: jax.Array,
    *,
    positions: str = "elfving",
    weights: str = "francia",
    axis_name: str | None = None,
) -> jax.Array:
    """1 - |cosine of the angle between the order statistics and their Gaussian scores|.

    Appendix E. Neither the textbook's centring nor its square: mean zero is part of the test.

    Args:
        u: [..., N, M] samples.
        positions: arguments of the quantile function that gives the scores: "elfving"
            (i - pi/8) / (N + 1/4), "blom" (i - 3/8) / (N + 1/4), "rahman" i / (N + 1).
        weights: "francia" takes the scores themselves (Shapiro-Francia), "rahman" multiplies them
            by the tridiagonal inverse covariance of Rahman and Govindarajulu, eq. (56).
        axis_name: mesh axis over which samples are spread.
    """
    check_one_of(("elfving", "blom", "rahman"), positions=positions)
    check_one_of(("francia", "rahman"), weights=weights)
    u = _sorted(u, axis_name)
    scores = samples.column(_scores(u.shape[-2], positions, weights), u)
    norms = jnp.sqrt(jnp.maximum(jnp.sum(u**2, axis=-2), _TINY))
    return samples.replicated(1.0 - jnp.abs(jnp.sum(scores * u, axis=-2)) / norms, axis_name)


@cache
def _scores(count: int, positions: str, weights: str) -> np.ndarray:
    """f64[N], unit norm: expected order statistics, or Rahman's linear combination of them."""
    rank = np.arange(1, count + 1)
    grid = {
        "elfving": (rank - np.pi / 8) / (count + 0.25),
        "blom": (rank - 0.375) / (count + 0.25),
        "rahman": rank / (count + 1),
    }[positions]
    scores = np.array([statistics.NormalDist().inv_cdf(p) for p in grid])
    if weights == "rahman":
        density = np.exp(-(scores**2) / 2) / np.sqrt(2 * np.pi)
        flux = np.pad(density * scores, 1)
        scores = density * (2 * density * scores - flux[2:] - flux[:-2])
    return scores / np.linalg.norm(scores)


def entropy(
    u: jax.Array, *, m: int = 1, form: str = "vasicek", axis_name: str | None = None
) -> jax.Array:
    """Deficit of the entropy, by m-spacings, from that of a Gaussian of the same variance.

    Args:
        u: [..., N, M] samples; gaps below 1e-5 count as 1e-5.
        m: order of the spacings, 2 m < N.
        form: "vasicek": sqrt(2 pi e) std / exp(H) with Vasicek's H (N terms, constant ends);
            "padded": the published code's variant, in which the ends contribute 4 m terms;
            "right": log sqrt(2 pi e) + log std - H with the N - m one-sided spacings, over N.
        axis_name: mesh axis over which samples are spread.
    """
    check_one_of(("vasicek", "padded", "right"), form=form)
    u = _sorted(u, axis_name)
    count = u.shape[-2]
    if not 0 < 2 * m < count:
        raise InputError(f"m={m} must be in [1, N/2) with N={count}")
    std = jnp.sqrt(_centered_moments(u, None, ())[1])
    if form == "right":
        log_gaps = jnp.log(jnp.maximum(u[..., m:, :] - u[..., :-m, :], 1e-5))
        spread = jnp.sum(log_gaps, axis=-2) / count + math.log(count / m)
        return samples.replicated(
            0.5 * math.log(2 * math.pi * math.e) + jnp.log(std) - spread, axis_name
        )
    first, last = u[..., :1, :], u[..., -1:, :]
    ends = (m, 2 * m) if form == "vasicek" else (1, 2 * m + 1)
    gaps = [
        u[..., 2 * m :, :] - u[..., : -2 * m, :],
        u[..., ends[0] : ends[1], :] - first,
        last - jnp.flip(u, axis=-2)[..., ends[0] : ends[1], :],
    ]
    log_gaps = jnp.log(jnp.maximum(jnp.concatenate(gaps, axis=-2), 1e-5))
    spread = jnp.sum(log_gaps, axis=-2) / count + math.log(count / (2 * m))
    return samples.replicated(math.sqrt(2 * math.pi * math.e) * std * jnp.exp(-spread), axis_name)
