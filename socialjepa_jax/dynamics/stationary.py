"""Stationary processes with a Gaussian transition or copula: pairs (z, z') of a world.

Shape key: N samples, D latent dimension.

A process is static. The values that may differ between runs (correlation, shape) are a dictionary
of arrays from `params`, so that a sweep is a `vmap`. Every draw is a pure function of its key. All
marginals have zero mean and unit variance, and the components are independent.

| process | marginal | transition |
|---|---|---|
| OrnsteinUhlenbeck | Gaussian | z' = rho z + sqrt(1 - rho^2) eta |
| Copula | generalised normal | a monotone map of an Ornstein-Uhlenbeck process |
| PublishedNoise | not stationary | z' = rho z + sqrt(1 - rho^2) eta, z and eta generalised normal |
| langevin.Langevin | generalised normal | dz = (log p)'(z) dt + sqrt(2) dW for a time -log rho |
| langevin.GoalSeeking | two Gaussian bumps | as Langevin |
| langevin.Blend | Gaussian and two bumps | each pair from OrnsteinUhlenbeck or GoalSeeking |

Source: "When Does LeJEPA Learn a World Model?", section "The World" and appendix "Latent Variable
Distribution Sweep".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.dynamics.gennorm import gennorm, gennorm_scale, warp, warp_table
from socialjepa_jax.errors import InputError, check_inside, check_one_of, check_positive

Params = dict[str, jax.Array]


class Process(Protocol):
    """A stationary process of latents."""

    @property
    def dim(self) -> int:
        """Latent dimension D."""
        ...

    def stationary(self, params: Any, key: jax.Array, num: int) -> jax.Array:
        """Draws from the marginal: f32[num, D]."""
        ...

    def views(
        self, params: Any, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Draws positive pairs: two arrays f32[num, D]."""
        ...


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
            alpha: shape of the marginal, > 0; 2 is the Gaussian, the only shape here.

        Raises:
            InputError: if a value is out of range or the number of correlations is not `dim`.
        """
        check_one_of((2.0,), alpha=alpha)
        return {"rho": _correlations(rho, self.dim)}

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws from the marginal independently: f32[num, D]."""
        return jax.random.normal(key, (num, self.dim))

    def transition(self, params: Params, key: jax.Array, z_ND: jax.Array) -> jax.Array:
        """Draws the next state given z: f32[N, D] -> f32[N, D]."""
        return _mix(params["rho"], z_ND, jax.random.normal(key, z_ND.shape))

    def views(
        self, params: Params, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Draws positive pairs: two arrays f32[num, D].

        Args:
            params: arrays of the world.
            key: PRNG key.
            num: number of pairs.
            noised: "second": (z, z'), as the paper says; "both": two independent transitions of
                one z, as its code does, so that the views correlate by rho^2.
        """
        check_one_of(("second", "both"), noised=noised)
        start, first, second = jax.random.split(key, 3)
        z_ND = self.stationary(params, start, num)
        other_ND = self.transition(params, second, z_ND)
        return (z_ND if noised == "second" else self.transition(params, first, z_ND)), other_ND


def _correlations(rho: float | Sequence[float], dim: int) -> jax.Array:
    """Checks the correlations and broadcasts them to f32[D]."""
    rho_D = np.atleast_1d(np.asarray(rho, np.float64))
    for value in rho_D.tolist():
        check_inside(0.0, 1.0, rho=value)
    if rho_D.shape not in ((1,), (dim,)):
        raise InputError(f"rho has {rho_D.size} values for {dim} dimensions")
    return jnp.asarray(np.broadcast_to(rho_D, (dim,)), jnp.float32)


def _mix(rho_D: jax.Array, z_ND: jax.Array, noise_ND: jax.Array) -> jax.Array:
    return rho_D[None] * z_ND + jnp.sqrt(1.0 - jnp.square(rho_D))[None] * noise_ND


@dataclass(frozen=True)
class GennormMarginal(OrnsteinUhlenbeck):
    """Base of processes that start from a generalised normal law of any shape."""

    def params(self, rho: float | Sequence[float], alpha: float = 2.0) -> Params:
        """Returns correlation, shape and scale; see `OrnsteinUhlenbeck.params`."""
        rho_D = _correlations(rho, self.dim)
        scale = jnp.float32(gennorm_scale(alpha))
        return {"rho": rho_D, "alpha": jnp.float32(alpha), "scale": scale}

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws from the generalised normal law: f32[num, D]."""
        return gennorm(key, (num, self.dim), params["alpha"], params["scale"])


@dataclass(frozen=True)
class Copula:
    """An Ornstein-Uhlenbeck process under the monotone map to a generalised normal marginal.

    Stationary and reversible for every shape; `rho` is the correlation before the map. The
    eigenfunctions of its transition are the Hermite polynomials of T^-1(z), with eigenvalues rho^k.

    Attributes:
        dim: latent dimension.
    """

    dim: int = 2

    def params(self, rho: float | Sequence[float], alpha: float = 2.0) -> Params:
        """Returns correlation, shape, scale and the table of the map."""
        law = GennormMarginal(self.dim).params(rho, alpha)
        return law | {"warp": jnp.asarray(warp_table(alpha))}

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws from the generalised normal law: f32[num, D]."""
        return warp(params["warp"], jax.random.normal(key, (num, self.dim)))

    def views(
        self, params: Params, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Draws pairs of the Gaussian process and maps them: two arrays f32[num, D]."""
        first, second = OrnsteinUhlenbeck(self.dim).views(params, key, num, noised)
        return warp(params["warp"], first), warp(params["warp"], second)


@dataclass(frozen=True)
class PublishedNoise(GennormMarginal):
    """The published code's non-Gaussian world: z and the noise are both generalised normal.

    Their sum is not, so the marginal of the second view differs from that of z: not stationary.
    """

    def transition(self, params: Params, key: jax.Array, z_ND: jax.Array) -> jax.Array:
        """Returns rho z + sqrt(1 - rho^2) eta with generalised normal eta."""
        noise_ND = gennorm(key, z_ND.shape, params["alpha"], params["scale"])
        return _mix(params["rho"], z_ND, noise_ND)
