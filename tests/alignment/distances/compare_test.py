import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist, pdist

from socialjepa_jax.alignment.distances import (
    candidates,
    compare,
    histogram,
    neighbors,
    on_accelerator,
)
from socialjepa_jax.alignment.distances import on_cpu as on_cpu_lib
from socialjepa_jax.errors import InputError


def spaces(n, d=8, e=5, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, x @ rng.normal(size=(d, e)) + noise * rng.normal(size=(n, e))


def brute_overlap(x, y, k):
    sets = []
    for z in (x, y):
        d = cdist(z, z)
        np.fill_diagonal(d, np.inf)
        sets.append(np.argsort(d, axis=1, kind="stable")[:, :k])
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(*sets)])


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n", [60, 300])
def test_agrees_with_scipy(n, exact):
    x, y = spaces(n)
    found = compare.compare(x, y, (1, 10, 50), exact=exact)
    expected = stats.spearmanr(pdist(x), pdist(y)).statistic
    np.testing.assert_allclose(found.dsc, expected, atol=1e-9 if exact else 2e-5)
    assert abs(found.dsc - expected) <= found.dsc_bound + 1e-9
    for k in (1, 10, 50):
        np.testing.assert_allclose(found.overlap[k], brute_overlap(x, y, k), atol=1e-6)
        np.testing.assert_allclose(found.overlap_expected[k], found.overlap[k], atol=1e-6)


def test_streamed_histogram_is_accurate_to_a_millionth():
    x, y = spaces(1500, d=32, e=32)
    exact = compare.dsc(x, y, exact=True)
    found = compare.compare(x, y, (), exact=False)
    assert abs(found.dsc - exact) < 1e-6
    assert abs(found.dsc - exact) <= found.dsc_bound < 5e-3
    assert found.joint.sum() == 1500 * 1499 // 2


def test_eight_devices_give_what_one_gives():
    x, y = spaces(1100)
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    one = compare.compare(x, y, (5,), exact=False)
    many = compare.compare(x, y, (5,), exact=False, mesh=mesh)
    np.testing.assert_array_equal(one.joint, many.joint)
    np.testing.assert_allclose(many.overlap[5], one.overlap[5], rtol=1e-12)


@pytest.mark.parametrize("bins", [0, 512])
@pytest.mark.parametrize("lattice", [False, True])
def test_accelerators_find_what_cpus_find(bins, lattice):
    """Whole rows, top_k and scatter against half of the blocks and bounds."""
    x, y = spaces(300)
    if lattice:  # many ties
        x, y = np.round(x[:, :2]), np.round(y[:, :2])
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    with jax.enable_x64(True):
        on_cpu = on_cpu_lib.run(x, y, (1, 10, 50), bins, None)
        passes = [on_accelerator.run(x, y, (1, 10, 50), bins, m) for m in (None, mesh)]
    for found in passes:
        np.testing.assert_allclose(found.overlaps, on_cpu.overlaps, rtol=1e-6)
        if bins:
            np.testing.assert_allclose(
                histogram.joint_spearman(found.joint),
                histogram.joint_spearman(on_cpu.joint),
                rtol=1e-6,
            )
            assert found.joint.sum() == 300 * 299 // 2


def test_spaces_without_neighbours_are_left_to_the_pass_that_needs_no_candidates(monkeypatch):
    monkeypatch.setattr(candidates, "MIN_CAPACITY", 1000)
    x, _ = spaces(400)
    constant = np.ones((400, 2))
    with pytest.raises(candidates.TooManyTies), jax.enable_x64(True):
        on_cpu_lib.run(x, constant, (3,), 0, None)
    found = compare.compare(x, constant, (3,))
    assert found.overlap_expected[3] == pytest.approx(3 / 399)
    assert found.overlap[3] == pytest.approx(brute_overlap(x, constant, 3))


