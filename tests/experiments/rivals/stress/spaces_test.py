"""What the stress tests share: pairs of agents, white latents and the scores of a map."""

import numpy as np
import pytest

from experiments.rivals.stress import spaces
from socialjepa_jax import alignment
from socialjepa_jax.alignment.study.curves import mismatched
from socialjepa_jax.records import RowName


def test_a_grid_measures_every_pair_with_the_same_draws_in_every_call():
    latents = np.arange(4.0)[:, None, None] * np.ones((4, 5, 2))
    space = spaces.Space(RowName.TRAINED, latents, [(0, 2), (0, 3), (1, 2), (1, 3)])
    seen = []

    def measure(x, y, rng):
        seen.append(rng.integers(1 << 30))
        return {"a": (10 * x[0, 0] + y[0, 0], None)}

    found = [space.grid(measure) for _ in range(2)]
    assert found[0] == {
        "row": "trained",
        "a": {"pairs": [[2.0, 3.0], [12.0, 13.0]], "without": None},
    }
    assert seen[:4] == seen[4:] and len(set(seen)) == 4


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_white_latents_are_white_and_share_what_they_are_told_to(share):
    x, y = spaces.white(20_000, 6, share, np.random.default_rng(0))
    for z in (x, y):
        np.testing.assert_allclose(np.cov(z.T), np.eye(6), atol=0.04)
    np.testing.assert_allclose(x.T @ y / len(x), np.sqrt(share) * np.eye(6), atol=0.04)


def test_many_wrong_pairs_shrink_w_and_change_nothing_else():
    """R2 = R0 - eps^2 R0; DSC, NOS and kappa stay."""
    rng = np.random.default_rng(0)
    x, y = spaces.white(20_000, 4, 0.8, rng)
    test = spaces.white(400, 4, 0.8, rng)
    found = []
    for epsilon in (0.0, 0.3):
        partner = mismatched(rng.permutation(len(x)), epsilon)
        fitted = alignment.fit(x, y[partner])
        np.testing.assert_allclose(fitted.w, (1 - epsilon) * np.sqrt(0.8) * np.eye(4), atol=0.03)
        found.append(spaces.scores(fitted, *test))
    clean, wrong = found
    assert wrong["r2"] == pytest.approx(0.91 * clean["r2"], abs=0.01)
    assert wrong["dsc"] == pytest.approx(clean["dsc"], abs=0.01)
    assert wrong["nos@10"] == pytest.approx(clean["nos@10"], abs=0.02)
    assert clean["kappa"] < 1.05 and wrong["kappa"] < 1.1


def test_kappa_leaves_out_what_a_layer_norm_makes_singular():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)) * [3, 1, 1, 0.1, 1]
    x -= x.mean(axis=1, keepdims=True)  # the sum of features is zero, as behind a LayerNorm
    y = x @ rng.normal(size=(5, 5)) + 0.1 * rng.normal(size=(300, 5))
    y -= y.mean(axis=1, keepdims=True)
    fitted = alignment.fit(x, y)
    values = np.linalg.svd(fitted.w, compute_uv=False)
    assert values[-1] < 1e-8 * values[0]
    assert spaces.scores(fitted, x, y)["kappa"] == pytest.approx(values[0] / values[-2])


def test_kappa_is_averaged_as_a_ratio_and_the_rest_as_it_is():
    row = {"method": "a", "r2": {"pairs": [[0.5, 0.7]]}, "kappa": {"pairs": [[10.0, 1000.0]]}}
    assert spaces.mean([row], "r2", method="a") == pytest.approx(0.6)
    assert spaces.mean([row], "kappa", method="a") == pytest.approx(100)


def test_scores_of_draws_are_averaged():
    draws = iter([{"a": 1.0, "b": 4.0}, {"a": 2.0, "b": 6.0}])
    assert spaces.averaged(lambda: next(draws), 2) == {"a": (1.5, None), "b": (5.0, None)}
