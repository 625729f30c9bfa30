"""Ornstein-Uhlenbeck processes driven by known actions.

    z' = rho z + sqrt(1 - rho^2) xi,   xi = sqrt(s) B a + (I - s B B^T)^(1/2) eps,

with independent standard normal actions a and noise eps, and B with orthonormal columns. xi is
standard normal whatever the share s, so an encoder trained on undriven pairs of the same
correlations meets the same distribution.

Shape key: N steps, D latents, M actions.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.errors import check_in_range, check_inside


@dataclass(frozen=True)
class Driven:
    """An Ornstein-Uhlenbeck process whose innovations are partly known.

    Attributes:
        dim: latent dimension D.
        actions: number of actions M <= D.
        share: share s of the variance of an innovation, along each action's direction, in (0, 1).
        seed: of the directions B; every agent of a world has the same.
    """

    dim: int
    actions: int
    share: float = 0.3
    seed: int = 0

    def __post_init__(self) -> None:
        check_in_range(1, self.dim, actions=self.actions)
        check_inside(0.0, 1.0, share=self.share)

    @property
    def directions(self) -> np.ndarray:
        """B f64[D, M], orthonormal columns; one action moves all latents alike."""
        if self.actions == 1:
            return np.full((self.dim, 1), self.dim**-0.5)
        rng = np.random.default_rng([self.seed, self.dim])
        q_DD, r_DD = np.linalg.qr(rng.normal(size=(self.dim, self.dim)))
        return (q_DD * np.sign(np.diagonal(r_DD)))[:, : self.actions]

    def push(self, rho_D: np.ndarray) -> np.ndarray:
        """Returns what actions add to the state: sqrt((1 - rho^2) s) B, f64[D, M]."""
        return np.sqrt((1 - rho_D**2) * self.share)[:, None] * self.directions

    def walk(
        self, rho_D: jax.Array, key: jax.Array, steps: int, feedback: float = 0.0
    ) -> tuple[jax.Array, jax.Array]:
        """Draws one trajectory from the stationary law.

        Args:
            rho_D: correlation of successive states, of each latent.
            key: typed key.
            steps: N.
            feedback: f in [0, 1) of a policy a = -f B^T z + sqrt(1 - f^2) noise, which steers
                towards the middle: the walk soon has a narrower law than the one it starts from.

        Returns:
            States f32[N + 1, D] and actions f32[N, M]; action n leads from state n to n + 1.
        """
        check_inside(-1.0, 1.0, feedback=feedback)
        start, act, noise = jax.random.split(key, 3)
        b_DM = jnp.asarray(self.directions, jnp.float32)
        a_NM = jax.random.normal(act, (steps, self.actions))
        eps_ND = jax.random.normal(noise, (steps, self.dim))
        # (I - s B B^T)^(1/2) = I - (1 - sqrt(1 - s)) B B^T, as B^T B = I.
        shrink = 1.0 - np.sqrt(1.0 - self.share)
        exact = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
        pushed_NM = np.sqrt(self.share) * a_NM - shrink * exact(eps_ND, b_DM)
        xi_ND = eps_ND + exact(pushed_NM, b_DM.T)

        kept = np.sqrt(1.0 - feedback**2)

        def step(
            z_D: jax.Array, drawn: tuple[jax.Array, jax.Array]
        ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            xi_D, noise_M = drawn
            a_M = kept * noise_M - feedback * exact(z_D, b_DM)
            xi_D = xi_D + np.sqrt(self.share) * exact(b_DM, a_M - noise_M)
            z_D = rho_D * z_D + jnp.sqrt(1.0 - jnp.square(rho_D)) * xi_D
            return z_D, (z_D, a_M)

        first = jax.random.normal(start, (self.dim,))
        _, (after, actions_NM) = jax.lax.scan(step, first, (xi_ND, a_NM))
        return jnp.concatenate([first[None], after]), actions_NM
