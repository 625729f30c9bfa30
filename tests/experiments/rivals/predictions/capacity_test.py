"""Agents of unlike widths: the runs, the claims and the table on rows whose values are known."""

import itertools
import types

import numpy as np
import pytest

from experiments.rivals.methods import METHODS, VIT
from experiments.rivals.predictions import capacity
from experiments.rivals.predictions.capacity import WIDTHS
from experiments.rivals.tables.trained import World
from socialjepa_jax.alignment import fit, r2
from socialjepa_jax.config import from_config_dict, to_config_dict
from socialjepa_jax.evaluation.splits import Split
from tests.experiments.rivals.tables.made import cell

NARROW, MIDDLE, WIDE = WIDTHS
R2 = {
    (NARROW, NARROW): 0.90, (MIDDLE, MIDDLE): 0.88, (WIDE, WIDE): 0.86,
    (NARROW, MIDDLE): 0.85, (MIDDLE, NARROW): 0.89, (NARROW, WIDE): 0.80, (WIDE, NARROW): 0.88,
    (MIDDLE, WIDE): 0.84, (WIDE, MIDDLE): 0.89,
}  # fmt: skip
AREA = dict.fromkeys(R2, 0.4)


def table(r2=R2, area=AREA, cut=None, gain=0.1):
    """Rows of all widths; untrained agents have the area of trained ones less the gain."""
    rows = []
    for way in itertools.product(WIDTHS, repeat=2):
        for row, less in (("untrained", gain), ("trained", 0.0)):
            own = {"r2": r2[way] - less, "area": area[way] - less, "dsc": 0.7, "nos@10": 0.6,
                   "rankme": 9.0, "kappa": 1e4, "r2_cut": (cut or r2)[way]}  # fmt: skip
            made = {name: cell(value) for name, value in own.items()}
            rows.append({"from": way[0], "to": way[1], "row": row, **made})
    return rows


def judged(rows):
    return {claim.id: claim for claim in capacity.claims(rows)}


def test_claims_hold_where_the_rows_say_so():
    found = judged(table())
    assert len(found) == 12
    verdicts = {id: claim.agrees for id, claim in found.items()}
    assert verdicts == {id: None if id.startswith("paper/") else True for id in found}
    assert found["falls"].ours == pytest.approx(0.88 - 0.84)
    assert "0.020" in found["falls"].note and "0.149" in found["small"].note
    assert found[f"direction/{NARROW}-{WIDE}"].ours == pytest.approx(0.08)
    assert found["paper/ViT-S/16 ↔ ViT-B/16"].ours == pytest.approx(0.87)
    assert found["paper/ViT-S/16 ↔ ViT-L/16"].paper == 0.742


@pytest.mark.parametrize(
    ("change", "claims"),
    [
        ({"r2": {**R2, (NARROW, MIDDLE): 0.80}}, ["falls"]),
        ({"r2": {**R2, (NARROW, WIDE): 0.67}}, ["small"]),
        ({"r2": {**R2, (WIDE, MIDDLE): 0.84}}, [f"direction/{MIDDLE}-{WIDE}"]),
        ({"area": {**AREA, (NARROW, WIDE): 0.3}}, ["equal"]),
        ({"cut": {**R2, (WIDE, NARROW): 0.9}}, ["head"]),
    ],
)
def test_each_claim_fails_where_the_rows_say_so(change, claims):
    found = judged(table(**change))
    assert [id for id, each in found.items() if each.agrees is False] == claims


def test_training_adds_only_if_the_interval_is_above_0():
    found = judged(table(gain=0.0))
    failed = [id for id, each in found.items() if each.agrees is False]
    assert failed == [f"adds/{a}-{b}" for a, b in capacity.UNLIKE]


def test_a_cut_is_that_to_the_targets_width():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 6)) * [9, 8, 1, 1, 1, 1]
    y = x[:, :3] + 0.1 * rng.normal(size=(90, 3))
    split = Split("instance", np.arange(60), np.arange(60, 90))
    dataset = types.SimpleNamespace(instance_ids=np.arange(90) // 3)
    world = types.SimpleNamespace(split=split, dataset=dataset)
    wide, narrow = capacity.pair(world, x, y), capacity.pair(world, y, x)
    whole = r2(fit(x[:60], y[:60]), x[60:], y[60:])
    assert wide["r2"][0] == pytest.approx(whole, abs=1e-6)
    assert wide["r2_cut"][0] < whole - 0.1  # the third feature lies in components that are cut
    assert narrow["r2_cut"][0] == pytest.approx(narrow["r2"][0], abs=1e-9)
    values = np.linalg.svd(fit(x[:60], y[:60]).w, compute_uv=False)
    assert wide["kappa"][0] == pytest.approx(values[0] / values[-2], rel=1e-6)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_width_changes_the_encoder_alone(width, tmp_path):
    world = World("cpu", tmp_path)
    chosen, own = capacity.experiment(world, width), world.experiment("ijepa", 12)
    assert from_config_dict(to_config_dict(chosen)) == chosen
    assert chosen.agents.seeds == own.agents.seeds[:6]
    assert (chosen.data, chosen.run, chosen.optim) == (own.data, own.run, own.optim)
    assert chosen.objective.vit.width == width
    if width == VIT.width:
        assert chosen.objective == METHODS["ijepa"].objective


def test_the_table_has_every_way():
    cells = {row.label: row.cells for row in capacity.table(table()).rows}
    assert len(cells) == 9
    assert cells[f"{NARROW} to {WIDE}"]["r2_cut"] is None
    assert cells[f"{WIDE} to {NARROW}"]["r2_cut"] == pytest.approx(0.88)
    assert cells[f"{WIDE} to {WIDE}"]["r2_untrained"].value == pytest.approx(0.76)
    assert len(capacity.plot(table()).figure.axes[0].get_xticklabels()) == 9
