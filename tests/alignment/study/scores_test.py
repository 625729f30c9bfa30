"""Measures that their size determines are left out."""

import numpy as np
import pytest

from socialjepa_jax.alignment.study.scores import MapFreeScores, space_scores, telling

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("rows", "widths", "left_out"),
    [
        (200, (16, 16), set()),
        (40, (32, 16), set()),
        (34, (32, 16), {"r2_whitened", "pwcca"}),
        (30, (32, 8), {"r2_whitened", "pwcca"}),
        (30, (64, 64), {"r2_whitened", "pwcca"}),
        (11, (3, 3), {"mutual_knn@10"}),
        (12, (3, 3), set()),
    ],
)
def test_what_unrelated_spaces_would_score_too_is_left_out(rows, widths, left_out):
    """The expected whitened R2 of random subspaces of P and Q dimensions is max(P, Q) / (N - 1)."""
    related = RNG.normal(size=(rows, max(widths)))
    scores = MapFreeScores(*(related[:, :width] for width in widths))
    found = scores.without_news(seed=0)
    assert set(found) - {"svcca"} == left_out
    expected = min(max(widths), rows - 1) / (rows - 1)
    assert (expected >= 0.95) == ("r2_whitened" in found)
    if "r2_whitened" in found:
        assert found["r2_whitened"] == pytest.approx(expected, abs=0.03)


def test_neighbours_that_nearly_all_rows_are_tell_nothing():
    metrics = {"nos@5": 0.1, "nos@10": 0.0, "nos_expected@10": 0.0, "dsc": 1.0, "dsc_bound": 0.0}
    assert telling(metrics, 11).keys() == {"nos@5", "dsc", "dsc_bound"}
    assert telling(metrics, 12) == metrics == telling(metrics, 1000)
    for rows in (11, 12):
        a = RNG.normal(size=(rows, 3))
        scores = space_scores(a, RNG.permutation(a))
        assert ("nos@10" in scores) == (rows > 11) and scores["cka_debiased"] < 1
