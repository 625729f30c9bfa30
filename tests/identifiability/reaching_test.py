import numpy as np
import pytest
from scipy import optimize, stats

from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability.reaching import LatentModel

A = np.array([[0.9, 0.05], [-0.02, 0.8]])
B = np.array([[0.3, 0.1], [0.0, 0.4]])


def _rng():
    return np.random.default_rng(0)


def test_the_regulator_holds_and_reaches_its_goal():
    model = LatentModel(A, B)
    goals = _rng().normal(size=(5, 2))
    held = model.hold(goals)
    np.testing.assert_allclose(goals @ A.T + held @ B.T, goals, atol=1e-12)
    np.testing.assert_allclose(model.regulate(goals, goals), held, atol=1e-12)
    path = model.imagine(np.zeros((5, 2)), goals, 60)
    assert path.shape == (61, 5, 2)
    np.testing.assert_array_equal(path[0], 0.0)
    np.testing.assert_allclose(path[-1], goals, atol=1e-6)


def test_the_gain_of_one_feature_is_that_of_the_scalar_riccati_equation():
    a, b, effort = 0.9, 0.3, 0.1
    model = LatentModel(np.array([[a]]), np.array([[b]]), effort)
    # p = 1 + a^2 p - a^2 b^2 p^2 / (r + b^2 p) is quadratic in p.
    roots = np.roots([b**2, effort - b**2 - a**2 * effort, -effort])
    p = roots[roots > 0].item()
    assert model.gain.item() == pytest.approx(a * b * p / (effort + b**2 * p), rel=1e-9)


def test_actions_do_not_depend_on_an_orthogonal_change_of_coordinates():
    """Theorem 4, and what fails without orthogonality."""
    q = stats.ortho_group.rvs(2, random_state=0)
    h, goals = _rng().normal(size=(2, 4, 2))
    model, turned = LatentModel(A, B), LatentModel(q @ A @ q.T, q @ B)
    for name, more in (("regulate", ()), ("track", ()), ("shoot", (3,))):
        expected = getattr(model, name)(h, goals, *more)
        got = getattr(turned, name)(h @ q.T, goals @ q.T, *more)
        np.testing.assert_allclose(got, expected, atol=1e-8)
    skew = np.diag([5.0, 0.2])
    skewed = LatentModel(skew @ A @ np.linalg.inv(skew), skew @ B)
    bent = skewed.regulate(h @ skew.T, goals @ skew.T)
    assert np.abs(bent - model.regulate(h, goals)).max() > 0.1


def test_tracking_lands_on_the_next_latent_where_it_may():
    model = LatentModel(A, B, bound=100.0)
    h, after = _rng().normal(size=(2, 4, 2))
    np.testing.assert_allclose(h @ A.T + model.track(h, after) @ B.T, after, atol=1e-10)
    assert np.abs(LatentModel(A, B, bound=0.5).track(h, after)).max() == 0.5


@pytest.mark.parametrize("bound", [0.4, 50.0])
def test_shooting_minimises_its_cost_within_the_bound(bound):
    steps, effort = 4, 0.05
    model = LatentModel(A, B, effort, bound)
    h, goals = _rng().normal(size=(2, 3, 2))
    plans = model.shoot(h, goals, steps)
    assert plans.shape == (3, steps, 2)
    assert np.abs(plans).max() <= bound + 1e-12

    def cost(flat, start, goal):
        z, total = start, 0.0
        held = np.linalg.solve(B, goal - A @ goal)
        for action in flat.reshape(steps, 2):
            z = A @ z + B @ action
            total += np.sum((z - goal) ** 2) + effort * np.sum((action - held) ** 2)
        return total

    for start, goal, plan in zip(h, goals, plans):
        best = optimize.minimize(
            cost, np.zeros(steps * 2), (start, goal), bounds=[(-bound, bound)] * steps * 2
        )
        assert cost(plan.ravel(), start, goal) == pytest.approx(best.fun, abs=1e-6)
    assert (np.abs(plans).max() == pytest.approx(bound)) == (bound < 1)


def test_a_long_unbounded_plan_is_what_the_regulator_would_do():
    model = LatentModel(A, B, bound=1e3)
    h, goals = _rng().normal(size=(2, 2, 2))
    path = model.imagine(h, goals, 5)
    plan = model.shoot(h, goals, 40)
    for step in range(5):
        np.testing.assert_allclose(plan[:, step], model.regulate(path[step], goals), atol=1e-6)


def test_more_features_than_actions_are_served_as_far_as_they_can_be():
    model = LatentModel(np.diag([0.9, 0.8, 0.5]), np.array([[0.3], [0.0], [0.0]]))
    goal = np.array([[1.0, 1.0, 1.0]])
    path = model.imagine(np.zeros((1, 3)), goal, 200)
    np.testing.assert_allclose(path[-1], [[1.0, 0.0, 0.0]], atol=1e-6)


def test_wrong_shapes_and_numbers_are_named():
    with pytest.raises(InputError, match=r"a has shape \(2, 2\), b has shape \(3, 1\)"):
        LatentModel(A, np.ones((3, 1)))
    with pytest.raises(InputError, match="effort=0"):
        LatentModel(A, B, effort=0.0)
    with pytest.raises(InputError, match="bound=-1"):
        LatentModel(A, B, bound=-1.0)
    with pytest.raises(InputError, match="steps=0"):
        LatentModel(A, B).shoot(np.zeros((1, 2)), np.zeros((1, 2)), 0)
