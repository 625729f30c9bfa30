import numpy as np

from socialjepa_jax.alignment import fit, r2
from socialjepa_jax.alignment.study import curves
from tests.alignment.synthetic import world_pairs


def test_more_pairs_help_and_wrong_pairs_hurt():
    train, test = world_pairs(400, noise=1.0), world_pairs(100, seed=1, noise=1.0)
    budget = curves.pair_budget(train, test, sizes=(10, 50, 5000), repeats=2)
    assert [row["pairs"] for row in budget] == [10, 50, 400, 10, 50]
    assert budget[0]["r2"] != budget[3]["r2"]  # other pairs
    assert budget[0]["r2"] < budget[1]["r2"] < budget[2]["r2"]
    np.testing.assert_allclose(budget[2]["r2"], r2(fit(*train), *test), rtol=1e-12)
    noise = curves.pair_noise(train, test, fractions=(0.0, 0.5), repeats=1)
    np.testing.assert_allclose(noise[0]["r2"], budget[2]["r2"], rtol=1e-12)
    assert noise[1]["r2"] < noise[0]["r2"]
