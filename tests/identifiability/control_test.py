import numpy as np
import pytest
from scipy import stats

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability import control

SYSTEM = control.EXAMPLE


def test_riccati_is_the_limit_of_value_iteration():
    a, b, w, r = SYSTEM.a, SYSTEM.b, SYSTEM.w, SYSTEM.r
    p = w
    for _ in range(500):
        p = a.T @ p @ a - a.T @ p @ b @ np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a) + w
    np.testing.assert_allclose(SYSTEM.riccati(), p, rtol=1e-10)
    np.testing.assert_allclose(SYSTEM.cost_matrix(SYSTEM.gain()), p, rtol=1e-9)


def test_cost_matrix_is_the_cost_of_a_rollout():
    gain = 0.5 * SYSTEM.gain()
    z = np.array([1.0, -2.0])
    state, cost = z.copy(), 0.0
    for _ in range(2000):
        action = -gain @ state
        cost += state @ SYSTEM.w @ state + action @ SYSTEM.r @ action
        state = SYSTEM.a @ state + SYSTEM.b @ action
    np.testing.assert_allclose(z @ SYSTEM.cost_matrix(gain) @ z, cost, rtol=1e-10)
    assert np.isinf(SYSTEM.cost_matrix(-10 * np.eye(2))).all()


def test_nothing_is_lost_through_an_orthogonal_map():
    report = control.latent_control(SYSTEM, stats.ortho_group.rvs(2, random_state=0))
    assert max(report.gain_error, report.value_error, abs(report.regret)) < 1e-9


def test_a_distorted_map_costs_and_correct_costs_repair_it():
    distorted = np.array([[2.0, 0.3], [0.0, 0.5]])
    report = control.latent_control(SYSTEM, distorted)
    assert report.gain_error > 0.1
    assert report.regret > 0.01
    repaired = SYSTEM.in_coordinates(distorted)
    np.testing.assert_allclose(repaired.gain() @ distorted, SYSTEM.gain(), rtol=1e-8)


def test_identifies_the_dynamics_in_latent_coordinates():
    rng = np.random.default_rng(1)
    z, actions = rng.standard_normal((200, 2)), rng.standard_normal((200, 2))
    after = z @ SYSTEM.a.T + actions @ SYSTEM.b.T
    q = stats.ortho_group.rvs(2, random_state=2)
    a_hat, b_hat = control.identify(z @ q.T + 3.0, actions, after @ q.T + 3.0)
    np.testing.assert_allclose(a_hat, q @ SYSTEM.a @ q.T, atol=1e-10)
    np.testing.assert_allclose(b_hat, q @ SYSTEM.b, atol=1e-10)


def test_refuses_shapes_that_do_not_fit():
    with pytest.raises(InputError, match=r"w has shape \(3, 3\)"):
        control.LinearSystem(np.eye(2), np.eye(2), np.eye(3), np.eye(2))
