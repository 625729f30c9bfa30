"""Driven processes against their closed forms: marginal, correlation, response to the actions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from socialjepa_jax.dynamics.driven import Driven
from socialjepa_jax.errors import InputError

STEPS = 20_000
RHO = np.array([0.9, 0.6, 0.2])
BOUND = 5 / STEPS**0.5


@functools.partial(jax.jit, static_argnums=(0, 2))
def walk(driven, key, steps):
    return driven.walk(jnp.asarray(RHO, jnp.float32), key, steps)


@functools.cache
def long_walk(actions, share=0.3):
    """A long walk in float64, and its innovations xi."""
    states, known = walk(Driven(3, actions, share, seed=5), jax.random.key(actions), STEPS)
    states, known = np.asarray(states, np.float64), np.asarray(known, np.float64)
    assert states.shape == (STEPS + 1, 3) and known.shape == (STEPS, actions)
    return states, known, (states[1:] - RHO * states[:-1]) / np.sqrt(1 - RHO**2)


def test_every_state_is_standard_normal():
    keys = jax.random.split(jax.random.key(0), 3000)
    states, actions = jax.vmap(lambda key: walk(Driven(3, 2), key, 2))(keys)
    for step in range(3):
        for latent in range(3):
            assert stats.kstest(np.asarray(states)[:, step, latent], "norm").pvalue > 1e-4
    assert stats.kstest(np.asarray(actions).ravel(), "norm").pvalue > 1e-4


@pytest.mark.parametrize("actions", [1, 2, 3])
def test_actions_make_their_share_of_every_innovation(actions):
    """The innovations are white and standard normal; on the actions they regress by sqrt(s) B."""
    _, known, xi = long_walk(actions)
    np.testing.assert_allclose(np.cov(xi.T), np.eye(3), atol=1.5 * BOUND)
    np.testing.assert_allclose(xi[1:].T @ xi[:-1] / STEPS, 0.0, atol=BOUND)
    directions = Driven(3, actions, seed=5).directions
    fitted = np.linalg.lstsq(known, xi, rcond=None)[0].T
    np.testing.assert_allclose(fitted, np.sqrt(0.3) * directions, atol=BOUND)
    rest = np.eye(3) - 0.3 * directions @ directions.T
    np.testing.assert_allclose(np.cov((xi - known @ fitted.T).T), rest, atol=1.5 * BOUND)


def test_successive_states_correlate_by_rho():
    states = long_walk(2)[0]
    cross = states[1:].T @ states[:-1] / STEPS
    np.testing.assert_allclose(cross, np.diag(RHO), atol=5 * np.sqrt(20 / STEPS))
    np.testing.assert_allclose(np.cov(states.T), np.eye(3), atol=5 * np.sqrt(20 / STEPS))


def test_directions_are_orthonormal_and_belong_to_the_seed():
    for dim in (1, 2, 5):
        for actions in range(1, dim + 1):
            b = Driven(dim, actions, seed=2).directions
            np.testing.assert_allclose(b.T @ b, np.eye(actions), atol=1e-12)
            np.testing.assert_array_equal(b, Driven(dim, actions, 0.7, seed=2).directions)
    np.testing.assert_allclose(Driven(4, 1).directions, 0.5)  # one action moves all alike
    assert np.abs(Driven(3, 3, seed=0).directions - Driven(3, 3, seed=1).directions).max() > 0.1


def test_a_steered_walk_acts_on_what_it_sees():
    """With f > 0 actions regress on the state by -f B^T; what moves the state stays the same."""
    f, share = 0.6, 0.3
    driven = Driven(3, 2, share, seed=5)
    states, actions = driven.walk(jnp.asarray(RHO, jnp.float32), jax.random.key(3), STEPS, f)
    states, actions = np.asarray(states, np.float64), np.asarray(actions, np.float64)
    policy = np.linalg.lstsq(states[:-1], actions, rcond=None)[0].T
    np.testing.assert_allclose(policy, -f * driven.directions.T, atol=2 * BOUND)
    spread = (actions - states[:-1] @ policy.T).std(0)
    np.testing.assert_allclose(spread, np.sqrt(1 - f**2), rtol=2 * BOUND)
    both = np.concatenate([states[:-1], actions], axis=1)
    fitted = np.linalg.lstsq(both, states[1:], rcond=None)[0].T
    scale = np.sqrt((1 - RHO**2) * share)[:, None]
    np.testing.assert_allclose(fitted[:, :3], np.diag(RHO), atol=2 * BOUND)
    np.testing.assert_allclose(fitted[:, 3:], scale * driven.directions, atol=2 * BOUND)


def test_a_walk_is_a_function_of_its_key():
    driven = Driven(3, 2)
    first, again, other = (walk(driven, jax.random.key(k), 50) for k in (1, 1, 2))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert np.abs(first[0] - other[0]).max() > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((3, 0), "actions=0"), ((3, 4), "actions=4"), ((3, 2, 0.0), "share=0.0"),
     ((3, 2, 1.0), "share=1.0")],
)  # fmt: skip
def test_refuses_what_cannot_be(arguments, message):
    with pytest.raises(InputError, match=message):
        Driven(*arguments)
