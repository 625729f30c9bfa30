"""The comparison of paradigms: its claims and tables on rows whose values are known."""

import json
import pathlib
import types
from unittest.mock import Mock

import numpy as np
import pytest

from experiments.rivals.tables import paradigms
from experiments.rivals.tables.entrants import ENTRANTS, REFERENCES, RIVALS
from experiments.rivals.tables.paradigms import PIXELS
from experiments.rivals.tables.paradigms_claims import ABOVE
from socialjepa_jax.report import tables
from tests.experiments.rivals.tables.made import R2, cell, made


def judged(rows):
    return {claim.id: claim for claim in paradigms.claims(rows)}


def test_claims_hold_where_the_rows_say_so():
    found = judged(made())
    assert {id: claim.agrees for id, claim in found.items()} == dict.fromkeys(found, True)
    assert len(found) == 12
    assert found["paper/order"].ours == pytest.approx(0.1)
    assert found["paper/moco"].ours == pytest.approx(0.05)
    assert found["labels"].ours == pytest.approx(0.4)
    assert found["masks"].ours == pytest.approx(-0.1)
    assert found["tuning"].ours == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"mae": {"r2": 0.91, "rankme": 0.9}}, "paper/order"),
        ({"autoencoder": {"r2": 0.71, "rankme": 2.9}}, "paper/order"),
        ({"moco": {"r2": 0.89, "rankme": 1.05}}, "paper/moco"),
        ({name: {"rankme": 5.0 + 10 * R2[name]} for name in RIVALS}, "rank"),
        ({"vicreg": {"area": 0.25, "published": 0.25}}, "area"),
        ({"dino": {"untrained": 0.6}}, "gain"),
        ({"swav": {"dimensions": 21.0}}, "pixels"),
        ({"dinov2": {"probe_transferred": 0.46}}, "carried"),
        ({"supervised": {"probe_own": 0.45}}, "labels"),
        ({"vicreg_masked": {"probe_own": 0.55}}, "masks"),
        ({"ibot": {"published": 0.15}}, "tuning"),
    ],
)
def test_each_claim_fails_where_the_rows_say_so(change, claim):
    assert [id for id, found in judged(made(change)).items() if not found.agrees] == [claim]


def test_training_adds_beyond_the_shared_factors_only_if_its_interval_is_above_0():
    rows = made()
    untrained = paradigms.row_of(rows, "ijepa", "untrained")
    untrained["r2_beyond"] = cell(0.4)
    assert judged(rows)["beyond"].agrees is False
    assert judged(rows)["beyond"].ours == pytest.approx(0.1)


def test_equal_work_is_the_last_checkpoint_within_the_cheapest_run():
    rows = made({"simclr": {"flops": 1.6}, "moco": {"flops": 3.0}, "swav": {"flops": 2.0}})
    steps = {name: paradigms.at_equal_work(rows, name)["step"] for name in RIVALS}
    assert steps == dict.fromkeys(RIVALS, 300) | {"simclr": 100, "moco": 100, "swav": 100}
    work = paradigms.work_table(rows)
    assert {row.label: row.cells["step"] for row in work.rows} == steps
    order = [row.cells["area"] for row in work.rows]
    assert order == sorted(order, reverse=True)
    # With the costs the other way around, the order of areas at equal work turns.
    turned = {name: {"flops": 3.0} for name in ABOVE}
    assert judged(made(turned))["work"].agrees is False


def test_tables_have_every_method_and_rank_rivals_alone():
    rows = made()
    table = paradigms.main_table(rows)
    assert [row.label for row in table.rows][-4:] == [*REFERENCES, PIXELS]
    assert {row.label for row in table.rows} == {*ENTRANTS, PIXELS}
    assert {row.label for row in table.rows if row.ranked} == set(RIVALS)
    cells = {row.label: row.cells for row in table.rows}
    assert cells["mae"]["r2"].value == pytest.approx(0.8)
    assert cells[PIXELS]["area"] == 20.0
    others = {row.label: row.cells for row in paradigms.controls_table(rows).rows}
    assert others["mae"]["area"].value == pytest.approx(0.301 - 0.2)
    assert (others["mae"]["trial"], others["mae"]["published"]) == (2, pytest.approx(0.251))
    for one in (table, paradigms.controls_table(rows), paradigms.work_table(rows)):
        assert "mae" in tables.to_markdown(one)
    ticks = paradigms.bars(rows).figure.axes[0].get_xticklabels()
    assert [tick.get_text() for tick in ticks] == [row.label for row in table.rows][:-1]


