"""Harmonics, worst-case functions and moment counterexamples against closed forms."""

import jax.numpy as jnp
import numpy as np
from scipy import stats

from experiments.sigreg.slices import theory
from socialjepa_jax.sigreg import OFFICIAL, epps_pulley


def test_harmonics_are_orthonormal():
    circle, _ = theory.circle_harmonics(theory.even_directions(2, 64), 9)
    np.testing.assert_allclose(circle.T @ circle / 64, np.eye(19), atol=1e-12)
    node, weight = np.polynomial.legendre.leggauss(16)
    angle = 2 * np.pi * np.arange(32) / 32
    radius = np.sqrt(1 - node**2)[:, None]
    height = np.broadcast_to(node[:, None], (16, 32))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), height]).reshape(3, -1)
    sphere, degrees = theory.sphere_harmonics(points, 7)
    gram = (sphere.T * np.repeat(weight / 64, 32)) @ sphere
    np.testing.assert_allclose(gram, np.eye(64), atol=1e-12)
    assert np.bincount(degrees).tolist() == [1, 3, 5, 7, 9, 11, 13, 15]


def test_the_worst_function_on_even_directions_of_the_circle_is_known():
    """It is sin(M / 2 times the angle), which vanishes on all M of them."""
    for count, alpha in ((8, 1.0), (16, 2.0)):
        basis, degrees = theory.circle_harmonics(theory.even_directions(2, count), 40)
        found = theory.worst_error(basis, degrees, alpha)
        np.testing.assert_allclose(found, (count / 2) ** (-2 * alpha), rtol=1e-6)


def test_moment_counterexamples():
    points, first, second = theory.equal_moments(4)
    assert first.min() > 0 and second.min() > 0
    for k in range(5):
        np.testing.assert_allclose(first @ points**k, second @ points**k, rtol=1e-12)
    assert abs((first - second) @ points**5) > 1.0
    nodes, weights = theory.few_points(3)
    for k in range(6):
        np.testing.assert_allclose(weights @ nodes**k, stats.norm.moment(k), atol=1e-12)
    u = theory.sample_of(nodes, weights, 600)
    assert np.unique(u, return_counts=True)[1].tolist() == [100, 400, 100]
    assert float(epps_pulley(jnp.asarray(u)[:, None])[0]) > 5 * OFFICIAL.null_level
