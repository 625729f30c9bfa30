from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from socialjepa_jax.errors import InputError
from socialjepa_jax.sigreg import epps_pulley, multivariate

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "univariate.npz")
raw_henze_zirkler = partial(multivariate.henze_zirkler, standardize=False)
nightly = partial(pytest.param, marks=pytest.mark.nightly)
PUBLISHED = {  # test, and the power of N by which ours is larger
    "BHEP_b0.1": (multivariate.bhep, 1),
    "BHEP_b1": (partial(multivariate.bhep, beta=1.0), 1),
    "HZ": (raw_henze_zirkler, 1),
    "COMB_g1": (partial(multivariate.comb, gamma=1.0), 0),
    "COMB_g10": (multivariate.comb, 0),
    "HV_g1": (multivariate.henze_visagie, 0),
    "HV_g10": (partial(multivariate.henze_visagie, gamma=10.0), 0),
}
EVERY = {
    "bhep": multivariate.bhep,
    "henze_zirkler": multivariate.henze_zirkler,
    "moment_generating": multivariate.moment_generating,
    "comb": multivariate.comb,
    "comb_full": partial(multivariate.comb, form="full"),
    "henze_visagie": multivariate.henze_visagie,
    "mardia_skewness": multivariate.mardia_skewness,
    "mardia_kurtosis": multivariate.mardia_kurtosis,
}


def samples(num, dim, seed=0):
    return np.random.default_rng(seed).normal(size=(num, dim))


def largest_summand(name, z):
    """Returns the scale of the rounding errors of a float32 sum."""
    if name.startswith(("BHEP", "HZ")):
        return 1.0
    gamma = float(name.split("_g")[1])
    square = np.sum(z**2, 1).max()
    if name.startswith("COMB"):
        return np.sqrt(len(z)) * max(1.0, np.exp(square / (4 * gamma)) / len(z))
    return max(1.0, np.exp(square / gamma) * 4 * square / len(z))


@pytest.mark.parametrize("data", ["normal", nightly("n8")])
@pytest.mark.parametrize("name", PUBLISHED)
def test_equals_the_published_implementation(name, data):
    z = GOLDEN[f"x_{data}"]
    test, power = PUBLISHED[name]
    expected, expected_grad = GOLDEN[f"mv_{name}__{data}"], GOLDEN[f"mv_{name}__{data}__grad"]
    value, grad = jax.jit(jax.value_and_grad(test))(z)
    scale = len(z) ** -power
    np.testing.assert_allclose(
        scale * value, expected, rtol=1e-5, atol=1e-6 * largest_summand(name, z)
    )
    atol = 3e-5 * np.abs(expected_grad).max()
    np.testing.assert_allclose(scale * grad, expected_grad, rtol=0, atol=atol)


def average(integrand, deviation):
    """E integrand(t) over t ~ N(0, deviation^2), by quadrature."""
    density = stats.norm(scale=deviation).pdf
    return integrate.quad(
        lambda t: integrand(t) * density(t), -12 * deviation, 12 * deviation, limit=400
    )[0]


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_bhep_is_its_integral(beta):
    z = samples(12, 1)[:, 0]

    def distance(t):
        return len(z) * abs(np.exp(1j * t * z).mean() - np.exp(-(t**2) / 2)) ** 2

    with jax.enable_x64(True):
        value = multivariate.bhep(jnp.asarray(z[:, None]), beta=beta)
        raw = multivariate.henze_zirkler(jnp.asarray(z[:, None]), standardize=False)
    assert float(value) == pytest.approx(average(distance, beta), rel=1e-8)
    smoothing = (3 * len(z) / 4) ** 0.2 / np.sqrt(2)
    assert float(raw) == pytest.approx(average(distance, smoothing), rel=1e-8)


