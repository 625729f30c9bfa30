import numpy as np
import pytest

from socialjepa_jax.alignment import evaluate, fit, r2, resampling
from socialjepa_jax.alignment.study import curves, references
from socialjepa_jax.errors import InputError


def pairs(n, d=4, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    mixing = np.random.default_rng(99).normal(size=(d, d))
    return x, x @ mixing + noise * rng.normal(size=(n, d))


def test_drawing_every_row_once_gives_the_metrics_themselves(monkeypatch):
    x, y = pairs(150)
    linear_map = fit(*pairs(100, seed=1))
    ones = lambda groups, num, seed: np.ones((num, len(groups)))  # noqa: E731
    monkeypatch.setattr(resampling, "group_weights", ones)
    for back in ("inverse", "none"):
        samples = resampling.bootstrap(linear_map, x, y, back=back, num=1)
        metrics = evaluate(linear_map, x, y, back=back)
        for key in ("mse", "r2", "nos@10", "cka_debiased"):
            np.testing.assert_allclose(samples[key], metrics[key], rtol=1e-9, err_msg=key)
        np.testing.assert_allclose(samples["dsc"], metrics["dsc"], atol=1e-4)


def test_weights_act_like_repeated_rows():
    x, y = pairs(40)
    linear_map = fit(*pairs(100, seed=1))
    weights = resampling.group_weights(np.arange(40), 1, 0)
    rows = np.repeat(np.arange(40), weights[0].astype(int))
    drawn = resampling.bootstrap(linear_map, x, y, k=3, num=1)
    np.testing.assert_allclose(drawn["r2"], r2(linear_map, x[rows], y[rows]))
    z = linear_map.backward(linear_map.standardize_y(y), standardized=True)
    a, b = linear_map.standardize_x(x), z
    i, j = np.triu_indices(len(rows), 1)
    other = rows[i] != rows[j]
    distances = [np.sum((s[rows[i]] - s[rows[j]]) ** 2, axis=1)[other] for s in (a, b)]
    from scipy import stats

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


def test_intervals_cover_what_fresh_data_show():
    linear_map = fit(*pairs(200, seed=1))
    fresh = np.mean([r2(linear_map, *pairs(200, seed=s)) for s in range(100, 140)])
    hits = 0
    for seed in range(40):
        samples = resampling.bootstrap(linear_map, *pairs(200, seed=seed), k=2, num=60)
        interval = resampling.intervals({"r2": samples["r2"]})["r2"]
        hits += interval.low <= fresh <= interval.high
    assert hits >= 32


def test_paired_differences_cancel_what_two_maps_share():
    x, y = pairs(200)
    a, b = fit(*pairs(200, seed=1)), fit(*pairs(60, seed=2))
    first, second = (resampling.bootstrap(m, x, y, num=80) for m in (a, b))
    paired = resampling.difference(first, second)
    assert paired["r2"].std() < 0.3 * first["r2"].std()


def score(x, y, x_test, y_test):
    return {"r2": r2(fit(x, y), x_test, y_test)}


def test_permutation_null_tells_real_pairs_from_none():
    real = resampling.permutation_null(score, pairs(100), pairs(80, seed=1), num=19)
    assert real.p_value("r2") == 1 / 20
    assert real.samples["r2"].max() < 0.2 < real.observed["r2"]
    assert real.observed["r2"] < real.calibrated("r2", 1.0) < 1.0  # the null mean is negative
    unrelated = (pairs(100)[0], pairs(100, seed=5)[1]), (pairs(80, seed=7)[0], pairs(80, seed=6)[1])
    none = resampling.permutation_null(score, *unrelated, num=19)
    assert none.p_value("r2") > 0.1


def test_permutations_move_groups_within_strata():
    groups = np.repeat(np.arange(12), 3)
    strata = groups % 2
    rng = np.random.default_rng(0)
    order = resampling.permute(36, rng, groups=groups, strata=strata)
    assert sorted(order) == list(range(36))
    assert (strata[order] == strata).all()
    for group in range(12):
        assert len(set(groups[order[groups == group]])) == 1
    assert (groups[order] != groups).any()


def test_a_null_within_strata_keeps_what_the_strata_explain():
    rng = np.random.default_rng(3)
    strata = np.arange(200) % 5
    shared = rng.normal(size=(5, 4)) * 3
    x, y = (shared[strata] + rng.normal(size=(200, 4)) for _ in range(2))
    pair, both = (x, y), (strata, strata)
    free = resampling.permutation_null(score, pair, pair, num=9)
    kept = resampling.permutation_null(score, pair, pair, strata=both, num=9)
    assert free.samples["r2"].mean() < 0.1
    assert kept.samples["r2"].mean() > 0.6


def test_noise_ceiling_is_the_share_of_variance_between_states():
    rng = np.random.default_rng(4)
    states = np.repeat(np.arange(2000), 3)
    z = 2 * rng.normal(size=(2000, 3))[states] + rng.normal(size=(6000, 3))
    np.testing.assert_allclose(resampling.noise_ceiling(z, states), 4 / 5, atol=0.02)
    with pytest.raises(InputError, match="one repeat"):
        resampling.noise_ceiling(z[:10], np.arange(10))


def test_more_pairs_help_and_wrong_pairs_hurt():
    train, test = pairs(400, noise=1.0), pairs(100, seed=1, noise=1.0)
    budget = curves.pair_budget(train, test, sizes=(10, 50, 5000), repeats=2)
    assert [row["pairs"] for row in budget] == [10, 50, 400, 10, 50]
    assert budget[0]["r2"] < budget[1]["r2"] < budget[2]["r2"]
    np.testing.assert_allclose(budget[2]["r2"], r2(fit(*train), *test), rtol=1e-12)
    noise = curves.pair_noise(train, test, fractions=(0.0, 0.5), repeats=1)
    np.testing.assert_allclose(noise[0]["r2"], budget[2]["r2"], rtol=1e-12)
    assert noise[1]["r2"] < noise[0]["r2"]


def test_stitch_finds_what_a_line_cannot_and_does_no_harm_otherwise():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2400, 3))
    curved = np.abs(x) + 0.05 * rng.normal(size=x.shape)
    r2s = []
    for y in (curved, x @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=x.shape)):
        linear_map = fit(x[:2000], y[:2000])
        stitch = references.fit_stitch(linear_map, x[:2000], y[:2000], hidden=32, epochs=400)
        test = y[2000:]
        residual = test - stitch.forward(x[2000:])
        r2s.append(1 - np.sum(residual**2) / np.sum((test - test.mean(0)) ** 2))
        r2s.append(evaluate(linear_map, x[2000:], test)["r2_raw"])
    assert r2s[0] > 0.8 > 0.1 > r2s[1]
    assert abs(r2s[2] - r2s[3]) < 0.01


def test_relative_representations_of_rotated_spaces_agree():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(50, 6))
    y = 2 * x @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + 3
    np.testing.assert_allclose(
        references.relative(x, x[:10]), references.relative(y, y[:10]), atol=1e-9
    )
