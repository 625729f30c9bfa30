"""Probes against plain loops, densities and biases against closed forms."""

import numpy as np
import pytest

from experiments.lejepa.probes import theory
from experiments.lejepa.probes.measurements import DENSITIES


def test_bias_of_a_gaussian_kernel_is_known_for_gaussian_densities():
    nodes = theory.gaussian_nodes(40)
    for variances in ((1.0, 1.0), (1.6, 0.4)):
        v = np.array(variances)
        density = theory.gaussian(*variances)
        queries = density.sample(np.random.default_rng(3), 500)
        found = theory.integrated_bias(density, nodes, 0.5, 500, seed=3)
        # the product of two Gaussians has its mean at v / (v + h^2) q
        exact = (((0.25 / (v + 0.25)) * queries) ** 2).sum(1).mean()
        np.testing.assert_allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize("name", ["Student, 6 degrees", "two clusters", "Laplace"])
def test_densities_have_trace_two_and_their_fisher_information(name):
    density = DENSITIES[name]
    z = density.sample(np.random.default_rng(0), 200_000)
    np.testing.assert_allclose(np.trace(np.cov(z.T)), 2.0, rtol=0.03)
    step = 1e-4
    score = [
        (np.log(density.density(z + step * e)) - np.log(density.density(z - step * e))) / 2 / step
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(np.square(score).sum(0).mean(), density.fisher, rtol=0.02)


def test_probes_against_plain_loops():
    rng = np.random.default_rng(0)
    z, y, q = rng.normal(size=(30, 3)), rng.normal(size=30), rng.normal(size=(5, 3))
    distances = np.linalg.norm(q[:, None] - z[None], axis=2)
    near = [y[np.argsort(d)[:4]].mean() for d in distances]
    np.testing.assert_allclose(theory.nearest(z, y, q, 4), near)
    weights = np.exp(-0.5 * (distances / 0.7) ** 2)
    np.testing.assert_allclose(theory.smoothed(z, y, q, 0.7), weights @ y / weights.sum(1))
    w = theory.ridge(z, y, 2.0)
    np.testing.assert_allclose(z.T @ (y - z @ w), 2.0 * w, atol=1e-12)
    labels = (y > 0).astype(float)
    w = theory.logistic(z, labels)
    slope = np.append(z, np.ones((30, 1)), 1).T @ (1 / (1 + np.exp(-z @ w[:3] - w[3])) - labels)
    np.testing.assert_allclose(slope, -1e-3 * w, atol=1e-8)
