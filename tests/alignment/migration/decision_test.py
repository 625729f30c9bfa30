"""The decision: every outcome from the numbers that must lead to it."""

from types import SimpleNamespace

import numpy as np
import pytest

from socialjepa_jax.alignment.migration import decision
from socialjepa_jax.alignment.migration.ceilings import Ceilings, Retrieval
from socialjepa_jax.alignment.migration.decision import Decision
from socialjepa_jax.alignment.permutation import Null
from socialjepa_jax.alignment.resampling import UNKNOWN, Interval
from socialjepa_jax.errors import InputError

KEPT, SURE = Interval(0.8, 0.95), Interval(1.0, 1.3)


def ceilings(
    gain=UNKNOWN, kept=KEPT, names=("x_in_x", "y_in_y", "y_back_in_x"), old=KEPT, full=0.5
):
    ways = {name: Retrieval(name, {"recall@1": full}, {}, 0.9, kept) for name in names}
    if "x_in_x" in ways:
        ways["x_in_x"] = Retrieval("x_in_x", {"recall@1": 0.5}, {}, 1.0, old)
    return Ceilings(ways, 0.0, gain, 100, 0, 1000)


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (None, "measure with queries"),
        (ceilings(names=("x_in_x",)), "measure with queries"),
        (ceilings(gain=Interval(-0.01, 0.03), old=Interval(0.9, 1.1)), "keep"),
        (ceilings(gain=Interval(-0.3, -0.1), kept=Interval(0.1, 0.2), old=SURE), "keep"),
        (ceilings(gain=Interval(-0.1, 0.4), old=Interval(0.5, 1.2)), "measure with queries"),
        (ceilings(gain=Interval(-0.1, 0.1), old=SURE, full=0.0), "measure with queries"),
        (ceilings(gain=Interval(0.01, 0.3)), "measure with queries"),
        (ceilings(gain=Interval(0.01, 0.3), kept=Interval(0.9, 0.95)), "bridge"),
        (ceilings(gain=Interval(0.01, 0.3), kept=Interval(0.7, 0.89)), "re-embed"),
        (ceilings(kept=Interval(0.9, 0.95)), "bridge"),  # only queries of y
        (ceilings(kept=Interval(0.7, 0.9)), "measure with queries"),
        (ceilings(kept=Interval(0.85, 0.99)), "measure with queries"),
        (ceilings(kept=UNKNOWN), "measure with queries"),
    ],
)
def test_search(found, answer):
    assert decision.decide_search(found, 0.9) == answer


def test_the_share_that_must_be_kept_can_be_set():
    found = ceilings()
    assert decision.decide_search(found, 0.8) == "bridge"
    assert decision.decide_search(found, 0.96) == "re-embed"


def probes(own, carried, frequent=0.5):
    scores = {"own": own, "regression": carried, "frequent": frequent, "oracle": 0.9}
    return {name: {"logistic": value, "ridge": 0.0} for name, value in scores.items()}


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        ({}, "no labels"),
        (probes(0.604, 0.606), "carry"),
        (probes(0.9, 0.87), "carry"),  # .37 of .40
        (probes(0.9, 0.85), "do not carry"),  # .35 of .40
        (probes(0.5, 0.6), "do not carry"),  # it is worth nothing on x
    ],
)
def test_classifiers(found, answer):
    assert decision.decide_classifiers(found, 0.9) == answer


def curve(values):
    return [
        {"pairs": pairs, "repeat": r, "r2": r2 + shift}
        for pairs, r2 in values.items()
        for r, shift in enumerate((-0.1, 0.1))
    ]


@pytest.mark.parametrize(
    ("values", "fewer", "rise", "doubling", "answer"),
    [
        ({50: 0.1, 100: 0.5, 200: 0.53}, 100, 0.03, 0.03, "get more"),
        ({50: 0.1, 100: 0.5, 200: 0.51}, 100, 0.01, 0.01, "enough"),
        ({50: 0.1, 100: 0.5, 400: 0.53}, 100, 0.03, 0.015, "enough"),
        ({100: 0.4, 200: 0.5, 210: 0.5}, 100, 0.1, 0.1 / np.log2(2.1), "get more"),
        ({100: 0.4}, 100, 0.0, 0.0, "enough"),
    ],
)
def test_pairs(values, fewer, rise, doubling, answer):
    found = decision.growth(curve(values))
    assert (found.fewer, found.pairs) == (fewer, max(values))
    assert (found.rise, found.doubling) == (pytest.approx(rise), pytest.approx(doubling))
    assert decision.decide_pairs(curve(values)) == answer


