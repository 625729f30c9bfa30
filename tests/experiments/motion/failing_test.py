"""Worlds in motion that must fail: their settings, verdicts by hand, and what is stored of them."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
from scipy import stats

from experiments.motion import failing, pairs, table, weights
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.run import motion_table

STORED = json.loads(motion_table.STORED.read_text())
FAILING = STORED["failing"]


def row(name, x, yaw, r2, back="inverse"):
    metrics = {"r2": r2, "rankme": 3.0}
    for end, shift in (("_x", 0.0), ("", 0.02)):
        metrics |= {f"state_r2{end}": (x + yaw) / 2 + shift, f"state_r2{end}/x": x + shift,
                    f"state_r2{end}/yaw": yaw + shift}  # fmt: skip
    return {"row": name, "back": back, "metrics": metrics}


ROWS = [row("trained", 0.8, 0.1, 0.7), row("trained", 0.0, 0.0, 0.0, "none"),
        row("actions", 0.0, 0.0, 0.0), row("trained", 0.9, 0.2, 0.5)]  # fmt: skip


@pytest.mark.parametrize("name", failing.WORLDS)
def test_a_world_is_the_clean_one_with_one_change(name):
    clean = pairs.experiment((1, 2), **table.CHANGES["clean"])
    changed = pairs.experiment((1, 2), **table.CHANGES[name])
    a, b = dataclasses.asdict(clean.data), dataclasses.asdict(changed.data)
    (setting,) = (key.removeprefix("data__") for key in failing.WORLDS[name].changes)
    assert {key for key in a if a[key] != b[key]} == {setting, "walk"}
    assert dataclasses.replace(changed, data=clean.data) == clean


def test_seeds_are_those_of_no_other_table():
    others = {table.FIRST_SEED, table.FIRST_CONFIRMING_SEED, table.FIRST_CONTROL_SEED}
    apart = np.subtract(failing.FIRST_SEED, [*others, weights.FIRST_SEED])
    assert (abs(apart) >= 1_000).all()


def test_measures_hold_both_agents_of_every_trained_pair():
    found = pairs.measures(ROWS)
    assert [pair["r2"] for pair in found] == [[0.7], [0.5]]
    assert [pair["yaw"] for pair in found] == [[0.1, pytest.approx(0.12)], [0.2, 0.22]]
    assert [pair["x"] for pair in found] == [[0.8, 0.8 + 0.02], [0.9, 0.9 + 0.02]]
    assert [pair["state"][0] for pair in found] == pytest.approx([0.45, 0.55])
    summary = failing.summary(found)
    assert list(summary) == ["x", "yaw", "state", "r2"]
    # Two pairs: the half width is t(0.975, 1) = 12.706 times half the difference of their means.
    expected = {"mean": pytest.approx(0.16), "half": pytest.approx(12.706 * 0.05, abs=1e-4), "n": 2}
    assert summary["yaw"] == expected


def test_predictions_are_judged_by_the_worst_agent(monkeypatch):
    world = failing.World("label", {}, "Why.", least={"x": 0.8, "r2": 0.6}, most={"yaw": 0.21})
    monkeypatch.setitem(failing.WORLDS, "toy", world)
    found = failing.judged("toy", pairs.measures(ROWS))
    assert found["claims"] == [
        {"id": "toy/x", "ours": 0.8, "least": 0.8, "agrees": True},
        {"id": "toy/r2", "ours": 0.5, "least": 0.6, "agrees": False},
        {"id": "toy/yaw", "ours": 0.22, "most": 0.21, "agrees": False},
    ]
    assert motion_table.failing_sentence(found) == (
        "Why. Predicted, with the worst agent or pair: x at least 0.8 (0.800), R² of W at least "
        "0.6 (0.500, which is wrong), heading at most 0.21 (0.220, which is wrong)."
    )


@pytest.mark.parametrize("name", failing.WORLDS)
def test_the_stored_worlds_show_their_own_numbers(name):
    world, predicted = FAILING["worlds"][name], failing.WORLDS[name]
    assert (world["label"], world["sentence"]) == (predicted.label, predicted.sentence)
    assert {frozenset(pair) for pair in world["pairs"]} == {frozenset(world["summary"])}
    for key, found in world["summary"].items():
        values = np.mean([pair[key] for pair in world["pairs"]], axis=1)
        low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
        assert found["n"] == 3 and found["mean"] == pytest.approx(values.mean())
        assert found["half"] == pytest.approx((high - low) / 2)
    for pair in world["pairs"]:
        latents = [pair[key] for key in ("x", "y", "yaw")]
        np.testing.assert_allclose(np.mean(latents, axis=0), pair["state"])
    bounds = {(claim["id"], "least" in claim): claim for claim in world["claims"]}
    assert len(bounds) == len(predicted.least) + len(predicted.most)
    for least, wanted in ((True, predicted.least), (False, predicted.most)):
        for key, bound in wanted.items():
            values = np.ravel([pair[key] for pair in world["pairs"]])
            claim = bounds[f"{name}/{key}", least]
            assert claim["least" if least else "most"] == bound
            assert claim["ours"] == (values.min() if least else values.max())
            assert claim["agrees"] == bool((values >= bound if least else values <= bound).all())


def test_the_stored_reference_is_the_clean_world_of_the_table():
    reference, trained = FAILING["reference"], STORED["summary"]["clean"]["trained"]
    assert reference["r2"] == trained["r2"]
    both = (trained["state_r2_x"]["mean"] + trained["state_r2"]["mean"]) / 2
    assert reference["state"]["mean"] == pytest.approx(both)
    latents = [reference[key]["mean"] for key in ("x", "y", "yaw")]
    assert np.mean(latents) == pytest.approx(both)


def test_the_page_shows_the_stored_worlds():
    found = motion_table.failing_table(STORED)
    assert [column.title for column in found.columns] == ["x", "y", "heading", "state", "R² of W"]
    worlds = FAILING["worlds"]
    summaries = [FAILING["reference"], *(world["summary"] for world in worlds.values())]
    assert len(found.rows) == 4
    for shown, summary in zip(found.rows, summaries):
        for key, numbers in summary.items():
            cell = shown.cells[key]
            assert cell.value == numbers["mean"]
            assert cell.high - cell.low == pytest.approx(2 * numbers["half"])
    page = motion_table.section()
    assert tables.to_html(found) in page
    assert f"with one change, measured on {FAILING['date']} with jax" in page
    assert [shown.note for shown in found.rows] == ["10 pairs", "3 pairs", "3 pairs", "3 pairs"]
    for world in worlds.values():
        assert html.paragraph(f"{world['label']}: {motion_table.failing_sentence(world)}") in page


def test_the_results_state_the_stored_numbers():
    page = pathlib.Path(motion_table.__file__).parents[3] / "docs" / "results.md"
    text = " ".join(page.read_text().split())
    claims = [claim for world in FAILING["worlds"].values() for claim in world["claims"]]
    right = sum(claim["agrees"] for claim in claims)
    first = sum(claim["agrees"] for claim in STORED["claims"])
    assert f"{right} of {len(claims)} predictions agree" in text
    assert f"Found: {right} of the {len(claims)} predictions" in failing.__doc__
    assert f"{first} of {len(STORED['claims'])} claims agree" in text
    total = len(claims) + len(STORED["claims"])
    assert f"{first + right} of {total} claims agree, all {first} on the first" in table.__doc__
    r2 = [pair["r2"][0] for pair in FAILING["worlds"]["anisotropic"]["pairs"]]
    assert f"it is {min(r2):.2f} to {max(r2):.2f} over".replace(" 0.", " .") in text
    few, clean = FAILING["worlds"]["pool_2000"]["summary"], FAILING["reference"]
    x, y, yaw = (f"{clean[key]['mean'] - few[key]['mean']:.2f}"[1:] for key in ("x", "y", "yaw"))
    assert x == y and f"against the clean world ({yaw}, x and y {x})" in text
