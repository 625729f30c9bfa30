import math

import jax
import numpy as np
import pytest
from scipy import linalg

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability import metrics, mixings, sfa


def _world(rhos, num, seed=0):
    rng = np.random.default_rng(seed)
    rho = np.asarray(rhos)
    z = rng.standard_normal((num, len(rho)))
    return z, rho * z + np.sqrt(1 - rho**2) * rng.standard_normal(z.shape)


def test_linear_features_solve_the_generalised_eigenproblem():
    z, z_prime = _world([0.9, 0.6, 0.3], 2000)
    mix = np.random.default_rng(1).standard_normal((3, 3))
    x, x_prime = z @ mix + 2.0, z_prime @ mix + 2.0
    found = sfa.linear_sfa(x, x_prime, 3)
    both = np.concatenate([x, x_prime])
    centre = both.mean(0)
    covariance = np.cov(both.T, bias=True)
    lagged = (x - centre).T @ (x_prime - centre) / len(x)
    expected = linalg.eigh(0.5 * (lagged + lagged.T), covariance, eigvals_only=True)[::-1]
    np.testing.assert_allclose(found.correlations, expected, atol=1e-10)
    np.testing.assert_allclose(np.cov(found(both).T, bias=True), np.eye(3), atol=1e-10)


def test_monomials_are_complete():
    x = np.array([[2.0, 3.0]])
    assert sorted(sfa.monomials(x, 3)[0]) == sorted([2, 3, 4, 6, 9, 8, 12, 18, 27])
    assert sfa.monomials(np.ones((1, 4)), 3).shape == (1, math.comb(7, 3) - 1)


def test_polynomials_undo_a_parabolic_shear():
    z, z_prime = _world([0.95, 0.95], 20_000)
    mixing = mixings.Parabola()
    x, x_prime = (np.asarray(mixing.forward({}, jax.numpy.asarray(v))) for v in (z, z_prime))
    slow = sfa.polynomial_sfa(x, x_prime, 2, degree=3)
    assert metrics.r2(slow(x), z) > 0.995
    assert metrics.r2(sfa.linear_sfa(x, x_prime, 2)(x), z) < 0.9


def test_sequential_extraction_names_the_sources_where_joint_extraction_fails():
    """max K > 2 min K: the second joint feature is the slow source squared."""
    z, z_prime = _world([0.98, 0.9], 20_000)
    mixing = mixings.Parabola()
    x, x_prime = (np.asarray(mixing.forward({}, jax.numpy.asarray(v))) for v in (z, z_prime))
    joint = sfa.polynomial_sfa(x, x_prime, 2, degree=3)(x)
    sources, correlations = sfa.xsfa(x, x_prime, 2, degree=3, source_degree=6)
    np.testing.assert_allclose(correlations, [0.98, 0.9], atol=0.01)
    for i in range(2):
        assert abs(np.corrcoef(sources[:, i], z[:, i])[0, 1]) > 0.98
    assert abs(np.corrcoef(joint[:, 1], z[:, 1])[0, 1]) < 0.3


def test_refuses_more_features_than_directions():
    x = np.random.default_rng(2).standard_normal((50, 2))
    with pytest.raises(InputError, match="num_features=3"):
        sfa.linear_sfa(np.c_[x, x[:, 0]], np.c_[x, x[:, 0]], 3)
