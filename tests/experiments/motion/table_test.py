"""The table of a world in motion: summaries, intervals, claims and confirmation, by hand."""

import functools
import json

import numpy as np
import pytest
from absl import flags
from scipy import stats

from experiments.motion import failing, pairs, table
from socialjepa_jax.errors import InputError
from socialjepa_jax.records import RowName
from socialjepa_jax.report.run import motion_table

STATE = {"trained": 0.97, "orthogonal": 0.97, "actions": 0.97, "same_camera": 0.97}


def row(name, seed, r2, state, back="inverse"):
    metrics = {"r2": r2, "state_r2": state, "state_r2_x": state}
    return {"row": name, "seed": seed, "back": back, "metrics": metrics}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    found = []
    for seed in range(6):
        for name, r2 in (("trained", 0.98), ("orthogonal", 0.978), ("actions", 0.975)):
            found.append(row(name, seed, r2 + 0.002 * rng.normal(), 0.97))
            found.append(row(name, seed, -5.0, -5.0, back="none"))
        found.append(row("untrained", seed, 0.1, 0.6 + 0.01 * rng.normal()))
        found.append(row("untrained_hidden", seed, 0.97, 0.9))
        found.append(row("strangers", seed, 0.9, 0.4))
        found.append(row("photometric", seed, 0.9, 0.9))
    return [*found, row("pixel_pca", 0, 0.5, 0.3), row("pixel_pca", 3, 0.7, 0.3)]


def test_a_summary_holds_the_first_back_map_of_every_pair(rows):
    found = table.summary(rows)
    numbers = [r["metrics"]["r2"] for r in rows if (r["row"], r["back"]) == ("trained", "inverse")]
    mean, half, n = (found["trained"]["r2"][key] for key in ("mean", "half", "n"))
    low, high = stats.t.interval(0.95, 5, np.mean(numbers), stats.sem(numbers))
    assert n == 6 and mean == pytest.approx(np.mean(numbers))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert found["pixel_pca"]["r2"] == {
        "mean": 0.5,
        "half": pytest.approx(np.nan, nan_ok=True),
        "n": 1,
    }


def test_claims_compare_the_better_measure_with_the_gap(rows):
    found = {claim["id"]: claim for claim in table.claims("flicker", table.summary(rows))}
    assert {name.partition("/")[2] for name in found} == {
        "state_r2", "r2", "actions", "untrained", "strangers", "photometric", "pixel_pca",
    }  # fmt: skip
    assert found["flicker/state_r2"]["agrees"] and found["flicker/r2"]["agrees"]
    assert found["flicker/strangers"]["ours"] == pytest.approx(0.57)
    assert found["flicker/strangers"]["agrees"] and not found["flicker/photometric"]["agrees"]
    assert found["flicker/actions"]["agrees"]
    weak = [{**r, "metrics": {**r["metrics"], "state_r2_x": 0.93}} for r in rows]
    weaker = {claim["id"]: claim for claim in table.claims("flicker", table.summary(weak))}
    assert weaker["flicker/state_r2"]["ours"] == pytest.approx(0.93)
    assert not weaker["flicker/state_r2"]["agrees"]


def test_equal_pairs_are_equivalent_and_distant_ones_are_not():
    rng = np.random.default_rng(1)
    a, b = 0.97 + 0.002 * rng.normal(size=(2, 10))
    assert table.equivalent(a, b) < 1e-6
    assert table.equivalent(a, b - 0.02) > 0.3 and table.equivalent(a - 0.05, b) > 0.99
    first = [row("trained", k, r2, r2) for k, r2 in enumerate(a)]
    second = [row("trained", k, r2, r2 - 0.04) for k, r2 in enumerate(b)]
    state, r2 = table.confirm(first, second)
    assert (state["key"], state["agrees"]) == ("state_r2", False)
    assert (r2["key"], r2["agrees"]) == ("r2", True)


def test_agents_of_a_pair_see_different_cameras():
    chosen = pairs.experiment((4, 5, 6, 7), data__flicker=0.0, data__transition="strangers")
    assert chosen.agents.cameras == (0, 1, 0, 1) and chosen.agents.seeds == (4, 5, 6, 7)
    assert (chosen.data.flicker, chosen.data.transition) == (0.0, "strangers")


