"""The sentences of a study's verdict: what must be true of its numbers for each of them."""

# ruff: noqa: RUF001 (a true minus is meant)

import dataclasses
import html
from types import SimpleNamespace

import numpy as np
import pytest

from socialjepa_jax.alignment.migration.ceilings import Ceilings, Retrieval
from socialjepa_jax.alignment.migration.decision import Decision
from socialjepa_jax.alignment.migration.difficulty import Point
from socialjepa_jax.alignment.permutation import Null
from socialjepa_jax.alignment.resampling import UNKNOWN, Interval
from socialjepa_jax.report.alignment import verdict as verdict_page
from socialjepa_jax.report.alignment.verdict import distances, verdict

NEAR_ZERO = Interval(-0.002, 0.003)
PROBES = {
    name: {"logistic": value}
    for name, value in {"own": 0.604, "regression": 0.606, "oracle": 0.636, "frequent": 0.1}.items()
}
ASKED = {"search": "measure with queries", "bridge": "not known", "classifiers": "no labels",
         "pairs": "enough", "related": True, "warnings": ()}  # fmt: skip


def study(
    r2=0.8, low=0.7, high=0.9, null=(0.0, 0.1, -0.2), difference=NEAR_ZERO, raw=None, **changes
):
    backs = ("forward", "regression", "inverse")
    raw = r2 if raw is None else raw
    parts = {
        "metrics": {back: {"r2": r2, "r2_raw": raw, "dsc": 0.5} for back in backs}
        | {"none": {"dsc": 0.25}},
        "intervals": {"forward": {"r2": Interval(low, high)}},
        "null": Null({"r2": r2}, {"r2": np.repeat(null, 10)}),
        "differences": {back: {"dsc": difference} for back in backs},
        "linear_map": SimpleNamespace(n_train=1200),
        "split": SimpleNamespace(num_held_out=300),
        "budget": [{"pairs": 500, "r2": 0.5}, {"pairs": 1000, "r2": 0.513}],
        "overlap": {"y_back_in_x": SimpleNamespace(value=0.56, interval=Interval(0.54, 0.58))},
        "ceilings": None,
        "curve": [Point(0.5, 0.9, 0.8), Point(1.0, 0.7, 0.5), Point(1.5, 0.5, 0.4)],
        "settings": SimpleNamespace(retention=0.9),
    }
    return SimpleNamespace(**(parts | changes))


def words(*args, answers=None, probes=None, **kwargs):
    decision = Decision(**(ASKED | (answers or {})))
    found = verdict(study(*args, **kwargs), ("A", "B"), decision, probes or {})
    return html.unescape(str(found))


@pytest.mark.parametrize(
    "numbers, related, begins",
    [
        ({"r2": 0.5, "low": 0.4}, True, "A linear map carries A over to B"),
        ({"r2": 0.49, "low": 0.4}, True, "A linear map carries a part of A over to B"),
        ({"r2": 0.2, "raw": 0.6, "low": 0.1}, True, "A linear map carries A over to B"),
        ({"r2": 0.2, "low": -0.1, "null": (0.0, 0.1)}, False, "There is at most a weak linear"),
        ({"r2": 0.05, "low": -0.1, "null": (0.0, 0.1)}, False, "No linear relation between A and"),
        ({"r2": 0.2, "low": -0.3, "high": -0.1}, False, "No linear relation between A and B"),
        ({"null": ()}, "not tested", "On pairs it has not seen, a linear map of A explains 80 %"),
    ],
)
def test_the_first_sentence_is_no_stronger_than_its_numbers(numbers, related, begins):
    assert begins in words(answers={"related": related}, **numbers)


def test_units_are_said_where_they_matter():
    assert "99 % of the variance of B (with all features given equal weight: R² 0.23" in words(
        r2=0.23, raw=0.99, low=0.2, high=0.25
    )
    assert "equal weight" not in words()


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
    assert says in distances(study(difference=Interval(low, high)), Decision(**ASKED))


def test_unrelated_spaces_are_spared_their_distances():
    assert "Distances:" in distances(study(), Decision(**ASKED))
    assert not distances(study(), Decision(**ASKED | {"related": False}))


def searched(recall=(0.878, 0.868, 0.713)):
    kept = Interval(0.78, 0.86)
    names = ("x_in_x", "y_in_y", "y_back_in_x")
    ways = {
        name: Retrieval(name, {"recall@1": value}, {}, value / (recall[1] or np.nan), kept)
        for name, value in zip(names, recall)
    }
    return Ceilings(ways, recall[1] - recall[0], Interval(-0.038, 0.014), 600, 0, 3000)


