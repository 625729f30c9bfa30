import pathlib

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability import hermite, metrics
from tests.identifiability.polynomials import random_polynomial

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "identifiability.npz")
RNG = np.random.default_rng(0)


def _pair(num, dim, rho, rng=RNG):
    z = rng.standard_normal((num, dim))
    return z, rho * z + np.sqrt(1 - rho**2) * rng.standard_normal((num, dim))


@pytest.mark.parametrize("dim", [2, 8])
def test_matches_the_published_code(dim):
    inputs = [GOLDEN[f"metric_N{dim}_in_{name}"] for name in ("z", "x", "h", "h_prime")]
    ours = metrics.evaluate(*inputs, rho=0.95)
    for name, value in ours.items():
        expected = float(GOLDEN[f"metric_N{dim}_{name}"])
        # The reference computes in float32: its R2 are differences from one.
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    ("multioutput", "sklearn"),
    [("pooled", "variance_weighted"), ("uniform", "uniform_average"), ("raw", "raw_values")],
)
@pytest.mark.parametrize("held_out", [False, True])
def test_r2_is_scikit_learns(multioutput, sklearn, held_out):
    x = RNG.standard_normal((400, 3))
    y = x @ RNG.standard_normal((3, 2)) * [1.0, 5.0] + RNG.standard_normal((400, 2)) + 7.0
    fit, test = slice(0, 200), slice(200, 400) if held_out else slice(0, 200)
    expected = r2_score(
        y[test], LinearRegression().fit(x[fit], y[fit]).predict(x[test]), multioutput=sklearn
    )
    ours = metrics.r2(
        x[fit],
        y[fit],
        multioutput=multioutput,
        held_out=(x[test], y[test]) if held_out else None,
    )
    np.testing.assert_allclose(ours, expected, rtol=1e-10)


def test_orthogonality_error_of_orthogonal_and_scaled_maps():
    q = stats.ortho_group.rvs(5, random_state=1)
    assert metrics.orthogonality_error(q) < 1e-14
    np.testing.assert_allclose(metrics.orthogonality_error(2.0 * q), 3.0)
    np.testing.assert_allclose(
        metrics.orthogonality_error(2.0 * q, normalized=False), 3.0 * np.sqrt(5)
    )


def test_orthogonal_recovery_finds_the_rotation():
    z = RNG.standard_normal((300, 4))
    q = stats.ortho_group.rvs(4, random_state=2)
    error, found = metrics.orthogonal_recovery(z, z @ q.T)
    assert error < 1e-25
    np.testing.assert_allclose(found, q, atol=1e-12)
    shifted, _ = metrics.orthogonal_recovery(z, z @ q.T + 1.0)
    centred, _ = metrics.orthogonal_recovery(z, z @ q.T + 1.0, center=True)
    assert centred < 1e-25 < shifted


@pytest.mark.parametrize("seed", range(20))
def test_bound_is_never_violated_on_random_quadratic_maps(seed):
    """Moments are exact by quadrature, so the tolerance is rounding alone."""
    rng = np.random.default_rng(seed)
    rho = rng.uniform(0.1, 0.99)
    indices, coefficients = random_polynomial(rng, 2, 2, rng.choice([1e-3, 0.1, 1.0]))
    coefficients[1:3] += stats.ortho_group.rvs(2, random_state=seed).T
    nodes, weights = hermite.gauss_hermite(2, 3)
    h = hermite.hermite_basis(nodes, indices) @ coefficients
    energy = hermite.hermite_spectrum(nodes, h, 2, weights)
    covariance = (h * weights[:, None]).T @ h
    trace = np.trace(covariance)
    loss = hermite.hermite_loss(energy, rho)
    bound = metrics.Bound(
        loss, trace, np.linalg.norm(covariance - np.eye(2)), loss - 2 * (1 - rho) * trace, rho
    )
    singular = np.linalg.svd(coefficients[1:3], compute_uv=False)
    error = trace + 2 - 2 * singular.sum()  # E||h - Qz||^2 at the best Q
    assert bound.nonlinearity >= energy[:, 2].sum() - 1e-12
    assert error <= bound.bound + 1e-12


@pytest.mark.parametrize("size", [0.0, 0.05, 0.5])
def test_sampled_bound_holds_within_its_standard_error(size):
    rng = np.random.default_rng(7)
    z, z_prime = _pair(4000, 2, 0.9, rng)
    indices, coefficients = random_polynomial(rng, 2, 2, size)
    coefficients[1:3] += np.eye(2)
    h, h_prime = (hermite.hermite_basis(v, indices) @ coefficients for v in (z, z_prime))
    slack, error = metrics.bound_slack(z, h, h_prime, 0.9)
    assert error > 0
    assert slack > -4 * error


def test_jackknife_error_is_the_spread_over_repetitions():
    slacks, errors = [], []
    for seed in range(60):
        z, z_prime = _pair(500, 2, 0.8, np.random.default_rng(seed))
        h, h_prime = (v + 0.3 * (v**2 - 1) for v in (z, z_prime))
        slack, error = metrics.bound_slack(z, h, h_prime, 0.8)
        slacks.append(slack)
        errors.append(error)
    # The standard deviation of 60 values is known to 9 %; four of those.
    np.testing.assert_allclose(np.mean(errors), np.std(slacks, ddof=1), rtol=0.4)


def test_recovered_dynamics_of_a_rotated_world():
    z, z_prime = _pair(50_000, 3, 0.8)
    q = stats.ortho_group.rvs(3, random_state=3)
    found = metrics.recovered_dynamics(z @ q.T, z_prime @ q.T, 0.8)
    assert found["transition_error"] < 5 * np.sqrt(3 / 50_000)
    assert found["noise_error"] < 5 * np.sqrt(3 / 50_000)
    bent = metrics.recovered_dynamics(z**3, z_prime**3, 0.8)
    assert bent["transition_error"] > 0.1


def test_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="multioutput='mean'"):
        metrics.r2(np.ones((3, 1)), np.ones((3, 1)), multioutput="mean")
    with pytest.raises(InputError, match=r"h has shape \(3, 1\)"):
        metrics.orthogonal_recovery(np.ones((3, 2)), np.ones((3, 1)))
    with pytest.raises(InputError, match="rho=1"):
        metrics.approximate_bound(np.ones((3, 2)), np.ones((3, 2)), 1)
