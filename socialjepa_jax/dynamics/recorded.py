"""Pairs of moments from recorded episodes: a process that nobody chose to be Gaussian.

Shape key: E episodes, T moments, D state dimensions, N pairs.
"""

from dataclasses import dataclass

import jax
import numpy as np

from socialjepa_jax.dynamics.stationary import Params
from socialjepa_jax.errors import InputError, check_in_range, check_positive


@dataclass(frozen=True)
class Recorded:
    """Moments of episodes, all equally likely; its marginals are those of the recording.

    Attributes:
        dim: state dimension D.
        stride: moments between the two states of a pair.
    """

    dim: int = 2
    stride: int = 1

    def __post_init__(self) -> None:
        check_positive(dim=self.dim, stride=self.stride)

    def params(self, episodes_ETD: np.ndarray) -> Params:
        """Returns the arrays of one recording.

        Raises:
            InputError: the shape is not [E, T, D], or the episodes end before a stride.
        """
        if episodes_ETD.ndim != 3 or episodes_ETD.shape[-1] != self.dim or not len(episodes_ETD):
            raise InputError(
                f"episodes {list(episodes_ETD.shape)} must be [episodes, moments, {self.dim}]"
            )
        check_in_range(1, episodes_ETD.shape[1] - 1, stride=self.stride)
        return {"episodes": jax.numpy.asarray(episodes_ETD, jax.numpy.float32)}

    def stationary(self, params: Params, key: jax.Array, num: int) -> jax.Array:
        """Draws moments, with replacement: f32[num, D]."""
        return self._moments(params, key, num, 0)[0]

    def views(
        self, params: Params, key: jax.Array, num: int, noised: str = "second"
    ) -> tuple[jax.Array, jax.Array]:
        """Draws pairs, with replacement: two arrays f32[num, D].

        Raises:
            InputError: `noised` is not "second"; a recording has no second transition.
        """
        if noised != "second":
            raise InputError(f"noised={noised!r} must be 'second'")
        return self._moments(params, key, num, self.stride)

    def _moments(
        self, params: Params, key: jax.Array, num: int, stride: int
    ) -> tuple[jax.Array, jax.Array]:
        episodes_ETD = params["episodes"]
        count, length, _ = episodes_ETD.shape
        which, when = jax.random.split(key)
        row_N = jax.random.randint(which, (num,), 0, count)
        time_N = jax.random.randint(when, (num,), 0, length - stride)
        return episodes_ETD[row_N, time_N], episodes_ETD[row_N, time_N + stride]


def correlations(episodes_ETD: np.ndarray, stride: int) -> np.ndarray:
    """Returns the Pearson correlation of moments a stride apart, of each dimension: f64[D]."""
    first, second = (
        moments.reshape(-1, moments.shape[-1]).astype(np.float64)
        for moments in (episodes_ETD[:, :-stride], episodes_ETD[:, stride:])
    )
    first, second = first - first.mean(0), second - second.mean(0)
    norms = np.sqrt(np.square(first).sum(0) * np.square(second).sum(0))
    return (first * second).sum(0) / norms
