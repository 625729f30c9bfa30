"""Agents against the theory: closed forms for latents that are planted."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from socialjepa_jax.evaluation import theory
from socialjepa_jax.evaluation.evidence import Walks
from tests.evaluation.planted import TURNS, both, white


@pytest.mark.parametrize(("angle", "strength"), [(0.0, 1.0), (40.0, 0.5), (160.0, 0.9)])
def test_what_agents_share_beside_the_state_turns_w_away_from_q2_q1t(angle, strength):
    """x = Q1 (z + a e), y = Q2 (z + a R e): W ~ Q2 (I + a^2 R) Q1^T, whose angle is known."""
    z, e = np.split(white(500, 6), 2, axis=1)
    turn = Rotation.from_rotvec(np.radians(angle) * np.array([0.6, 0.0, 0.8])).as_matrix()
    x = (z + strength * e) @ TURNS[0].T + 3.0
    y = (z + strength * e @ turn.T) @ TURNS[1].T
    found = theory.rotation(x, y, z, both(500))
    sine, cosine = np.sin(np.radians(angle)), np.cos(np.radians(angle))
    expected = np.degrees(np.arctan2(strength**2 * sine, 1 + strength**2 * cosine))
    assert found["rotation_angle"] == pytest.approx(expected, abs=1e-4)
    np.testing.assert_allclose(found["w_shrinkage_predicted"], 1 / (1 + strength**2), rtol=1e-6)


def test_a_mirrored_code_is_half_a_turn_away():
    """W follows the larger part of what agents share, though the state is elsewhere."""
    z, e = np.split(white(500, 6), 2, axis=1)
    mirror = np.diag([1.0, 1.0, -1.0])
    found = theory.rotation(z + 2 * e, z + 2 * e @ mirror, z, both(500))
    assert found["rotation_angle"] == pytest.approx(180.0)


def noisy(scales, noise, num=4000):
    """Codes Q z of any scale with independent errors, and the states."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=(num, 3))
    x, y = (
        scale * (z @ turn.T + level * rng.normal(size=z.shape))
        for scale, turn, level in zip(scales, TURNS, noise)
    )
    return x, y, z


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.7, 1.0), (1.0, 0.7)])
def test_noise_shrinks_w_as_predicted(scales):
    """W = A2 A1^T Cov(x)^-1: by 1 / (1 + 0.4^2) and by the ratio of the two scales."""
    found = theory.rotation(*noisy(scales, (0.4, 0.2)), both(4000))
    exact = scales[1] / scales[0] / 1.16
    assert found["w_shrinkage"] == pytest.approx(exact, rel=0.02)
    assert found["w_shrinkage_predicted"] == pytest.approx(found["w_shrinkage"], rel=0.02)


def test_errors_that_agents_share_do_not_shrink_w():
    x, _, states = noisy((1.0, 1.0), (0.4, 0.0))
    found = theory.rotation(x, x @ TURNS[2].T, states, both(4000))
    assert found["w_shrinkage"] == pytest.approx(1.0) and found["w_shrinkage_predicted"] < 0.9


def test_spaces_of_another_width_than_the_state_are_not_compared_with_it():
    x, y, states = noisy((1.0, 1.0), (0.1, 0.1), num=100)
    assert theory.rotation(x[:, :2], y, states, both(100)) == {}
    assert theory.rotation(np.tile(x, 2), np.tile(y, 2), states, both(100)) == {}


def codes(noise, turn):
    """Codes Q (z + noise e) + 3 whose sampled moments are exact, and the states."""
    z, e = np.split(white(400, 6), 2, axis=1)
    return (z + noise * e) @ turn.T + 3.0, z


def walked(loss, rho=(0.9, 0.9, 0.9), steps=50):
    """Walks of two agents; the second's steps have this mean square length."""
    jumps = np.random.default_rng(6).normal(size=(2, steps, 3))
    jumps[1] *= np.sqrt(loss / np.square(jumps[1]).sum(1).mean())
    walks = np.cumsum(np.concatenate([np.zeros((2, 1, 3)), jumps], axis=1), axis=1)
    return Walks(walks + 7.0, np.zeros((2, steps, 3)), np.array(rho))


