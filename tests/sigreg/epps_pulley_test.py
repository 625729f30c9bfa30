from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from socialjepa_jax.errors import InputError
from socialjepa_jax.sigreg import OFFICIAL, PAPER, Quadrature, epps_pulley
from socialjepa_jax.sigreg.epps_pulley import reference
from tests.sigreg import oracle

nightly = partial(pytest.param, marks=pytest.mark.nightly)


def samples(num: int, slices: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(num, slices)).astype(np.float32)


@partial(jax.jit, static_argnames=("statistic",))
def value_and_slope(u, statistic=epps_pulley):
    value, pullback = jax.vjp(statistic, u)
    return value, pullback(jnp.ones_like(value))[0]


def closed_form(u_N: np.ndarray) -> float:
    """The integral over the whole line: an MMD with Gaussian kernels, summed over all pairs."""
    pairs = np.exp(-((u_N[:, None] - u_N[None]) ** 2) / 2).sum() / len(u_N)
    cross = np.sqrt(2) * np.exp(-(u_N**2) / 4).sum()
    return np.sqrt(2 * np.pi) * (pairs - cross + len(u_N) / np.sqrt(3))


@pytest.mark.parametrize("form", [epps_pulley, reference])
@pytest.mark.parametrize(
    ("quadrature", "num", "debiased"),
    [
        (OFFICIAL, 2, True),
        (OFFICIAL, 100, False),
        (PAPER, 333, False),
        (PAPER, 20, True),
        (Quadrature(3.0, 2), 9, False),
        (Quadrature(4.0, 24), 9, False),
    ],
)
def test_equals_float64_formula(form, quadrature, num, debiased):
    u = 1.3 * samples(num, 5) + 0.2
    options = {"t_max": quadrature.t_max, "num_knots": quadrature.num_knots, "debiased": debiased}
    value, slope = value_and_slope(u, partial(form, **options))
    expected, expected_slope = oracle.epps_pulley(
        u, quadrature.t_max, quadrature.num_knots, debiased
    )
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5 if debiased else 0)
    np.testing.assert_allclose(slope, expected_slope, atol=1e-5 * np.abs(expected_slope).max())


@pytest.mark.parametrize("debiased", [False, True])
def test_the_form_of_gpus_equals_the_float64_formula(debiased, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    u = 1.3 * samples(101, 5) + 0.2  # of a shape that no other test has traced
    form = partial(epps_pulley, t_max=4.0, num_knots=9, debiased=debiased)
    assert "f32[101,8,5]" in str(jax.make_jaxpr(form)(u))  # one sine for each frequency
    value, slope = value_and_slope(u, form)
    expected, expected_slope = oracle.epps_pulley(u, 4.0, 9, debiased)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5 if debiased else 0)
    np.testing.assert_allclose(slope, expected_slope, atol=1e-5 * np.abs(expected_slope).max())


