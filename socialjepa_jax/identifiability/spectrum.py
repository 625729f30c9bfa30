"""Spectra of transition operators: what alignment with whitening extracts, before any training.

The operator (T f)(z) = E[f(z') | z] of a stationary world has eigenfunctions; the most correlated
ones are the features that alignment under whitening selects (identifiability paper, sections
"Spectral Analysis of the World" and appendix "Connection to Slow Feature Analysis").

Shape key: N points, D latent dimension, K eigenfunctions, C cells of a grid, F features, P basis
functions.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from socialjepa_jax.dynamics.stationary import gennorm_scale, warp_log_ratio
from socialjepa_jax.errors import InputError, check_in_range, check_inside, check_positive


def hermite(x: np.ndarray, degree: int) -> np.ndarray:
    """Orthonormal Hermite polynomials He_k(x) / sqrt(k!), k = 0 .. degree: f64[degree + 1, ...]."""
    x = np.asarray(x, np.float64)
    values = [np.ones_like(x), x]
    for k in range(1, degree):
        values.append((x * values[k] - math.sqrt(k) * values[k - 1]) / math.sqrt(k + 1))
    return np.stack(values[: degree + 1])


def multi_indices(dim: int, degree: int) -> np.ndarray:
    """All multi-indices of total degree <= `degree`, by degree: i64[P, dim]."""
    rows = []
    for total in range(degree + 1):
        for places in itertools.combinations_with_replacement(range(dim), total):
            rows.append(np.bincount(np.asarray(places, int), minlength=dim))
    return np.stack(rows)


def hermite_basis(z_ND: np.ndarray, indices_PD: np.ndarray) -> np.ndarray:
    """Products of orthonormal Hermite polynomials, one per multi-index: f64[N, P]."""
    values_KND = hermite(z_ND, max(int(indices_PD.max()), 1))
    basis = np.ones((len(z_ND), len(indices_PD)))
    for d in range(indices_PD.shape[1]):
        basis *= values_KND[indices_PD[:, d], :, d].T
    return basis


def gauss_hermite(dim: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes f64[order^dim, dim] and weights f64[order^dim] for expectations under N(0, I).

    Exact for polynomials of degree below 2 `order` in each coordinate.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / math.sqrt(2.0 * math.pi)
    grid = np.meshgrid(*[nodes] * dim, indexing="ij")
    weight = math.prod(np.meshgrid(*[weights] * dim, indexing="ij"))
    return np.stack([g.ravel() for g in grid], axis=1), np.asarray(weight).ravel()


def mehler_series(x: np.ndarray, y: np.ndarray, rho: float, terms: int) -> np.ndarray:
    """sum_k rho^k h_k(x) h_k(y) over k < `terms`: the OU kernel relative to the marginal."""
    powers = rho ** np.arange(terms)
    return np.tensordot(powers, hermite(x, terms - 1) * hermite(y, terms - 1), axes=1)


def mehler_kernel(x: np.ndarray, y: np.ndarray, rho: float) -> np.ndarray:
    """p(x, y) / (p(x) p(y)) of unit Gaussians with correlation rho, in closed form (Mehler)."""
    check_inside(-1.0, 1.0, rho=rho)
    gap = 1.0 - rho**2
    return np.exp((2.0 * rho * x * y - rho**2 * (x**2 + y**2)) / (2.0 * gap)) / math.sqrt(gap)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenfunctions of a reversible 1-D process, slowest first; the constant is number 0.

    Attributes:
        nodes: f64[C], increasing.
        mass: f64[C], probability of each node's cell; sums to 1.
        rates: f64[K], decay rates: the eigenvalue over a time t is exp(-rate t). rates[0] = 0.
        functions: f64[K, C], values at the nodes, orthonormal under `mass`; number 1 increases.
    """

    nodes: np.ndarray
    mass: np.ndarray
    rates: np.ndarray
    functions: np.ndarray

    def eigenvalues(self, time: float) -> np.ndarray:
        """f64[K]: correlation of each eigenfunction between views that are `time` apart."""
        return np.exp(-self.rates * time)

    def latent_correlations(self) -> np.ndarray:
        """f64[K]: correlation of each eigenfunction with z itself."""
        centred = self.nodes - self.mass @ self.nodes
        return self.functions @ (self.mass * centred) / math.sqrt(self.mass @ centred**2)

    @property
    def non_affinity(self) -> float:
        """1 - R2 of the first eigenfunction on z: zero for the Gaussian only (theorem 2)."""
        return float(1.0 - self.latent_correlations()[1] ** 2)

    def evaluate(self, k: int, z: np.ndarray) -> np.ndarray:
        """The k-th eigenfunction at any points, by linear interpolation, constant outside."""
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
        edges: f64[C + 1], increasing cell boundaries that cover nearly all of the mass. Where the
            tails are exponential or heavier the spectrum on the line is continuous, and what is
            found depends on where the edges end.
        num_modes: eigenfunctions, the constant included.
        diffusion: K > 0.
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
    """T(u): the generalised normal value with the rank of the standard normal value u."""
    return u * np.exp(warp_log_ratio(alpha, np.abs(u)))


