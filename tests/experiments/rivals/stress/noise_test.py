"""Wrong pairs: the claims on rows whose means are known, the table and the figure."""

import functools

import numpy as np
import pytest

from experiments.rivals.stress import noise, wrong_pairs
from experiments.rivals.tables.entrants import RIVALS
from socialjepa_jax.report import tables

R2 = {name: 0.5 + 0.03 * k for k, name in enumerate(RIVALS)}
PAPER_SIZE = {  # pairs -> R2 and kappa at eps 0, .1 and .3
    1350: ((0.89, 0.80, 0.60), (2.0, 8.0, 700.0)),
    2160: ((0.89, 0.84, 0.70), (1.6, 4.0, 15.0)),
    20_000: ((0.89, 0.88, 0.80), (1.1, 1.3, 1.7)),
}


def cell(value):
    return {"pairs": [[value]], "without": None}


def rows_of(name, r2, grown=3.0, left=0.91, back=0.98, dsc=(0.8, 0.75), nos=(0.5, 0.55)):
    """Trained agents and white latents of a method, whose kappa grows by half of `grown`."""
    rows = []
    for row, factor in (("trained", grown), ("white", grown / 2)):
        for epsilon, fit in wrong_pairs.conditions():
            share = {0.0: 1.0, 0.1: 0.99, 0.3: left}[epsilon] if fit == "all" else back
            at = int(epsilon == 0.3)
            rows.append({
                "method": name, "row": row, "epsilon": epsilon, "fit": fit, "r2": cell(r2 * share),
                "dsc": cell(dsc[at]), "nos@10": cell(nos[at]),
                "kappa": cell(1e3 * (factor if at else 1.0)),
            })  # fmt: skip
    return rows


def made(change=None, of_pairs=PAPER_SIZE):
    rows = []
    for name in RIVALS:
        rows += rows_of(name, **{"r2": R2[name], **(change or {}).get(name, {})})
    for pairs, (r2, kappa) in of_pairs.items():
        rows += [
            {"method": "white", "row": "white", "epsilon": e, "fit": "all", "pairs": pairs,
             "r2": cell(r2[k]), "kappa": cell(kappa[k])}
            for k, e in enumerate(noise.NOISES)
        ]  # fmt: skip
    return rows


def judged(rows):
    return {claim.id: claim for claim in noise.claims(rows)}


@functools.cache
def usual():
    return judged(made())


def test_predictions_hold_where_the_rows_say_so_and_the_papers_numbers_do_not():
    found = judged(made())
    paper = {"paper/r2", "paper/dsc", "paper/nos", "paper/kappa"}
    assert {id: claim.agrees for id, claim in found.items()} == {
        id: id not in paper for id in found
    }
    assert len(found) == 12
    assert found["paper/r2"].ours == pytest.approx(0.91)
    assert found["paper/r2"].paper == 0.777 and found["paper/dsc"].paper == -0.344
    assert found["paper/nos"].ours == pytest.approx(0.05)
    assert found["above white"].ours == pytest.approx(2.0)
    assert found["trimmed"].ours == pytest.approx((0.98 - 0.91) / 0.09)


@pytest.mark.parametrize(
    ("change", "claim", "agrees"),
    [
        ({"mae": {"left": 0.8}}, "theory", False),
        ({"ijepa": {"left": 0.75}}, "paper/r2", True),
        ({"ijepa": {"dsc": (0.8, 0.5)}}, "paper/dsc", True),
        ({"ijepa": {"nos": (0.3, 0.6)}}, "paper/nos", True),
        ({"ijepa": {"grown": 60.0}}, "paper/kappa", True),
        ({"swav": {"grown": 11.0}}, "growth", False),
        ({"vicreg": {"left": 0.1}}, "order", False),
        ({"ijepa": {"back": 0.94}}, "trimmed", False),
    ],
)
def test_each_claim_turns_where_the_rows_say_so(change, claim, agrees):
    assert usual()[claim].agrees is not agrees
    assert judged(made(change))[claim].agrees is agrees


def test_kappa_of_white_latents_may_grow_more():
    rows = made()
    for row in rows:
        if row["method"] == "ijepa" and row["row"] == "white" and row["epsilon"] == 0.3:
            row["kappa"] = cell(4e3)
    assert judged(rows)["above white"].agrees is False


@pytest.mark.parametrize(
    ("pairs", "values", "claim"),
    [
        (2160, ((0.89, 0.81, 0.70), (1.6, 4.0, 15.0)), "size/r2"),
        (2160, ((0.89, 0.84, 0.69), (1.6, 4.0, 15.0)), "size/r2"),
        (1350, ((0.89, 0.80, 0.60), (2.0, 8.0, 130.0)), "size/kappa"),
        (20_000, ((0.89, 0.88, 0.80), (1.1, 1.3, 2.1)), "size/large"),
    ],
)
def test_the_papers_numbers_lie_between_those_of_few_white_pairs_or_not(pairs, values, claim):
    found = judged(made(of_pairs={**PAPER_SIZE, pairs: values}))
    assert [id for id in found if id.startswith("size") and not found[id].agrees] == [claim]


def test_one_method_and_one_size_have_the_claims_that_they_can_have():
    rows = [row for row in made() if row["method"] == "ijepa"]
    assert len(judged(rows)) == 8


def test_the_table_has_every_method_and_the_paper():
    cells = {row.label: row.cells for row in noise.table(made()).rows}
    assert set(cells) == {*RIVALS, "Social-JEPA, smallNORB"}
    assert cells["mae"]["r2/0.3"] == pytest.approx(0.91 * R2["mae"])
    assert cells["mae"]["refit"] == pytest.approx(0.98 * R2["mae"])
    assert (cells["mae"]["growth"], cells["mae"]["white"]) == (
        pytest.approx(3.0), pytest.approx(1.5),
    )  # fmt: skip
    assert cells["Social-JEPA, smallNORB"]["kappa"] == 1.68
    assert "20,000 pairs" in tables.to_markdown(noise.sizes(made()))
    lines = noise.plot(made()).figure.axes[0].get_lines()
    ours = {line.get_label(): line.get_ydata() for line in lines}
    np.testing.assert_allclose(ours["mae"], [1, 0.99, 0.91])
    assert ours["paper"][-1] == pytest.approx(0.692 / 0.891)
