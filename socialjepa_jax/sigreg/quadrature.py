"""Knots and weights of the quadrature rule for the Epps-Pulley integral."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from socialjepa_jax.errors import check_in_range, check_positive


@dataclass(frozen=True)
class Quadrature:
    """Trapezoid rule for the integral of |ecf(t) - exp(-t^2/2)|^2 exp(-t^2/2) over [-t_max, t_max].

    The integrand is even, so only the half line is evaluated, at `num_knots` equally spaced knots
    from 0 to `t_max`, with doubled weights (LeJEPA, section 5.1 and figure 20).

    Attributes:
        t_max: largest frequency, > 0.
        num_knots: knots on the half line, >= 2, the one at zero included.
    """

    t_max: float = 3.0
    num_knots: int = 17

    def __post_init__(self) -> None:
        check_positive(t_max=self.t_max)
        check_in_range(2, float("inf"), num_knots=self.num_knots)

    @property
    def spacing(self) -> float:
        """Distance between neighbouring knots."""
        return self.t_max / (self.num_knots - 1)

    @cached_property
    def knots(self) -> np.ndarray:
        """f64[num_knots]: frequencies t_k = k * spacing."""
        return np.linspace(0.0, self.t_max, self.num_knots)

    @cached_property
    def target(self) -> np.ndarray:
        """f64[num_knots]: characteristic function of N(0, 1), which is also the window."""
        return np.exp(-0.5 * self.knots**2)

    @cached_property
    def weights(self) -> np.ndarray:
        """f64[num_knots]: W_k, trapezoid weight times window; sum_k W_k f(t_k) ~ the integral."""
        trapezoid = np.full(self.num_knots, 2.0 * self.spacing)
        trapezoid[[0, -1]] = self.spacing
        return trapezoid * self.target

    @property
    def null_level(self) -> float:
        """Expected statistic of samples from N(0, 1), independent of their number.

        N E|ecf - target|^2 = 1 - target^2 at each knot: the 1/N bias of LeJEPA's theorem 6.
        """
        return float(self.weights @ (1.0 - self.target**2))

    @property
    def collapse_level(self) -> float:
        """Statistic of samples that are all zero, divided by their number."""
        return float(self.weights @ (1.0 - self.target) ** 2)

    @property
    def gradient_bound(self) -> float:
        """Largest possible |d statistic / d u_n|: 4 sum_k W_k t_k (LeJEPA, theorem 4)."""
        return float(4.0 * self.weights @ self.knots)


OFFICIAL = Quadrature(3.0, 17)
"""Grid of the published code: [-3, 3], 33 knots on the full line."""

PAPER = Quadrature(5.0, 9)
"""Grid of the paper's algorithm 1: [-5, 5], 17 knots on the full line."""
