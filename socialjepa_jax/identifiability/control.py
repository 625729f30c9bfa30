"""Linear-quadratic control through a learned representation.

Theorem 4 of "When Does LeJEPA Learn a World Model?" and its application to the LQR.

Shape key: D state dimension, U action dimension, N samples, T time steps.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability.metrics import fit_affine


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """Linear system z' = A z + B a + noise with the cost z^T W z + a^T R a at each step.

    Attributes:
        a: f64[D, D].
        b: f64[D, U].
        w: f64[D, D], symmetric, positive semidefinite.
        r: f64[U, U], symmetric, positive definite.
    """

    a: np.ndarray
    b: np.ndarray
    w: np.ndarray
    r: np.ndarray

    def __post_init__(self) -> None:
        dim, actions = np.shape(self.b)
        for name, shape in (("a", (dim, dim)), ("w", (dim, dim)), ("r", (actions, actions))):
            if np.shape(getattr(self, name)) != shape:
                raise InputError(
                    f"{name} has shape {np.shape(getattr(self, name))}, b implies {shape}"
                )

    def riccati(self) -> np.ndarray:
        """Solves the discrete algebraic Riccati equation for P; the value function is z^T P z."""
        return linalg.solve_discrete_are(self.a, self.b, self.w, self.r)

    def gain(self) -> np.ndarray:
        """Returns the gain K of the optimal action a = -K z: f64[U, D]."""
        p = self.riccati()
        return np.linalg.solve(self.r + self.b.T @ p @ self.b, self.b.T @ p @ self.a)

    def cost_matrix(self, gain_UD: np.ndarray) -> np.ndarray:
        """Returns S of the noiseless infinite-horizon cost z^T S z of a = -K z, or inf."""
        closed = self.a - self.b @ gain_UD
        if np.abs(np.linalg.eigvals(closed)).max() >= 1.0:
            return np.full_like(self.a, np.inf)
        return linalg.solve_discrete_lyapunov(closed.T, self.w + gain_UD.T @ self.r @ gain_UD)

    def in_coordinates(self, m_DD: np.ndarray, *, orthogonal: bool = False) -> "LinearSystem":
        """Returns the same system in the coordinates z_hat = M z.

        Args:
            m_DD: invertible matrix M.
            orthogonal: write the costs as M W M^T, correct for orthogonal M only (the published
                check does so), instead of M^-T W M^-1.
        """
        back = np.linalg.inv(m_DD)
        costs = m_DD.T if orthogonal else back
        return LinearSystem(m_DD @ self.a @ back, m_DD @ self.b, costs.T @ self.w @ costs, self.r)


EXAMPLE = LinearSystem(
    a=np.array([[0.95, 0.05], [-0.03, 0.92]]), b=0.3 * np.eye(2), w=np.eye(2), r=np.eye(2)
)
"""The system of the published code's check."""


@dataclass(frozen=True)
class ControlReport:
    """Comparison of control designed in the latent space with control designed in the world.

    Attributes:
        gain_error: ||K_hat M - K||_F / ||K||_F, of the two feedback laws on the true state.
        value_error: ||M^T P_hat M - P||_F / ||P||_F.
        regret: relative excess of the true cost, averaged over directions of the state.
    """

    gain_error: float
    value_error: float
    regret: float


def latent_control(system: LinearSystem, m_DD: np.ndarray) -> ControlReport:
    """Designs an LQR in the learned coordinates z_hat = M z and evaluates it in the world.

    The design knows the dynamics of z_hat and writes the costs as if M were orthogonal. By theorem
    4 all errors are zero if it is.
    """
    latent = system.in_coordinates(m_DD, orthogonal=True)
    gain, value = system.gain(), system.riccati()
    gain_hat = latent.gain() @ m_DD
    achieved = np.trace(system.cost_matrix(gain_hat)) / np.trace(value)
    return ControlReport(
        gain_error=_relative(gain_hat, gain),
        value_error=_relative(m_DD.T @ latent.riccati() @ m_DD, value),
        regret=float(achieved - 1.0),
    )


def _relative(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def identify(
    h_ND: np.ndarray, actions_NU: np.ndarray, h_next_ND: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fits the dynamics of the latent space to transitions by least squares.

    Public API, for latent spaces with unknown dynamics.

    Args:
        h_ND: f64[N, D], latents.
        actions_NU: f64[N, U], actions taken there.
        h_next_ND: f64[N, D], latents one step later.

    Returns:
        A_hat f64[D, D] and B_hat f64[D, U]; an offset is fitted and dropped.
    """
    inputs = np.concatenate([h_ND, actions_NU], axis=1)
    both, _ = fit_affine(inputs, h_next_ND)
    return both[:, : h_ND.shape[1]], both[:, h_ND.shape[1] :]
