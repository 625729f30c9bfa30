"""Probes on embeddings of a known distribution: linear, logistic, neighbours, kernel; their bias.

Everything is float64 NumPy. Embeddings are compared at equal total variance (LeJEPA, section 3).

Shape key: N samples, D features, Q queries, P quadrature nodes, R repetitions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def ridge(z_ND: np.ndarray, y_N: np.ndarray, strength: float) -> np.ndarray:
    """Tikhonov-regularised least squares without intercept (eq. OLS): f64[D], or [D, T] tasks."""
    gram_DD = z_ND.T @ z_ND + strength * np.eye(z_ND.shape[1])
    return np.linalg.solve(gram_DD, z_ND.T @ y_N)


def logistic(z_ND: np.ndarray, y_N: np.ndarray, steps: int = 30) -> np.ndarray:
    """Logistic regression with intercept by damped Newton steps: f64[D + 1], intercept last.

    A ridge of 1e-3 keeps separable samples finite.
    """
    x_NE = np.append(z_ND, np.ones((len(z_ND), 1)), axis=1)
    w_E = np.zeros(x_NE.shape[1])
    for _ in range(steps):
        p_N = 1 / (1 + np.exp(-np.clip(x_NE @ w_E, -30, 30)))
        slope_E = x_NE.T @ (p_N - y_N) + 1e-3 * w_E
        curve_EE = (x_NE.T * (p_N * (1 - p_N))) @ x_NE + 1e-3 * np.eye(len(w_E))
        change_E = np.linalg.solve(curve_EE, slope_E)
        w_E -= change_E * min(1.0, 5.0 / np.linalg.norm(change_E))
    return w_E


def nearest(z_ND: np.ndarray, y_N: np.ndarray, query_QD: np.ndarray, k: int) -> np.ndarray:
    """Mean target of the k nearest samples: f64[Q], or [Q, T] tasks."""
    rows_Qk = np.argpartition(_squares(query_QD, z_ND), k, axis=1)[:, :k]
    return y_N[rows_Qk].mean(axis=1)


def smoothed(z_ND: np.ndarray, y_N: np.ndarray, query_QD: np.ndarray, width: float) -> np.ndarray:
    """Nadaraya-Watson with a Gaussian kernel (eq. Kernel): f64[Q], or [Q, T] tasks."""
    squares_QN = _squares(query_QD, z_ND)
    nearest_Q1 = squares_QN.min(axis=1, keepdims=True)  # so that far queries do not underflow
    weight_QN = np.exp(-0.5 * (squares_QN - nearest_Q1) / width**2)
    return (weight_QN @ y_N) / weight_QN.sum(axis=1).reshape((-1,) + (1,) * (y_N.ndim - 1))


def _squares(query_QD: np.ndarray, z_ND: np.ndarray) -> np.ndarray:
    squares_QN = np.sum(query_QD**2, 1)[:, None] + np.sum(z_ND**2, 1)[None]
    return np.maximum(squares_QN - 2 * query_QD @ z_ND.T, 0.0)


@dataclass(frozen=True)
class Density:
    """A distribution in the plane with trace of the covariance 2.

    Attributes:
        density: f64[..., 2] -> f64[...], up to a constant.
        sample: (generator, N) -> f64[N, 2].
        fisher: its Fisher information J = E |grad log p|^2; infinite where p jumps.
    """

    density: Callable[[np.ndarray], np.ndarray]
    sample: Callable[[np.random.Generator, int], np.ndarray]
    fisher: float


def gaussian(first: float, second: float) -> Density:
    """Axis-aligned Gaussian with the given variances."""
    variance_2 = np.array([first, second])
    return Density(
        lambda z: np.exp(-0.5 * (z**2 / variance_2).sum(-1)),
        lambda rng, num: rng.normal(size=(num, 2)) * variance_2**0.5,
        float((1 / variance_2).sum()),
    )


def laplace() -> Density:
    """Two independent Laplace coordinates of variance 1."""
    return Density(
        lambda z: np.exp(-(2**0.5) * np.abs(z).sum(-1)),
        lambda rng, num: rng.laplace(size=(num, 2)) / 2**0.5,
        4.0,
    )


def student(degrees: float = 6.0) -> Density:
    """Rotation-invariant Student distribution of covariance I."""
    inner = degrees - 2.0  # degrees times the squared scale

    def sample(rng: np.random.Generator, num: int) -> np.ndarray:
        chi_N1 = rng.chisquare(degrees, size=(num, 1))
        return rng.normal(size=(num, 2)) * np.sqrt(inner / chi_N1)

    # E |score|^2 = (nu + 2)^2 E[r^2 / (inner + r^2)^2] with a Beta(1, nu / 2) variable
    fisher = (degrees + 2) ** 2 / inner * _beta_moment(degrees)
    density = lambda z: (1 + (z**2).sum(-1) / inner) ** (-(degrees + 2) / 2)  # noqa: E731
    return Density(density, sample, fisher)


def _beta_moment(degrees: float) -> float:
    """E[b (1 - b)] of b = r^2 / (inner + r^2) ~ Beta(1, degrees / 2)."""
    half = degrees / 2
    return half / ((1 + half) * (2 + half))


def two_clusters(distance: float = 0.9) -> Density:
    """Two Gaussians apart in one coordinate; covariance I."""
    variance = 1 - distance**2

    def density(z: np.ndarray) -> np.ndarray:
        both = sum(np.exp(-0.5 * (z[..., 0] - s * distance) ** 2 / variance) for s in (1, -1))
        return both * np.exp(-0.5 * z[..., 1] ** 2)

    def sample(rng: np.random.Generator, num: int) -> np.ndarray:
        z_N2 = rng.normal(size=(num, 2))
        z_N2[:, 0] = distance * rng.choice([-1.0, 1.0], num) + variance**0.5 * z_N2[:, 0]
        return z_N2

    grid = np.linspace(-8, 8, 20_001)
    p = density(np.stack([grid, np.zeros_like(grid)], axis=1))
    score = np.gradient(np.log(p), grid)
    return Density(density, sample, float((score**2 * p).sum() / p.sum() + 1.0))


def disk() -> Density:
    """Uniform on the disk of radius 2; covariance I."""

    def sample(rng: np.random.Generator, num: int) -> np.ndarray:
        radius, angle = 2 * np.sqrt(rng.random(num)), 2 * np.pi * rng.random(num)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)

    return Density(lambda z: ((z**2).sum(-1) <= 4.0) * 1.0, sample, np.inf)


def ball_nodes(rings: int = 24, angles: int = 48) -> tuple[np.ndarray, np.ndarray]:
    """Quadrature over the unit disk: nodes f64[P, 2] and weights f64[P]."""
    node, weight = np.polynomial.legendre.leggauss(rings)
    radius = 0.5 * (node + 1)
    angle = 2 * np.pi * (np.arange(angles) + 0.5) / angles
    points = radius[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], -1)[None]
    return points.reshape(-1, 2), np.repeat(weight * radius, angles)


def gaussian_nodes(order: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Quadrature over the plane with weight N(0, I): nodes f64[P, 2] and weights f64[P]."""
    node, weight = np.polynomial.hermite_e.hermegauss(order)
    points = np.stack(np.meshgrid(node, node, indexing="ij"), axis=-1).reshape(-1, 2)
    return points, np.outer(weight, weight).reshape(-1)


