"""Made migrations: what their description promises."""

import numpy as np
import pytest

from experiments.bench import migrations
from socialjepa_jax import alignment


@pytest.mark.parametrize("seed", [0, 9])
def test_documents_and_queries_are_as_described(seed):
    made, again = migrations.make(seed), migrations.make(seed)
    np.testing.assert_array_equal(made.query_y, again.query_y)
    assert made.family == migrations.FAMILIES[seed % 5]
    widths = migrations.WIDTHS[seed % 2]
    assert (made.x.shape[1], made.y.shape[1]) == widths
    assert len(made.x) == len(made.y) == migrations.DOCUMENTS
    assert set(made.true_answers) <= set(made.answers) and not set(made.fitted) & set(made.answers)
    assert migrations.recall(made.y, made.y, np.arange(len(made.y))) == 1.0
    assert 0.1 < migrations.recall(made.query_y, made.y, made.answers) <= 1.0


def test_the_old_encoder_knows_its_share_of_the_new_one():
    """Ridge regression of y on x finds about the share of common features."""
    found = []
    for seed in (0, 10):  # shares .3 and .9, both linear
        made = migrations.make(seed)
        linear_map = alignment.fit(made.x[made.fitted], made.y[made.fitted], ridge=1.0)
        found.append(alignment.evaluate(linear_map, made.x[made.answers], made.y[made.answers]))
    low, high = (metrics["r2_raw"] for metrics in found)
    assert 0.25 < low < 0.65 < 0.85 < high


@pytest.mark.parametrize(
    ("gain", "retention", "answers"),
    [
        (0.01, 0.5, {"keep"}),
        (0.04, 0.5, {"keep", "re-embed"}),
        (0.3, 0.5, {"re-embed"}),
        (0.3, 0.86, {"re-embed", "measure with queries"}),
        (0.3, 0.92, {"bridge", "measure with queries"}),
        (0.3, 0.99, {"bridge"}),
    ],
)
def test_right_answers(gain, retention, answers):
    assert migrations.right_answers(gain, retention) == answers
