"""Similarities with a queue of the teacher's latents, against NumPy and over several devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import rel_entr, softmax

from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives.coupled import Similarities
from socialjepa_jax.sharding import Reduce

B, D, E, Q = 6, 3, 5, 8
PULL = Similarities(queue=Q, temperature=0.2)


@pytest.fixture(scope="module")
def latents():
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=(B, D)).astype("f4"), rng.normal(size=(B, E)).astype("f4"))
        for _ in range(4)
    ]


def unit(z):
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def run(latents):
    params, state = PULL.init(jax.random.key(0), D, E)
    params["kernel"] = jnp.asarray(np.random.default_rng(1).normal(size=(D, E)).astype("f4"))
    terms, ready = [], []
    for step, (x, y) in enumerate(latents):
        ready.append(float(state["ready"]))
        term, state, metrics = PULL.pull(params, state, x, y, jnp.int32(step), Reduce())
        assert metrics == {}
        terms.append(float(term))
    return params, terms, ready, state


def test_the_term_is_the_divergence_over_the_queue(latents):
    params, terms, ready, state = run(latents)
    assert ready == [0.0, 0.0, 1.0, 1.0]  # full after 8 of the 12 latents of two batches
    seen = np.concatenate([unit(y) for _, y in latents[:3]])[-Q:]
    x, y = latents[3]
    p = softmax(unit(y) @ seen.T / 0.2, axis=1)
    q = softmax(unit(x @ np.asarray(params["kernel"])) @ seen.T / 0.2, axis=1)
    assert terms[3] == pytest.approx(rel_entr(p, q).sum(1).mean(), rel=1e-5)
    newest = np.concatenate([unit(y) for _, y in latents])[-Q:]
    np.testing.assert_allclose(state["queue"], newest, atol=1e-6)


def test_equal_latents_cost_nothing():
    params, state = PULL.init(jax.random.key(0), E, E)
    params["kernel"] = jnp.eye(E)
    y = np.random.default_rng(2).normal(size=(Q, E)).astype("f4")
    _, state, _ = PULL.pull(params, state, y, y, jnp.int32(0), Reduce())
    term, _, _ = PULL.pull(params, state, 3 * y, y, jnp.int32(1), Reduce())
    assert float(term) == pytest.approx(0.0, abs=1e-6)


def test_the_queue_holds_no_gradient(latents):
    x, y = map(jnp.asarray, latents[0])
    params, state = PULL.init(jax.random.key(0), D, E)

    def queued(y):
        return PULL.pull(params, state, x, y, jnp.int32(0), Reduce())[1]["queue"].sum()

    assert not np.any(jax.grad(queued)(y))


@pytest.mark.parametrize("fields", [{"queue": 0}, {"temperature": 0.0}, {"kind": "closed"}])
def test_refuses_what_cannot_be(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        Similarities(**fields)
