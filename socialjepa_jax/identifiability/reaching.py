"""Reaching goals through a linear model of a latent space, h' = A h + B a with bounded actions.

A goal is a latent; it may come from the agent's own encoder or from another agent's through a map.
By theorem 4 of "When Does LeJEPA Learn a World Model?" costs written in a latent space are those of
the world if the code is orthogonal, so distance in latents is a meaningful cost.

Shape key: D features, U actions, E episodes, T steps.
"""

import functools
from dataclasses import dataclass

import numpy as np

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

        Minimises sum_t |h_t - goal|^2 + effort |a_t - hold|^2 over t = 1 ... T, what `regulate`
        minimises over an endless time, within the bound; a convex problem.

        Args:
            h_ED: latents at the start.
            goal_ED: of the end.
            steps: T.

        Returns:
            f64[E, T, U].
        """
        from scipy import optimize  # slow to import, and no training run needs it

        check_positive(steps=steps)
        dim, count = self.b.shape
        powers = [np.linalg.matrix_power(self.a, t) for t in range(steps + 1)]
        reach = np.zeros((steps, dim, steps, count))  # of the latent after step t, by action s
        for t in range(steps):
            for s in range(t + 1):
                reach[t, :, s] = powers[t - s] @ self.b
        price = np.sqrt(self.effort)
        rows = np.concatenate([reach.reshape(steps * dim, -1), price * np.eye(steps * count)])
        left_TED = goal_ED - h_ED @ np.swapaxes(powers[1:], 1, 2)
        held_EU = self.hold(goal_ED)
        plans = []
        for e in range(len(h_ED)):
            wanted = np.concatenate([left_TED[:, e].ravel(), price * np.tile(held_EU[e], steps)])
            found = optimize.lsq_linear(rows, wanted, (-self.bound, self.bound), "bvls")
            plans.append(found.x.reshape(steps, count))
        return np.stack(plans)

    def imagine(self, h_ED: np.ndarray, goal_ED: np.ndarray, steps: int) -> np.ndarray:
        """Rolls the regulated model out without seeing the world: f64[T + 1, E, D]."""
        path = [h_ED]
        for _ in range(steps):
            h_ED = h_ED @ self.a.T + self.regulate(h_ED, goal_ED) @ self.b.T
            path.append(h_ED)
        return np.stack(path)

    def _bounded(self, actions_EU: np.ndarray) -> np.ndarray:
        return np.clip(actions_EU, -self.bound, self.bound)
