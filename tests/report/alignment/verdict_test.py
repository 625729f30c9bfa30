"""The sentences of a study's verdict: what must be true of its numbers for each of them."""

import html
from types import SimpleNamespace

import numpy as np
import pytest

from socialjepa_jax.alignment.permutation import Null
from socialjepa_jax.alignment.resampling import Interval
from socialjepa_jax.report.alignment.verdict import is_related, verdict

NEAR_ZERO = Interval(-0.002, 0.003)


def study(r2=0.8, low=0.7, high=0.9, null=(0.0, 0.1, -0.2), difference=NEAR_ZERO, **changes):
    samples = {"r2": np.repeat(null, 10)}
    parts = {
        "metrics": {back: {"r2": r2, "dsc": 0.5} for back in ("forward", "regression", "inverse")}
        | {"none": {"dsc": 0.25}},
        "intervals": {"forward": {"r2": Interval(low, high)}},
        "null": Null({"r2": r2}, samples),
        "searches": {
            "x -> y, forward": SimpleNamespace(scores={"recall@1": 0.31, "recall@10": 0.62})
        },
        "num_test": 200,
        "differences": {back: {"dsc": difference} for back in ("forward", "regression", "inverse")},
        "linear_map": SimpleNamespace(
            kappa_effective=10.0, kappa=10.0, used_pinv=False, rank=3, singular_values=np.ones(3)
        ),
        "references": {
            "without the worst tenth of the pairs (robust)": SimpleNamespace(difference=NEAR_ZERO),
            "this map + a small MLP": SimpleNamespace(difference=NEAR_ZERO, r2=0.9),
        },
        "novelty_scores": np.linspace(0, 1, 100, endpoint=False),
    }
    return SimpleNamespace(**(parts | changes))


def words(*args, **kwargs):
    return html.unescape(str(verdict(study(*args, **kwargs), ("A", "B"))))


@pytest.mark.parametrize(
    "numbers, related",
    [
        ({"low": 0.7, "null": (0.0, 0.6)}, True),
        ({"low": 0.7, "null": (0.0, 0.75)}, False),  # a shuffled fit is as good as the interval
        ({"low": -0.1, "null": (-0.5, -0.4)}, False),
        ({"low": 0.05, "high": 0.1, "r2": 0.07, "null": (-0.5, -0.4)}, True),
    ],
)
def test_spaces_are_related_above_zero_and_above_every_shuffled_fit(numbers, related):
    assert is_related(study(**numbers)) == related
    assert ("A linear map carries" in words(**numbers)) == related


@pytest.mark.parametrize(
    "numbers, begins",
    [
        ({"r2": 0.5, "low": 0.4}, "A linear map carries A over to B"),
        ({"r2": 0.49, "low": 0.4}, "A linear map carries a part of A over to B"),
        ({"r2": 0.2, "low": -0.1, "null": (0.0, 0.1)}, "There is at most a weak linear relation"),
        ({"r2": 0.05, "low": -0.1, "null": (0.0, 0.1)}, "No linear relation between A and B"),
        ({"r2": 0.2, "low": -0.3, "high": -0.1}, "No linear relation between A and B"),
    ],
)
def test_the_first_sentence_is_no_stronger_than_its_numbers(numbers, begins):
    assert begins in words(**numbers)


@pytest.mark.parametrize(
    "low, high, says",
    [
        (0.1, 0.2, "By W x: 0.50, better by 0.10 to 0.20"),
        (-0.2, -0.1, "By W x: 0.50, worse by 0.10 to 0.20"),
        (-0.1, 0.2, "By W x: 0.50, no clear difference"),
        (0.001, 0.004, "By W x: 0.50, no clear difference"),
    ],
)
def test_distances_are_better_or_worse_only_beyond_their_interval(low, high, says):
    assert says in words(difference=Interval(low, high))


def test_search_and_chance():
    expected = "in 31 % of cases and among the first 10 in 62 % (by chance 0.5 % and 5.0 %)"
    assert expected in words()


def test_warnings_are_given_where_they_are_due_alone():
    assert not any(word in words() for word in ("Inverse:", "Pairs:", "Not all is linear", "Unfam"))
    ill = SimpleNamespace(
        kappa_effective=2e3, kappa=2e3, used_pinv=False, rank=3, singular_values=np.ones(3)
    )
    assert "Inverse: W is badly conditioned (condition number 2000, 3 of 3" in words(linear_map=ill)
    better = SimpleNamespace(difference=Interval(0.02, 0.04), r2=0.9)
    both = {name: better for name in study().references}
    said = words(references=both, novelty_scores=np.full(100, 0.995))
    assert "raises R² by 0.02 or more" in said and "a small MLP on top raises R² to 0.90" in said
    assert "Unfamiliar items: 100%" in said