@pytest.mark.parametrize("spread", [1.0, 30.0, 200.0])
def test_ranks_are_those_of_scipy(spread):
    """Also where distances span so many orders of magnitude that bits and places do not fit."""
    rng = np.random.default_rng(6)
    values = np.ldexp(
        rng.integers(0, 300, 5000) * 2.0**-8, (spread * rng.normal(size=5000)).astype(int)
    )
    expected = stats.rankdata(values) - 1
    np.testing.assert_array_equal(compare.average_ranks(values), expected)
    zeros = np.zeros(10)
    np.testing.assert_array_equal(compare.average_ranks(zeros), np.full(10, 4.5))


def test_order_of_the_samples_does_not_matter():
    x, y = spaces(200)
    order = np.random.default_rng(1).permutation(200)
    a, b = compare.compare(x, y, (5,)), compare.compare(x[order], y[order], (5,))
    np.testing.assert_allclose([a.dsc, a.overlap[5]], [b.dsc, b.overlap[5]], rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_offsets_of_float32_latents_change_nothing(offset):
    x, y = spaces(120)
    grid = 2.0**-3  # keeps x + offset exact in float32
    x, y = np.round(x / grid) * grid, np.round(y / grid) * grid
    moved = compare.compare((x + offset).astype(np.float32), y.astype(np.float32), (10,))
    still = compare.compare(x, y, (10,))
    assert moved.dsc == pytest.approx(still.dsc, abs=1e-9)
    assert moved.overlap_expected[10] == pytest.approx(still.overlap_expected[10], abs=1e-12)


def test_expected_overlap_is_the_mean_over_random_tie_breaking():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 3, (2, 40, 2)).astype(float)
    found = compare.compare(x, y, (3,)).overlap_expected[3]
    shares = []
    for _ in range(3000):
        sets = []
        for z in (x, y):
            key = cdist(z, z)
            np.fill_diagonal(key, np.inf)
            key += 1e-9 * rng.random(key.shape)
            sets.append(np.argpartition(key, 3, axis=1)[:, :3])
        shares.append(np.mean(sets[0][:, :, None] == sets[1][:, None, :]) * 3)
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(found - np.mean(shares)) < 4 * error


@pytest.mark.parametrize(("n", "far"), [(600, 2e4), (1500, 1e4), (1500, 1e9)])
def test_one_far_row_changes_little(n, far):
    """The bins follow the mass of the distances, not their range."""
    x, y = spaces(n)
    x[7] *= far
    y[7] *= far
    found = compare.compare(x, y, (10,), exact=False)
    expected = stats.spearmanr(pdist(x), pdist(y)).statistic
    assert found.dsc == pytest.approx(expected, abs=1e-5)
    assert abs(found.dsc - expected) < found.dsc_bound <= compare.MAX_BOUND
    assert found.overlap[10] == pytest.approx(brute_overlap(x, y, 10), abs=1e-12)


def far_clusters(n, distance):
    """Pairs of two tight clusters; float32 squares cannot tell distances within one of them."""
    x, y = spaces(n)
    where = np.arange(n)[:, None] % 2
    return x + distance * where, y + distance * where


@pytest.mark.parametrize("accelerator", [False, True])
@pytest.mark.parametrize("distance", [1e3, 1e4])
def test_neighbours_within_far_clusters_are_those_of_float64(distance, accelerator, monkeypatch):
    x, y = far_clusters(700, distance)
    if accelerator:
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = compare.compare(x, y, (1, 10), exact=False)
    for k in (1, 10):
        assert found.overlap[k] == pytest.approx(brute_overlap(x, y, k), abs=1e-9)
        assert found.overlap_expected[k] == pytest.approx(found.overlap[k], abs=1e-9)
    # Squares of small distances beside large norms lose digits in float64, too.
    assert found.dsc == pytest.approx(stats.spearmanr(pdist(x), pdist(y)).statistic, abs=1e-3)
    assert found.dsc_bound == 0  # so many pairs are alike in float32 that all were ranked


