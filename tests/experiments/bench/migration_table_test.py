"""The table of migrations in the docs against its stored rows, and these against the tool."""

import json
import pathlib
import re

import numpy as np
import pytest

from experiments.bench import migration, migrations

ROOT = pathlib.Path(__file__).parents[3]
STORED = json.loads((ROOT / "tests/golden/migrations.json").read_text())
DOCS = (ROOT / "docs/benchmarks.md").read_text().partition("## Migrations of a search index")[2]
TOOLS = ("ours", "isotrieve", "rebasis", "scikit-learn")


def rows(tool, made=True):
    return [r for r in STORED["outcomes"] if r["tool"] == tool and (r["case"] != "words") == made]


def cells(label):
    (line,) = (line for line in DOCS.splitlines() if line.startswith(f"| {label}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_row_is_that_of_the_stored_outcomes(tool):
    error = np.mean([abs(r["predicted"] - r["true"]) for r in rows(tool)])
    (words,) = rows(tool, made=False)
    said, found = f"{words['predicted']:.3f}, {words['true']:.3f}", f"{words['recall']:.3f}"
    assert len(rows(tool)) == 20 and cells(tool)[2:] == [f"{error:.3f}", said, found]


def test_baselines_coverage_and_decisions():
    ours = rows("ours")
    outcomes = [migration.Outcome(**{k: v for k, v in r.items() if k != "right"}) for r in ours]
    found = migration.baselines(outcomes, STORED["overlap"])
    for label, name in (("the mean of", "constant"), ("a line through", "overlap")):
        assert cells(label)[2] == f"{found[name].mean():.3f}"
    inside = sum(r["low"] <= r["true"] <= r["high"] for r in ours)
    text = " ".join(DOCS.split())
    assert f"hold the truth in {inside} of 20 cases" in text
    right = sum(r["right"] for r in ours)
    assert re.search(rf"right in {right} of 20\.", text)
    true = [r["true"] for r in ours]
    assert f"it spans {min(true):.2f} to {max(true):.2f}" in text
    error = np.mean([abs(r["predicted"] - r["true"]) for r in ours])
    assert error <= min(e.mean() for e in found.values()) / 2


@pytest.mark.parametrize(
    "seed", [4, 6, *(pytest.param(s, marks=pytest.mark.nightly) for s in (0, 1, 9, 12, 17))]
)
def test_the_stored_outcome_is_what_the_tool_says(seed):
    (stored,) = (r for r in rows("ours") if r["case"] == str(seed))
    made = migrations.make(seed)
    found = migration.of_ours(str(seed), made, migration.calibration(made, seed + 1))
    for key in ("true", "predicted", "low", "high", "recall"):
        assert getattr(found, key) == pytest.approx(stored[key], abs=0.01), key
    assert migration.decided(made, found) == stored["right"]
