"""Multivariate tests of N(0, I) that need no projections (LeJEPA, arXiv:2511.08544, appendix F).

Public API: reference implementations for comparisons with SIGReg, which no objective here uses.

Each test takes samples z [N, D] and returns one number, in float32 (in float64 if `z` has that
type); map over leading axes with `jax.vmap`. The cost is quadratic in N, which is why LeJEPA
projects instead. With `axis_name` the samples of all shards are gathered first. Weights are
normalised: an integral over frequencies t with weight exp(-gamma |t|^2) is an average over
t ~ N(0, I / (2 gamma)) here, which drops the constant factor (pi / gamma)^(D/2) of the papers.

Tests built on exp(t . z) overflow float32 quickly for small `gamma` or large samples.

Shape key: N samples, D features.
"""

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError, check_one_of, check_positive
from socialjepa_jax.sigreg import samples

_HIGHEST = jax.lax.Precision.HIGHEST


def _gathered(z: jax.Array, axis_name: str | None) -> jax.Array:
    """Returns the samples of all shards: [N, D]."""
    if z.ndim != 2:
        raise InputError(f"z.shape={z.shape} must be [N, D]")
    return samples.gather(z, axis_name)


def _inner(x: jax.Array, y: jax.Array) -> jax.Array:
    """Inner products of all pairs: [N, D], [M, D] -> [N, M]."""
    return jnp.matmul(x, y.T, precision=_HIGHEST)


def _squares(z: jax.Array) -> jax.Array:
    return jnp.sum(z**2, axis=-1)


def _pair_sums(z: jax.Array, sign: float) -> jax.Array:
    """|z_i + sign z_j|^2: [N, N]."""
    squares = _squares(z)
    pairs = squares[:, None] + squares[None] + 2.0 * sign * _inner(z, z)
    return jnp.maximum(pairs, 0.0)


def _standardized(z: jax.Array) -> jax.Array:
    """Whitens z to mean zero and (biased) covariance I by the Cholesky factor; needs N > D."""
    centered = z - jnp.mean(z, axis=0, keepdims=True)
    covariance = jnp.matmul(centered.T, centered, precision=_HIGHEST) / len(z)
    factor = jnp.linalg.cholesky(covariance)
    return jax.scipy.linalg.solve_triangular(factor, centered.T, lower=True).T


def bhep(z: jax.Array, *, beta: float = 0.1, axis_name: str | None = None) -> jax.Array:
    """Baringhaus-Henze-Epps-Pulley: N E_t |ecf(t) - exp(-|t|^2/2)|^2 over t ~ N(0, beta^2 I).

    The published code omits the factor N. For D = 1, beta = 1 it is the Epps-Pulley integral over
    the whole line, divided by sqrt(2 pi).
    """
    check_positive(beta=beta)
    z = _gathered(z, axis_name)
    return samples.replicated(_bhep(z, beta), axis_name)


def _bhep(z: jax.Array, beta: float) -> jax.Array:
    (num, dim), square = z.shape, beta**2
    pairs = jnp.mean(jnp.exp(-0.5 * square * _pair_sums(z, -1.0)))
    single = jnp.mean(jnp.exp(-0.5 * square / (1.0 + square) * _squares(z)))
    cross = 2.0 * (1.0 + square) ** (-dim / 2) * single
    return num * (pairs - cross + (1.0 + 2.0 * square) ** (-dim / 2))


def henze_zirkler(
    z: jax.Array, *, standardize: bool = True, axis_name: str | None = None
) -> jax.Array:
    """BHEP with beta = ((2 D + 1) N / 4)^(1 / (D + 4)) / sqrt(2), eq. (57).

    Args:
        z: [N, D] samples.
        standardize: True for the textbook's test of any normal distribution; False tests N(0, I)
            itself, as the published code does (which also omits the factor N).
        axis_name: mesh axis over which samples are spread.
    """
    z = _gathered(z, axis_name)
    num, dim = z.shape
    beta = ((2 * dim + 1) * num / 4) ** (1 / (dim + 4)) / 2**0.5
    return samples.replicated(_bhep(_standardized(z) if standardize else z, beta), axis_name)


