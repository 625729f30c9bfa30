"""Reaching goals through a linear model of a latent space, h' = A h + B a with bounded actions.

A goal is a latent; it may come from the agent's own encoder or from another agent's through a map.
By theorem 4 of "When Does LeJEPA Learn a World Model?" costs written in a latent space are those of
the world if the code is orthogonal, so distance in latents is a meaningful cost.

Shape key: D features, U actions, E episodes, T steps.
"""

import functools
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from socialjepa_jax.errors import InputError, check_positive
from socialjepa_jax.identifiability.control import LinearSystem


@dataclass(frozen=True, eq=False)
class LatentModel:
    """Linear dynamics of centred latents, and what an agent pays and may do.

    Attributes:
        a: f64[D, D].
        b: f64[D, U].
        effort: price of a squared action against a squared distance from the goal.
        bound: largest absolute value of an action.

    Raises:
        InputError: shapes do not fit, or a number is not positive.
    """

    a: np.ndarray
    b: np.ndarray
    effort: float = 0.1
    bound: float = 3.0

    def __post_init__(self) -> None:
        check_positive(effort=self.effort, bound=self.bound)
        if np.ndim(self.b) != 2 or np.shape(self.a) != (len(self.b), len(self.b)):
            raise InputError(f"a has shape {np.shape(self.a)}, b has shape {np.shape(self.b)}")

    @functools.cached_property
    def gain(self) -> np.ndarray:
        """K f64[U, D] of the linear-quadratic regulator of these costs."""
        dim, count = self.b.shape
        return LinearSystem(self.a, self.b, np.eye(dim), self.effort * np.eye(count)).gain()

    def hold(self, goal_ED: np.ndarray) -> np.ndarray:
        """Returns the actions f64[E, U] under which the goals are fixed points (least squares)."""
        drift_ED = goal_ED @ (np.eye(len(self.a)) - self.a).T
        return drift_ED @ np.linalg.pinv(self.b).T

    def regulate(self, h_ED: np.ndarray, goal_ED: np.ndarray) -> np.ndarray:
        """Returns the bounded feedback a = hold - K (h - goal): f64[E, U]."""
        return self._bounded(self.hold(goal_ED) - (h_ED - goal_ED) @ self.gain.T)

    def track(self, h_ED: np.ndarray, next_ED: np.ndarray) -> np.ndarray:
        """Returns the bounded actions f64[E, U] that lead to the next latents (least squares)."""
        return self._bounded((next_ED - h_ED @ self.a.T) @ np.linalg.pinv(self.b).T)

    def shoot(self, h_ED: np.ndarray, goal_ED: np.ndarray, steps: int) -> np.ndarray:
        """Plans all actions at once, without feedback: single shooting through the model.

        Minimises |h_T - goal|^2 + effort sum_t |a_t|^2 within the bound, a convex problem.

        Args:
            h_ED: latents at the start.
            goal_ED: of the end.
            steps: T.

        Returns:
            f64[E, T, U].
        """
        check_positive(steps=steps)
        dim, count = self.b.shape
        powers = [np.eye(dim)]
        for _ in range(steps):
            powers.append(self.a @ powers[-1])
        reach = np.concatenate([powers[steps - 1 - t] @ self.b for t in range(steps)], axis=1)
        price = np.sqrt(self.effort) * np.eye(steps * count)
        rows = np.concatenate([reach, price])
        left_ED = goal_ED - h_ED @ powers[steps].T
        plans = [
            optimize.lsq_linear(
                rows, np.append(left, np.zeros(len(price))), (-self.bound, self.bound), "bvls"
            ).x
            for left in left_ED
        ]
        return np.reshape(plans, (len(h_ED), steps, count))

    def imagine(self, h_ED: np.ndarray, goal_ED: np.ndarray, steps: int) -> np.ndarray:
        """Rolls the regulated model out without seeing the world: f64[T + 1, E, D]."""
        path = [h_ED]
        for _ in range(steps):
            h_ED = h_ED @ self.a.T + self.regulate(h_ED, goal_ED) @ self.b.T
            path.append(h_ED)
        return np.stack(path)

    def _bounded(self, actions_EU: np.ndarray) -> np.ndarray:
        return np.clip(actions_EU, -self.bound, self.bound)
