"""W of pairs of which a share is wrong, and of white latents."""

import numpy as np
import pytest

from experiments.rivals.stress import spaces, wrong_pairs
from socialjepa_jax import alignment


def test_a_fit_has_wrong_pairs_and_the_refit_leaves_them_out():
    rng = np.random.default_rng(0)
    train, test = (spaces.white(n, 3, 0.95, rng) for n in (600, 200))
    score = {
        condition: wrong_pairs.noisy(train, test, *condition, np.random.default_rng(1))["r2"][0]
        for condition in wrong_pairs.conditions()
    }
    clean = alignment.r2(alignment.fit(*train), *test)
    assert score[0.0, "all"] == pytest.approx(clean, abs=1e-6)
    assert score[0.3, "all"] == pytest.approx(0.91 * clean, abs=0.03)
    assert score[0.3, "trimmed"] > 0.5 * (clean + score[0.3, "all"])


def test_white_latents_have_the_r2_that_they_are_given():
    rows = wrong_pairs.of_white(500, 400, 3, 0.7)
    assert [(row["epsilon"], row["fit"]) for row in rows] == wrong_pairs.conditions()
    assert rows[0]["r2"]["pairs"][0][0] == pytest.approx(0.7, abs=0.05)
