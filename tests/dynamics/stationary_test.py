import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from socialjepa_jax.dynamics import stationary
from socialjepa_jax.errors import InputError

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "identifiability.npz")
NUM = 20_000
# A Kolmogorov-Smirnov distance beyond this has probability 1e-6 under the null.
KS_LIMIT = 2.69 / np.sqrt(NUM)


def _marginal(alpha):
    return stats.gennorm(alpha, scale=stationary.gennorm_scale(alpha))


@pytest.mark.parametrize("alpha", 2.0 ** np.arange(-3, 6))
def test_scale_matches_the_published_code(alpha):
    expected = GOLDEN[f"gennorm_scale_{alpha if alpha < 1 else float(alpha)}"]
    np.testing.assert_allclose(stationary.gennorm_scale(alpha), expected, rtol=1e-9)


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
@pytest.mark.parametrize("make", [stationary.Copula, stationary.Langevin])
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


@pytest.mark.parametrize("alpha", [0.125, 1.0, 4.0, 32.0])
def test_warp_is_the_quantile_map(alpha):
    z = np.concatenate([-np.linspace(0.01, 5, 40), np.linspace(0.013, 5.5, 40)])
    expected = np.where(
        z < 0, _marginal(alpha).ppf(special.ndtr(z)), _marginal(alpha).isf(special.ndtr(-z))
    )
    got = stationary.warp(jnp.asarray(stationary.warp_table(alpha)), jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)


def test_langevin_of_the_gaussian_is_the_ou_process():
    process = stationary.Langevin(1, substeps=32)
    z, next_z = process.views(process.params(0.7), jax.random.key(3), NUM)
    np.testing.assert_allclose(np.mean(z * next_z), 0.7, atol=5 / np.sqrt(NUM))


def test_goal_seeking_world_is_stationary_and_bimodal():
    process = stationary.GoalSeeking(1, goal=0.9)
    views = process.views(process.params(0.9), jax.random.key(4), NUM)
    spread = np.sqrt(1 - 0.81)

    def law(x):
        return 0.5 * (special.ndtr((x - 0.9) / spread) + special.ndtr((x + 0.9) / spread))

    for view in views:
        assert stats.kstest(np.asarray(view)[:, 0], law).statistic < KS_LIMIT
    assert stats.kstest(np.asarray(views[0])[:, 0], special.ndtr).statistic > KS_LIMIT


def test_blend_goes_from_the_gaussian_world_to_the_other():
    process = stationary.Blend(1)
    key = jax.random.key(5)
    distance = {}
    for share in (0.0, 0.5, 1.0):
        first, _ = process.views(process.params(0.9, share), key, NUM)
        distance[share] = stats.kstest(np.asarray(first)[:, 0], special.ndtr).statistic
    assert distance[0.0] < KS_LIMIT < distance[0.5] < distance[1.0]


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
        (lambda: stationary.Blend(2).params(0.5, 1.5), "share=1.5"),
        (lambda: stationary.GoalSeeking(2, goal=1.0), "goal=1.0"),
    ],
)
def test_refuses_what_is_out_of_range(call, message):
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        call()
