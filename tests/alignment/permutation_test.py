import numpy as np

from socialjepa_jax.alignment import fit, permutation, r2
from tests.alignment.synthetic import world_pairs


def score(x, y, x_test, y_test):
    return {"r2": r2(fit(x, y), x_test, y_test)}


def test_permutation_null_tells_real_pairs_from_none():
    real = permutation.permutation_null(score, world_pairs(100), world_pairs(80, seed=1), num=19)
    assert real.p_value("r2") == 1 / 20
    assert len(set(real.samples["r2"])) == 19  # no shuffle is another
    assert real.samples["r2"].max() < 0.2 < real.observed["r2"]
    assert real.observed["r2"] < real.calibrated("r2", 1.0) < 1.0  # the null mean is negative
    unrelated = (
        (world_pairs(100)[0], world_pairs(100, seed=5)[1]),
        (world_pairs(80, seed=7)[0], world_pairs(80, seed=6)[1]),
    )
    none = permutation.permutation_null(score, *unrelated, num=19)
    assert none.p_value("r2") > 0.1


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
