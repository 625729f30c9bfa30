"""The structure ablation: its cells, its claims on rows whose means are known, one small run."""

import dataclasses
import itertools

import numpy as np
import pytest

from experiments import findings
from experiments.rivals import methods, structure
from socialjepa_jax.alignment import matched_rank
from socialjepa_jax.config import from_config_dict, to_config_dict
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.report import tables
from tests.experiments.rivals import stored

R2 = {
    "as it is": 0.90, "inside patches": 0.85, "patches, fixed": 0.80, "pixels, fixed": 0.60,
    "patches, fresh": 0.50, "pixels, fresh": 0.30,
}  # fmt: skip
AREA = {cell: 0.05 if cell == "pixels, fresh" else 0.5 for cell in R2}


def table(r2=R2, area=AREA, gain=0.1, fresh_gain=0.0, moved=0.0):
    """Three pairs, .01 apart; untrained agents have the area less the gain."""
    rows = []
    for cell, pair in itertools.product(R2, range(3)):
        added = fresh_gain if cell == "pixels, fresh" else gain
        own = {"trained": area[cell], "untrained": area[cell] - added, "pixel_pca": 0.3}
        for row, value in own.items():
            of_w = 0.6 + moved * (cell == "pixels, fixed") if row == "pixel_pca" else r2[cell]
            rows.append({
                "cell": cell, "row": row, "pair": pair, "r2": of_w + 0.01 * (pair - 1),
                "area": value + 0.001 * (pair - 1) * (row == "trained"), "dimensions": 9,
                "by_rank": [value] * structure.RANKS,
            })  # fmt: skip
    return rows


def judged(rows):
    return {claim.id: claim for claim in structure.claims(rows)}


def test_claims_hold_where_the_rows_say_so():
    found = judged(table())
    assert {id: claim.agrees for id, claim in found.items()} == dict.fromkeys(found, True)
    assert len(found) == 7
    assert found["inside"].ours == pytest.approx(-0.05)
    assert found["fixed"].ours == pytest.approx(0.2)
    assert found["fresh"].ours == pytest.approx(0.2)  # the lesser of .4 and .2
    assert found["training adds/as it is"].ours == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"r2": {**R2, "inside patches": 0.79}}, "inside"),
        ({"r2": {**R2, "inside patches": 1.01}}, "inside"),
        ({"moved": 0.01}, "components"),
        ({"r2": {**R2, "pixels, fixed": 0.81}}, "fixed"),
        ({"r2": {**R2, "pixels, fresh": 0.51}}, "fresh"),
        ({"r2": {**R2, "as it is": 0.49, "inside patches": 0.5}}, "fresh"),
        ({"area": {**AREA, "pixels, fresh": 0.11}}, "histogram"),
        ({"gain": 0.0}, "training adds/as it is"),
        ({"fresh_gain": 0.02}, "training adds/pixels, fresh"),
    ],
)
def test_each_claim_fails_where_the_rows_say_so(change, claim):
    found = judged(table(**change))
    assert found[claim].agrees is False
    assert [id for id, other in found.items() if not other.agrees] == [claim]


@pytest.mark.parametrize("name", structure.CELLS)
def test_a_cell_is_a_run_of_its_own_order(name):
    chosen = methods.experiment(structure.METHOD, 50)
    chosen = dataclasses.replace(chosen, shuffle=structure.CELLS[name])
    assert from_config_dict(to_config_dict(chosen)) == chosen


def test_scores_are_those_of_the_held_out_rows():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(80, 6)) for _ in range(2))
    split = Split("instance", np.arange(50), np.arange(50, 80))
    found = structure.scores(x, y, split)
    expected = matched_rank(x[:50], y[:50], x[50:], y[50:], ranks=structure.RANKS)
    assert found["area"] == expected.area and found["dimensions"] == expected.dimensions
    assert found["by_rank"] == expected.r2.tolist()


@pytest.mark.nightly
def test_a_cell_is_trained_and_shown(tmp_path, monkeypatch):
    cells = {name: structure.CELLS[name] for name in ("as it is", "pixels, fixed")}
    monkeypatch.setattr(structure, "CELLS", cells)
    rows = [row for name in cells for row in structure._kept("smoke", name, tmp_path)]
    of = {(r["cell"], r["row"], r["pair"]): r for r in rows}
    assert len(of) == len(rows) == 2 * 3 * 2
    for pair in range(2):  # invariance (iii), on rendered toys
        fixed, whole = (of[cell, "pixel_pca", pair]["r2"] for cell in ("pixels, fixed", "as it is"))
        assert fixed == pytest.approx(whole, abs=1e-4)
        ours, theirs = (of[cell, "trained", pair]["r2"] for cell in cells)
        assert abs(ours - theirs) > 1e-3


STORED = stored.run("table1_structure")
ROWS = STORED["rows"]
PAGE, TEXT = stored.page("structure")
HEAD = stored.in_one_line(structure.__doc__)
FRESH = ("as it is", "patches, fresh", "pixels, fresh")


def mean(cell, measure="r2", row="trained"):
    return float(np.mean(findings.values(ROWS, measure, cell=cell, row=row)))


def test_stored_claims_are_judged_again():
    found = structure.claims(ROWS)
    stored.check_claims(found, STORED["claims"], abs=1e-4, rel=1e-6)
    agree = sum(bool(claim.agrees) for claim in found)
    assert f"{agree} of {len(found)} claims agree." in HEAD
    assert f"{agree} of {len(found)} predictions agree." in TEXT


def test_the_page_has_the_table_of_the_rows():
    assert tables.to_markdown(structure.table(ROWS)) in PAGE


def test_sentences_of_page_and_head_state_the_rows():
    trained = [f"{mean(cell):.3f}" for cell in FRESH]
    fresh = [f"{mean(cell, row='untrained'):.3f}" for cell in FRESH]
    areas = [f"{mean(cell, 'area'):.3f}" for cell in FRESH]
    gains = {claim.id: claim for claim in structure.claims(ROWS)}
    sentences = [
        "{} as it is, {} with shuffled patches and {} with shuffled pixels".format(*trained),
        "lose as much ({}, {}, {})".format(*fresh),
        f"in {mean('pixels, fresh', 'dimensions'):.0f} canonical directions of {structure.RANKS}",
        "(area {}, {}, {})".format(*areas),
        f"of shuffled pixels ({gains['training adds/pixels, fresh'].ours:.3f})",
        f"it adds {gains['training adds/as it is'].ours:.3f}, \N{MINUS SIGN}0.013 to 0.069",
        f"loses {mean('as it is') - mean('pixels, fixed'):.3f} of R²".replace("0.", "."),
        f"({mean('pixels, fixed', 'dimensions'):.1f} for {mean('as it is', 'dimensions'):.1f})",
    ]
    for sentence in sentences:
        assert sentence in TEXT
    assert "-0.013 to 0.069" in gains["training adds/as it is"].note
    assert gains["components"].ours < 1e-8 and "more than 1e-8" in TEXT
    assert [claim.agrees for id, claim in gains.items() if id.startswith("training")] == [False] * 2
    r2 = (
        "{} as it is, {} with patches and {} with pixels in a fresh order, of untrained agents {}, "
        "{} and {}"
    )
    for sentence in (r2.format(*trained, *fresh), f"an area of {areas[2]}"):
        assert sentence.replace("0.", ".") in HEAD
