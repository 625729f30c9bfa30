"""Langevin dynamics with a given marginal, and blends with the Gaussian process.

Shape key: N samples, D latent dimension.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.dynamics.stationary import GennormMarginal, OrnsteinUhlenbeck, Params
from socialjepa_jax.errors import check_in_range, check_inside, check_positive


@dataclass(frozen=True)
class Langevin(GennormMarginal):
    """Constant-diffusion Langevin dynamics over a time t = -log rho for each dimension.

    `rho` is the correlation that the Gaussian would have. The process of the converse theorem (its
    generator is (p f')' / p) and of Sturm-Liouville theory, integrated by `substeps`
    Metropolis-adjusted Euler steps: for any number of steps the marginal is exact and the process
    reversible, and the dynamics converge as the steps become short.

    Attributes:
        dim: latent dimension.
        substeps: integration steps of a transition.
    """

    substeps: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(substeps=self.substeps)

    def log_density(self, params: Params, z: jax.Array) -> jax.Array:
        """Returns log p up to a constant, elementwise."""
        return -jnp.exp(params["alpha"] * jnp.log(jnp.abs(z / params["scale"]) + 1e-30))

    def score(self, params: Params, z: jax.Array) -> jax.Array:
        """Returns (log p)', elementwise; infinite at 0 for alpha < 1, which `transition` clips."""
        alpha, scale = params["alpha"], params["scale"]
        power = jnp.exp((alpha - 1.0) * jnp.log(jnp.abs(z / scale) + 1e-30))
        return -alpha / scale * jnp.sign(z) * power

    def transition(self, params: Params, key: jax.Array, z_ND: jax.Array) -> jax.Array:
        """Draws the state after a time -log rho: f32[N, D] -> f32[N, D]."""
        h_ND = jnp.broadcast_to((-jnp.log(params["rho"]) / self.substeps)[None], z_ND.shape)

        def drifted(z_ND: jax.Array) -> jax.Array:
            # The drift is clipped to the noise of a step; the acceptance step keeps the law exact.
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

    States dwell around the goals and travel between them, as under a goal-seeking policy.

    Attributes:
        dim, substeps: see `Langevin`.
        goal: distance g of the goals from the centre, in (0, 1).
    """

    goal: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inside(0.0, 1.0, goal=self.goal)

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws states around the two goals: f32[num, D]."""
        side, size = jax.random.split(key)
        shape = (num, self.dim)
        spread = math.sqrt(1.0 - self.goal**2)
        centre = self.goal * jax.random.rademacher(side, shape, jnp.float32)
        return centre + spread * jax.random.normal(size, shape)

    def log_density(self, params: Params, z: jax.Array) -> jax.Array:
        """Returns log p up to a constant, elementwise."""
        slope = self.goal / (1.0 - self.goal**2)
        return -0.5 * jnp.square(z) / (1.0 - self.goal**2) + jnp.logaddexp(slope * z, -slope * z)

    def score(self, params: Params, z: jax.Array) -> jax.Array:
        """Returns (log p)', elementwise."""
        variance = 1.0 - self.goal**2
        return (self.goal * jnp.tanh(self.goal * z / variance) - z) / variance


@dataclass(frozen=True)
class Blend:
    """Pairs from a goal-seeking world with probability `share`, otherwise from the Gaussian world.

    Attributes:
        dim: latent dimension.
        substeps, goal: see `GoalSeeking`.
    """

    dim: int = 2
    substeps: int = 32
    goal: float = 0.9

    @property
    def _worlds(self) -> tuple[OrnsteinUhlenbeck, GoalSeeking]:
        return OrnsteinUhlenbeck(self.dim), GoalSeeking(self.dim, self.substeps, self.goal)

    def params(self, rho: float | Sequence[float], share: float) -> Params:
        """Returns the correlation and the share of goal-seeking pairs, in [0, 1]."""
        check_in_range(0.0, 1.0, share=share)
        return self._worlds[1].params(rho) | {"share": jnp.float32(share)}

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws states of the blend: f32[num, D]."""
        pick, *keys = jax.random.split(key, 3)
        draws = [world.stationary(params, k, num) for world, k in zip(self._worlds, keys)]
        return jnp.where(self._seeks_goals(params, pick, num), draws[1], draws[0])

    def _seeks_goals(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws bool[num, 1], True for pairs of the goal-seeking world."""
        return jax.random.uniform(key, (num, 1)) < params["share"]

    def views(
        self, params: Params, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Draws pairs of either world: two arrays f32[num, D]."""
        pick, *keys = jax.random.split(key, 3)
        gaussian, seeking = (w.views(params, k, num, noised) for w, k in zip(self._worlds, keys))
        seeks_goals = self._seeks_goals(params, pick, num)
        first, second = (jnp.where(seeks_goals, s, g) for s, g in zip(seeking, gaussian))
        return first, second