def integrated_bias(
    density: Density, nodes: tuple[np.ndarray, np.ndarray], radius: float, queries: int, seed: int
) -> float:
    """Integrated squared bias of a local average, for targets that are linear in the embedding.

    The average over a neighbourhood of q with infinitely many samples estimates w . (q + m(q))
    instead of w . q, where m(q) is the neighbourhood's mean offset; over isotropic w of unit
    variance per coordinate the squared bias is |m(q)|^2, and its mean over queries q ~ p is what
    theorems 7 and 8 bound. The curvature term of linear targets is zero.

    Args:
        density: of the embeddings and of the queries.
        nodes: `ball_nodes` (neighbours within `radius`) or `gaussian_nodes` (kernel of that width).
        radius: of the neighbourhood.
        queries: how many to average over.
        seed: of the queries.
    """
    query_QD = density.sample(np.random.default_rng(seed), queries)
    offset_PD, weight_P = radius * nodes[0], nodes[1]
    total = 0.0
    for part in np.array_split(query_QD, max(1, queries // 2000)):
        mass_QP = density.density(part[:, None] + offset_PD[None]) * weight_P[None]
        shift_QD = mass_QP @ offset_PD / mass_QP.sum(axis=1, keepdims=True)
        total += float((shift_QD**2).sum())
    return total / queries
