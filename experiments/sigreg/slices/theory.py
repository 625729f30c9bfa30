"""Numbers behind LeJEPA's theorems on directional tests: smoothness, level and power, moments.

Shape key: D features, M slices, N samples, S simulated data sets, H harmonics.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from socialjepa_jax.sigreg import Statistic, sample_directions

Sampler = Callable[[jax.Array, int], jax.Array]  # (key, number of samples) -> f32[N, D]


def circle_harmonics(points_2M: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Real Fourier basis at unit vectors of the plane, of mean square 1: f64[M, H], degrees [H]."""
    angle_M1 = np.arctan2(points_2M[1], points_2M[0])[:, None]
    orders = np.arange(1, degree + 1)[None]
    basis = [np.ones_like(angle_M1), 2**0.5 * np.cos(orders * angle_M1)]
    basis.append(2**0.5 * np.sin(orders * angle_M1))
    return np.concatenate(basis, axis=1), np.concatenate([[0], orders[0], orders[0]])


def sphere_harmonics(points_3M: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Real spherical harmonics at unit vectors, of mean square 1: f64[M, H], degrees [H]."""
    x, y, height = points_3M
    azimuth = np.arctan2(y, x)
    columns, degrees = [], []
    for l in range(degree + 1):
        for m in range(l + 1):
            log_scale = special.gammaln(l - m + 1) - special.gammaln(l + m + 1)
            scale = np.sqrt((2 * l + 1) * (1 if m == 0 else 2) * np.exp(log_scale))
            legendre = scale * special.lpmv(m, l, height)
            columns += [legendre * np.cos(m * azimuth)]
            columns += [legendre * np.sin(m * azimuth)] if m else []
            degrees += [l] * (2 if m else 1)
    return np.stack(columns, axis=1), np.array(degrees)


def worst_error(basis_MH: np.ndarray, degrees_H: np.ndarray, alpha: float) -> float:
    """Largest mean square of a function that vanishes on all directions (theorem 5's situation).

    Among functions f = sum_h c_h Y_h with sum_h max(1, degree)^(2 alpha) c_h^2 <= 1: the unit ball
    of the Sobolev space of order alpha. An eigenvalue problem, solved exactly.
    """
    weight_H = np.maximum(1.0, degrees_H) ** -alpha
    seen_HM, _ = np.linalg.qr((basis_MH * weight_H[None]).T)
    unseen_HH = np.eye(len(weight_H)) - seen_HM @ seen_HM.T
    return float(np.linalg.eigvalsh((unseen_HH * weight_H[None] ** 2) @ unseen_HH)[-1])


def even_directions(dim: int, num: int) -> np.ndarray:
    """Quasi-uniform unit vectors f64[D, M]: equally spaced (D=2) or a Fibonacci spiral (D=3)."""
    index = np.arange(num) + 0.5
    if dim == 2:
        angle = 2 * np.pi * index / num
        return np.stack([np.cos(angle), np.sin(angle)])
    height = 1 - 2 * index / num
    azimuth = np.pi * (1 + 5**0.5) * index
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), height])


def smoothness_needed(dim: int, num_slices: int, reduction: float = 0.1) -> float:
    """The alpha at which M^(-2 alpha / (D - 1)) is `reduction` (theorem 5 without its constant)."""
    return float(-np.log(reduction) * (dim - 1) / (2 * np.log(num_slices)))


@partial(jax.jit, static_argnames=("statistic", "samplers", "num", "dim", "num_slices", "draws"))
def simulate(
    key: jax.Array,
    *,
    statistic: Statistic,
    samplers: tuple[Sampler, ...],
    num: int,
    dim: int,
    num_slices: int,
    draws: int,
) -> tuple[jax.Array, jax.Array]:
    """The global statistic of simulated data sets, each with directions of its own.

    Returns:
        f32[samplers, S] twice: the maximum over slices (equation 4) and the mean (definition 2).
    """

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        slices_key, data_key = jax.random.split(key)
        directions_DM = sample_directions(slices_key, dim, num_slices)
        scores = statistic(jnp.stack([make(data_key, num) for make in samplers]) @ directions_DM)
        return scores.max(axis=1), scores.mean(axis=1)

    most, average = jax.lax.map(one, jax.random.split(key, draws))
    return most.T, average.T


def equal_moments(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two different distributions whose moments up to order `count` agree (proof of theorem 3).

    On the points 0 ... count + 1, the weights are uniform plus and minus a multiple of the
    alternating binomials, which all polynomials of degree `count` are orthogonal to.

    Returns:
        Points and both weights, f64[count + 2].
    """
    points = np.arange(count + 2.0)
    kernel = (-1.0) ** points * special.binom(count + 1, points)
    uniform = np.full(count + 2, 1 / (count + 2))
    step = 0.9 * uniform[0] / np.abs(kernel).max()
    return points, uniform + step * kernel, uniform - step * kernel


def few_points(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """A distribution on a few points whose first 2 nodes - 1 moments are those of N(0, 1).

    Returns:
        Points and weights f64[nodes] of the Gauss-Hermite rule.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return points, weights / weights.sum()


def sample_of(points: np.ndarray, weights: np.ndarray, num: int) -> np.ndarray:
    """N numbers that hold each point in proportion to its weight, as nearly as N allows."""
    ends = np.round(np.cumsum(weights) * num).astype(int)
    return np.repeat(points, np.diff(ends, prepend=0))
