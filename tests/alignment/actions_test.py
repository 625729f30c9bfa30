"""Maps from shared actions, on codes whose rotation is known: exact, predicted loss, chance."""

import itertools

import numpy as np
import pytest
from scipy import linalg, signal
from scipy.spatial.transform import Rotation

from socialjepa_jax import alignment
from socialjepa_jax.alignment.actions import (
    expected_loss,
    fit_by_actions,
    joint_map,
    map_of_axes,
    motor_readout,
    partial_isometry,
    response,
    transition,
)
from socialjepa_jax.errors import InputError

DIM, RHO = 3, 0.9


def rotation(rng, rows=DIM, columns=DIM):
    """A matrix with orthonormal columns."""
    return np.linalg.qr(rng.normal(size=(rows, columns)))[0]


def turn_about(axis, angle):
    """The turn by an angle about a unit vector."""
    return Rotation.from_rotvec(angle * np.asarray(axis)).as_matrix()


def walk(rng, steps, share, actions=DIM, rates=(RHO,) * DIM):
    """States of an Ornstein-Uhlenbeck process, of whose innovations the actions make a share."""
    rates = np.array(rates)
    b = np.eye(DIM)[:, :actions]
    a = rng.normal(size=(steps, actions))
    hidden = np.eye(DIM) - (1 - np.sqrt(1 - share)) * b @ b.T
    xi = np.sqrt(share) * a @ b.T + rng.normal(size=(steps, DIM)) @ hidden
    drive = np.concatenate([rng.normal(size=(1, DIM)), np.sqrt(1 - rates**2) * xi])
    z = [signal.lfilter([1.0], [1.0, -rate], column) for rate, column in zip(rates, drive.T)]
    return np.stack(z, axis=1), a


def fit(first, second, q1, q2, means=(0.0, 0.0), order=slice(None)):
    """Fits the map between codes Q z + mean of two walks."""
    (z1, a1), (z2, a2) = first, second
    m1, m2 = (mean * np.ones(len(q)) for mean, q in zip(means, (q1, q2)))
    return fit_by_actions(z1 @ q1.T + m1, a1, z2 @ q2.T + m2, a2[:, order], x_mean=m1, y_mean=m2)


def test_the_response_of_a_linear_system_is_found_exactly():
    rng = np.random.default_rng(0)
    a, b = 0.4 * rng.normal(size=(4, 4)), rng.normal(size=(4, 2))
    known, mean = rng.normal(size=(30, 2)), rng.normal(size=4)
    h = [rng.normal(size=4)]
    for action in known:
        h.append(a @ h[-1] + b @ action)
    found = response(np.array(h) + mean, known, mean)
    np.testing.assert_allclose(found[0], a, atol=1e-9)
    np.testing.assert_allclose(found[1], b, atol=1e-9)


@pytest.mark.parametrize("widths", [(3, 3), (3, 5), (6, 3)])
def test_codes_without_noise_are_matched_exactly(widths):
    """With all of the innovations known, two walks that share no state give W = Q2 Q1^T."""
    rng = np.random.default_rng(1)
    q1, q2 = (rotation(rng, width) for width in widths)
    first, second = walk(rng, 60, 1.0), walk(rng, 80, 1.0)
    found = fit(first, second, q1, q2, means=(2.0, -1.0))
    np.testing.assert_allclose(found.w, q2 @ q1.T, atol=1e-9)
    np.testing.assert_allclose(found.w_back, q1 @ q2.T, atol=1e-9)
    assert (found.method, found.n_train, found.ridge) == ("actions", 60, 0.0)
    z = rng.normal(size=(50, DIM))
    np.testing.assert_allclose(found.forward(z @ q1.T + 2.0), z @ q2.T - 1.0, atol=1e-8)
    np.testing.assert_allclose(
        found.backward(z @ q2.T - 1.0, "regression"), z @ q1.T + 2.0, atol=1e-8
    )
    if widths == (3, 3):
        metrics = alignment.evaluate(found, z @ q1.T + 2.0, z @ q2.T - 1.0, neighbors=(1,))
        assert metrics["r2"] == pytest.approx(1.0) and metrics["orthogonality"] < 1e-9


@pytest.mark.parametrize(("share", "steps"), [(0.3, 1000), (0.1, 3000)])
def test_the_loss_by_noise_is_the_predicted_one(share, steps):
    """1 - R2 = (n - 1) r^2 with r^2 = residual variance / (T g^2), g the size of a column of B."""
    rng = np.random.default_rng(2)
    losses = []
    for _ in range(60):
        q1, q2 = rotation(rng), rotation(rng)
        found = fit(walk(rng, steps, share), walk(rng, steps, share), q1, q2)
        losses.append(np.square(found.w - q2 @ q1.T).sum() / DIM)
    predicted = (DIM - 1) * (1 - share) / (share * steps)
    assert np.mean(losses) == pytest.approx(predicted, rel=0.25)


