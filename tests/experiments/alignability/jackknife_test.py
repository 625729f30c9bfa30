"""Intervals over objects and repetitions, against brute force and closed forms."""

import numpy as np
import pytest
from scipy import stats

from experiments.alignability import jackknife
from experiments.alignability.jackknife import Estimate
from socialjepa_jax import alignment, evaluation

DIM, OBJECTS = 5, 6


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, DIM))
    y = x @ rng.normal(size=(DIM, DIM)) + 0.7 * rng.normal(size=(150, DIM))
    objects = rng.integers(0, OBJECTS, 150)
    split = evaluation.Split("state", np.arange(70), np.arange(70, 150))
    return alignment.fit(x[:70], y[:70]), x, y, split, objects


@pytest.mark.parametrize(
    ("name", "key", "back"),
    [("r2", "r2", "inverse"), ("nos@10", "nos@10", "inverse"), ("dsc", "dsc", "inverse"),
     ("dsc_no_map", "dsc", "none"), ("nos@10_no_map", "nos@10", "none")],
)  # fmt: skip
def test_values_are_those_of_the_alignment_engine(fitted, name, key, back):
    linear_map, x, y, split, objects = fitted
    found = jackknife.estimates(linear_map, x, y, split, objects)
    expected = alignment.evaluate(linear_map, x[split.test], y[split.test], back=back)
    assert found[name].value == pytest.approx(expected[key], abs=1e-9)
    assert set(found) == set(jackknife.METRICS)


def test_replicates_of_r2_leave_one_object_out(fitted):
    linear_map, x, y, split, objects = fitted
    found = jackknife.estimates(linear_map, x, y, split, objects)["r2"]
    for g, value in zip(np.unique(objects[split.test]), found.without):
        rest = split.test[objects[split.test] != g]
        assert value == pytest.approx(alignment.r2(linear_map, x[rest], y[rest]), abs=1e-9)


def test_replicates_of_dsc_correlate_the_ranks_of_the_remaining_pairs(fitted):
    linear_map, x, y, split, objects = fitted
    found = jackknife.estimates(linear_map, x, y, split, objects)["dsc_no_map"]
    a, b = linear_map.standardize_x(x[split.test]), linear_map.standardize_y(y[split.test])
    upper = np.triu_indices(len(a), 1)
    ranks = [stats.rankdata(np.linalg.norm(z[upper[0]] - z[upper[1]], axis=1)) for z in (a, b)]
    kept = objects[split.test] != np.unique(objects[split.test])[2]
    pairs = kept[upper[0]] & kept[upper[1]]
    expected = np.corrcoef(ranks[0][pairs], ranks[1][pairs])[0, 1]
    assert found.without[2] == pytest.approx(expected, abs=1e-9)


def test_interval_of_a_mean_over_equal_objects_is_students():
    sums = np.random.default_rng(1).normal(size=12)
    low, high = jackknife.from_sums(sums, np.ones(12)).interval()
    half = stats.t.ppf(0.975, 11) * sums.std(ddof=1) / np.sqrt(12)
    assert (low, high) == pytest.approx((sums.mean() - half, sums.mean() + half))


def test_repetitions_widen_the_interval():
    runs = [Estimate(v, np.full(5, v), np.array([v])) for v in (0.1, 0.2, 0.4)]
    mean = Estimate.mean(runs)
    low, high = mean.interval()
    half = stats.t.ppf(0.975, 2) * np.std([0.1, 0.2, 0.4], ddof=1) / np.sqrt(3)
    assert (low, high) == pytest.approx((mean.value - half, mean.value + half))


def test_pairs_of_agents_are_one_repetition():
    pairs = [Estimate(v, np.array([v - 0.1, v + 0.1]), np.array([v])) for v in (0.1, 0.4)]
    mean = Estimate.of_pairs(pairs)
    assert mean.value == pytest.approx(0.25)
    np.testing.assert_allclose(mean.without, [0.15, 0.35])
    np.testing.assert_allclose(mean.repeats, [0.25])


def test_differences_are_paired():
    a = Estimate(0.5, np.array([0.4, 0.6]), np.array([0.5]))
    b = Estimate(0.2, np.array([0.1, 0.3]), np.array([0.2]))
    assert a.minus(b).interval() == pytest.approx((0.3, 0.3))


def test_one_object_has_no_interval():
    assert np.isnan(Estimate(0.5, np.array([0.5]), np.array([0.5])).interval()).all()
