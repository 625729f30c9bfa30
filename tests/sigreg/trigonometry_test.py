import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.sigreg import trigonometry


def test_phase_matches_float64():
    half_angle = np.linspace(-50, 50, 200_001, dtype=np.float32)
    cosine, sine = trigonometry.phase(jnp.asarray(half_angle))
    exact = 2 * np.float64(half_angle)
    np.testing.assert_allclose(cosine, np.cos(exact), atol=2.5e-7)
    np.testing.assert_allclose(sine, np.sin(exact), atol=2.5e-7)


def test_phase_of_large_angles_stays_on_the_unit_circle():
    half_angle = jnp.asarray([1e4, -1e7, 3e9, 1e30], jnp.float32)
    cosine, sine = trigonometry.phase(half_angle)
    np.testing.assert_allclose(cosine**2 + sine**2, 1.0, atol=1e-5)
    np.testing.assert_allclose(cosine[0], np.cos(2e4), atol=1e-5)


@pytest.mark.parametrize("num_frequencies", [1, 2, 5, 16, 23])
def test_sums_and_polynomial_match_the_definition(num_frequencies):
    rng = np.random.default_rng(num_frequencies)
    half_angle = rng.normal(size=(2, 30, 5)).astype(np.float32)
    k = np.arange(1, num_frequencies + 1)[:, None, None, None]
    angle = 2 * k * np.float64(half_angle)[None]  # [K, 2, N, M]
    for form in (trigonometry.trigonometric_sums, trigonometry.trigonometric_sums_one_by_one):
        sums = jax.jit(form, static_argnums=1)(half_angle, num_frequencies)
        for ours, wave in zip(sums, (np.cos(angle), np.sin(angle))):
            np.testing.assert_allclose(ours, np.moveaxis(wave.sum(2), 0, 1), atol=1e-4)

    a, b = rng.normal(size=(2, 2, num_frequencies, 5)).astype(np.float32)
    polynomial = jax.jit(trigonometry.trigonometric_polynomial)(half_angle, a, b)
    coefficients = (np.moveaxis(np.float64(x), 1, 0)[:, :, None] for x in (a, b))
    expected = sum(
        np.sum(x * wave, 0) for x, wave in zip(coefficients, (np.cos(angle), np.sin(angle)))
    )
    np.testing.assert_allclose(polynomial, expected, atol=2e-5 * num_frequencies)


def test_phase_is_differentiable():
    slope = jax.vmap(jax.grad(lambda x: trigonometry.phase(x)[1]))(jnp.linspace(-9.0, 9.0, 101))
    np.testing.assert_allclose(slope, 2 * np.cos(2 * np.linspace(-9.0, 9.0, 101)), atol=2e-5)
