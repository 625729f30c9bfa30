"""The SIGReg and probe experiments against closed forms, and the cheapest of them end to end."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from experiments import findings, reproduce
from experiments.lejepa.probes import experiment, theory
from experiments.sigreg import quadrature, runs
from experiments.sigreg.slices import theory as theory_lib
from socialjepa_jax.sigreg import OFFICIAL, Quadrature, epps_pulley


def test_an_x_has_gaussian_marginals_and_no_covariance():
    z = np.asarray(runs.x_distribution(jax.random.key(0), 20_000, 5), np.float64)
    assert stats.kstest(z[:, 0], "norm").pvalue > 1e-3
    assert stats.kstest(z[:, 1], "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.cov(z.T), np.eye(5), atol=0.05)
    np.testing.assert_array_equal(np.abs(z[:, 0]), np.abs(z[:, 1]))
    assert runs.square_correlation(z[:, :2]) > 0.99
    assert abs(runs.square_correlation(z[:, 2:4])) < 0.05


def test_descent_reduces_what_fresh_directions_see():
    start = runs.x_distribution(jax.random.key(0), 64, 4, shift=1.0)
    end, losses = runs.descend(
        start, jax.random.key(1), statistic=epps_pulley, steps=40, num_slices=8
    )
    before, after = (runs.expected_statistic(z, jax.random.key(2), 256) for z in (start, end))
    assert after < 0.5 * before
    assert losses.shape == (40,)


def test_quadrature_against_closed_forms():
    u = np.random.default_rng(0).normal(size=40) * 1.5 + 0.3

    def inside(t):
        value = quadrature.integrand(u, np.array([t]))[0]
        return value * np.exp(-(t**2) / 2)

    whole = quadrature.whole_line(u)
    np.testing.assert_allclose(integrate.quad(inside, -np.inf, np.inf)[0], whole, rtol=1e-8)
    part = integrate.quad(inside, -3, 3)[0]
    np.testing.assert_allclose(quadrature.exact(u, 3.0), part, rtol=1e-10)
    found = 40 * quadrature.trapezoid(u, Quadrature(3.0, 17))
    np.testing.assert_allclose(found, epps_pulley(jnp.asarray(u)[:, None])[0], rtol=1e-5)


def test_harmonics_are_orthonormal():
    circle, _ = theory_lib.circle_harmonics(theory_lib.even_directions(2, 64), 9)
    np.testing.assert_allclose(circle.T @ circle / 64, np.eye(19), atol=1e-12)
    node, weight = np.polynomial.legendre.leggauss(16)
    angle = 2 * np.pi * np.arange(32) / 32
    radius = np.sqrt(1 - node**2)[:, None]
    height = np.broadcast_to(node[:, None], (16, 32))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), height]).reshape(3, -1)
    sphere, degrees = theory_lib.sphere_harmonics(points, 7)
    gram = (sphere.T * np.repeat(weight / 64, 32)) @ sphere
    np.testing.assert_allclose(gram, np.eye(64), atol=1e-12)
    assert np.bincount(degrees).tolist() == [1, 3, 5, 7, 9, 11, 13, 15]


def test_the_worst_function_on_even_directions_of_the_circle_is_known():
    """It is sin(M / 2 times the angle), which vanishes on all M of them."""
    for count, alpha in ((8, 1.0), (16, 2.0)):
        basis, degrees = theory_lib.circle_harmonics(theory_lib.even_directions(2, count), 40)
        found = theory_lib.worst_error(basis, degrees, alpha)
        np.testing.assert_allclose(found, (count / 2) ** (-2 * alpha), rtol=1e-6)


def test_moment_counterexamples():
    points, first, second = theory_lib.equal_moments(4)
    assert first.min() > 0 and second.min() > 0
    for k in range(5):
        np.testing.assert_allclose(first @ points**k, second @ points**k, rtol=1e-12)
    assert abs((first - second) @ points**5) > 1.0
    nodes, weights = theory_lib.few_points(3)
    for k in range(6):
        np.testing.assert_allclose(weights @ nodes**k, stats.norm.moment(k), atol=1e-12)
    u = theory_lib.sample_of(nodes, weights, 600)
    assert np.unique(u, return_counts=True)[1].tolist() == [100, 400, 100]
    assert float(epps_pulley(jnp.asarray(u)[:, None])[0]) > 5 * OFFICIAL.null_level


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
    density = experiment.DENSITIES[name]
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


def test_calls_into_one_folder_extend_its_page(tmp_path):
    reproduce.reproduce(["sigreg_quadrature"], "smoke", tmp_path)
    before = json.loads((tmp_path / "sigreg_quadrature.json").read_text())
    reproduce.reproduce(["lejepa_probes"], "smoke", tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index('id="sigreg_quadrature"') < page.index('id="lejepa_probes"')
    parts = [findings.section(n, tmp_path) for n in ("sigreg_quadrature", "lejepa_probes")]
    verdicts = [v for part in parts for v in part.verdicts]
    assert f"{sum(verdicts)} of {len(verdicts)} claims agree" in page
    for claim in before["claims"]:
        assert claim["id"] in page
    assert page.count("<img") == 3 + 4
    assert findings.section("sigreg_x", tmp_path) is None
