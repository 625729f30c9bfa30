from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from socialjepa_jax.errors import InputError
from socialjepa_jax.sigreg import sample_directions, sigreg, univariate

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "univariate.npz")
blom, rahman = {"positions": "blom"}, {"positions": "rahman"}
TESTS = {
    "AndersonDarling": univariate.anderson_darling,
    "CramerVonMises": univariate.cramer_von_mises,
    "Watson": univariate.watson,
    "Entropy_m1": partial(univariate.entropy, form="padded"),
    "Entropy_m2": partial(univariate.entropy, form="padded", m=2),
    "Entropy_right_m1": partial(univariate.entropy, form="right"),
    "ShapiroWilk_elfving_francia": univariate.shapiro_wilk,
    "ShapiroWilk_blom_francia": partial(univariate.shapiro_wilk, **blom),
    "ShapiroWilk_rahman_rahman": partial(univariate.shapiro_wilk, **rahman, weights="rahman"),
    "ShapiroWilk_blom_rahman": partial(univariate.shapiro_wilk, **blom, weights="rahman"),
    "ExtendedJarqueBera": univariate.extended_jarque_bera,
    "VCReg": univariate.vcreg,
    "Moments_k2": partial(univariate.moments, k_max=2),
    "Moments_k4": univariate.moments,
    "Moments_k6": partial(univariate.moments, k_max=6),
    "NLL": univariate.order_statistics_nll,
}
EVERY = {  # one of each function
    "anderson_darling": univariate.anderson_darling,
    "cramer_von_mises": univariate.cramer_von_mises,
    "entropy": univariate.entropy,
    "extended_jarque_bera": univariate.extended_jarque_bera,
    "moments": univariate.moments,
    "order_statistics_nll": univariate.order_statistics_nll,
    "shapiro_wilk": univariate.shapiro_wilk,
    "watson": univariate.watson,
}


nightly = partial(pytest.param, marks=pytest.mark.nightly)


@partial(jax.jit, static_argnames=("statistic",))
def value_and_slope(u, statistic):
    value, pullback = jax.vjp(statistic, u)
    return value, pullback(jnp.ones_like(value))[0]


def largest_summand(name, x_NM):
    """Returns the scale of the rounding errors of a float32 sum."""
    if name == "AndersonDarling" or name == "NLL":
        return len(x_NM)
    if name.startswith("Moments"):
        return np.max(np.abs(x_NM)) ** int(name[-1]) * np.exp(-int(name[-1]))
    return 1.0


@pytest.mark.parametrize("data", ["normal", nightly("n8")])
@pytest.mark.parametrize("name", TESTS)
def test_equals_the_published_implementation(name, data):
    x_NM = GOLDEN[f"x_{data}"]
    expected, expected_slope = GOLDEN[f"{name}__{data}"], GOLDEN[f"{name}__{data}__gradsum"]
    columns = np.full(x_NM.shape[1], True)
    rtol = 1e-5
    if name in ("AndersonDarling", "NLL"):  # its log Phi is wrong beyond three sigma
        columns, rtol = np.all(np.abs(x_NM) < 3, axis=0), 1e-4
    if name == "NLL":
        expected, expected_slope = expected.mean(0), expected_slope / len(x_NM)
    value, slope = value_and_slope(x_NM, TESTS[name])
    atol = 1e-6 * largest_summand(name, x_NM)
    np.testing.assert_allclose(value[columns], expected[columns], rtol=rtol, atol=atol)
    if name.endswith("_rahman"):  # its weights cancel in float32; ours are made in float64
        rtol = 5e-5
    if columns.any():
        slope, expected_slope = slope[:, columns], expected_slope[:, columns]
        atol = rtol * np.abs(expected_slope).max()
        np.testing.assert_allclose(slope, expected_slope, rtol=0, atol=atol)


def moments_formula(x, k_max):
    raw = [np.mean(x**k, 0) for k in range(1, k_max + 1)]
    targets = [stats.norm.moment(k) for k in range(1, k_max + 1)]
    weights = [1.0] + [np.exp(-k) for k in range(2, k_max + 1)]
    return sum(w * np.abs(r - t) for w, r, t in zip(weights, raw, targets))


def jarque_bera_formula(x):
    biased = (len(x) - 1) / len(x)
    skewness, kurtosis = stats.skew(x) * biased**1.5, (stats.kurtosis(x) + 3) * biased**2
    return len(x) / 6 * (skewness**2 + (kurtosis - 3) ** 2 / 4)


def vcreg_formula(x):
    mean, variance = x.mean(0), x.var(0, ddof=1)
    return len(x) * mean**2 / variance + (len(x) - 1) * (variance - 1) ** 2 / 2


def cramer_formula(x):
    textbook = np.array([stats.cramervonmises(column, "norm").statistic for column in x.T])
    return (textbook - 1 / (12 * len(x))) / len(x)


def anderson_formula(x):
    s, rank = np.sort(x, 0), np.arange(1, len(x) + 1)[:, None]
    terms = (2 * rank - 1) * (special.log_ndtr(s) + special.log_ndtr(-s[::-1]))
    return -len(x) - terms.mean(0)


def nll_formula(x):
    s, rank = np.sort(x, 0), np.arange(1, len(x) + 1)[:, None]
    count = len(x)
    log_choose = special.gammaln(count + 1) - special.gammaln(rank)
    log_choose -= special.gammaln(count - rank + 1)
    log_density = log_choose + (rank - 1) * special.log_ndtr(s)
    log_density += (count - rank) * special.log_ndtr(-s) + stats.norm.logpdf(s)
    return -log_density.mean(0)


def entropy_formula(x, m):
    entropy = stats.differential_entropy(x, window_length=m, method="vasicek")
    return np.sqrt(2 * np.pi * np.e) * x.std(0, ddof=1) / np.exp(entropy)