def moment_generating(
    z: jax.Array, *, beta: float = 2.5, axis_name: str | None = None
) -> jax.Array:
    """N E_t (M(t) - exp(|t|^2/2))^2 with M the empirical moment generating function.

    Henze and Jimenez-Gamero (arXiv:1711.07199); t ~ N(0, I / (2 beta)), beta > 1 (the limit
    theory needs beta > 2).
    """
    if not beta > 1.0:
        raise InputError(f"beta={beta} must be > 1")
    z = _gathered(z, axis_name)
    num, dim = z.shape
    pairs = jnp.mean(jnp.exp(_pair_sums(z, 1.0) / (4.0 * beta)))
    single = jnp.mean(jnp.exp(_squares(z) / (4.0 * beta - 2.0)))
    cross = 2.0 * (beta / (beta - 0.5)) ** (dim / 2) * single
    return samples.replicated(num * (pairs - cross + (beta / (beta - 1.0)) ** (dim / 2)), axis_name)


def _cosine_exponential(a: jax.Array, b: jax.Array, gamma: float) -> jax.Array:
    """Mean over pairs of E_t cos(t . a_i) exp(t . b_j) for t ~ N(0, I / (2 gamma))."""
    exponent = (_squares(b)[None] - _squares(a)[:, None]) / (4.0 * gamma)
    return jnp.mean(jnp.exp(exponent) * jnp.cos(_inner(a, b) / (2.0 * gamma)))


def comb(
    z: jax.Array, *, gamma: float = 10.0, form: str = "simple", axis_name: str | None = None
) -> jax.Array:
    """COMB: real characteristic function R times moment generating function M, 1 for a Gaussian.

    Henze, Jimenez-Gamero and Meintanis (2019), eqs. (58)-(61).

    Args:
        z: [N, D] samples.
        gamma: weight exp(-gamma |t|^2). The published default 0.1 overflows in a few dimensions.
        form: "simple": sqrt(N) E_t (R M - 1), of either sign, quadratic in N;
            "full": N E_t (R M - 1)^2 in N^4 operations and N^3 memory, for tiny samples only.
        axis_name: mesh axis over which samples are spread.
    """
    check_positive(gamma=gamma)
    check_one_of(("simple", "full"), form=form)
    z = _gathered(z, axis_name)
    num, dim = z.shape
    product = _cosine_exponential(z, z, gamma)  # E_t R M
    if form == "simple":
        return samples.replicated(num**0.5 * (product - 1.0), axis_name)
    # R^2 = mean over pairs of [cos(t.(z_j + z_k)) + cos(t.(z_j - z_k))] / 2
    cosine_pairs = jnp.concatenate(
        [(z[:, None] + sign * z[None]).reshape(-1, dim) for sign in (1.0, -1.0)]
    )

    @jax.checkpoint
    def squared_product(z_D: jax.Array) -> jax.Array:
        return _cosine_exponential(cosine_pairs, z_D[None] + z, gamma)

    square = jnp.mean(jax.lax.map(squared_product, z))  # E_t R^2 M^2
    return samples.replicated(num * (square - 2.0 * product + 1.0), axis_name)


def henze_visagie(z: jax.Array, *, gamma: float = 1.0, axis_name: str | None = None) -> jax.Array:
    """HV: N E_t |grad M(t) - t M(t)|^2, zero for the Gaussian moment generating function.

    Henze and Visagie (arXiv:1901.03986), eq. (62); t ~ N(0, I / (2 gamma)).
    """
    check_positive(gamma=gamma)
    z = _gathered(z, axis_name)
    num, dim = z.shape
    sums = _pair_sums(z, 1.0)
    slope = _inner(z, z) - sums / (2.0 * gamma) + dim / (2.0 * gamma) + sums / (4.0 * gamma**2)
    return samples.replicated(num * jnp.mean(jnp.exp(sums / (4.0 * gamma)) * slope), axis_name)


def mardia_skewness(
    z: jax.Array, *, standardize: bool = True, axis_name: str | None = None
) -> jax.Array:
    """Mean over all pairs of <z_i, z_j>^3 after standardisation (Mardia, 1970): 0 for a Gaussian.

    Its expectation under the null is about D (D + 1) (D + 2) / N. `standardize=False` tests the
    third moment of z itself, about the origin.
    """
    z = _gathered(z, axis_name)
    z = _standardized(z) if standardize else z
    return samples.replicated(jnp.mean(_inner(z, z) ** 3), axis_name)


def mardia_kurtosis(
    z: jax.Array, *, standardize: bool = True, axis_name: str | None = None
) -> jax.Array:
    """Mean of |z_i|^4 after standardisation (Mardia, 1970): D (D + 2) for a Gaussian."""
    z = _gathered(z, axis_name)
    z = _standardized(z) if standardize else z
    return samples.replicated(jnp.mean(_squares(z) ** 2), axis_name)
