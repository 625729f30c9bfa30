import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from socialjepa_jax.alignment import evaluate, fit
from socialjepa_jax.alignment.study import stitch


@pytest.mark.nightly
def test_stitch_finds_what_a_line_cannot_and_does_no_harm_otherwise():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2400, 3))
    curved = np.abs(x) + 0.05 * rng.normal(size=x.shape)
    r2s = []
    for y in (curved, x @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=x.shape)):
        linear_map = fit(x[:2000], y[:2000])
        fitted = stitch.fit_stitch(linear_map, x[:2000], y[:2000], hidden=32, epochs=400)
        test = y[2000:]
        residual = test - fitted.forward(x[2000:])
        r2s.append(1 - np.sum(residual**2) / np.sum((test - test.mean(0)) ** 2))
        r2s.append(evaluate(linear_map, x[2000:], test)["r2_raw"])
    assert r2s[0] > 0.8 > 0.1 > r2s[1]
    assert abs(r2s[2] - r2s[3]) < 0.01


def test_its_optimizer_is_that_of_optax():
    rng = np.random.default_rng(6)
    params = {"w": jnp.asarray(rng.normal(size=(3, 2)), "float32"), "b": jnp.ones(2)}
    optimizer = optax.adamw(0.1, weight_decay=1e-2)
    zeros = jax.tree.map(jnp.zeros_like, params)
    ours, averages, theirs, state = params, (zeros, zeros), params, optimizer.init(params)
    for count in range(1, 6):
        gradient = jax.tree.map(lambda p: jnp.sin(5 * p + count), params)  # noqa: B023
        ours, averages = stitch._adamw(ours, averages, gradient, jnp.int32(count), jnp.float32(0.1))
        updates, state = optimizer.update(gradient, state, theirs)
        theirs = optax.apply_updates(theirs, updates)
    for name in params:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5)
        assert np.abs(ours[name] - params[name]).min() > 0.01
