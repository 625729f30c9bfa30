"""Stationary latent processes: pairs (z, z') of a world, drawn on the device.

Shape key: N samples, D latent dimension, K knots.

A process is static; what may differ between runs (correlation, shape) is a dictionary of arrays
from `params`, so that a sweep is a `vmap`. Every draw is a pure function of its key.

All marginals have zero mean and unit variance and the components are independent.

| process | marginal | transition |
|---|---|---|
| OrnsteinUhlenbeck | Gaussian | z' = rho z + sqrt(1 - rho^2) eta |
| Copula | generalised normal | a monotone map of an OU process |
| Langevin | generalised normal | dz = (log p)'(z) dt + sqrt(2) dW over the time -log rho |
| GoalSeeking | two Gaussian bumps | the same |
| Blend | Gaussian and two bumps | each pair from OrnsteinUhlenbeck or from GoalSeeking |
| PublishedNoise | not stationary | z' = rho z + sqrt(1 - rho^2) eta, z and eta generalised normal |

(identifiability paper, section "The World" and appendix "Latent Variable Distribution Sweep").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from socialjepa_jax.errors import (
    InputError,
    check_in_range,
    check_inside,
    check_one_of,
    check_positive,
)

Params = dict[str, jax.Array]
_KNOTS, _REACH = 513, 8.0  # the warp's table: |z| from 0 to 8 standard deviations


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """The Gaussian world, isotropic or with a correlation for each dimension.

    Attributes:
        dim: latent dimension.
    """

    dim: int = 2

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)

    def params(self, rho: float | Sequence[float], alpha: float = 2.0) -> Params:
        """Returns the arrays of one world.

        Args:
            rho: correlation of the two views, in (0, 1); one value, or one for each dimension.
            alpha: shape of the marginal, > 0; 2 is the Gaussian, the only one here.

        Raises:
            InputError: a value out of range, or as many correlations as do not fit `dim`.
        """
        if type(self) is OrnsteinUhlenbeck:
            check_one_of((2.0,), alpha=alpha)
        return {"rho": _correlations(rho, self.dim)}

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Independent draws from the marginal: f32[num, D]."""
        return jax.random.normal(key, (num, self.dim))

    def transition(self, params: Params, key: jax.Array, z_ND: jax.Array) -> jax.Array:
        """The next state given z: f32[N, D] -> f32[N, D]."""
        return _mix(params["rho"], z_ND, jax.random.normal(key, z_ND.shape))

    def views(
        self, params: Params, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Positive pairs: two arrays f32[num, D].

        Args:
            params: of the world.
            key: PRNG key.
            num: pairs.
            noised: "second": (z, z'), as the paper says; "both": two independent transitions of
                one z, as its code does, so that the views correlate by rho^2.
        """
        check_one_of(("second", "both"), noised=noised)
        start, first, second = jax.random.split(key, 3)
        z_ND = self.stationary(params, start, num)
        other_ND = self.transition(params, second, z_ND)
        return (z_ND if noised == "second" else self.transition(params, first, z_ND)), other_ND


def _correlations(rho: float | Sequence[float], dim: int) -> jax.Array:
    """f32[D], checked."""
    rho_D = np.atleast_1d(np.asarray(rho, np.float64))
    for value in rho_D.tolist():
        check_inside(0.0, 1.0, rho=value)
    if rho_D.shape not in ((1,), (dim,)):
        raise InputError(f"rho has {rho_D.size} values for {dim} dimensions")
    return jnp.asarray(np.broadcast_to(rho_D, (dim,)), jnp.float32)


def _mix(rho_D: jax.Array, z_ND: jax.Array, noise_ND: jax.Array) -> jax.Array:
    return rho_D[None] * z_ND + jnp.sqrt(1.0 - jnp.square(rho_D))[None] * noise_ND


def gennorm_scale(alpha: float) -> float:
    """Scale s that gives p(z) ~ exp(-|z / s|^alpha) unit variance."""
    check_positive(alpha=alpha)
    return math.exp(0.5 * (special.gammaln(1.0 / alpha) - special.gammaln(3.0 / alpha)))


def _shape(alpha: float) -> Params:
    scale = gennorm_scale(alpha)
    return {"alpha": jnp.float32(alpha), "scale": jnp.float32(scale)}


def warp_log_ratio(alpha: float, z: np.ndarray) -> np.ndarray:
    """log T(z) / z at z >= 0, T the map from N(0, 1) to the gennorm law of unit variance.

    T(z) is the quantile of Phi(z). Its ratio to z is positive and smooth, also at zero.
    """
    inner = special.gammaincinv(1.0 / alpha, special.erf(z / math.sqrt(2.0)))
    outer = special.gammainccinv(1.0 / alpha, special.erfc(z / math.sqrt(2.0)))
    scale = gennorm_scale(alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_t = math.log(scale) + np.log(np.where(z < 1.0, inner, outer)) / alpha - np.log(z)
    # At zero T' is the ratio of the two densities there.
    log_density = math.log(alpha / (2.0 * scale)) - special.gammaln(1.0 / alpha)
    return np.where(z > 0.0, log_t, -0.5 * math.log(2.0 * math.pi) - log_density)


def warp_table(alpha: float) -> np.ndarray:
    """f32[K]: `warp_log_ratio` at K knots |z| in [0, 8].

    A straight line between knots is good to 1e-3 relative or 1e-5 standard deviations.
    """
    return warp_log_ratio(alpha, np.linspace(0.0, _REACH, _KNOTS)).astype(np.float32)


def warp(table_K: jax.Array, z: jax.Array) -> jax.Array:
    """T(z): standard normal values to gennorm values, any shape."""
    place = jnp.minimum(jnp.abs(z) * ((_KNOTS - 1) / _REACH), _KNOTS - 1.001)
    low = place.astype(jnp.int32)
    weight = place - low
    return z * jnp.exp((1.0 - weight) * table_K[low] + weight * table_K[low + 1])


@dataclass(frozen=True)
class Copula:
    """An OU process seen through the monotone map that makes its marginal generalised normal.

    Stationary and reversible for every shape; `rho` is the correlation before the map. The
    eigenfunctions of its transition are the Hermite polynomials of T^-1(z), with eigenvalues rho^k.

    Attributes:
        dim: latent dimension.
    """

    dim: int = 2

    def params(self, rho: float | Sequence[float], alpha: float = 2.0) -> Params:
        """Correlation and the warp's table."""
        gaussian = OrnsteinUhlenbeck(self.dim).params(rho)
        return gaussian | _shape(alpha) | {"warp": jnp.asarray(warp_table(alpha))}

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Generalised normal draws: f32[num, D]."""
        return warp(params["warp"], jax.random.normal(key, (num, self.dim)))

    def views(
        self, params: Params, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Warped pairs of the OU process: two arrays f32[num, D]."""
        first, second = OrnsteinUhlenbeck(self.dim).views(params, key, num, noised)
        return warp(params["warp"], first), warp(params["warp"], second)


@dataclass(frozen=True)
class PublishedNoise(OrnsteinUhlenbeck):
    """What the published code does for non-Gaussian shapes: z and the noise are both gennorm.

    The sum of the two is not gennorm, so the views' marginal is not that of z: not stationary.
    """

    def params(self, rho: float | Sequence[float], alpha: float = 2.0) -> Params:
        """Correlation, shape and scale."""
        return super().params(rho, alpha) | _shape(alpha)

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Generalised normal draws: f32[num, D]."""
        return gennorm(key, (num, self.dim), params["alpha"], params["scale"])

    def transition(self, params: Params, key: jax.Array, z_ND: jax.Array) -> jax.Array:
        """rho z + sqrt(1 - rho^2) eta with gennorm eta."""
        noise_ND = gennorm(key, z_ND.shape, params["alpha"], params["scale"])
        return _mix(params["rho"], z_ND, noise_ND)


def gennorm(
    key: jax.Array, shape: tuple[int, ...], alpha: jax.Array, scale: jax.Array
) -> jax.Array:
    """Draws of density ~ exp(-|z / scale|^alpha): |z| = scale G^(1/alpha), G ~ Gamma(1/alpha)."""
    sign, size = jax.random.split(key)
    # In logarithms, since G underflows float32 for flat shapes while G^(1/alpha) does not.
    log_gamma = jax.random.loggamma(size, 1.0 / alpha, shape)
    return scale * jax.random.rademacher(sign, shape, jnp.float32) * jnp.exp(log_gamma / alpha)


@dataclass(frozen=True)
class Langevin(OrnsteinUhlenbeck):
    """Constant-diffusion Langevin dynamics over a time t = -log rho for each dimension.

    The process of the converse theorem (its generator is (p f')' / p) and of Sturm-Liouville
    theory. Integrated by `substeps` Metropolis-adjusted Euler steps: the marginal is exact and the
    process reversible whatever their number, the dynamics right as they become short.

    Attributes:
        substeps: of a transition.
    """

    substeps: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(substeps=self.substeps)

    def params(self, rho: float | Sequence[float], alpha: float = 2.0) -> Params:
        """Correlation that the Gaussian would have, shape and scale."""
        return super().params(rho, alpha) | _shape(alpha)

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Generalised normal draws: f32[num, D]."""
        return gennorm(key, (num, self.dim), params["alpha"], params["scale"])

    def log_density(self, params: Params, z: jax.Array) -> jax.Array:
        """log p up to a constant, elementwise."""
        return -jnp.exp(params["alpha"] * jnp.log(jnp.abs(z / params["scale"]) + 1e-30))

    def score(self, params: Params, z: jax.Array) -> jax.Array:
        """(log p)', elementwise; infinite at 0 for alpha < 1, which `transition` clips."""
        alpha, scale = params["alpha"], params["scale"]
        power = jnp.exp((alpha - 1.0) * jnp.log(jnp.abs(z / scale) + 1e-30))
        return -alpha / scale * jnp.sign(z) * power

    def transition(self, params: Params, key: jax.Array, z_ND: jax.Array) -> jax.Array:
        """The state a time -log rho later: f32[N, D] -> f32[N, D]."""
        h_ND = jnp.broadcast_to((-jnp.log(params["rho"]) / self.substeps)[None], z_ND.shape)

        def drifted(z_ND: jax.Array) -> jax.Array:
            # A drift of more than the noise of a step is cut; the acceptance keeps the law exact.
            limit = jnp.sqrt(2.0 / h_ND)
            return z_ND + h_ND * jnp.clip(self.score(params, z_ND), -limit, limit)

        def substep(i: jax.Array, z_ND: jax.Array) -> jax.Array:
            noise, coin = jax.random.split(jax.random.fold_in(key, i))
            mean_ND = drifted(z_ND)
            new_ND = mean_ND + jnp.sqrt(2.0 * h_ND) * jax.random.normal(noise, z_ND.shape)
            forth = jnp.square(new_ND - mean_ND)
            back = jnp.square(z_ND - drifted(new_ND))
            log_ratio = self.log_density(params, new_ND) - self.log_density(params, z_ND)
            log_ratio += (forth - back) / (4.0 * h_ND)
            accept = jnp.log(jax.random.uniform(coin, z_ND.shape, minval=1e-30)) < log_ratio
            return jnp.where(accept, new_ND, z_ND)

        return jax.lax.fori_loop(0, self.substeps, substep, z_ND)


@dataclass(frozen=True)
class GoalSeeking(Langevin):
    """Langevin dynamics between two goals: p is an equal mixture of N(+-g, 1 - g^2).

    A world as a policy makes it: states dwell around the goals and travel between them.

    Attributes:
        goal: distance g of the goals from the centre, in (0, 1).
    """

    goal: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inside(0.0, 1.0, goal=self.goal)

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws around the two goals: f32[num, D]."""
        side, size = jax.random.split(key)
        shape = (num, self.dim)
        spread = math.sqrt(1.0 - self.goal**2)
        centre = self.goal * jax.random.rademacher(side, shape, jnp.float32)
        return centre + spread * jax.random.normal(size, shape)

    def log_density(self, params: Params, z: jax.Array) -> jax.Array:
        """log p up to a constant, elementwise."""
        slope = self.goal / (1.0 - self.goal**2)
        return -0.5 * jnp.square(z) / (1.0 - self.goal**2) + jnp.logaddexp(slope * z, -slope * z)

    def score(self, params: Params, z: jax.Array) -> jax.Array:
        """(log p)', elementwise."""
        variance = 1.0 - self.goal**2
        return (self.goal * jnp.tanh(self.goal * z / variance) - z) / variance


@dataclass(frozen=True)
class Blend:
    """Each pair comes from a goal-seeking world with probability `share`, else from the OU world.

    Attributes:
        dim: latent dimension.
        substeps: of the goal-seeking transition.
        goal: see `GoalSeeking`.
    """

    dim: int = 2
    substeps: int = 32
    goal: float = 0.9

    @property
    def _worlds(self) -> tuple[OrnsteinUhlenbeck, GoalSeeking]:
        return OrnsteinUhlenbeck(self.dim), GoalSeeking(self.dim, self.substeps, self.goal)

    def params(self, rho: float | Sequence[float], share: float) -> Params:
        """Correlation and the share of goal-seeking pairs, in [0, 1]."""
        check_in_range(0.0, 1.0, share=share)
        return self._worlds[1].params(rho) | {"share": jnp.float32(share)}

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws of the blend: f32[num, D]."""
        pick, *keys = jax.random.split(key, 3)
        draws = [world.stationary(params, k, num) for world, k in zip(self._worlds, keys)]
        return jnp.where(self._pick(params, pick, num), draws[1], draws[0])

    def _pick(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """bool[num, 1]: which pairs seek goals."""
        return jax.random.uniform(key, (num, 1)) < params["share"]

    def views(
        self, params: Params, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Pairs of one world or the other: two arrays f32[num, D]."""
        pick, *keys = jax.random.split(key, 3)
        ou, goals = (w.views(params, k, num, noised) for w, k in zip(self._worlds, keys))
        seeks = self._pick(params, pick, num)
        return jnp.where(seeks, goals[0], ou[0]), jnp.where(seeks, goals[1], ou[1])
