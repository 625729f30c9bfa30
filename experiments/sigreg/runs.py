"""Univariate tests, the X distribution and descent on samples, for the SIGReg experiments.

Shape key: N samples, D features, M slices.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from socialjepa_jax.sigreg import (
    OFFICIAL,
    Statistic,
    epps_pulley,
    sample_directions,
    sigreg,
    step_directions,
    univariate,
)

TESTS: dict[str, Statistic] = {
    "VCReg": univariate.vcreg,
    "extended Jarque-Bera": univariate.extended_jarque_bera,
    "Cramer-von Mises": univariate.cramer_von_mises,
    "Watson": univariate.watson,
    "Anderson-Darling": univariate.anderson_darling,
    "Epps-Pulley": epps_pulley,
}
"""The univariate tests of the paper's figures 5, 6 and 16, in its order."""

LEARNING_RATE = 0.1  # of Adam on the samples, as in the published figure's script


def x_distribution(key: jax.Array, num: int, dim: int = 2, shift: float = 0.0) -> jax.Array:
    """Standard Gaussians whose first two coordinates lie on an "X" (figure 5): f32[N, D].

    The second coordinate is the first one under a random sign: both are N(0, 1), their covariance
    is 0, and the plane's points lie on its diagonals. `shift` moves these two coordinates.
    """
    normal_key, sign_key = jax.random.split(key)
    z_ND = jax.random.normal(normal_key, (num, dim))
    sign_N = jax.random.rademacher(sign_key, (num,), jnp.float32)
    return z_ND.at[:, 1].set(z_ND[:, 0] * sign_N).at[:, :2].add(shift)


@partial(jax.jit, static_argnames=("statistic", "steps", "num_slices", "resample"))
def descend(
    z_ND: jax.Array,
    key: jax.Array,
    *,
    statistic: Statistic,
    steps: int,
    num_slices: int,
    resample: bool = True,
    learning_rate: float = LEARNING_RATE,
) -> tuple[jax.Array, jax.Array]:
    """Moves samples by Adam until SIGReg sees a standard Gaussian.

    Args:
        z_ND: the samples before descent.
        key: of the directions.
        statistic: of each slice.
        steps: of Adam.
        num_slices: directions M of a step.
        resample: draw new directions at every step, or keep the first ones.
        learning_rate: of Adam, constant.

    Returns:
        The samples [N, D] and the loss before each step [steps].
    """
    optimizer = optax.adam(learning_rate)
    dim = z_ND.shape[1]
    first_DM = step_directions(key, 0, dim, num_slices)

    def update(
        carry: tuple[jax.Array, optax.OptState], step: jax.Array
    ) -> tuple[tuple[jax.Array, optax.OptState], jax.Array]:
        z_ND, moments = carry
        directions_DM = step_directions(key, step, dim, num_slices) if resample else first_DM
        loss, grad_ND = jax.value_and_grad(sigreg)(z_ND, directions_DM, statistic=statistic)
        change_ND, moments = optimizer.update(grad_ND, moments)
        return (z_ND + change_ND, moments), loss

    carry, losses = jax.lax.scan(update, (z_ND, optimizer.init(z_ND)), jnp.arange(steps))
    return carry[0], losses


def expected_statistic(z_ND: jax.Array, key: jax.Array, num_slices: int = 4096) -> float:
    """Epps-Pulley over fresh directions, in units of its level for Gaussian samples."""
    directions_DM = sample_directions(key, z_ND.shape[1], num_slices)
    return float(sigreg(z_ND, directions_DM)) / OFFICIAL.null_level


def plane_statistic(z_N2: jax.Array, num_angles: int = 180) -> float:
    """Epps-Pulley over a half circle of directions in a plane, in units of its null level."""
    angles_M = np.arange(num_angles) * np.pi / num_angles
    directions_2M = jnp.asarray(np.stack([np.cos(angles_M), np.sin(angles_M)]), jnp.float32)
    return float(sigreg(z_N2, directions_2M)) / OFFICIAL.null_level


def square_correlation(z_N2: np.ndarray) -> float:
    """Correlation of the two centred coordinates' squares: 1 on an X, 0 for a Gaussian."""
    square_N2 = (z_N2 - z_N2.mean(0)) ** 2
    return float(np.corrcoef(square_N2.T)[0, 1])
