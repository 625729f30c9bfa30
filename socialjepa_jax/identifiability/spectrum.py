"""Spectra of transition operators, which predict the features that alignment extracts.

The operator (T f)(z) = E[f(z') | z] of a stationary world has eigenfunctions. Alignment under
whitening selects the most correlated ones ("When Does LeJEPA Learn a World Model?", section
"Spectral Analysis of the World" and appendix "Connection to Slow Feature Analysis").

Shape key: D latent dimension, K eigenfunctions, C cells of a grid, F features.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from socialjepa_jax.dynamics.gennorm import gennorm_scale, warp_log_ratio
from socialjepa_jax.errors import InputError, check_in_range, check_positive
from socialjepa_jax.identifiability.hermite import hermite


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenfunctions of a reversible 1-D process, slowest first; the constant is number 0.

    Attributes:
        nodes: f64[C], increasing.
        mass: f64[C], probability of each node's cell; sums to 1.
        rates: f64[K], decay rates: the eigenvalue over a time t is exp(-rate t). rates[0] = 0.
        functions: f64[K, C], values at the nodes, orthonormal under `mass`, positive at the last
            node, so that number 1 increases.
    """

    nodes: np.ndarray
    mass: np.ndarray
    rates: np.ndarray
    functions: np.ndarray

    def eigenvalues(self, time: float) -> np.ndarray:
        """Returns the correlation of each eigenfunction between views `time` apart: f64[K]."""
        return np.exp(-self.rates * time)

    def latent_correlations(self) -> np.ndarray:
        """Returns the correlation of each eigenfunction with z itself: f64[K]."""
        centred = self.nodes - self.mass @ self.nodes
        return self.functions @ (self.mass * centred) / math.sqrt(self.mass @ centred**2)

    @property
    def non_affinity(self) -> float:
        """1 - R2 of the first eigenfunction on z, zero for the Gaussian only (theorem 2)."""
        return float(1.0 - self.latent_correlations()[1] ** 2)

    def evaluate(self, k: int, z: np.ndarray) -> np.ndarray:
        """Evaluates the k-th eigenfunction by linear interpolation, constant outside the nodes."""
        return np.interp(z, self.nodes, self.functions[k])


def sturm_liouville(
    log_density: Callable[[np.ndarray], np.ndarray],
    edges: np.ndarray,
    num_modes: int = 6,
    diffusion: float = 1.0,
) -> Spectrum:
    """Solves (K p f')' = -rate p f with reflecting ends: constant-diffusion Langevin dynamics.

    Finite volumes: exact conservation, a symmetric tridiagonal matrix, second order in the cell
    width. The equation of the converse theorem's proof (identifiability paper).

    Args:
        log_density: log p up to a constant, finite at the edges and cell centres.
        edges: f64[C + 1], increasing cell boundaries that cover nearly all of the mass. With
            exponential or heavier tails the spectrum on the line is continuous, and the result
            depends on the outermost edges.
        num_modes: number of eigenfunctions, the constant included.
        diffusion: coefficient K > 0.
    """
    check_positive(diffusion=diffusion)
    check_in_range(2, len(edges) - 1, num_modes=num_modes)
    edges = np.asarray(edges, np.float64)
    nodes, widths = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    log_edges, log_nodes = log_density(edges), log_density(nodes)
    shift = log_nodes.max()
    p_edges, p_nodes = np.exp(log_edges - shift), np.exp(log_nodes - shift)
    mass = widths * (p_edges[:-1] + 4.0 * p_nodes + p_edges[1:]) / 6.0
    flow = diffusion * p_edges[1:-1] / np.diff(nodes)
    total = np.concatenate([[0.0], flow]) + np.concatenate([flow, [0.0]])
    rates, vectors = linalg.eigh_tridiagonal(
        total / mass,
        -flow / np.sqrt(mass[1:] * mass[:-1]),
        select="i",
        select_range=(0, num_modes - 1),
    )
    probability = mass / mass.sum()
    functions = vectors.T / np.sqrt(probability)[None]
    functions *= np.where(functions[:, -1:] < 0, -1.0, 1.0)
    return Spectrum(nodes, probability, np.maximum(rates, 0.0), functions)


def gennorm_quantiles(alpha: float, u: np.ndarray) -> np.ndarray:
    """Returns T(u), the generalised normal quantile at the rank of the standard normal value u."""
    return u * np.exp(warp_log_ratio(alpha, np.abs(u)))