def shapiro_formula(x):
    scores = stats.norm.ppf((np.arange(1, len(x) + 1) - np.pi / 8) / (len(x) + 0.25))
    s = np.sort(x, 0)
    return 1 - np.abs(scores @ s) / np.linalg.norm(scores) / np.linalg.norm(s, axis=0)


FORMULAS = {
    "jarque_bera": (univariate.jarque_bera, jarque_bera_formula),
    "vcreg": (univariate.vcreg, vcreg_formula),
    "extended_jarque_bera": (
        univariate.extended_jarque_bera,
        lambda x: jarque_bera_formula(x) + vcreg_formula(x),
    ),
    "moments": (univariate.moments, partial(moments_formula, k_max=4)),
    "moments_9": (partial(univariate.moments, k_max=9), partial(moments_formula, k_max=9)),
    "cramer_von_mises": (univariate.cramer_von_mises, cramer_formula),
    "watson": (
        univariate.watson,
        lambda x: cramer_formula(x) - (stats.norm.cdf(x).mean(0) - 0.5) ** 2,
    ),
    "anderson_darling": (univariate.anderson_darling, anderson_formula),
    "order_statistics_nll": (univariate.order_statistics_nll, nll_formula),
    "entropy": (univariate.entropy, partial(entropy_formula, m=1)),
    "entropy_3": (partial(univariate.entropy, m=3), partial(entropy_formula, m=3)),
    "shapiro_wilk": (univariate.shapiro_wilk, shapiro_formula),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_equals_the_float64_formula_far_into_the_tails(name):
    test, formula = FORMULAS[name]
    x = np.random.default_rng(3).normal(size=(40, 4)) * [0.5, 1.0, 2.0, 6.0] + [0, 0.5, 0, -4]
    with jax.enable_x64(True):
        value = np.asarray(test(jnp.asarray(x)))
    assert value.dtype == np.float64
    np.testing.assert_allclose(value, formula(x), rtol=1e-9)
    single = test(jnp.asarray(x, jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, formula(x), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_collapsed_and_constant_slices_are_finite(name):
    u = np.stack([np.zeros(16), np.full(16, 3.0), np.arange(16.0)], axis=1).astype(np.float32)
    value, slope = value_and_slope(u, EVERY[name])
    assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(slope))


@pytest.mark.parametrize(
    "name", [nightly(n) if n in ("cramer_von_mises", "entropy", "watson") else n for n in EVERY]
)
def test_works_inside_sigreg_on_several_devices(name):
    z = np.random.default_rng(0).normal(size=(2, 16, 5)).astype(np.float32)
    directions = sample_directions(jax.random.key(0), 5, 3)

    def loss(z, axis_name="data"):
        return sigreg(z, directions, statistic=EVERY[name], axis_name=axis_name)

    spec = jax.sharding.PartitionSpec
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    step = jax.shard_map(
        jax.value_and_grad(loss),
        mesh=mesh,
        in_specs=spec(None, "data"),
        out_specs=(spec(), spec(None, "data")),
    )
    value, grad = jax.jit(step)(z)
    expected, expected_grad = jax.jit(jax.value_and_grad(partial(loss, axis_name=None)))(z)
    np.testing.assert_allclose(value, expected, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(grad, expected_grad, atol=2e-5 * np.abs(expected_grad).max(), rtol=0)


@pytest.mark.parametrize("name", [*EVERY, "jarque_bera", "vcreg"])
def test_tells_gaussian_embeddings_from_others_and_points_towards_them(name):
    """Inside SIGReg an alternative scores above 60 null draws, and lower after a small step."""
    test = getattr(univariate, name)
    directions = sample_directions(jax.random.key(0), 2, 16)
    rng = np.random.default_rng(0)
    clusters = np.sign(rng.normal(size=(100, 2))) + 0.1 * rng.normal(size=(100, 2))
    # The clusters' first two moments are right, and the four of `moments` hardly differ.
    z = 2.0 * clusters if name in ("vcreg", "moments") else clusters
    null = rng.normal(size=(60, 100, 2)).astype(np.float32)
    score = jax.jit(jax.vmap(jax.value_and_grad(partial(sigreg, statistic=test)), (0, None)))
    values, slopes = score(np.concatenate([null, z[None].astype(np.float32)]), directions)
    assert values[-1] > values[:-1].max()
    step = 0.01 * slopes[-1] / jnp.linalg.norm(slopes[-1])
    after, _ = score(jnp.tile(z[None] - step[None], (61, 1, 1)).astype(jnp.float32), directions)
    assert after[0] < values[-1]


def test_vcreg_vanishes_exactly_where_vicreg_does():
    # Mean zero and variance one along every direction <=> mean zero and covariance I (B.14).
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6)) + 2.0
    centered = z - z.mean(0)
    white = centered @ np.linalg.inv(np.linalg.cholesky(np.cov(centered.T))).T
    directions = sample_directions(jax.random.key(0), 6, 100)
    score = partial(sigreg, directions=directions, statistic=univariate.vcreg)
    assert float(score(jnp.asarray(white, jnp.float32))) < 1e-6
    for broken in (white + 0.1, white * [[1, 1, 1, 1, 1, 0.9]]):
        assert float(score(jnp.asarray(broken, jnp.float32))) > 1e-2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(univariate.entropy, m=2), "m=2"),
        (partial(univariate.entropy, form="left"), "form='left'"),
        (partial(univariate.shapiro_wilk, positions="x"), "positions='x'"),
        (partial(univariate.shapiro_wilk, weights="x"), "weights='x'"),
        (partial(univariate.moments, k_max=0), "k_max=0"),
    ],
)
def test_bad_options_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call(jnp.ones((4, 1)))
