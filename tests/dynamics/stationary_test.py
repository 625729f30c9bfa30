import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from socialjepa_jax.dynamics import gennorm, langevin, stationary
from socialjepa_jax.errors import InputError

NUM = 20_000
# A Kolmogorov-Smirnov distance beyond this has probability 1e-6 under the null.
KS_LIMIT = 2.69 / np.sqrt(NUM)


def _marginal(alpha):
    return stats.gennorm(alpha, scale=gennorm.gennorm_scale(alpha))


@pytest.mark.parametrize("noised", ["second", "both"])
def test_ou_pairs_have_the_stated_moments(noised):
    process = stationary.OrnsteinUhlenbeck(2)
    rho_D = np.array([0.6, 0.9])
    views = process.views(process.params(rho_D), jax.random.key(0), NUM, noised)
    both = np.concatenate([np.asarray(v, np.float64) for v in views], 1)
    cross = np.diag(rho_D if noised == "second" else rho_D**2)
    expected = np.block([[np.eye(2), cross], [cross, np.eye(2)]])
    np.testing.assert_allclose(np.cov(both.T), expected, atol=5 * np.sqrt(2 / NUM))


@pytest.mark.parametrize("alpha", [0.25, 32.0])
@pytest.mark.parametrize("make", [stationary.Copula, langevin.Langevin])
def test_both_views_keep_the_generalised_normal_marginal(make, alpha):
    process = make(1) if make is stationary.Copula else make(1, substeps=8)
    views = process.views(process.params(0.8, alpha), jax.random.key(1), NUM)
    for view in views:
        distance = stats.kstest(np.asarray(view, np.float64)[:, 0], _marginal(alpha).cdf).statistic
        assert distance < KS_LIMIT


def test_published_noise_is_not_stationary():
    process = stationary.PublishedNoise(1)
    first, second = process.views(process.params(0.8, 32.0), jax.random.key(2), NUM)
    law = _marginal(32.0).cdf
    assert stats.kstest(np.asarray(first)[:, 0], law).statistic < KS_LIMIT
    assert stats.kstest(np.asarray(second)[:, 0], law).statistic > KS_LIMIT
    np.testing.assert_allclose(np.var(np.asarray(second)), 1.0, atol=0.05)


def test_a_sweep_is_a_vmap_of_pure_functions():
    process = stationary.Copula(2)
    worlds = [process.params(rho, alpha) for rho, alpha in [(0.3, 0.5), (0.9, 8.0)]]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)
    key = jax.random.key(6)
    together = jax.vmap(lambda p: process.views(p, key, 64)[1])(stacked)
    for i, world in enumerate(worlds):
        np.testing.assert_allclose(together[i], process.views(world, key, 64)[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stationary.OrnsteinUhlenbeck(0), "dim=0"),
        (lambda: stationary.OrnsteinUhlenbeck(2).params(1.0), "rho=1.0"),
        (lambda: stationary.OrnsteinUhlenbeck(2).params([0.5, 0.0]), "rho=0.0"),
        (lambda: stationary.OrnsteinUhlenbeck(2).params([0.5, 0.6, 0.7]), "rho has 3 values"),
        (lambda: stationary.OrnsteinUhlenbeck(2).params(0.5, 1.0), "alpha=1.0"),
        (lambda: stationary.Copula(2).params(0.5, 0.0), "alpha=0.0"),
    ],
)
def test_refuses_values_out_of_range(call, message):
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        call()
