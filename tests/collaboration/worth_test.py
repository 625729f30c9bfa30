"""Label-equivalents against curves whose answer is known, and draws against their promises."""

import numpy as np
import pytest

from socialjepa_jax.collaboration import worth
from socialjepa_jax.errors import InputError


def test_equivalents_lie_between_counts_on_a_logarithmic_scale():
    counts, scores = (1, 10, 100), np.array([0.2, 0.6, 0.8])
    assert worth.label_equivalents(counts, scores, 0.7) == pytest.approx(10**1.5)
    assert worth.label_equivalents(counts, scores, 0.6) == pytest.approx(10)
    assert worth.label_equivalents(counts, scores, 0.1) == pytest.approx(1)
    assert worth.label_equivalents(counts, scores, 0.81) == np.inf
    # A dip is no passage: 0.6 and 0.4 are fitted by 0.5.
    assert worth.label_equivalents((1, 10, 100), np.array([0.6, 0.4, 0.8]), 0.55) > 10


def test_classes_have_equal_numbers_of_labels_and_draws_differ():
    rows, classes = np.arange(100, 130), np.repeat([0, 1, 2], 10)
    seen = []

    def score(chosen):
        seen.append(np.sort(chosen))
        return float(len(chosen))

    found = worth.few_labels(score, rows, (1, 4, 10), classes=classes, draws=5)
    np.testing.assert_array_equal(found, [3, 12, 30])
    assert len(seen) == 5 + 5 + 1  # all rows are drawn once
    for chosen in seen:
        per_class = np.bincount(classes[chosen - 100], minlength=3)
        assert len(set(chosen)) == len(chosen) and (per_class == per_class[0]).all()
    assert len({tuple(chosen) for chosen in seen[5:10]}) > 1
    again = []
    worth.few_labels(
        lambda r: again.append(np.sort(r)) or 0.0, rows, (1,), classes=classes, draws=5
    )
    np.testing.assert_array_equal(again, seen[:5])


def test_continuous_labels_are_drawn_from_all_rows():
    found = worth.few_labels(lambda rows: float(len(set(rows))), np.arange(50), (5, 50), draws=3)
    np.testing.assert_array_equal(found, [5, 50])


def test_more_labels_than_there_are_is_refused():
    with pytest.raises(InputError, match=r"counts=\(1, 11\): there are only 10 labelled rows"):
        worth.few_labels(lambda rows: 0.0, np.arange(30), (1, 11), classes=np.repeat([0, 1, 2], 10))
    with pytest.raises(InputError, match="counts=0"):
        worth.few_labels(lambda rows: 0.0, np.arange(30), (0,))
