"""The section of docs/results.md on the arm, made again from the stored rows."""

import json
import pathlib

import numpy as np
import pytest
from scipy import stats

from experiments import findings
from experiments.motion.arm import recovery

ROOT = pathlib.Path(__file__).parents[4]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
MINUS = "\N{MINUS SIGN}"
TEXT = " ".join(RESULTS.split())
STORED = json.loads((ROOT / "tests" / "golden" / "motion" / "motion_arm.json").read_text("utf-8"))
ROWS = STORED["rows"]


def number(value):
    """A mean, with half of its t-interval if there are several values."""
    if value is None:
        return "\N{EN DASH}"
    half = f" ± {value['half']:.3f}" if value.get("n", 1) > 1 else ""
    return f"{value['mean']:.3f}{half}".replace("-", MINUS)


@pytest.mark.parametrize("world", findings.distinct(ROWS, "world"))
def test_the_table_of_the_arm_is_that_of_its_rows(world):
    table = recovery.cells(ROWS, world)
    assert len(table) == 4
    for name, cells in table.items():
        columns = (number(cells.get(key)) for key in ("state", "shoulder", "elbow", "r2"))
        assert f"| {name}, {world} | {' | '.join(columns)} |" in RESULTS


def test_claims_are_judged_again_and_counted():
    claims = recovery.claims(ROWS)
    assert [claim.id for claim in claims] == [claim["id"] for claim in STORED["claims"]]
    for claim, stored in zip(claims, STORED["claims"]):
        assert claim.agrees == stored["agrees"]
        assert claim.ours == pytest.approx(stored["ours"], abs=1e-12)
    agree = sum(claim["agrees"] for claim in STORED["claims"])
    assert f"{agree} of {len(claims)} claims agree" in TEXT.split("--only=motion_arm`")[1]


def mean(row, column):
    return findings.mean(ROWS, column, world="turning", row=row)


SENTENCES = [
    ("has R² {:.3f}, though only", [mean("best guess", "exact")]),
    ("the slowest function of the image has {:.3f}", [mean("best guess", "slowest")]),
    ("here the best guess has {:.3f} and agents have {:.3f}",
     [mean("best guess", "state"), mean("agent", "state")]),
    ("1 - rho_hat is {:.3f} on training pairs, {:.3f} on fresh ones and at least {:.3f}",
     [mean("agent", "trained_apart"), mean("agent", "fresh_apart"), mean("best guess", "apart")]),
    ("does not, the least has {:.3f}",
     [min(row["state"] for row in findings.select(ROWS, row="agent"))]),
    ("though only {:.2f} % of the angles", [200 * stats.norm.sf(np.pi)]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values) in TEXT
