import jax
import numpy as np
import pytest

from socialjepa_jax.dynamics.stationary import Copula, OrnsteinUhlenbeck
from socialjepa_jax.errors import InputError
from socialjepa_jax.identifiability.mixings import RealNVP, Spiral
from socialjepa_jax.identifiability.worlds import LatentWorld, stack
from socialjepa_jax.models.coupling import CouplingConfig

OU = OrnsteinUhlenbeck(2)
WORLD = LatentWorld(OU, Spiral(), noised="both")


def test_a_batch_is_the_mixed_views_of_its_key():
    params = WORLD.params(OU.params(0.9), seed=0)
    key = jax.random.key(3)
    batch = WORLD.batch(params, key, 16)
    first, second = OU.views(params["process"], key, 16, "both")
    np.testing.assert_array_equal(batch["views"][:, 0], WORLD.mixing.forward({}, first))
    np.testing.assert_array_equal(batch["views"][:, 1], WORLD.mixing.forward({}, second))
    np.testing.assert_array_equal(batch["index"], np.arange(16))


def test_evaluation_pairs_are_of_one_transition():
    params = WORLD.params(OU.params(0.8), seed=0)
    sample = WORLD.sample(params, jax.random.key(4), 20_000)
    correlation = np.mean(sample.z * sample.z_prime, axis=0)
    np.testing.assert_allclose(correlation, 0.8, atol=5 / np.sqrt(20_000))
    np.testing.assert_array_equal(sample.x_prime, WORLD.mixing.forward({}, sample.z_prime))


def test_a_finite_world_repeats_its_pairs_and_no_others():
    world = LatentWorld(OU, Spiral(), finite=True)
    params = world.params(OU.params(0.9), seed=5, samples=7)
    draw = jax.jit(lambda key: world.batch(params, key, 64))
    seen = {}
    for step in range(3):
        batch = draw(jax.random.key(step))
        for index, views in zip(np.asarray(batch["index"]), np.asarray(batch["views"])):
            np.testing.assert_array_equal(seen.setdefault(int(index), views), views)
    assert set(seen) == set(range(7))
    other = world.batch(world.params(OU.params(0.9), seed=6, samples=7), jax.random.key(0), 64)
    assert np.abs(np.asarray(other["views"][0]) - seen[int(other["index"][0])]).max() > 1e-3


@pytest.mark.nightly
def test_stacked_worlds_are_the_worlds():
    process = Copula(4)
    world = LatentWorld(process, RealNVP(CouplingConfig(4)))
    worlds = [world.params(process.params(0.9, alpha), seed=k) for k, alpha in enumerate((1.0, 4))]
    key = jax.random.key(0)
    together = jax.vmap(lambda p: world.batch(p, key, 8)["views"])(stack(worlds))
    for k, params in enumerate(worlds):
        np.testing.assert_allclose(together[k], world.batch(params, key, 8)["views"], atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.1


def test_refuses_what_does_not_fit():
    with pytest.raises(InputError, match=r"process\.dim=3"):
        LatentWorld(OrnsteinUhlenbeck(3), Spiral())
    with pytest.raises(InputError, match="samples=8"):
        WORLD.params(OU.params(0.9), seed=0, samples=8)
    with pytest.raises(InputError, match="samples=0"):
        LatentWorld(OU, Spiral(), finite=True).params(OU.params(0.9), seed=0, samples=0)
