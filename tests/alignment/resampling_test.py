import numpy as np
import pytest
from scipy import stats

from socialjepa_jax.alignment import evaluate, fit, r2, resampling
from socialjepa_jax.errors import InputError
from tests.alignment.synthetic import world_pairs


def test_drawing_every_row_once_gives_the_metrics_themselves(monkeypatch):
    x, y = world_pairs(150)
    linear_map = fit(*world_pairs(100, seed=1))
    ones = lambda groups, num, seed: np.ones((num, len(groups)))  # noqa: E731
    monkeypatch.setattr(resampling, "group_weights", ones)
    for back in ("inverse", "none"):
        samples = resampling.bootstrap(linear_map, x, y, back=back, num=1)
        metrics = evaluate(linear_map, x, y, back=back)
        for key in ("mse", "r2", "nos@10", "cka_debiased"):
            np.testing.assert_allclose(samples[key], metrics[key], rtol=1e-9, err_msg=key)
        np.testing.assert_allclose(samples["dsc"], metrics["dsc"], atol=1e-4)


def test_weights_act_like_repeated_rows():
    x, y = world_pairs(40)
    linear_map = fit(*world_pairs(100, seed=1))
    weights = resampling.group_weights(np.arange(40), 1, 0)
    rows = np.repeat(np.arange(40), weights[0].astype(int))
    drawn = resampling.bootstrap(linear_map, x, y, k=3, num=1)
    np.testing.assert_allclose(drawn["r2"], r2(linear_map, x[rows], y[rows]))
    z = linear_map.backward(linear_map.standardize_y(y), standardized=True)
    a, b = linear_map.standardize_x(x), z
    i, j = np.triu_indices(len(rows), 1)
    other = rows[i] != rows[j]
    distances = [np.sum((s[rows[i]] - s[rows[j]]) ** 2, axis=1)[other] for s in (a, b)]
    expected = stats.spearmanr(*distances).statistic
    np.testing.assert_allclose(drawn["dsc"], expected, atol=1e-3)


def test_groups_are_drawn_whole():
    groups = np.repeat([5, 7, 9], [2, 3, 1])
    weights = resampling.group_weights(groups, 50, 0)
    assert (np.ptp(weights[:, :2], axis=1) == 0).all()
    assert (np.ptp(weights[:, 2:5], axis=1) == 0).all()
    np.testing.assert_array_equal(weights[:, [0, 2, 5]].sum(axis=1), 3)
    with pytest.raises(InputError, match="at least 2 groups"):
        resampling.group_weights(np.zeros(4), 5, 0)


def test_intervals_hold_the_middle_share_of_the_draws():
    draws = {
        "a": np.random.default_rng(0).permutation(np.arange(1001.0)),
        "b": np.array([np.nan, 1.0, 3.0]),
    }
    found = resampling.intervals(draws, 0.9)
    np.testing.assert_allclose([found["a"].low, found["a"].high], [50, 950])
    np.testing.assert_allclose([found["b"].low, found["b"].high], [1.1, 2.9])
    np.testing.assert_allclose(resampling.intervals(draws)["a"].low, 25)


@pytest.mark.nightly
def test_intervals_cover_what_fresh_data_show():
    linear_map = fit(*world_pairs(200, seed=1))
    fresh = np.mean([r2(linear_map, *world_pairs(200, seed=s)) for s in range(100, 140)])
    hits = 0
    for seed in range(40):
        samples = resampling.bootstrap(linear_map, *world_pairs(200, seed=seed), k=2, num=60)
        interval = resampling.intervals({"r2": samples["r2"]})["r2"]
        hits += interval.low <= fresh <= interval.high
    assert hits >= 32


def test_paired_differences_cancel_what_two_maps_share():
    x, y = world_pairs(200)
    a, b = fit(*world_pairs(200, seed=1)), fit(*world_pairs(60, seed=2))
    first, second = (resampling.bootstrap(m, x, y, num=80) for m in (a, b))
    paired = resampling.difference(first, second)
    assert paired["r2"].std() < 0.3 * first["r2"].std()
