"""Maps from shared actions, on codes whose rotation is known: exact, predicted loss, chance."""

import numpy as np
import pytest
from scipy import signal

from socialjepa_jax import alignment
from socialjepa_jax.alignment.actions import fit_by_actions, response
from socialjepa_jax.errors import InputError

DIM, RHO = 3, 0.9


def rotation(rng, rows=DIM, columns=DIM):
    """A matrix with orthonormal columns."""
    return np.linalg.qr(rng.normal(size=(rows, columns)))[0]


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