@pytest.mark.parametrize(
    "answer, begins",
    [
        ("keep", "Yes, while queries are embedded as A is: full re-embedding is not clearly better "
                 "(−1.0 points, 95 % interval −3.8 to 1.4)."),
        ("bridge", "Yes, with queries of B mapped back."),
        ("re-embed", "No, embed the documents anew with B."),
        ("measure with queries", "Not known: measure more queries."),
    ],
)  # fmt: skip
def test_search_with_queries(answer, begins):
    said = words(answers={"search": answer}, ceilings=searched())
    assert begins in said
    found = (
        "First answers of 600 queries: by the index of A with its own queries 88 %, by the index "
        "of A with queries of B mapped back by the reverse regression 71 %, after full "
        "re-embedding 87 %. Mapped queries keep 82 % of that, 95 % interval 78 % to 86 %; the "
        "limit is 90 % (--retention): "
    )
    assert found in said
    for bridge, means in verdict_page._MAPPED.items():
        answers = {"search": answer, "bridge": bridge}
        assert f"{found}{means}." in words(answers=answers, ceilings=searched())
    some = searched()
    del some.ways["x_in_x"]
    said = words(answers={"search": answer if answer != "keep" else "bridge"}, ceilings=some)
    assert "First answers of 600 queries: by the index of A with queries of B" in said
    none = searched(recall=(0.0, 0.0, 0.0))
    said = words(answers={"search": "measure with queries"}, ceilings=none)
    assert "Not known: full re-embedding answers no query first." in said and "nan" not in said
    assert "Check --answers: ids of documents if the files have --ids_x" in said
    del some.ways["y_in_y"]
    assert "measure with queries (--queries_y too)." in words(ceilings=some)


@pytest.mark.parametrize(
    ("number", "says"), [(24, ", 31 at least, since intervals are ±3"), (31, ".")]
)
def test_few_queries_are_told_how_many_a_yes_needs(number, says):
    few = dataclasses.replace(searched(), number=number)
    said = words(answers={"search": "measure with queries"}, ceilings=few)
    assert f"Not known: measure more queries{says} " in said


def test_pairs_without_a_relation_are_not_called_enough():
    assert "Are there pairs enough?" in words()
    said = words(answers={"related": False, "pairs": "enough"})
    assert "Not known: no linear relation was found" in said and "Yes. From" not in said


def test_search_without_queries():
    said = words()
    assert "Not known: measure with queries (--queries_x, --queries_y, --answers)." in said
    assert (
        "of the 10 items nearest to an item of B, 56 % are among the 10 nearest in A when it is "
        "mapped back, 95 % interval 0.54 to 0.58."
    ) in said
    assert (
        "Of made queries that full re-embedding answers first in 80 % or 60 % of cases, mapped "
        "ones keep 65 % or 45 % of these answers;"
    ) in said  # halfway between the points of the curve, which does not reach 95 %
    assert "made queries" not in words(curve=[Point(0.5, 0.3, 0.2)])
    assert "nearest" not in words(overlap={})
    bare = SimpleNamespace(value=0.5, interval=UNKNOWN)
    after = words(overlap={"y_back_in_x": bare}).partition("when it is mapped back")[2]
    assert after.startswith(". Of made queries")


def test_classifiers():
    assert "Not known: give --labels." in words()
    said = words(answers={"classifiers": "carry"}, probes=PROBES)
    assert (
        "Yes. A logistic classifier of A is right on 60 % of the held-out items there, and on 61 % "
        "in B when it is carried by the reverse regression; one trained anew on B on 64 %, the "
        "most frequent class alone on 10 %. The limit is 90 % of what it gains on A"
    ) in said
    said = words(answers={"classifiers": "do not carry"}, probes=PROBES)
    assert "No. A logistic classifier of A" in said


def test_pairs():
    rose = "From 500 to 1,000 pairs R² rose by 0.013, 0.013 a doubling (the limit is 0.02)."
    assert f"Yes. {rose}" in words()
    said = words(answers={"pairs": "get more"})
    assert f"No, R² still rises with their number. {rose}" in said and "held out" not in said
    held = words(answers={"pairs": "get more"}, split=SimpleNamespace(num_held_out=2850))
    assert "2,850 pairs are held out: a smaller --test_fraction leaves more to fit." in held


def test_warnings_are_printed_where_there_are_any():
    assert "Warnings" not in words()
    said = words(answers={"warnings": ("First of all.", "Second.")})
    assert "Warnings" in said and "First of all." in said and "Second." in said
