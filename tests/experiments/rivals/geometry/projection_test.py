"""Matched states in a plane: distances by hand, rotations, and the claims on made rows."""

import itertools

import numpy as np
import pytest

from experiments import figures
from experiments.rivals.geometry import projection
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.records import RowName
from tests.experiments.rivals.tables.made import cell

SPLIT = Split("instance", np.arange(150), np.arange(150, 200))


def test_ratio_by_hand():
    x, y = np.random.default_rng(0).normal(size=(2, 6, 3))
    distance = {(i, j): np.linalg.norm(x[i] - y[j]) for i in range(6) for j in range(6)}
    matched = np.mean([distance[i, i] for i in range(6)])
    others = np.mean([distance[pair] for pair in itertools.permutations(range(6), 2)])
    assert projection.ratio(x, y) == pytest.approx(matched / others)
    assert projection.ratio(x, x) == 0


def test_a_plane_holds_the_leading_components_of_both():
    x, y = np.random.default_rng(1).normal(size=(2, 200, 5)) * [5, 3, 1, 1, 1] + 2
    both = np.concatenate([x[:150], y[:150]])
    axes = np.linalg.svd(both - both.mean(0), full_matrices=False)[2][:2]
    for found, z in zip(projection.plane(SPLIT, x, y), (x, y)):
        expected = (z[150:] - both.mean(0)) @ axes.T
        signs = np.sign((found * expected).sum(0))
        np.testing.assert_allclose(found * signs, expected, atol=1e-9)


def test_w_brings_turned_states_together_and_wrong_pairs_do_not():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 4))
    y = x @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    found = projection.ratios(SPLIT, x, y, RowName.TRAINED)
    assert found["all_after"] < 1e-3 and found["plane_after"] < 1e-3
    assert found["all_before"] > 0.5
    assert set(found) == set(projection.MEASURES)
    wrong = projection.ratios(SPLIT, x, y, RowName.MISMATCHED)
    assert wrong["all_after"] == pytest.approx(1, abs=0.1)
    assert wrong["all_before"] == pytest.approx(found["all_before"])


def made(change=None, wrong=1.0, untrained=0.35):
    rows = []
    for name in projection.NAMES:
        own = {"plane_before": 1.0, "plane_after": 0.3, "all_before": 1.0, "all_after": 0.5}
        own |= {"all_after": 0.6} if name in projection.HIGH else {}
        own |= (change or {}).get(name, {})
        after = dict(zip(projection.KINDS, (own["plane_after"], untrained, wrong)))
        rows += [
            {"method": name, "row": row,
             **{k: cell(v) for k, v in {**own, "plane_after": value}.items()}}
            for row, value in after.items()
        ]  # fmt: skip
    return rows


def judged(rows):
    return {claim.id: claim.agrees for claim in projection.claims(rows)}


def test_claims_hold_where_the_rows_say_so():
    found = judged(made())
    assert found == dict.fromkeys(found, True) and len(found) == 6


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({"change": {"mae": {"plane_after": 0.75, "all_after": 0.9}, "simclr": {"all_after": 1.0},
                     "lejepa": {"all_after": 1.0}}}, "paper/closer"),
        ({"change": {"simclr": {"plane_before": 0.7}}}, "before"),
        ({"untrained": 0.45}, "untrained"),
        ({"wrong": 0.85}, "wrong"),
        ({"change": {"simclr": {"plane_after": 0.55}}}, "flatters"),
        ({"change": {"mae": {"all_after": 0.65}}}, "rank"),
    ],
)  # fmt: skip
def test_each_claim_fails_where_the_rows_say_so(arguments, changed):
    assert [id for id, agrees in judged(made(**arguments)).items() if not agrees] == [changed]


def test_a_row_of_the_table_for_each_kind():
    rows = projection.table(made()).rows
    assert [row.label for row in rows[:3]] == ["ijepa", "ijepa, untrained", "ijepa, wrong pairs"]
    assert rows[0].cells["plane_after"].value == pytest.approx(0.3)
    assert len(rows) == 12


def test_a_line_for_each_pair_in_every_panel():
    x, y = np.random.default_rng(0).normal(size=(2, 7, 2))
    panel = figures.Matched("a", x, y)
    groups = np.arange(7) % 2
    figure = figures.matched_panels([[panel] * 2], groups, ["p", "q"], names=("x", "y"))
    for axes in figure.axes:
        segments = axes.collections[0].get_segments()
        np.testing.assert_allclose(segments, np.stack([x, y], axis=1))