def test_a_checkpoint_has_the_measures_of_all_pairs(monkeypatch):
    rng = np.random.default_rng(0)
    split = types.SimpleNamespace(train=np.arange(60), test=np.arange(60, 90))
    dataset = types.SimpleNamespace(labels=np.arange(90) % 3, label_names=("a", "b", "c"))
    world = types.SimpleNamespace(split=split, dataset=dataset)
    shared = rng.normal(size=(90, 3))
    latents = np.stack([shared @ rng.normal(size=(3, 5)) + 0.1 * rng.normal(size=(90, 5))
                        for _ in range(8)])[None].astype(np.float32)  # fmt: skip
    found = types.SimpleNamespace(
        latents=latents, losses=np.full((1, 8), np.nan), steps=np.array([7])
    )
    row = paradigms.checkpoint(world, found, 0)
    assert row["step"] == 7 and row["loss"] == [None] * 6
    x, y = latents[0, 1].astype(float), latents[0, 5].astype(float)
    centred = (x[:60] - x[:60].mean(0), y[:60] - y[:60].mean(0))
    weights = np.linalg.lstsq(*centred, rcond=None)[0]
    test = y[60:] - y[60:].mean(0)
    spread = y[:60].std(0)
    error = (y[60:] - y[:60].mean(0) - (x[60:] - x[:60].mean(0)) @ weights) / spread
    assert row["r2"][1][2] == pytest.approx(1 - (error**2).sum() / ((test / spread) ** 2).sum(),
                                            abs=1e-3)  # fmt: skip
    assert np.shape(row["area"]) == (3, 3) and len(row["probe_own"]) == 6


GOLDEN = pathlib.Path(__file__).parents[4] / "tests" / "golden" / "rivals" / "paradigms"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_measured_rows_agree_with_each_other(path):
    """The last checkpoint is the trained agent, the first the untrained one; the best trial won."""
    rows = json.loads(path.read_text("utf-8"))
    if path.stem == "pixel_PCA":
        assert [row["row"] for row in rows] == ["pixel_pca"]
        return
    points = [row for row in rows if row["row"] == "checkpoint"]
    for point, kind in ((points[0], "untrained"), (points[-1], "trained")):
        whole = paradigms.row_of(rows, path.stem, kind)
        for measure in ("r2", "area", "dsc", "nos@10"):
            np.testing.assert_allclose(
                point[measure], whole[measure]["pairs"], rtol=2e-3, atol=2e-4
            )
    trials = [row for row in rows if row["row"] == "trial"]
    best = max(trials, key=lambda row: row["accuracy"])
    assert paradigms.row_of(rows, path.stem, "cost")["chosen"] == best["trial"]


def test_rows_that_are_kept_need_no_agents(tmp_path, monkeypatch):
    rows, trained = made(), []
    kept = tmp_path / paradigms.FOLDER
    kept.mkdir()
    for name in (PIXELS, *ENTRANTS):
        if name != "dino":
            of = [row for row in rows if row["method"] == name]
            (kept / f"cpu_{name.replace(' ', '_')}.json").write_text(json.dumps(of))
    monkeypatch.setattr(paradigms.World, "trained", lambda world, name: trained.append(name))
    monkeypatch.setattr(paradigms, "of_method", lambda world, name: [{"row": "measured"}])
    found = paradigms.measured("cpu", tmp_path)
    assert trained == ["dino"]
    assert [row for row in found if row["method"] == "dino"] == [
        {"method": "dino", "row": "measured"}
    ]
    assert [row for row in found if row["method"] != "dino"] == [
        row for row in rows if row["method"] != "dino"
    ]


def test_missing_methods_run_side_by_side_the_longest_first(tmp_path, monkeypatch):
    calls = []

    def run(make, names, at, cache):
        calls.append((names, at, cache))
        for name in names:
            make(name)

    of = {name: [row for row in made() if row["method"] == name] for name in (PIXELS, *ENTRANTS)}
    monkeypatch.setattr(paradigms.side_by_side, "cores", lambda: [3, 5])
    monkeypatch.setattr(paradigms.side_by_side, "run", run)
    monkeypatch.setattr(paradigms.World, "experiment", lambda *given: Mock())
    monkeypatch.setattr(paradigms, "of_method", lambda world, name: of[name])
    found = paradigms.measured("cpu", tmp_path)
    assert found == [row for name in (PIXELS, *ENTRANTS) for row in of[name]]
    ((names, at, cache),) = calls
    assert names[:2] == ["dinov2", "ibot"] and sorted(names) == sorted([PIXELS, *ENTRANTS])
    assert (at, cache) == ([3, 5], tmp_path / "cache" / "xla")
    assert paradigms.measured("cpu", tmp_path) == found and len(calls) == 1  # all are kept
    assert set(paradigms.LONGEST) < set(ENTRANTS)


def test_untrained_agents_are_measured_once_for_all_that_begin_alike(tmp_path, monkeypatch):
    """Rows are those of each method measured by itself; other latents are measured again."""
    world, measured = paradigms.World("cpu", tmp_path), []
    grid = {"area": {"pairs": [[0.1]], "without": None}}
    monkeypatch.setattr(paradigms, "all_pairs", lambda world, z: measured.append(z) or grid)
    monkeypatch.setattr(paradigms, "checkpoint", lambda *given: {"row": "checkpoint", "step": 0})
    z = np.ones((2, 3, 4), np.float32)
    first, again, other = (types.SimpleNamespace(untrained=u) for u in (z, z.copy(), 2 * z))
    rows = paradigms.untrained(world, first)
    assert rows == [{"row": "untrained", **grid}, {"row": "checkpoint", "step": 0}]
    assert paradigms.untrained(world, again) == rows and len(measured) == 1
    assert paradigms.untrained(world, other) == rows and len(measured) == 2
