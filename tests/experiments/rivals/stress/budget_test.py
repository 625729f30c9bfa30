"""Pairs that W needs: draws of whole objects, interpolation, and claims on rows that are known."""

import functools

import numpy as np
import pytest

from experiments.rivals.stress import budget
from experiments.rivals.stress.budget import RANDOM, WHOLE
from experiments.rivals.tables.entrants import RIVALS
from socialjepa_jax.report import tables

SIZES = (54, 108, 216, 432, 1080, 2160, 4320)


def test_whole_objects_are_drawn_one_after_the_other():
    objects = np.repeat([7, 3, 9, 5], 6)
    order = budget.drawn(objects, True, np.random.default_rng(0))
    assert sorted(order) == list(range(24))
    blocks = objects[order].reshape(4, 6)
    assert (blocks == blocks[:, :1]).all()
    orders = {tuple(objects[budget.drawn(objects, True, np.random.default_rng(k))][::6])
              for k in range(9)}  # fmt: skip
    assert len(orders) > 3
    scattered = objects[budget.drawn(objects, False, np.random.default_rng(0))].reshape(4, 6)
    assert (scattered != scattered[:, :1]).any(axis=1).all()


def test_needed_is_where_r2_stays_above_its_share():
    assert budget.needed({10: 0.2, 100: 1.0}) == pytest.approx(10 ** (1 + 0.75 / 0.8))
    assert budget.needed({10: 0.96, 20: 0.2, 40: 0.95, 80: 1.0}) == pytest.approx(40)
    assert budget.needed({10: 0.97, 20: 1.0}) == 10


def cell(value):
    return {"pairs": [[value, value], [value, value]], "without": None}


def rows_of(name, k, kind="trained", at=None, whole=None, kappa=(10.0, 100.0), nos=0.0, white=0.9):
    """R2 of 1 from 108 pairs on at random, from 432 and more on by objects."""
    rows = [{"method": name, "row": "rankme", "rankme": 5.0 + k}]
    random = {25: 0.5, 54: 0.2} | (at or {})
    objects = {54: 0.1, 108: 0.2, 216: 0.3} | {432: 0.5 + 0.01 * (11 - k)} | (whole or {})
    for draw, row, found in ((RANDOM, kind, random), (RANDOM, "white", {25: 0.1, 54: white}),
                             (WHOLE, kind, objects)):  # fmt: skip
        for size in (25, *SIZES) if draw == RANDOM else SIZES:
            values = {"r2": found.get(size, 0.96 + 1e-6 * size), "nos@10": 0.7 - 1e-5 * size + nos,
                      "kappa": kappa[0] if size == 25 else kappa[1]}  # fmt: skip
            if size == 4320:
                values["nos@10"] -= 2 * nos
            rows.append({"method": name, "row": row, "draw": draw, "size": size,
                         **{key: cell(value) for key, value in values.items()}})  # fmt: skip
    return rows


def made(change=None):
    rows = [row for k, name in enumerate(RIVALS)
            for row in rows_of(name, k, **(change or {}).get(name, {}))]  # fmt: skip
    return rows + rows_of("pixel PCA", 0, "pixel_pca")


def judged(rows):
    return {claim.id: claim for claim in budget.claims(rows)}


@functools.cache
def usual():
    return judged(made())


def test_predictions_hold_where_the_rows_say_so():
    found = judged(made())
    assert {id: claim.agrees for id, claim in found.items()} == {
        id: id != "paper/kappa" for id in found
    }
    assert len(found) == 8
    assert found["paper/kappa"].ours == pytest.approx(0.1)
    assert found["peak"].ours == pytest.approx(-0.3)


@pytest.mark.parametrize(
    ("change", "claim", "agrees"),
    [
        ({"ijepa": {"whole": {1080: 0.4}}}, "paper/r2", False),
        ({"ijepa": {"nos": -0.1}}, "paper/nos", False),
        ({"ijepa": {"kappa": (200.0, 100.0)}}, "paper/kappa", True),
        ({"ijepa": {"at": {54: 0.6}}}, "peak", False),
        ({"dino": {"at": {432: 0.5}}}, "white", False),
        ({"ijepa": {"whole": {s: 0.97 for s in SIZES[1:]}}}, "objects", False),
        ({"vicreg": {"whole": {2160: 0.5}}}, "few", False),
    ],
)
def test_each_claim_turns_where_the_rows_say_so(change, claim, agrees):
    assert usual()[claim].agrees is not agrees
    assert judged(made(change))[claim].agrees is agrees


def test_methods_of_low_rank_may_need_as_many_pairs():
    rows = made()
    for row in rows:
        if row["row"] == "rankme":
            row["rankme"] = -row["rankme"]
    assert judged(rows)["rank"].agrees is False


def test_white_latents_follow_the_formula_of_least_squares():
    """The error of N pairs of D features is D / (N - D - 1) of the unexplained variance."""
    found = budget.of_white(60, 8000, 8, 0.9)
    assert found["r2"]["pairs"][0][0] == pytest.approx(0.9 - 0.1 * 8 / 51, abs=0.01)
    assert (found["row"], found["size"], "nos@10" in found) == ("white", 60, False)


def test_the_table_and_the_figure_have_every_method():
    table = budget.table(made())
    cells = {row.label: row.cells for row in table.rows}
    assert set(cells) == {*RIVALS, "pixel PCA"}
    assert cells["mae"]["r2/108"] == pytest.approx(0.2)
    assert cells["mae"][RANDOM] == pytest.approx(budget.pairs_needed(made(), "mae", RANDOM))
    assert "pairs for 95 %" in tables.to_markdown(table)
    axes = budget.plot(made()).figure.axes[0]
    assert len(axes.get_lines()) == len(RIVALS) + 3
