"""W under other conditions: the splits, the paired change, and claims on rows that are known."""

import numpy as np
import pytest

from experiments.rivals.stress import shift
from experiments.rivals.tables.entrants import RIVALS
from socialjepa_jax import alignment, evaluation
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.report import tables


@pytest.fixture(scope="module")
def world():
    """Eight objects under all conditions; the last three are held out."""
    factors = np.array(list(np.ndindex(2, 4, 9, 6)), np.int32)
    objects, count = factors[:, 0] * 4 + factors[:, 1], len(factors)
    dataset = ViewDataset(
        "made", np.zeros((2, count, 1, 1, 1), np.uint8), np.arange(count), objects, factors[:, 0],
        ("a", "b"), factors, ("category", "instance", "elevation", "lighting"),
        np.zeros(count, np.int32), (objects > 4).astype(np.int32), 0.0,
    )  # fmt: skip
    return dataset, evaluation.splits(dataset)[0]


@pytest.mark.parametrize("factor", shift.HALVES)
def test_fits_and_tests_are_of_their_halves_and_of_other_objects(world, factor):
    dataset, split = world
    levels = dataset.factors[:, dataset.factor_names.index(factor)]
    for k, domain in enumerate(("first", "second")):
        found = shift.splits(dataset, split, factor, domain)
        own, other = shift.HALVES[factor][k], shift.HALVES[factor][1 - k]
        for part, tested in ((found["in"], own), (found["out"], other)):
            assert set(levels[part.train]) == set(own)
            assert set(levels[part.test]) == set(tested)
            assert set(part.train) <= set(split.train) and set(part.test) <= set(split.test)
            assert len(part.test) == np.isin(levels[split.test], tested).sum()


def test_a_measure_is_the_mean_of_both_domains(world):
    dataset, split = world
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(dataset.num_states, 3))
    x, y = (shared @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(len(shared), 4))
            for _ in range(2))  # fmt: skip
    parts = [shift.splits(dataset, split, "lighting", d)["out"] for d in shift.DOMAINS[:2]]
    found = shift.both(dataset, parts, x, y)
    expected = [
        alignment.r2(alignment.fit(x[p.train], y[p.train]), x[p.test], y[p.test]) for p in parts
    ]
    assert found["r2"][0] == pytest.approx(np.mean(expected))
    assert len(found["r2"][1]) == len(np.unique(dataset.instance_ids[split.test]))
    assert found["dsc"][1] is None and found["nos@10"][1] is None


def cell(value, pairs=9):
    values = value + 0.001 * np.arange(9.0).reshape(3, 3) - 0.004
    values = values if pairs == 9 else np.full((1, 1), value)
    return {"pairs": values.tolist(), "without": [value, value + 1e-3]}


def rows_of(name, kinds):
    """Changes of R2 under other lightings and elevations by the kind of row."""
    rows = []
    for kind, changes in kinds.items():
        pairs = 1 if kind == "pixel_pca" else 9
        for (factor, change), where in [(c, w) for c in changes.items() for w in ("in", "out")]:
            moved = change if where == "out" else 0.0
            rows.append({
                "method": name, "row": kind, "factor": factor, "where": where,
                "r2": cell(0.9 + moved, pairs), "dsc": cell(0.8 + 0.5 * moved, pairs),
                "nos@10": cell(0.5 - 0.5 * moved, pairs),
            })  # fmt: skip
    return rows


def made(change=None, pixels=-0.3):
    rows = rows_of("pixel PCA", {"pixel_pca": {"lighting": pixels, "elevation": -0.4}})
    for name in RIVALS:
        jittered = name in shift.SPREADING
        kinds = {"trained": {"lighting": -0.03 if jittered else -0.06, "elevation": -0.08},
                 "untrained": {"lighting": -0.1, "elevation": -0.12}}  # fmt: skip
        for kind, moved in (change or {}).get(name, {}).items():
            kinds[kind] = {**kinds[kind], **moved}
        rows += rows_of(name, kinds)
    return rows


def judged(rows):
    return {claim.id: claim for claim in shift.claims(rows)}


def test_predictions_hold_where_the_rows_say_so():
    found = judged(made())
    assert {id: claim.agrees for id, claim in found.items()} == dict.fromkeys(found, True)
    assert len(found) == 8
    assert found["paper/lighting"].ours == pytest.approx(-0.06)
    assert found["paper/lighting"].paper == -0.047
    assert found["elevation"].ours == pytest.approx(-0.02)
    assert found["invariance"].ours == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"ijepa": {"trained": {"lighting": -0.01}}}, "paper/lighting"),
        ({"ijepa": {"trained": {"elevation": -0.05}}}, "elevation"),
        ({"dino": {"trained": {"elevation": 0.01}}}, "all fall"),
        ({"ijepa": {"untrained": {"lighting": -0.05}}}, "untrained/lighting"),
        ({n: {"untrained": {"elevation": -0.01}} for n in list(RIVALS)[3:8]}, "untrained/most"),
        ({"swav": {"trained": {"lighting": -0.31}}}, "pixels"),
        ({n: {"trained": {"lighting": -0.07}} for n in shift.SPREADING}, "invariance"),
    ],
)
def test_each_claim_fails_where_the_rows_say_so(change, claim):
    assert [id for id, found in judged(made(change)).items() if not found.agrees] == [claim]


def test_dsc_may_fall_more_than_the_papers():
    assert judged(made({"ijepa": {"trained": {"lighting": -0.2}}}))["dsc"].agrees is False


def test_changes_are_paired_and_stand_in_the_table():
    found = shift.change(made(), "mae", "lighting")
    assert found.value == pytest.approx(-0.06)
    assert found.high - found.low == pytest.approx(0, abs=1e-9)  # the same in every pair
    cells = {row.label: row.cells for row in shift.table(made()).rows}
    assert set(cells) == {*RIVALS, "pixel PCA"}
    assert cells["mae"]["lighting/untrained"].value == pytest.approx(-0.1)
    assert cells["mae"]["elevation/nos@10"].value == pytest.approx(0.04)
    assert "lighting/untrained" not in cells["pixel PCA"]
    assert "change under others" in tables.to_markdown(shift.table(made()))