def test_the_stored_table_shows_the_claims_of_its_own_numbers():
    stored = json.loads(motion_table.STORED.read_text())
    judged = {claim["id"]: claim for claim in stored["claims"]}
    again = [c for world, t in stored["summary"].items() for c in table.claims(world, t)]
    assert len(again) == len(judged) >= 20
    for claim in again:
        assert judged[claim["id"]] == {k: pytest.approx(v) for k, v in claim.items()}


def test_the_page_shows_the_stored_table():
    stored = json.loads(motion_table.STORED.read_text())
    for world, summary in stored["summary"].items():
        shown = {row.label: row for row in motion_table.table(stored, world).rows}
        assert len(shown) == len([name for name in summary if name != RowName.ORTHOGONAL])
        for name, label in (("trained", "trained"), ("pixel_pca", "pixel PCA")):
            cell = shown[label].cells["r2"]
            value = cell if isinstance(cell, float) else cell.value
            assert value == summary[name]["r2"]["mean"]
        interval, found = shown["trained"].cells["state_r2"], summary["trained"]["state_r2"]
        assert interval.high - interval.low == pytest.approx(2 * found["half"])
    assert stored["date"] in motion_table.section()
    for world, tests in stored["confirmation"].items():
        assert [test["key"] for test in tests] == ["state_r2", "r2"]
        for test in tests:
            assert test["first"] == pytest.approx(
                stored["summary"][world]["trained"][test["key"]]["mean"]
            )
            assert test["agrees"] == (test["p"] < 0.05)
            assert f"{test['second']:.3f} after {test['first']:.3f}" in motion_table.section()


@pytest.fixture
def run(call_main, monkeypatch):
    """Calls `main` with its flags set to these arguments; nothing is trained or compiled."""
    monkeypatch.setattr(table.compilation.jax.config, "update", lambda *_: None)
    monkeypatch.setattr(table, "measure", None)
    return functools.partial(call_main, table)


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (
            InputError,
            ["--worlds=nonsense"],
            "--worlds='nonsense' must be one of 'clean', 'flicker'",
        ),
        (InputError, ["--worlds="], "--worlds='' must be one of"),
        (InputError, ["--worlds=cube,dice"], "--worlds='dice' must be one of"),
        (flags.IllegalFlagValueError, ["--pairs=1"], "--pairs=1: 1 is not integer >= 2"),
        (flags.IllegalFlagValueError, ["--control_pairs=1"], "--control_pairs=1: 1 is not integer"),
    ],
)
def test_bad_flags_are_refused_before_a_folder_is_made(run, tmp_path, error, arguments, message):
    with pytest.raises(error, match=message):
        run(f"--out={tmp_path / 'new'}", *arguments)
    assert not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_folder_is_refused(run, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=f"--out={tmp_path / 'file'}: .* Not a directory"):
        run(f"--out={tmp_path / 'file'}")


def test_what_a_folder_holds_keeps_its_date_and_is_not_measured_again(run, tmp_path, monkeypatch):
    measured = []

    def measure(world, seeds, transition):
        measured.append((world, transition, seeds[0], len(seeds)))
        names = ("trained", "orthogonal", "actions") if transition == "motion" else (transition,)
        found = [row(name, k, 0.98, 0.97) for name in names for k in range(len(seeds) // 2)]
        for each in found:
            each["world"] = world
            for name in ("x", "y", "yaw"):
                each["metrics"] |= {f"state_r2/{name}": 0.9, f"state_r2_x/{name}": 0.9}
        return found

    monkeypatch.setattr(table, "measure", measure)
    run("--worlds=clean", "--pairs=2", f"--out={tmp_path}")
    assert measured[0] == ("clean", "motion", 0, 4) and len(measured) == 6
    for path in tmp_path.glob("clean_*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"date": "2001-01-01"}))
    measured.clear()
    run("--worlds=clean,cube,pool_2000,cube", "--pairs=2", f"--out={tmp_path}")
    assert measured == [(name, "motion", 4_000, 6) for name in ("cube", "pool_2000")]
    stored = json.loads((tmp_path / "stored.json").read_text())
    assert stored["date"] == "2001-01-01" < stored["failing"]["date"]
    assert list(stored["failing"]["worlds"]) == ["cube", "pool_2000"]
    assert stored["failing"]["reference"]["r2"]["n"] == 2
    rows = json.loads((tmp_path / "motion_table.json").read_text())["rows"]
    shown = [each for each in rows if each["world"] in failing.WORLDS]
    assert len(shown) == 2 * 9 and all("state_r2_x/yaw" in each["metrics"] for each in shown)
