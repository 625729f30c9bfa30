import numpy as np

from socialjepa_jax.alignment import fit, permutation, r2
from tests.alignment.synthetic import world_pairs


def score(x, y, x_test, y_test):
    return {"r2": r2(fit(x, y), x_test, y_test)}


def test_permutation_null_tells_real_pairs_from_none():
    real = permutation.permutation_null(score, world_pairs(100), world_pairs(80, seed=1), num=19)
    assert real.p_value("r2") == 1 / 20
    assert real.p_value("r2", larger=False) == 1.0
    assert len(set(real.samples["r2"])) == 19  # no shuffle is another
    assert real.samples["r2"].max() < 0.2 < real.observed["r2"]
    assert real.observed["r2"] < real.calibrated("r2", 1.0) < 1.0  # the null mean is negative
    unrelated = (
        (world_pairs(100)[0], world_pairs(100, seed=5)[1]),
        (world_pairs(80, seed=7)[0], world_pairs(80, seed=6)[1]),
    )
    none = permutation.permutation_null(score, *unrelated, num=19)
    assert none.p_value("r2") > 0.1


def test_every_shuffle_is_fitted_anew_and_measured_on_shuffled_pairs():
    """True maps fail on shuffled pairs, too; maps of shuffled pairs predict next to nothing."""
    (x0, y0), (x1, y1) = train, test = world_pairs(100), world_pairs(80, seed=1)

    def recording(*arrays):
        given.append(arrays)
        return score(*arrays)

    given = []
    null = permutation.permutation_null(recording, train, test, num=3)
    np.testing.assert_array_equal(given[0][1], y0)
    np.testing.assert_array_equal(given[0][3], y1)
    for x_fit, y_fit, x_held, y_held in given[1:]:
        np.testing.assert_array_equal(x_fit, x0)
        np.testing.assert_array_equal(x_held, x1)
        for shuffled, ordered in ((y_fit, y0), (y_held, y1)):
            assert np.mean(np.any(shuffled == ordered, axis=1)) < 0.1
            assert {*map(bytes, shuffled)} == {*map(bytes, ordered)}
    unfitted = r2(fit(*train), x1, y1[permutation.permute(80, np.random.default_rng(0))])
    assert unfitted < null.samples["r2"].min() < 0.1


def test_permutations_move_groups_within_strata():
    groups = np.repeat(np.arange(12), 3)
    strata = groups % 2
    rng = np.random.default_rng(0)
    order = permutation.permute(36, rng, groups=groups, strata=strata)
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
    free = permutation.permutation_null(score, pair, pair, num=9)
    kept = permutation.permutation_null(score, pair, pair, strata=both, num=9)
    assert free.samples["r2"].mean() < 0.1
    assert kept.samples["r2"].mean() > 0.6
