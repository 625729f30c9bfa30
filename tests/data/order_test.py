"""Batches by step: permutations, uniformity, the same on any number of devices."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from socialjepa_jax.data import order
from socialjepa_jax.errors import InputError

batch_rows = jax.jit(order.batch_rows, static_argnums=(2, 3))


@functools.partial(jax.jit, static_argnums=1)
def permutations(keys: jax.Array, num_rows: int) -> jax.Array:
    positions = jnp.arange(num_rows, dtype=jnp.int32)
    return jax.vmap(lambda key: order.epoch_permutation(key, positions, num_rows))(keys)


@pytest.mark.parametrize("num_rows", [1, 2, 7, 65, 1036, 10**6])
def test_every_key_permutes_all_rows(num_rows):
    images = permutations(jax.random.split(jax.random.key(num_rows), 3), num_rows)
    assert images.dtype == jnp.int32
    np.testing.assert_array_equal(np.sort(images, axis=1), [np.arange(num_rows)] * 3)


def test_positions_near_the_largest_size_stay_distinct_and_in_range():
    num_rows = 2**31 - 1
    positions = jnp.concatenate([jnp.arange(5000), num_rows - 1 - jnp.arange(5000)])
    images = order.epoch_permutation(jax.random.key(0), positions, num_rows)
    assert len(np.unique(images)) == 10000
    assert images.min() >= 0
    assert stats.kstest(np.asarray(images) / num_rows, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("num_rows", [3, 4, 5, 6])
def test_all_permutations_of_few_rows_are_equally_likely(num_rows):
    images = np.asarray(permutations(jax.random.split(jax.random.key(0), 20000), num_rows))
    orders = list(itertools.permutations(range(num_rows)))
    digits = num_rows ** np.arange(num_rows)
    counts = (images @ digits == (np.array(orders) @ digits)[:, None]).sum(axis=1)
    assert counts.sum() == 20000
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("num_rows", [16, 100])
def test_rows_and_pairs_of_rows_are_uniform_over_keys(num_rows):
    images = np.asarray(permutations(jax.random.split(jax.random.key(1), 20000), num_rows))
    positions = np.broadcast_to(np.arange(num_rows)[None], images.shape)
    table = np.bincount((positions * num_rows + images).ravel(), minlength=num_rows**2)
    # Row and column sums are fixed: (n - 1)^2 degrees of freedom, scaled by n / (n - 1).
    statistic = ((table - 20000 / num_rows) ** 2).sum() / (20000 / num_rows)
    statistic *= (num_rows - 1) / num_rows
    assert 1e-4 < stats.chi2.sf(statistic, (num_rows - 1) ** 2) < 1 - 1e-4
    steps = (images[:, 1] - images[:, 0]) % num_rows
    assert stats.chisquare(np.bincount(steps, minlength=num_rows)[1:]).pvalue > 1e-4
    fixed = (images == positions).sum(axis=1)  # Poisson(1)
    assert abs(fixed.mean() - 1) < 4 / np.sqrt(20000)


def test_within_a_key_neighbours_are_not_correlated():
    images = np.asarray(permutations(jax.random.split(jax.random.key(2), 1), 10**5))[0]
    for lag in (1, 2, 317):  # 317 = ceil(sqrt(10^5)), the width of the network's halves
        correlation = np.corrcoef(images[:-lag], images[lag:])[0, 1]
        assert abs(correlation) < 4 / np.sqrt(10**5)


def test_an_epoch_visits_distinct_rows_and_epochs_differ():
    key = jax.random.key(0)
    batches = np.stack([batch_rows(key, step, 103, 10) for step in range(30)])
    epochs = batches.reshape(3, 100)
    for epoch in epochs:
        assert len(np.unique(epoch)) == 100
    assert (epochs[0] != epochs[1]).any()
    assert len(set(range(103)) - set(epochs.ravel().tolist())) == 0  # the remainder changes


def test_a_batch_depends_on_key_and_step_alone():
    key = jax.random.key(5)
    traced = jax.lax.map(lambda step: order.batch_rows(key, step, 1000, 32), jnp.arange(70))
    np.testing.assert_array_equal(traced[63], batch_rows(key, 63, 1000, 32))
    other = batch_rows(jax.random.key(6), 63, 1000, 32)
    assert len(np.intersect1d(traced[63], other)) < 8


def test_agents_agree_under_map_vmap_and_shards():
    keys = jax.random.split(jax.random.key(0), 4)

    def rows(key: jax.Array) -> jax.Array:
        return order.batch_rows(key, 12, 500, 64)

    mapped = jax.lax.map(rows, keys)
    np.testing.assert_array_equal(jax.vmap(rows)(keys), mapped)
    mesh = jax.make_mesh((2, 4), ("agent", "data"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def local(keys: jax.Array) -> jax.Array:
        own = jax.lax.axis_index("data") * 16 + jnp.arange(16)
        return jax.vmap(rows)(keys)[:, own]

    shards = jax.shard_map(
        local, mesh=mesh, in_specs=jax.P("agent"), out_specs=jax.P("agent", "data")
    )
    np.testing.assert_array_equal(jax.jit(shards)(keys), mapped)
    assert len({tuple(batch.tolist()) for batch in np.asarray(mapped)}) == 4


@pytest.mark.parametrize("batch_size", [0, -3, 101])
def test_a_batch_that_does_not_fit_is_refused(batch_size):
    with pytest.raises(InputError, match="batch_size"):
        order.batch_rows(jax.random.key(0), 0, 100, batch_size)
