import math

import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.identifiability import hermite
from tests.identifiability.polynomials import random_polynomial

RNG = np.random.default_rng(0)


def mehler_series(x, y, rho, terms):
    """sum_k rho^k h_k(x) h_k(y) over k < `terms`: the OU kernel relative to the marginal."""
    powers = rho ** np.arange(terms)
    polynomials = hermite.hermite(x, terms - 1) * hermite.hermite(y, terms - 1)
    return np.tensordot(powers, polynomials, axes=1)


def mehler_kernel(x, y, rho):
    """p(x, y) / (p(x) p(y)) of unit Gaussians with correlation rho, in closed form (Mehler)."""
    gap = 1.0 - rho**2
    return np.exp((2.0 * rho * x * y - rho**2 * (x**2 + y**2)) / (2.0 * gap)) / math.sqrt(gap)


def test_hermite_polynomials_are_orthonormal():
    nodes, weights = hermite.gauss_hermite(1, 12)
    values = hermite.hermite(nodes[:, 0], 10)
    np.testing.assert_allclose(values @ (weights[:, None] * values.T), np.eye(11), atol=1e-12)
    x = np.linspace(-2, 2, 5)
    np.testing.assert_allclose(hermite.hermite(x, 3)[3], (x**3 - 3 * x) / math.sqrt(6))
    assert hermite.hermite(x, 0).shape == (1, 5)


def test_multi_indices_are_all_of_them_by_degree():
    indices = hermite.multi_indices(3, 4)
    assert len({tuple(row) for row in indices}) == len(indices) == math.comb(7, 3)
    assert (np.diff(indices.sum(1)) >= 0).all()


def test_mehlers_formula_as_a_series():
    x, y = np.meshgrid(np.linspace(-3, 3, 13), np.linspace(-3, 3, 13))
    for rho in (0.2, 0.5, 0.7):
        series = mehler_series(x, y, rho, 120)
        np.testing.assert_allclose(series, mehler_kernel(x, y, rho), atol=1e-6)


@pytest.mark.parametrize("rho", [0.3, 0.7, 0.95])
def test_mehlers_formula_as_an_expectation(rho):
    """E[He_k(rho z + sqrt(1 - rho^2) eta)] over eta is rho^k He_k(z): theorem 1, step 1."""
    nodes, weights = hermite.gauss_hermite(1, 40)
    z = np.linspace(-3, 3, 31)
    z_prime = rho * z[:, None] + math.sqrt(1 - rho**2) * nodes[:, 0][None]
    averaged = hermite.hermite(z_prime, 8) @ weights
    expected = rho ** np.arange(9)[:, None] * hermite.hermite(z, 8)
    np.testing.assert_allclose(averaged, expected, atol=1e-6)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_loss_decomposes_over_hermite_degrees(degree):
    """L(h) from a quadrature over (z, eta) equals 2 sum_d (1 - rho^d) w_d."""
    rho, order = 0.7, degree + 1
    indices, coefficients = random_polynomial(RNG, 2, degree, 1.0)
    nodes, weights = hermite.gauss_hermite(4, order)
    z, eta = nodes[:, :2], nodes[:, 2:]
    h, h_prime = (
        hermite.hermite_basis(v, indices) @ coefficients
        for v in (z, rho * z + np.sqrt(1 - rho**2) * eta)
    )
    loss = weights @ np.square(h_prime - h).sum(1)
    z2, w2 = hermite.gauss_hermite(2, order)
    h2 = hermite.hermite_basis(z2, indices) @ coefficients
    energy = hermite.hermite_spectrum(z2, h2, degree, w2)
    np.testing.assert_allclose(hermite.hermite_loss(energy, rho), loss, rtol=1e-10)
    by_degree = [np.square(coefficients[indices.sum(1) == d]).sum(0) for d in range(degree + 1)]
    np.testing.assert_allclose(energy, np.stack(by_degree, 1), atol=1e-10)
    samples = RNG.standard_normal((200, 2))
    regressed = hermite.hermite_spectrum(
        samples, hermite.hermite_basis(samples, indices) @ coefficients, degree
    )
    np.testing.assert_allclose(regressed, energy, atol=1e-9)


def test_dirichlet_energy_is_the_degree_weighted_variance():
    nodes, weights = hermite.gauss_hermite(2, 8)

    def encode(z):
        first, second = z[:, 0], z[:, 1]
        return jnp.stack([first * second, (first**3 - 3 * first) / np.sqrt(6.0)], 1)

    h = np.asarray(encode(jnp.asarray(nodes)), np.float64)
    energy = hermite.hermite_spectrum(nodes, h, 3, weights)
    expected = (energy * np.arange(4)).sum()
    np.testing.assert_allclose(expected, 5.0, rtol=1e-5)
    np.testing.assert_allclose(
        hermite.dirichlet_energy(encode, nodes.astype(np.float32), weights), expected, rtol=1e-5
    )
