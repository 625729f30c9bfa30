import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.models.batchnorm import BatchNorm, Normalizer

X = np.random.default_rng(0).normal(3.0, 2.0, (6, 4, 5)).astype(np.float32)


def layer():
    norm = BatchNorm(5)
    norm.scale[...] = jnp.arange(1.0, 6.0)
    norm.bias[...] = jnp.arange(5.0)
    return norm


def test_statistics_of_the_batch_against_float64():
    normalizer = Normalizer()
    out = normalizer("first", layer(), jnp.asarray(X))
    wide = X.astype(np.float64)
    mean, variance = wide.mean((0, 1)), wide.var((0, 1))
    expected = (wide - mean) / np.sqrt(variance + 1e-5) * np.arange(1, 6) + np.arange(5)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    np.testing.assert_allclose(normalizer.used["first"][0], mean, rtol=1e-6)
    np.testing.assert_allclose(normalizer.used["first"][1], variance, rtol=1e-5)


def test_given_statistics_take_the_place_of_the_batch():
    given = {"first": (jnp.zeros(5), jnp.ones(5))}
    normalizer = Normalizer(given)
    low = jnp.asarray(X, jnp.bfloat16)
    out = normalizer("first", layer(), low)
    expected = np.asarray(low, np.float64) * np.arange(1, 6) + np.arange(5)
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(out, expected, rtol=1e-4)
    assert jax.tree.all(jax.tree.map(lambda a, b: a is b, normalizer.used, given))
