"""What the theory predicts: its claims on rows whose values are known."""

import numpy as np
import pytest

from experiments.rivals.predictions import theory
from experiments.rivals.predictions.environments import (
    MOVING,
    SAME,
    SHUFFLED,
    TOYS_ELSEWHERE,
    UNTRAINED,
)
from experiments.rivals.tables.entrants import RIVALS
from tests.experiments.rivals.tables.made import cell

STEPS = (0, 10, 20, 30, 40, 50, 60, 70, 80)
FALLING = tuple(1 - step / 100 for step in STEPS[1:])
DEVIATIONS = np.array([[0.0, 0.01, 0.02], [0.01, 0.02, 0.03], [0.02, 0.03, 0.04]])


def checkpoints(name, k, loss=FALLING, within=-1.0, kappa=0.0, spread=1.0, **slopes):
    """Rows of a method whose measures move with the step; the least loss has the best pair."""
    rows = []
    for number, step in enumerate(STEPS):
        level = None if number == 0 else loss[number - 1]
        agents = None if level is None else [level + 0.001 * (each % 3) for each in range(6)]
        own = {m: slopes.get(m, slope) * step / 200 for m, slope in
               {"r2": 1.0, "area": 1.0, "dsc": 1.0, "nos@10": -1.0}.items()}  # fmt: skip
        grids = {m: (0.5 + value + within * 0.1 * DEVIATIONS * spread + 0.001 * k).tolist()
                 for m, value in own.items()}  # fmt: skip
        powers = 3 - 0.01 * k + spread * DEVIATIONS + kappa
        rows.append({"part": "checkpoint", "method": name, "step": step,
                     "loss": agents or [None] * 6, **grids,
                     "kappa": (10**powers).tolist()})  # fmt: skip
    return rows


AREA = {SAME: 0.5, UNTRAINED: 0.2, SHUFFLED: 0.0, TOYS_ELSEWHERE: 0.49, MOVING: 0.3,
        "patches in a fresh order": 0.3, "pixels in a fresh order": 0.2}  # fmt: skip
KAPPA = dict.fromkeys(AREA, 100.0) | {SHUFFLED: 300.0}


def table(change=None, area=AREA, kappa=KAPPA):
    """Rows on which every claim holds, but for the change of some methods."""
    rows = []
    for k, name in enumerate(RIVALS):
        rows += checkpoints(name, k, **{"spread": 1 + k, **(change or {}).get(name, {})})
    for name, value in area.items():
        own = {m: cell(value) for m in ("area", "r2", "dsc", "nos@10", "rankme")}
        rows.append({"part": "environment", "environment": name, **own,
                     "kappa": {"pairs": [[kappa[name]] * 3] * 3, "without": None}})  # fmt: skip
    return rows


def judged(rows):
    return {claim.id: claim for claim in theory.claims(rows)}


def failed(rows):
    return [id for id, each in judged(rows).items() if each.agrees is False]


def test_claims_hold_where_the_rows_say_so():
    found = judged(table())
    assert len(found) == 20
    assert failed(table()) == []
    assert [id for id, each in found.items() if each.agrees is None] == ["stable/paper"]
    assert found["loss/r2"].ours == 12 and found["loss/ijepa"].ours == pytest.approx(-1)
    assert found["within"].ours == pytest.approx(-1, abs=0.01)
    assert found["environment/a moving toy"].ours == pytest.approx(0.2)
    assert found["elsewhere/a moving toy"].ours == pytest.approx(0.1)
    assert found["kappa/shuffled"].ours == pytest.approx(3)
    assert found["kappa/methods"].ours < -0.9


THREE = list(RIVALS)[-3:]  # those of the least R2 and area
RISING = tuple(reversed(FALLING))


@pytest.mark.parametrize(
    ("rows", "claims"),
    [
        (table({name: {"r2": -1.0} for name in THREE}), ["loss/r2"]),
        (table({name: {"dsc": -1.0} for name in THREE}), ["loss/dsc"]),
        (table({name: {"nos@10": 1.0} for name in THREE}), ["loss/nos"]),
        (table({"ijepa": {"r2": -1.0}}), ["loss/ijepa"]),
        (table({name: {"within": 1.0, "kappa": -0.1 * k} for k, name in enumerate(RIVALS)}),
         ["within"]),
        (table({"ijepa": {"spread": 20}}), ["stable/r2", "stable/kappa"]),
        (table({name: {"kappa": -0.1 * k} for k, name in enumerate(RIVALS)}),
         ["kappa/methods", "kappa/area"]),
        (table(kappa=KAPPA | {SHUFFLED: 190.0}), ["kappa/shuffled"]),
        (table(area=AREA | {MOVING: 0.5}), ["environment/a moving toy"]),
        (table(area=AREA | {TOYS_ELSEWHERE: 0.44}), ["environment/other toys"]),
        (table(area=AREA | {MOVING: 0.2}), ["elsewhere/a moving toy"]),
        (table(area=AREA | {"pixels in a fresh order": 0.25}),
         ["elsewhere/pixels in a fresh order"]),
    ],
)  # fmt: skip
def test_each_claim_fails_where_the_rows_say_so(rows, claims):
    assert failed(rows) == claims


def test_the_step_explains_less_where_the_loss_turns_with_the_area():
    """An area that falls and rises with the loss, and is not monotone in the step."""
    loss = (0.9, 0.5, 0.8, 0.4, 0.7, 0.3, 0.6, 0.2)
    rows = table({name: {"loss": loss, "area": 0.0} for name in RIVALS})
    for row in rows:
        if row.get("step"):
            level = 1 - loss[STEPS.index(row["step"]) - 1] + 0.1 * DEVIATIONS
            level -= 0.001 * list(RIVALS).index(row["method"])
            row["area"] = (level - 0.2 * DEVIATIONS).tolist()
    assert "time" in failed(rows) and judged(rows)["time"].ours == 0
    assert theory.with_loss(rows, "ijepa", "area") == pytest.approx(-1)


def test_tables_have_every_method_and_environment():
    rows = table()
    found = {row.label: row.cells for row in theory.methods_table(rows).rows}
    assert list(found) == list(RIVALS)
    assert found["ijepa"]["r2"] == pytest.approx(-1)
    assert found["ijepa"]["nos@10"] == pytest.approx(1)
    found = {row.label: row.cells for row in theory.environments_table(rows).rows}
    assert list(found) == list(AREA)
    assert found[SAME]["lost"] is None
    assert found[MOVING]["lost"].value == pytest.approx(0.2)
    assert found[SHUFFLED]["kappa"] == 300
    assert len(theory.plot(rows).figure.axes[0].get_lines()) == len(RIVALS)
