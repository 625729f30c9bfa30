"""Angles of the joints of a two-link arm that reaches for goals, in closed form.

The arm is DeepMind Control's Reacher: two links of equal length and a target within reach, which a
policy holds until the next. Equal links fix the wrist by the target's distance r, up to its sign:
|wrist| = 2 arccos(r / (2 link)). The shoulder starts anywhere in a full turn and travels from there
without limit. Any two processes of standard normal scores become angles by the quantiles below.

Shape key: N samples, D = 2 joints, K knots.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from socialjepa_jax.dynamics.stationary import OrnsteinUhlenbeck, Params
from socialjepa_jax.errors import check_inside

LINK = 0.12  # length of both links in dm_control's reacher.xml
NEAREST, FARTHEST = 0.05, 0.20  # distance of targets, uniform; in its reacher.py
TRAVEL = 1.071  # radians; 13.6 % lies beyond half a turn, as the identifiability paper's shoulder
_REACH, _KNOTS = 5.0, 1024  # an even number: the wrist jumps at the score 0, between two knots


def shoulder_angles(score: np.ndarray) -> np.ndarray:
    """Returns quantiles, radians, of a uniform start in [-pi, pi] plus a travel N(0, TRAVEL^2)."""
    x = np.linspace(-np.pi - 8 * TRAVEL, np.pi + 8 * TRAVEL, 20_001)

    def integral(v: np.ndarray) -> np.ndarray:  # of the normal distribution function
        density = np.exp(-0.5 * np.square(v / TRAVEL)) / np.sqrt(2 * np.pi)
        return v * special.ndtr(v / TRAVEL) + TRAVEL * density

    below = (integral(x + np.pi) - integral(x - np.pi)) / (2 * np.pi)
    return np.interp(special.ndtr(score), below, x)


def wrist_angles(score: np.ndarray) -> np.ndarray:
    """Returns quantiles, radians, of +-2 arccos(r / (2 LINK)) with r uniform and a fair sign."""
    size = 2.0 * special.ndtr(np.abs(score)) - 1.0
    distance = FARTHEST - (FARTHEST - NEAREST) * size
    return np.sign(score) * 2.0 * np.arccos(distance / (2.0 * LINK))


def standard_deviation(quantiles: np.ndarray, score: np.ndarray) -> float:
    """Returns the standard deviation of a symmetric law from its quantiles at even scores."""
    mass = np.exp(-0.5 * np.square(score))
    return float(np.sqrt(mass @ np.square(quantiles) / mass.sum()))


def quantiles(score: np.ndarray, *, policy: bool) -> np.ndarray:
    """Returns the quantiles f64[D, K] of both joints at even scores [K], each of unit variance.

    Args:
        score: symmetric about 0.
        policy: those of the policy, not Gaussian ones.
    """
    tables = [shoulder_angles(score), wrist_angles(score)] if policy else [score, score]
    return np.stack([table / standard_deviation(table, score) for table in tables])


def scores() -> np.ndarray:
    """Returns the scores f64[K] at which quantiles are tabulated."""
    return np.linspace(-_REACH, _REACH, _KNOTS)


def policy_radians() -> tuple[float, float]:
    """Returns the standard deviations of the policy's shoulder and wrist, radians: 2.11, 2.06."""
    u = scores()
    shoulder, wrist = (standard_deviation(f(u), u) for f in (shoulder_angles, wrist_angles))
    return shoulder, wrist


@dataclass(frozen=True)
class JointAngles:
    """Two joints under a Gaussian copula, each of unit variance.

    Standard normal scores follow an Ornstein-Uhlenbeck process; a lower triangular matrix makes
    them dependent, and a monotone map of each gives the marginal: the Gaussian itself, or that of a
    goal-reaching policy. Stationary for every setting; `rho` is of the independent scores.

    Attributes:
        dim: 2, the joints.
    """

    dim: int = 2

    def params(
        self, rho: float | Sequence[float], *, policy: bool, dependence: float = 0.0
    ) -> Params:
        """Returns correlations, the matrix of scores f32[D, D] and the tables f32[D, K].

        Args:
            rho: correlation of successive scores, in (0, 1).
            policy: the policy's marginals, not Gaussian ones.
            dependence: correlation of both scores at one moment, in (-1, 1).
        """
        check_inside(-1.0, 1.0, dependence=dependence)
        mix = np.array([[1.0, 0.0], [dependence, np.sqrt(1.0 - dependence**2)]])
        found = OrnsteinUhlenbeck(self.dim).params(rho)
        return found | {
            "mix": jnp.asarray(mix, jnp.float32),
            "quantiles": jnp.asarray(quantiles(scores(), policy=policy), jnp.float32),
        }

    def angles(self, params: Params, scores_ND: jax.Array) -> jax.Array:
        """Maps independent standard normal scores to the joints, in standard deviations."""
        mixed_ND = jnp.matmul(scores_ND, params["mix"].T, precision="highest")
        knots = jnp.linspace(-_REACH, _REACH, _KNOTS)
        read = jax.vmap(jnp.interp, in_axes=(1, None, 0), out_axes=1)
        return read(mixed_ND, knots, params["quantiles"])

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws joints independently: f32[num, D]."""
        return self.angles(params, jax.random.normal(key, (num, self.dim)))

    def views(
        self, params: Params, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Draws pairs of successive joints: two arrays f32[num, D]."""
        first, second = OrnsteinUhlenbeck(self.dim).views(params, key, num, noised)
        return self.angles(params, first), self.angles(params, second)