def gennorm_spectrum(alpha: float, num_modes: int = 6, num_cells: int = 4000) -> Spectrum:
    """Returns the spectrum of Langevin dynamics with a generalised normal marginal.

    The marginal has unit variance. The cells have equal width in the normal score u of the rank,
    from -7 to 7. For alpha <= 1 the spectrum on the line is continuous; this one belongs to the
    process that is reflected at both ends.
    """
    edges = gennorm_quantiles(alpha, np.linspace(-7.0, 7.0, num_cells + 1))
    scale = gennorm_scale(alpha)
    return sturm_liouville(lambda z: -(np.abs(z / scale) ** alpha), edges, num_modes)


def copula_spectrum(alpha: float, num_modes: int = 6, num_cells: int = 4000) -> Spectrum:
    """Returns the spectrum of the Gaussian copula process: Hermite polynomials of the score u."""
    u = np.linspace(-7.0, 7.0, num_cells)
    mass = np.exp(-0.5 * u**2)
    return Spectrum(
        gennorm_quantiles(alpha, u),
        mass / mass.sum(),
        np.arange(num_modes, dtype=np.float64),
        hermite(u, num_modes - 1),
    )


@dataclass(frozen=True, eq=False)
class Oracle:
    """Predicted features of alignment under whitening in a world of independent components.

    Attributes:
        orders: i64[F, D], order of each component's eigenfunction in the product that forms the
            feature; (1, 0) is the first eigenfunction of component 0 alone.
        eigenvalues: f64[F], correlation of each feature between views.
        r2_per_latent: f64[D], share of each latent's variance that is linear in the features.
    """

    orders: np.ndarray
    eigenvalues: np.ndarray
    r2_per_latent: np.ndarray

    @property
    def r2(self) -> float:
        """R2 of the features on all latents (of equal variance): the mean of `r2_per_latent`."""
        return float(self.r2_per_latent.mean())


def oracle(
    spectra: Sequence[Spectrum], times: Sequence[float], num_features: int, tolerance: float = 1e-6
) -> Oracle:
    """Predicts the recovered subspace from the spectra of the components.

    The eigenfunctions of independent components are the products of their eigenfunctions. The
    `num_features` most correlated are extracted. If the last of them is tied with further ones,
    any rotation of the tied features is optimal, and each counts by the share that is extracted.

    Args:
        spectra: spectrum of each component.
        times: time between the two views for each component (-log rho for rho = exp(-t)).
        num_features: number of encoder outputs F.
        tolerance: decay exponents closer than this are tied.
    """
    rates = [s.rates * t for s, t in zip(spectra, times, strict=True)]
    slowest = _slowest_products(rates, num_features, tolerance)
    cost = np.array([c for c, _ in slowest])
    orders = np.array([o for _, o in slowest])
    last = cost[num_features - 1]
    share = np.ones(len(cost))
    tied = np.abs(cost - last) <= tolerance
    share[tied] = (num_features - (~tied).sum()) / tied.sum()
    r2 = np.zeros(len(spectra))
    for weight, order in zip(share, orders):
        (factors,) = np.nonzero(order)
        if len(factors) == 1:  # a product of two components is uncorrelated with each latent
            d = factors[0]
            r2[d] += weight * spectra[d].latent_correlations()[order[d]] ** 2
    return Oracle(orders[:num_features], np.exp(-cost[:num_features]), r2)


def _slowest_products(
    rates: Sequence[np.ndarray], num: int, tolerance: float
) -> list[tuple[float, tuple[int, ...]]]:
    """Returns the `num` smallest sums of one rate per component, and all ties of the last."""
    start = (0,) * len(rates)
    heap, seen = [(0.0, start)], {start}
    found: list[tuple[float, tuple[int, ...]]] = []
    while heap:
        cost, order = heapq.heappop(heap)
        if len(found) > num and cost > found[num][0] + tolerance:
            break
        found.append((cost, order))
        for d in range(len(rates)):
            if order[d] + 1 < len(rates[d]):
                step = (*order[:d], order[d] + 1, *order[d + 1 :])
                if step not in seen:
                    seen.add(step)
                    total = sum(float(r[k]) for r, k in zip(rates, step))
                    heapq.heappush(heap, (total, step))
    if len(found) <= num:
        raise InputError(f"num_features={num} is more than the spectra's products")
    return found[1:]  # without the constant
