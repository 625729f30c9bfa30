"""Spread over seeds and NOS at several k: estimators, and claims on rows that are known."""

import functools
import itertools

import numpy as np
import pytest
from scipy import stats

from experiments.rivals.stress import stability
from experiments.rivals.tables.entrants import RIVALS
from socialjepa_jax.report import tables

ENDS = tuple(stability.BACKS.values())


def test_the_spread_is_that_of_runs_without_a_common_agent():
    """The mean variance over the six ways to choose three such pairs of nine."""
    values = np.random.default_rng(0).normal(size=(3, 3))
    ways = [values[range(3), order] for order in itertools.permutations(range(3))]
    expected = np.sqrt(np.mean([way.var(ddof=1) for way in ways]))
    assert stability.spread(values.tolist()) == pytest.approx(expected)


def test_the_spread_is_unbiased_for_pairs_of_random_agents():
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(size=(3, 4000, 3, 3)) * np.array([0.5, 0.3, 0.2])[:, None, None, None]
    pairs = a[:, :, :1] + b[:, :1] + c
    found = np.mean([stability.spread(one) ** 2 for one in pairs[:1500]])
    assert found == pytest.approx(0.25 + 0.09 + 0.04, rel=0.08)


def test_the_interval_of_a_deviation_is_that_of_two_degrees_of_freedom():
    ends = np.sqrt(2 / stats.chi2.ppf([0.975, 0.025], 2))
    np.testing.assert_allclose(stability.OF_TWO, ends, rtol=2e-3)


def grid(value, spread):
    """Pairs whose `spread` is the given one."""
    return {"pairs": (value + spread * np.array([-1, 0, 1.0])[:, None] * np.ones(3)).tolist(),
            "without": None}  # fmt: skip


def row_of(name, kind, r2, spread, nos=None, regression=0.4):
    falling = dict(zip(stability.KS, (0.8, 0.6, 0.5, 0.45, 0.4)))
    nos = {end: falling for end in ENDS} | (nos or {})
    cells = {key: grid(r2, spread) for key in stability.METRICS}
    for end in ENDS:
        less = {"": -0.1, "_no_map": 0.0, "_regression": 0.5 - regression}[end]
        cells |= {f"nos@{k}{end}": grid(v - less, spread) for k, v in nos[end].items()}
    return {"method": name, "row": kind, "tested": 1080, **cells}


def made(change=None):
    rows = [row_of("pixel PCA", "pixel_pca", 0.7, 0.0)]
    for k, name in enumerate(RIVALS):
        given = {"trained": 0.04 - 0.002 * k, "untrained": 0.05, "r2": 0.5 + 0.03 * k}
        given |= (change or {}).get(name, {})
        of = {key: given[key] for key in ("nos", "regression") if key in given}
        rows += [row_of(name, kind, given["r2"], given[kind], **of)
                 for kind in ("trained", "untrained")]  # fmt: skip
    return rows


def judged(rows, of=stability.seed_claims):
    return {claim.id: claim for claim in of(rows)}


@functools.cache
def usual(of):
    return judged(made(), of)


def test_predictions_on_spread_hold_where_the_rows_say_so():
    found = judged(made())
    assert {id: claim.agrees for id, claim in found.items()} == {
        "paper/size": False, "paper/predictive": False, "training": True, "level": True,
    }  # fmt: skip
    assert found["paper/size"].ours == pytest.approx(0.04)
    assert found["paper/predictive"].ours == len(RIVALS)


@pytest.mark.parametrize(
    ("change", "claim", "agrees"),
    [
        ({"ijepa": {"trained": 0.005}}, "paper/size", True),
        ({"ijepa": {"trained": 0.005}}, "paper/predictive", True),
        ({n: {"untrained": 0.001} for n in list(RIVALS)[:5]}, "training", False),
        ({n: {"r2": 0.5 - 0.03 * k} for k, n in enumerate(RIVALS)}, "level", False),
    ],
)
def test_each_claim_on_spread_turns_where_the_rows_say_so(change, claim, agrees):
    assert usual(stability.seed_claims)[claim].agrees is not agrees
    assert judged(made(change))[claim].agrees is agrees


RISING = dict(zip(stability.KS, (0.2, 0.3, 0.35, 0.4, 0.5)))


def test_predictions_on_nos_hold_where_the_rows_say_so():
    found = judged(made(), stability.nos_claims)
    assert {id: claim.agrees for id, claim in found.items()} == {
        id: id != "paper/rises" for id in ("paper/rises", "all", "chance", "map", "least")
    }
    assert found["paper/rises"].ours == pytest.approx(-0.4)
    assert found["paper/rises"].paper == 0.317


@pytest.mark.parametrize(
    ("change", "claim", "agrees"),
    [
        ({"ijepa": {"nos": {"": RISING}}}, "paper/rises", True),
        ({"ijepa": {"nos": {"": RISING}}}, "chance", False),
        ({"swav": {"nos": {"_no_map": RISING}}}, "all", False),
        ({"ijepa": {"regression": 0.55}}, "map", False),
        ({"moco": {"nos": {"_no_map": RISING}}}, "least", False),
    ],
)
def test_each_claim_on_nos_turns_where_the_rows_say_so(change, claim, agrees):
    assert usual(stability.nos_claims)[claim].agrees is not agrees
    assert judged(made(change), stability.nos_claims)[claim].agrees is agrees


def test_chance_is_the_nos_of_unrelated_spaces():
    np.testing.assert_allclose(stability.chance(made())[[0, 2]], [1 - 1 / 1079, 1 - 10 / 1079])


def test_tables_have_every_method_and_the_paper():
    table = stability.seed_table(made())
    cells = {row.label: row.cells for row in table.rows}
    assert table.rows[0].label == list(RIVALS)[-1]  # the least spread
    assert cells["ijepa"]["r2"] == "0.500 ± 0.0400"
    assert cells["ijepa"]["first"] == pytest.approx(0.04)
    assert cells["ijepa"]["second"] == pytest.approx(0)
    assert cells["Social-JEPA, smallNORB"]["r2"] == "0.891 ± 0.004"
    found = {row.label: row.cells for row in stability.nos_table(made()).rows}
    assert set(found) == {*RIVALS, "pixel PCA", "chance", "Social-JEPA, smallNORB"}
    assert found["mae"]["10"].value == pytest.approx(0.6)
    assert found["mae"]["10_regression"].value == pytest.approx(0.4)
    assert "k = 50, no map" in tables.to_markdown(stability.nos_table(made()))
    lines = {
        x.get_label(): x.get_ydata() for x in stability.plot(made()).figure.axes[0].get_lines()
    }
    np.testing.assert_allclose(lines["mae"], [0.8, 0.6, 0.5, 0.45, 0.4])