def study(low=0.7, null=(0.1, 0.2), **changes):
    calm = {"recall@1": 1.0, "r2_raw": 0.8}
    parts = {
        "null": Null({"r2": 0.8}, {"r2": np.asarray(null, float)}),
        "intervals": {"forward": {"r2": UNKNOWN if low is None else Interval(low, 0.9)}},
        "metrics": {"forward": {"r2": 0.8, "r2_raw": 0.82}},
        "budget": curve({100: 0.8, 200: 0.8}),
        "linear_map": SimpleNamespace(
            n_train=200, w=np.zeros((3, 4)), x_scale=np.ones(4), y_scale=np.ones(3),
            kappa_effective=10.0, used_pinv=False, rank=3, singular_values=np.ones(3),
        ),
        "faint": {"x": np.array([], int), "y": np.array([], int)},
        "storage": {"as given": calm, "float16": calm, "int8": calm},
        "references": {
            "without the worst tenth of the pairs (robust)": SimpleNamespace(
                difference=Interval(-0.1, 0.1)
            )
        },
        "novelty_scores": {name: np.linspace(0, 1, 100, endpoint=False) for name in "xy"},
        "ceilings": None,
        "settings": SimpleNamespace(retention=0.9),
        "num_resampled": 100,
    }  # fmt: skip
    return SimpleNamespace(**(parts | changes))


@pytest.mark.parametrize(
    ("low", "null", "related"),
    [
        (0.7, (0.0, 0.6), True),
        (0.7, (0.0, 0.75), False),  # a shuffled fit is as good as the interval
        (-0.1, (-0.5, -0.4), False),
        (0.05, (-0.5, -0.4), True),
        (0.7, (), "not tested"),
        (None, (0.0, 0.75), True),  # without draws by the value, 0.8
        (None, (0.0, 0.85), False),
    ],
)
def test_related(low, null, related):
    assert decision.is_related(study(low, null)) == related


def test_a_sound_study_has_no_warnings():
    assert decision.decide(study(), {}) == Decision(
        "measure with queries", "not known", "no labels", "enough", True, ()
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metrics": {"forward": {"r2": 0.23, "r2_raw": 0.99}}}, "R² is 0.99 in raw units of y"),
        ({"faint": {"x": np.array([2]), "y": np.array([])}}, "1 of 4 features of x vary by less"),
        (
            {"storage": {copy: {"recall@1": 1.0} for copy in ("as given", "int8")}
             | {"float16": {"recall@1": 0.9}}},
            "Stored as float16, items of x find themselves first in 90 % of cases instead of 100",
        ),
        (
            {"references": {"without the worst tenth of the pairs (robust)": SimpleNamespace(
                difference=Interval(0.02, 0.1))}},
            "Leaving out the worst tenth of the pairs raises R² by 0.02 or more",
        ),
        (
            {"novelty_scores": {"x": np.zeros(9), "y": np.full(9, 0.995)}},
            "100% of the held-out items of y lie farther out",
        ),
    ],
)  # fmt: skip
def test_warnings(changes, says):
    (warning,) = decision.decide(study(**changes), {}).warnings
    assert says in warning


def test_a_copy_that_loses_a_few_items_is_not_said():
    storage = {copy: {"recall@1": 0.2} for copy in ("as given", "int8")}
    storage["float16"] = {"recall@1": 0.16}
    assert decision.decide(study(storage=storage), {}).warnings == ()


def test_few_pairs_are_named_with_what_their_curve_says():
    small = study().linear_map
    small.n_train, small.w = 160, np.zeros((3, 384))
    rising = study(linear_map=small, budget=curve({80: 0.5, 160: 0.6}))
    (warning,) = decision.decide(rising, {}).warnings
    assert warning == "160 pairs for 384 features and still rising: get more."
    (warning,) = decision.decide(study(linear_map=small), {}).warnings
    assert warning == "160 pairs for 384 features and R² no longer rises with more."


@pytest.mark.parametrize(
    ("gate", "answers"),
    [
        (
            "search",
            {"keep": True, "bridge": True, "re-embed": False, "measure with queries": False},
        ),
        ("bridge", {"yes": True, "no": False, "not known": False}),
        ("classifiers", {"carry": True, "do not carry": False, "no labels": False}),
        ("related", {True: True, False: False, "not tested": False}),
    ],
)
def test_gates(gate, answers):
    fields = {
        "search": "keep",
        "bridge": "yes",
        "classifiers": "carry",
        "pairs": "enough",
        "related": True,
    }
    for answer, passes in answers.items():
        found = Decision(**(fields | {gate: answer}), warnings=())
        assert found.passes(gate) == passes
    with pytest.raises(InputError, match="gate='pairs' must be one of"):
        Decision(**fields, warnings=()).passes("pairs")