def test_actions_with_wrong_names_are_worse_than_nothing():
    """Cyclic names turn the state by P: R2 = 2 tr(P) / n - 1 = -1, the level of chance."""
    rng = np.random.default_rng(3)
    q1, q2 = rotation(rng), rotation(rng)
    found = fit(walk(rng, 60, 1.0), walk(rng, 60, 1.0), q1, q2, order=[1, 2, 0])
    z = rng.normal(size=(40_000, DIM))
    assert alignment.r2(found, z @ q1.T, z @ q2.T) == pytest.approx(-1.0, abs=0.03)
    scores = []
    for _ in range(300):  # actions that say nothing give a random rotation
        q = rotation(rng)
        w = q * np.sign(rng.normal(size=DIM))
        scores.append(2 * np.trace(w) / DIM - 1)
    assert np.mean(scores) == pytest.approx(-1.0, abs=0.15)


def test_fewer_actions_than_features_carry_their_own_span():
    rng = np.random.default_rng(4)
    q1, q2 = rotation(rng), rotation(rng)
    first, second = (walk(rng, 20_000, 0.9, actions=2) for _ in range(2))
    found = fit(first, second, q1, q2)
    values = np.linalg.svd(found.w, compute_uv=False)
    np.testing.assert_allclose(values, [1.0, 1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(found.w @ q1[:, :2], q2[:, :2], atol=0.05)
    np.testing.assert_allclose(found.w @ q1[:, 2], 0.0, atol=0.05)


def test_the_mean_of_a_short_walk_is_not_taken_for_that_of_the_law():
    """A walk that happens to stay on one side is still centred where it is told."""
    rng = np.random.default_rng(5)
    z, a = walk(rng, 40, 1.0)
    q = rotation(rng)
    told = response(z @ q.T + 5.0, a, np.full(DIM, 5.0))
    np.testing.assert_allclose(told[0], RHO * np.eye(DIM), atol=1e-9)
    wrong = response(z @ q.T + 5.0, a, np.zeros(DIM))
    assert np.abs(wrong[0] - RHO * np.eye(DIM)).max() > 1e-3


def test_walks_that_cannot_be_fitted_are_refused():
    z, a = walk(np.random.default_rng(6), 10, 0.5)
    none = np.zeros(DIM)
    with pytest.raises(InputError, match="a walk of 11 states needs 10 actions, got 9"):
        response(z, a[:9], none)
    with pytest.raises(InputError, match="5 actions cannot fit 6 coefficients"):
        response(z[:6], a[:5], none)
    with pytest.raises(InputError, match="3 and 2 actions are not the same ones"):
        fit_by_actions(z, a, z, a[:, :2], x_mean=none, y_mean=none)
    with pytest.raises(InputError, match="walk"):
        response(np.where(z == z[3], np.nan, z), a, none)


RATES = (0.9, 0.8, 0.6)
ALL = np.ones((DIM, 1))


def linear(q, rates=RATES, b=ALL):
    """A and B of the code Q z."""
    return q @ np.diag(rates) @ q.T, q @ b


@pytest.mark.parametrize("make", [map_of_axes, joint_map])
def test_one_action_is_enough_where_rates_differ(make):
    rng = np.random.default_rng(7)
    for _ in range(10):
        q1, q2 = rotation(rng), rotation(rng)
        np.testing.assert_allclose(make(linear(q1), linear(q2)), q2 @ q1.T, atol=1e-6)


def test_one_action_along_an_axis_leaves_the_other_signs_open():
    """Both W and W with another sign have the same A and B, exactly."""
    rng = np.random.default_rng(8)
    q1, q2, along = rotation(rng), rotation(rng), np.eye(DIM)[:, :1]
    flip = q2 @ np.diag([1, 1, -1.0]) @ q1.T
    (a1, b1), (a2, b2) = linear(q1, b=along), linear(q2, b=along)
    for w in (q2 @ q1.T, flip):
        np.testing.assert_allclose(w @ b1, b2, atol=1e-12)
        np.testing.assert_allclose(w @ a1 @ w.T, a2, atol=1e-12)


def test_one_action_cannot_be_enough_where_rates_are_equal():
    """Every rotation about the action's response has the same A and B, exactly."""
    rng = np.random.default_rng(9)
    q1, q2 = rotation(rng), rotation(rng)
    (a1, b1), (a2, b2) = (linear(q, (RHO,) * DIM) for q in (q1, q2))
    axis = np.ones(DIM) / np.sqrt(DIM)
    turn = turn_about(axis, 2.0)
    w = q2 @ turn @ q1.T
    np.testing.assert_allclose(w @ b1, b2, atol=1e-12)
    np.testing.assert_allclose(w @ a1 @ w.T, a2, atol=1e-12)
    assert np.trace(q1 @ q2.T @ w) / DIM < 0.8  # and it is not the map


def test_the_joint_map_is_the_best_of_all_rotations_near_and_far():
    """Noisy responses; the oracle is a search of O(3) by thousands of random starts."""
    rng = np.random.default_rng(10)
    x, y = (
        tuple(m + 0.05 * rng.normal(size=m.shape) for m in linear(rotation(rng))) for _ in range(2)
    )

    def cost(w):
        a1, a2 = (0.5 * (a + a.T) for a, _ in (x, y))
        return np.square(w @ x[1] - y[1]).sum() + np.square(w @ a1 @ w.T - a2).sum()

    found = joint_map(x, y)
    np.testing.assert_allclose(found @ found.T, np.eye(DIM), atol=1e-9)
    others = (rotation(rng) * np.sign(rng.normal(size=DIM)) for _ in range(3_000))
    assert cost(found) <= min(cost(w) for w in others)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(50):
            s = size * rng.normal(size=(DIM, DIM))
            assert cost(found) <= cost(linalg.expm(s - s.T) @ found) + 1e-12


def test_the_transition_of_a_passive_walk_is_found():
    rng = np.random.default_rng(11)
    a = 0.4 * rng.normal(size=(DIM, DIM))
    h = [rng.normal(size=DIM)]
    for _ in range(8):
        h.append(a @ h[-1])
    np.testing.assert_allclose(transition(np.array(h) + 3.0, np.full(DIM, 3.0)), a, atol=1e-6)


@pytest.mark.parametrize("width", [DIM, 7])
def test_the_state_is_read_in_motor_coordinates(width):
    """The readout from B is that of least squares on the states themselves."""
    rng = np.random.default_rng(12)
    linear_part, push = rng.normal(size=(width, DIM)), rng.normal(size=(DIM, DIM))
    noise = 0.3 * rng.normal(size=(width, width))
    covariance = linear_part @ linear_part.T + noise @ noise.T
    found = motor_readout(linear_part @ push, covariance, push)
    z = rng.normal(size=(200_000, DIM))
    h = z @ linear_part.T + rng.normal(size=(200_000, width)) @ noise.T
    expected = np.linalg.lstsq(h, z, rcond=None)[0].T
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_the_expected_loss_is_that_of_the_formula():
    assert expected_loss(3, 0.7, 1_000, 0.3) == pytest.approx(2 * 0.7 / 300)


def test_one_hot_actions_have_one_direction_less_than_actions():
    """Three centred one-hot actions span a plane and carry two thirds; four carry all of it."""
    rng = np.random.default_rng(13)
    z = rng.normal(size=(20_000, DIM))
    for count, expected in ((DIM, 2 / 3), (DIM + 1, 1.0)):
        effects = np.linalg.qr(np.eye(count) - 1 / count)[0][:, :DIM]
        effects = effects if count > DIM else np.eye(DIM)
        q1, q2 = rotation(rng), rotation(rng)
        b1, b2 = (q @ (effects - effects.mean(0)).T for q in (q1, q2))
        assert np.linalg.matrix_rank(b1) == count - 1
        w = partial_isometry(b2 @ b1.T, count - 1)
        r2 = 1 - np.square(z @ q1.T @ w.T - z @ q2.T).sum() / np.square(z).sum()
        assert r2 == pytest.approx(expected, abs=0.02)


def test_actions_in_a_camera_s_own_frame_are_confidently_wrong():
    """Turned by theta in x and y: R2 = 2 (1 + 2 cos theta) / 3 - 1, with a perfect fit of B."""
    rng = np.random.default_rng(14)
    theta = np.radians(160.0)
    turn = turn_about(np.eye(DIM)[2], theta)
    q1, q2 = rotation(rng), rotation(rng)
    b1, b2 = q1, q2 @ turn
    w = partial_isometry(b2 @ b1.T, DIM)
    np.testing.assert_allclose(w @ b1, b2, atol=1e-12)
    r2 = 2 * np.trace(q1 @ q2.T @ w) / DIM - 1  # of unit codes: 1 - E|Wx - y|^2 / E|y|^2
    assert r2 == pytest.approx(2 * (1 + 2 * np.cos(theta)) / 3 - 1)
    assert r2 < -1.5


def test_a_wrong_dictionary_is_seen_by_rates_that_differ_alone():
    rng = np.random.default_rng(15)
    q1, q2 = rotation(rng), rotation(rng)
    for rates, seen in ((RATES, True), ((RHO,) * DIM, False)):
        (a1, _), (a2, _) = linear(q1, rates), linear(q2, rates)
        residuals = []
        for order in itertools.permutations(range(DIM)):
            w = partial_isometry(q2[:, order] @ q1.T, DIM)
            np.testing.assert_allclose(w @ q1, q2[:, order], atol=1e-12)  # B sees nothing wrong
            residuals.append(np.linalg.norm(w @ a1 @ w.T - a2))
        assert residuals[0] < 1e-12
        assert (min(residuals[1:]) > 0.1) == seen
        minus = -q2 @ q1.T  # one common sign is beyond A
        np.testing.assert_allclose(minus @ a1 @ minus.T, a2, atol=1e-12)


def test_responses_that_cannot_be_matched_are_refused():
    q = np.eye(DIM)
    with pytest.raises(InputError, match="as many features and as many actions"):
        joint_map(linear(q), linear(q, b=np.ones((DIM, 2))))