@pytest.mark.parametrize("scale", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("num", [64, 1000, 8192])
def test_gradient_error_at_every_scale(scale, num):
    u = scale * samples(num, 32)
    value, slope = value_and_slope(u)
    expected, expected_slope = oracle.epps_pulley(u, 3.0, 17)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    error = np.linalg.norm(slope - expected_slope) / np.linalg.norm(expected_slope)
    assert error <= 3e-6


def test_fine_grid_reaches_the_closed_form():
    u = np.float64(samples(200, 3)) * [[0.5, 1.0, 2.0]]
    value = epps_pulley(jnp.asarray(u, jnp.float32), t_max=6.0, num_knots=25)
    np.testing.assert_allclose(value, [closed_form(u_N) for u_N in u.T], rtol=1e-5)


def test_official_grid_is_the_truncated_integral():
    u_N = np.float64(samples(50, 1))[:, 0]

    def integrand(t):
        return abs(np.exp(1j * t * u_N).mean() - np.exp(-(t**2) / 2)) ** 2 * np.exp(-(t**2) / 2)

    expected = 50 * integrate.quad(integrand, -3, 3)[0]
    assert float(epps_pulley(jnp.asarray(u_N[:, None], jnp.float32))[0]) == pytest.approx(
        expected, rel=1e-3
    )


@pytest.mark.nightly
def test_forward_mode_and_second_derivatives_follow_the_definition():
    u, direction = jnp.asarray(samples(20, 3)), jnp.asarray(samples(20, 3, seed=1))

    def directional(statistic, at):
        return jax.jvp(lambda x: jnp.sum(statistic(x)), (at,), (direction,))[1]

    for derivative in (directional, lambda f, at: jax.grad(lambda x: directional(f, x))(at)):
        np.testing.assert_allclose(
            derivative(epps_pulley, u), derivative(reference, u), rtol=1e-4, atol=1e-5
        )


def test_leading_axes_and_vmap_are_separate_statistics():
    u = jnp.asarray(samples(40, 6)).reshape(4, 10, 6)
    each = jnp.stack([epps_pulley(x) for x in u])
    for batched in (epps_pulley(u), jax.vmap(epps_pulley)(u), jax.lax.map(epps_pulley, u)):
        np.testing.assert_allclose(batched, each, rtol=1e-6)
    np.testing.assert_allclose(epps_pulley(u.reshape(2, 2, 10, 6)).reshape(4, 6), each, rtol=1e-6)


@pytest.mark.parametrize(
    ("quadrature", "num", "debiased"),
    [(OFFICIAL, num, False) for num in (32, 2048)]
    + [nightly(OFFICIAL, num, False) for num in (256, 8192)]
    + [nightly(PAPER, 256, False), (OFFICIAL, 32, True)],
)
def test_null_level_does_not_depend_on_the_sample_size(quadrature, num, debiased):
    slices = 2**18 // num
    value = epps_pulley(
        samples(num, slices, seed=num),
        t_max=quadrature.t_max,
        num_knots=quadrature.num_knots,
        debiased=debiased,
    )
    expected = 0.0 if debiased else quadrature.null_level
    standard_error = np.std(value, ddof=1) / np.sqrt(slices)
    assert abs(np.mean(value) - expected) < 3 * standard_error


def test_levels():
    assert OFFICIAL.null_level == pytest.approx(1.0525, abs=5e-5)
    assert PAPER.null_level == pytest.approx(1.0594, abs=5e-5)
    assert OFFICIAL.gradient_bound == pytest.approx(7.89, abs=5e-3)
    for quadrature in (OFFICIAL, PAPER):
        value = epps_pulley(
            jnp.zeros((100, 1)), t_max=quadrature.t_max, num_knots=quadrature.num_knots
        )
        assert float(value[0]) == pytest.approx(100 * quadrature.collapse_level, rel=1e-6)


def test_rises_with_collapse():
    u = samples(2000, 8)
    levels = [float(epps_pulley(u * s).mean()) for s in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)]
    assert levels == sorted(levels)
    assert levels[1] > 3 * levels[0]


@pytest.mark.parametrize("scale", [0.0, 0.5, 3.0, 1e3, 1e6, 1e30])
def test_gradient_is_bounded_for_any_input(scale):
    u = np.concatenate([scale * samples(50, 4), np.full((50, 4), scale, np.float32)])
    value, slope = value_and_slope(u)
    assert np.all(np.isfinite(value))
    assert np.abs(slope).max() <= OFFICIAL.gradient_bound * (1 + 1e-6)


def test_not_a_number_is_not_hidden():
    for bad in (np.nan, np.inf):
        u = samples(10, 2)
        u[3, 0] = bad
        value = epps_pulley(u)
        assert np.isnan(value[0])
        assert np.isfinite(value[1])


def test_row_order_does_not_matter():
    u = samples(700, 16)
    np.testing.assert_allclose(epps_pulley(u[::-1]), epps_pulley(u), rtol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_input_is_computed_in_float32(dtype):
    u = jnp.asarray(samples(300, 8), dtype)
    value = epps_pulley(u)
    assert value.dtype == jnp.float32
    # The last bits depend on how it is fused; half precision would be off by 1e-3.
    np.testing.assert_allclose(value, epps_pulley(u.astype(jnp.float32)), rtol=2e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda u: epps_pulley(u, t_max=-1.0), "t_max=-1.0"),
        (lambda u: epps_pulley(u, num_knots=1), "num_knots=1"),
        (lambda u: epps_pulley(u[:0]), "N >= 1"),
        (lambda u: epps_pulley(u[:, 0]), "N >= 1"),
        (lambda u: epps_pulley(u[:1], debiased=True), "undefined"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call(jnp.ones((4, 2)))