def gennorm_spectrum(alpha: float, num_modes: int = 6, num_cells: int = 4000) -> Spectrum:
    """Spectrum of Langevin dynamics with a generalised normal marginal of unit variance.

    The cells have equal width in the rank's normal score u from -7 to 7. For alpha <= 1 the
    spectrum on the line is continuous; this is that of the process reflected at those ends.
    """
    edges = gennorm_quantiles(alpha, np.linspace(-7.0, 7.0, num_cells + 1))
    scale = gennorm_scale(alpha)
    return sturm_liouville(lambda z: -(np.abs(z / scale) ** alpha), edges, num_modes)


def copula_spectrum(alpha: float, num_modes: int = 6, num_cells: int = 4000) -> Spectrum:
    """Spectrum of the Gaussian copula process: Hermite polynomials of the normal score."""
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
    """What alignment under whitening extracts from independent components, predicted.

    Attributes:
        orders: i64[F, D], which eigenfunction of each component a feature multiplies; (1, 0) is
            the first of component 0 alone.
        eigenvalues: f64[F], correlation of each feature between views.
        r2_per_latent: f64[D], share of each latent's variance that is linear in the features.
    """

    orders: np.ndarray
    eigenvalues: np.ndarray
    r2_per_latent: np.ndarray

    @property
    def r2(self) -> float:
        """R2 of the features on all latents (of equal variance): their mean."""
        return float(self.r2_per_latent.mean())


def oracle(
    spectra: Sequence[Spectrum], times: Sequence[float], num_features: int, tolerance: float = 1e-6
) -> Oracle:
    """Predicts the recovered subspace from the spectra of the components.

    The operator of independent components has the products of their eigenfunctions; the
    `num_features` most correlated are extracted. Where equal eigenvalues straddle that number, any
    rotation of the tied features is as good, and the tied ones count by the share that fits.

    Args:
        spectra: of each component.
        times: between the two views, for each component (-log rho for rho = exp(-t)).
        num_features: of the encoder.
        tolerance: decay exponents closer than this are tied.
    """
    rates = [s.rates * t for s, t in zip(spectra, times, strict=True)]
    found = _slowest_products(rates, num_features, tolerance)
    cost = np.array([c for c, _ in found])
    orders = np.array([o for _, o in found])
    last = cost[num_features - 1]
    share = np.ones(len(cost))
    tied = np.abs(cost - last) <= tolerance
    share[tied] = (num_features - (~tied).sum()) / tied.sum()
    r2 = np.zeros(len(spectra))
    for weight, order in zip(share, orders):
        (moved,) = np.nonzero(order)
        if len(moved) == 1:  # a product of two components is uncorrelated with each latent
            d = moved[0]
            r2[d] += weight * spectra[d].latent_correlations()[order[d]] ** 2
    return Oracle(orders[:num_features], np.exp(-cost[:num_features]), r2)


def _slowest_products(
    rates: Sequence[np.ndarray], num: int, tolerance: float
) -> list[tuple[float, tuple[int, ...]]]:
    """The `num` smallest sums of one rate per component, and all that tie with the last."""
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
