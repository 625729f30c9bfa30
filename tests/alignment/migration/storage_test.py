"""Maps whose input is stored in fewer bits, and features that rounding would drown."""

import warnings

import numpy as np
import pytest

from socialjepa_jax import alignment
from socialjepa_jax.alignment import moments
from socialjepa_jax.alignment.migration.storage import stored_copies
from tests.alignment.migration import cases
from tests.alignment.migration.cases import recall


@pytest.mark.parametrize("ridge", ["auto", 1e-3, 0.0])
def test_float16_keeps_the_recall_of_a_map_with_a_dead_feature(ridge):
    x, y = cases.dead_feature()
    with pytest.warns(UserWarning, match="x: 1 of 64 features vary by less than 0.0001 of the med"):
        linear_map = alignment.fit(x[:2400], y[:2400], ridge=ridge)
    found = stored_copies(linear_map, x[:2400], x[2400:], y[2400:], "cosine")
    assert found["as given"]["recall@1"] == 1.0
    assert found["float16"]["recall@1"] >= 0.95
    stored = x[2400:].astype(np.float16).astype(np.float64)
    again = recall(linear_map.forward(stored), y[2400:].astype(np.float64), np.arange(600))
    assert found["float16"]["recall@1"] == pytest.approx(again)
    low, high = x[:2400].min(0).astype(float), x[:2400].max(0).astype(float)
    levels = np.clip(np.round((x[2400:] - low) * 255 / (high - low)), 0, 255)
    again = recall(linear_map.forward(low + levels * (high - low) / 255), y[2400:], np.arange(600))
    assert found["int8"]["recall@1"] == pytest.approx(again)


def test_copies_that_lose_are_seen():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)) + 3e4  # float16 has steps of 16 there
    y = (x - 3e4) @ rng.normal(size=(3, 3))
    found = stored_copies(alignment.fit(x[:100], y[:100]), x[:100], x[100:], y[100:], "l2")
    assert found["as given"]["r2_raw"] > 0.99 > 0.9 > found["float16"]["r2_raw"]
    assert found["float16"]["recall@1"] < 0.1 and found["int8"]["recall@1"] > 0.5


def test_scales_of_faint_features_are_raised_to_the_median():
    deviation = np.array([2.0, 1.0, 0.9e-4, 1.1e-4, 0.0, 4.0])
    scale = moments.nonzero_scales(deviation, np.zeros(6))
    np.testing.assert_array_equal(scale, [2.0, 1.0, 1.0, 1.1e-4, 1.0, 4.0])
    constant, faint = moments.weak_features(deviation, np.zeros(6))
    np.testing.assert_array_equal(np.flatnonzero(constant), [4])
    np.testing.assert_array_equal(np.flatnonzero(faint), [2])
    np.testing.assert_array_equal(moments.nonzero_scales(np.zeros(2), np.ones(2)), 1.0)


def test_units_of_the_file_decide_what_a_map_is_worth():
    x, y = cases.units()
    linear_map = alignment.fit(x[:2400], y[:2400], ridge="auto")
    found = stored_copies(linear_map, x[:2400], x[2400:], y[2400:], "cosine")
    assert found["as given"]["recall@1"] == 1.0
    assert found["as given"]["r2_raw"] == pytest.approx(0.990, abs=5e-4)
    assert alignment.r2(linear_map, x[2400:], y[2400:]) == pytest.approx(0.23, abs=5e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # features of 1/50 of the others are not faint
        alignment.fit(x, y)
