"""Hermite polynomials of Gaussian latents, and the energy of an encoder at each degree.

Theorem 1 of "When Does LeJEPA Learn a World Model?" and its proofs expand an encoder in this basis.
`gauss_hermite`, `hermite_loss` and `dirichlet_energy` are public API for checks of the theory.

Shape key: N samples, D latent dimension, E encoder outputs, P basis functions, K degrees.
"""

import itertools
import math
from collections.abc import Callable

import jax
import numpy as np
from scipy import linalg


def hermite(x: np.ndarray, degree: int) -> np.ndarray:
    """Returns the orthonormal He_k(x) / sqrt(k!) for k = 0 .. degree: f64[degree + 1, ...]."""
    x = np.asarray(x, np.float64)
    values = [np.ones_like(x), x]
    for k in range(1, degree):
        values.append((x * values[k] - math.sqrt(k) * values[k - 1]) / math.sqrt(k + 1))
    return np.stack(values[: degree + 1])


def multi_indices(dim: int, degree: int) -> np.ndarray:
    """Returns all multi-indices of total degree <= `degree`, sorted by it: i64[P, dim]."""
    rows = []
    for total in range(degree + 1):
        for factors in itertools.combinations_with_replacement(range(dim), total):
            rows.append(np.bincount(np.asarray(factors, int), minlength=dim))
    return np.stack(rows)


def hermite_basis(z_ND: np.ndarray, indices_PD: np.ndarray) -> np.ndarray:
    """Returns products of orthonormal Hermite polynomials, one per multi-index: f64[N, P]."""
    return products(hermite(z_ND, max(int(indices_PD.max()), 1)), indices_PD)


def products(values_KND: np.ndarray, indices_PD: np.ndarray) -> np.ndarray:
    """Returns prod_d values[k_d, n, d] for the multi-indices k: f64[N, P]."""
    out_NP = np.ones((values_KND.shape[1], len(indices_PD)))
    for d in range(indices_PD.shape[1]):
        out_NP *= values_KND[indices_PD[:, d], :, d].T
    return out_NP


def gauss_hermite(dim: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns nodes f64[order^dim, dim] and weights f64[order^dim] of expectations under N(0, I).

    Exact for polynomials of degree below 2 `order` in each coordinate. Pass both to
    `hermite_spectrum` or `dirichlet_energy` for values without sampling error.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / math.sqrt(2.0 * math.pi)
    grid = np.meshgrid(*[nodes] * dim, indexing="ij")
    weight = math.prod(np.meshgrid(*[weights] * dim, indexing="ij"))
    return np.stack([g.ravel() for g in grid], axis=1), np.asarray(weight).ravel()


def hermite_spectrum(
    z_ND: np.ndarray, h_NE: np.ndarray, degree: int, weights_N: np.ndarray | None = None
) -> np.ndarray:
    """Energy of each output at each Hermite degree of z: f64[E, degree + 1], degree 0 the mean.

    Theorem 1 degree by degree: a linear h has all its variance at degree 1.

    Args:
        z_ND: Gaussian samples, or quadrature nodes from `gauss_hermite`.
        h_NE: outputs of the encoder at these points.
        degree: largest total degree.
        weights_N: quadrature weights: the coefficients are projections, exact for polynomials that
            the rule integrates; None: the coefficients are a least-squares fit to the samples.
    """
    indices_PD = multi_indices(z_ND.shape[1], degree)
    basis_NP = hermite_basis(z_ND, indices_PD)
    h_NE = np.asarray(h_NE, np.float64)
    if weights_N is None:
        coefficients_PE = linalg.lstsq(basis_NP, h_NE, lapack_driver="gelsy")[0]
    else:
        coefficients_PE = basis_NP.T @ (weights_N[:, None] * h_NE)
    total_P = indices_PD.sum(1)
    by_degree = [np.square(coefficients_PE[total_P == d]).sum(0) for d in range(degree + 1)]
    return np.stack(by_degree, axis=1)


def hermite_loss(energy_ED: np.ndarray, rho: float) -> float:
    """Returns L(h) = 2 sum_d (1 - rho^d) w_d from `hermite_spectrum` (stability proof)."""
    degrees = np.arange(energy_ED.shape[1])
    return float(2.0 * ((1.0 - rho**degrees) * energy_ED.sum(0)).sum())


def dirichlet_energy(
    encode: Callable[[jax.Array], jax.Array], z_ND: np.ndarray, weights_N: np.ndarray | None = None
) -> float:
    """Returns E ||J_h(z)||_F^2, the loss of the second proof (appendix "Dirichlet Energy").

    It equals sum_d d w_d. It is at least D for a measure-preserving h, and D for orthogonal maps.

    Args:
        encode: h, from f32[N, D] to f32[N, E].
        z_ND: points at which the Jacobian is evaluated.
        weights_N: quadrature weights; None: the mean.
    """
    jacobian = jax.jit(jax.vmap(jax.jacfwd(lambda z: encode(z[None])[0])))(np.asarray(z_ND))
    energy_N = np.square(np.asarray(jacobian, np.float64)).sum((1, 2))
    return float(np.average(energy_N, weights=weights_N))
