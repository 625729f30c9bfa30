import numpy as np

from socialjepa_jax.alignment import evaluate, fit
from socialjepa_jax.alignment.metrics import BACKS
from socialjepa_jax.alignment.study import settings as settings_lib
from socialjepa_jax.alignment.study.intervals import GroupBootstrap, map_intervals
from socialjepa_jax.alignment.study.settings import Settings, Split
from tests.alignment.synthetic import world_pairs


def test_an_interval_is_moved_to_the_value_and_narrowed_to_all_rows():
    samples = np.random.default_rng(0).normal(5.0, 1.0, 4000)
    wide = GroupBootstrap(np.ones((4000, 1))).interval(samples, 2.0)
    np.testing.assert_allclose([wide.low, wide.high], [0.04, 3.96], atol=0.15)
    narrow = GroupBootstrap(np.ones((4000, 1)), shrinkage=0.5).interval(samples, 2.0)
    np.testing.assert_allclose(narrow.low, 1 + wide.low / 2)
    np.testing.assert_allclose(narrow.high, 1 + wide.high / 2)


def test_intervals_shrink_by_the_ratio_of_resampled_groups_to_measured_ones(monkeypatch):
    monkeypatch.setattr(settings_lib, "RESAMPLED_ROWS", 25)
    groups = np.arange(500)
    split = Split.draw(groups, Settings(resamples=7))
    assert len(split.test) == 100 and len(split.resampled) == 25
    assert set(split.resampled) <= set(split.test)
    assert not set(split.train) & set(split.test)
    bootstrap = GroupBootstrap.of(groups, split, Settings(resamples=7))
    assert bootstrap.weights.shape == (7, 25)
    np.testing.assert_allclose(bootstrap.shrinkage, np.sqrt(25 / 100))


def test_intervals_contain_the_metrics_and_no_map_does_not_differ_from_itself():
    linear_map, test = fit(*world_pairs(200, seed=1)), world_pairs(80)
    metrics = {back: evaluate(linear_map, *test, back=back) for back in BACKS}
    rows = np.arange(80)
    split = Split(rows[:0], rows[:0], rows, rows, 80)
    bootstrap = GroupBootstrap.of(rows, split, Settings(resamples=60))
    intervals, differences = map_intervals(linear_map, test, metrics, bootstrap)
    for back in BACKS:
        assert set(intervals[back]) == {"mse", "r2", "dsc", "nos@10", "cka_debiased"}
        for key, interval in intervals[back].items():
            assert interval.low < metrics[back][key] < interval.high
    assert all(d.low == d.high == 0 for d in differences["none"].values())