def test_moment_tests_are_their_integrals():
    z, gamma = samples(10, 1)[:, 0], 3.0
    deviation = np.sqrt(1 / (2 * gamma))

    def moment(t):
        return np.exp(t * z).mean()

    def product(t):
        return np.cos(t * z).mean() * moment(t) - 1

    count = len(z)
    expected = {
        "moment_generating": count
        * average(lambda t: (moment(t) - np.exp(t**2 / 2)) ** 2, deviation),
        "comb": np.sqrt(count) * average(product, deviation),
        "comb_full": count * average(lambda t: product(t) ** 2, deviation),
        "henze_visagie": count
        * average(lambda t: ((z * np.exp(t * z)).mean() - t * moment(t)) ** 2, deviation),
    }
    for name, value in expected.items():
        option = {"beta": gamma} if name == "moment_generating" else {"gamma": gamma}
        with jax.enable_x64(True):
            ours = float(EVERY[name](jnp.asarray(z[:, None]), **option))
        assert ours == pytest.approx(value, rel=1e-7), name


def test_bhep_of_one_feature_is_epps_pulley_on_the_whole_line():
    z = jnp.asarray(samples(60, 1), jnp.float32)
    whole_line = epps_pulley(z, t_max=6.0, num_knots=25)[0]
    bhep = multivariate.bhep(z, beta=1.0)
    assert float(whole_line / np.sqrt(2 * np.pi)) == pytest.approx(float(bhep), rel=1e-4)


def test_standardised_tests_equal_the_float64_formula_and_ignore_affine_maps():
    z = samples(60, 4) ** 3
    moved = z @ samples(4, 4, seed=1) + 5.0
    centered = z - z.mean(0)
    mahalanobis = centered @ np.linalg.inv(centered.T @ centered / 60) @ centered.T
    squares = np.diag(mahalanobis)
    beta = (9 * 60 / 4) ** (1 / 8) / np.sqrt(2)
    pairs = squares[:, None] + squares[None] - 2 * mahalanobis
    expected = {
        "mardia_skewness": np.mean(mahalanobis**3),
        "mardia_kurtosis": np.mean(squares**2),
        "henze_zirkler": 60
        * (
            np.exp(-(beta**2) / 2 * pairs).mean()
            - 2 * (1 + beta**2) ** -2 * np.exp(-(beta**2) / (2 + 2 * beta**2) * squares).mean()
            + (1 + 2 * beta**2) ** -2
        ),
    }
    for name, value in expected.items():
        with jax.enable_x64(True):
            for data in (z, moved):
                assert float(EVERY[name](jnp.asarray(data))) == pytest.approx(value, rel=1e-8)
        single = EVERY[name](jnp.asarray(z, jnp.float32))
        assert single.dtype == jnp.float32
        assert float(single) == pytest.approx(value, rel=1e-4)


def test_mardia_levels_of_a_gaussian():
    z = jnp.asarray(samples(1000, 5), jnp.float32)
    for standardize in (True, False):
        skewness = multivariate.mardia_skewness(z, standardize=standardize)
        kurtosis = multivariate.mardia_kurtosis(z, standardize=standardize)
        assert 0 <= float(skewness) < 0.5
        assert float(kurtosis) == pytest.approx(35.0, rel=0.1)


@pytest.mark.parametrize(
    "name", [n if n in ("bhep", "comb_full", "mardia_skewness") else nightly(n) for n in EVERY]
)
def test_gradients_and_devices(name):
    z = samples(16, 3).astype(np.float32)
    spec = jax.sharding.PartitionSpec
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    step = jax.shard_map(
        jax.value_and_grad(partial(EVERY[name], axis_name="data")),
        mesh=mesh,
        in_specs=spec("data"),
        out_specs=(spec(), spec("data")),
    )
    value, grad = jax.jit(step)(z)
    expected, expected_grad = jax.jit(jax.value_and_grad(EVERY[name]))(z)
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(grad, expected_grad, atol=1e-4 * np.abs(expected_grad).max(), rtol=0)
    assert np.any(np.abs(grad) > 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(multivariate.bhep, beta=0.0), "beta=0"),
        (partial(multivariate.moment_generating, beta=1.0), "beta=1.0"),
        (partial(multivariate.comb, gamma=-1.0), "gamma=-1"),
        (partial(multivariate.comb, form="x"), "form='x'"),
        (partial(multivariate.henze_visagie, gamma=0.0), "gamma=0"),
        (lambda z: multivariate.bhep(z[0]), "must be"),
    ],
)
def test_bad_options_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call(jnp.ones((4, 2)))