def test_a_sample_is_ranked_where_bins_are_too_coarse_for_many_rows(monkeypatch):
    monkeypatch.setattr(compare, "EXACT", 100)
    monkeypatch.setattr(compare, "MAX_EXACT", 400)
    rng = np.random.default_rng(8)
    x = rng.integers(0, 2, (600, 6)).astype(float)  # seven different distances
    y = np.abs(x - (rng.random(x.shape) < 0.1))
    few, many = compare.compare(x[:400], y[:400], ()), compare.compare(x, y, ())
    expected = [stats.spearmanr(pdist(x[:n]), pdist(y[:n])).statistic for n in (400, 600)]
    assert few.dsc_bound == 0 and few.dsc == pytest.approx(expected[0], abs=1e-9)
    assert abs(many.dsc - expected[1]) < many.dsc_bound
    assert many.dsc_bound > compare.MAX_BOUND and many.dsc != pytest.approx(expected[1], abs=1e-9)


@pytest.mark.parametrize("norms", ["equal", "heavy-tailed"])
def test_histograms_of_unrelated_spaces_need_no_ranking(norms):
    """Their bound is the widest: it leaves no room for uneven bins."""
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(2, 2500, 16))
    if norms == "heavy-tailed":
        x, y = (z * np.exp(rng.normal(size=(len(z), 1))) for z in (x, y))
    found = compare.compare(x, y, (), exact=False)
    assert 0 < found.dsc_bound <= compare.MAX_BOUND


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_latents_does_not_matter(unit):
    x, y = spaces(300)
    found, still = (compare.compare(u * x, y, (10,), exact=False) for u in (unit, 1.0))
    assert found.dsc == pytest.approx(still.dsc, abs=1e-5)
    assert found.dsc_bound == pytest.approx(still.dsc_bound, rel=0.1)  # nor does it cost more
    assert found.overlap == still.overlap


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(("n", "k"), [(128, 5), (2048, 5), (2048, 51)])
def test_nearest_is_exact_with_ties_to_the_lowest_index(dtype, n, k):
    rng = np.random.default_rng(3)
    for d in (rng.random((16, n)), rng.integers(0, 40, (16, n)).astype(float)):
        with jax.enable_x64(True):
            values, index = neighbors.nearest(jnp.asarray(d, dtype), k)
        expected = np.argsort(d.astype(dtype), axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(index, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(d.astype(dtype), expected, 1))


def test_float32_ties_do_not_hide_float64_order():
    """Values that float32 cannot tell apart are still put in order."""
    rng = np.random.default_rng(4)
    d = 1 + 1e-10 * rng.permutation(512).astype(float)[None].repeat(8, 0)
    with jax.enable_x64(True):
        _, index = neighbors.nearest(jnp.asarray(d), 7)
    np.testing.assert_array_equal(index, np.argsort(d, axis=1)[:, :7])


def test_constant_and_tiny_spaces():
    x, _ = spaces(10)
    assert np.isnan(compare.dsc(x, np.ones((10, 2)), exact=True))
    assert np.isnan(compare.dsc(x, np.ones((10, 2)), exact=False))
    assert compare.compare(x, x, (1, 9, 10)).overlap == {1: 1.0, 9: 1.0}
    with pytest.raises(InputError, match="at least 3 samples"):
        compare.dsc(x[:2], x[:2])


def test_distances_are_rounded_alike_with_and_without_reduce_precision():
    """TPUs have none for float64: sums round to the same neighbours of a number, but for ties."""
    rng = np.random.default_rng(0)
    d = np.exp(rng.uniform(-40, 40, 5000))
    with jax.enable_x64(True):
        exact = np.asarray(jax.jit(neighbors.round_on_device)(jnp.asarray(d)))
        by_sums = np.asarray(jax.jit(neighbors.round_by_sums)(jnp.asarray(d)))
        ends = np.asarray(neighbors.round_by_sums(jnp.asarray([0.0, np.inf])))
    np.testing.assert_array_equal(by_sums, exact)
    np.testing.assert_array_equal(exact, neighbors.rounded(d))
    low = (1 << neighbors.ROUNDED_BITS) - 1
    assert not np.any(exact.view(np.int64) & low) and np.any(d.view(np.int64) & low)
    np.testing.assert_allclose(exact, d, rtol=2.0**-34)
    assert list(ends) == [0.0, np.inf]