@pytest.mark.parametrize(("noise", "rho"), [(0.1, 0.9), (0.3, 0.9), (0.3, 0.5)])
def test_noise_that_is_white_in_time_costs_more_than_its_error(noise, rho):
    """E||h' - h||^2 = 2 n (1 - rho + s^2), of which the theorem makes D = n s^2 / (1 - rho)."""
    h, z = codes(noise, TURNS[0])
    loss = 2 * 3 * (1 - rho + noise**2)
    # Samples have a covariance over N - 1, as the theorem's estimate has it.
    scale = 400 / 399
    epsilon = 3**0.5 * abs((1 + noise**2) * scale - 1)
    degree = (loss - 2 * (1 - rho) * 3 * (1 + noise**2) * scale) / (2 * rho * (1 - rho))
    found = theory.bound(walked(loss, (rho,) * 3), 1, h, z)
    assert found["bound_epsilon"] == pytest.approx(epsilon)
    assert found["bound_nonlinearity"] == pytest.approx(degree)
    assert degree == pytest.approx(3 * noise**2 / (1 - rho), rel=0.1)
    assert found["bound"] == pytest.approx(degree + (epsilon + degree) ** 2)
    assert found["recovery_error"] == pytest.approx(3 * noise**2) and found["bound"] > 0.03


@pytest.mark.parametrize("scale", [0.7, 1.2])
def test_a_code_of_another_scale_is_bounded_by_its_covariance(scale):
    """Nothing but epsilon is lost: 3 (s - 1)^2 <= 3 (s^2 - 1)^2."""
    h, z = codes(0.0, TURNS[1])
    found = theory.bound(walked(0.0), 1, scale * h, z)
    assert found["bound_nonlinearity"] == 0.0
    assert found["recovery_error"] == pytest.approx(3 * (scale - 1) ** 2)
    assert found["bound"] == pytest.approx(3 * (scale**2 * 400 / 399 - 1) ** 2)


def test_what_theorem_3_does_not_cover_has_no_bound():
    h, z = codes(0.1, TURNS[0])
    assert theory.bound(walked(1.0, (0.9, 0.9, 0.8)), 1, h, z) == {}
    assert theory.bound(walked(1.0), 1, h[:, :2], z) == {}
    assert theory.dynamics(walked(1.0), 1, h[:, :2], z) == {}


def follow(a, mean):
    """A walk of h' = A h + B a without noise, about a mean, and its actions."""
    rng = np.random.default_rng(7)
    actions, b, h = rng.normal(size=(40, 3)), rng.normal(size=(3, 3)), [np.ones(3)]
    for push in actions:
        h.append(a @ h[-1] + b @ push)
    return np.array(h) + mean, actions


@pytest.mark.parametrize("angle", [0.0, 0.2, 0.6])
def test_dynamics_are_those_of_the_state_whatever_the_rotation(angle):
    """A = Q R Q^T, R turning two latents of rho = 0.9: eigenvalues 0.9 exp(+-i angle) and 0.7."""
    h, z = codes(0.1, TURNS[2])
    cosine, sine = 0.9 * np.cos(angle), 0.9 * np.sin(angle)
    r = np.array([[cosine, 0.0, -sine], [0.0, 0.7, 0.0], [sine, 0.0, cosine]])
    steps, actions = follow(TURNS[2] @ r @ TURNS[2].T, h.mean(0))
    walks = Walks(np.stack([0 * steps, steps]), np.stack([actions] * 2), np.array([0.9, 0.7, 0.9]))
    found = theory.dynamics(walks, 1, h, z)
    assert found["rho_true"] == pytest.approx(2.5 / 3)
    assert found["rho_recovered"] == pytest.approx((2 * cosine + 0.7) / 3)
    far = 2 * 0.9 * np.sin(angle / 2)
    assert found["rho_error"] == pytest.approx(far, abs=1e-9)
    assert found["transition_error"] == pytest.approx(far * (2 / 3) ** 0.5, abs=1e-9)
