"""The section of docs/results.md on factors of a policy, made again from the stored rows."""

import json

import numpy as np
import pytest

from experiments.motion.arm import factors
from tests.experiments.motion.arm.arm_results_test import RESULTS, ROOT, TEXT, number
from tests.experiments.motion.arm.arm_results_test import mean as arm_mean

STORED = json.loads((ROOT / "tests" / "golden" / "motion" / "arm_factors.json").read_text("utf-8"))
ROWS = STORED["rows"]
COLUMNS = ("state", "shoulder", "elbow", "loss")
CEILINGS = ("whitening", "best", "normal/state", "untrained/state")


@pytest.mark.parametrize("cell", factors.measured(ROWS))
def test_the_table_of_factors_is_that_of_its_rows(cell):
    found = factors.table_cells(ROWS, cell)
    bounds = factors.LOSSES.get(cell)
    predicted = number(None) if bounds is None else "{:.2f} to {:.2f}".format(*bounds)
    columns = [number(found.get(key)) for key in COLUMNS]
    columns += [predicted.replace("-", "\N{MINUS SIGN}")]
    columns += [number(found[key]) for key in CEILINGS]
    assert f"| {cell} | {' | '.join(columns)} |" in RESULTS


def test_claims_on_factors_are_judged_again_and_counted():
    claims = factors.claims(ROWS)
    assert [claim.id for claim in claims] == [claim["id"] for claim in STORED["claims"]]
    for claim, stored in zip(claims, STORED["claims"]):
        assert claim.agrees == stored["agrees"]
        assert claim.ours == pytest.approx(stored["ours"], abs=1e-12)
    agree = sum(claim.agrees for claim in claims)
    assert f"{agree} of {len(claims)} claims agree" in TEXT.split("--only=arm_factors`")[1]


def mean(cell, column, row="agent"):
    return np.mean(factors.values(ROWS, cell, column, row))


def test_a_shoulder_does_not_fall_where_the_text_says_so():
    assert mean("marginals", "shoulder") >= mean("normal", "shoulder")
    assert list(factors.CELLS) == list(factors.measured(ROWS))


def test_turns_cost_every_agent_half_of_r2():
    assert "turns cost half of R² or more" in TEXT
    assert min(factors.losses(ROWS, "turns")) > 0.5 * mean("normal", "state")


def loss(cell):
    return np.mean(factors.losses(ROWS, cell))


SENTENCES = [
    ("the loss of R² is {:.3f}, with the policy's marginals {:.3f}, with its rates {:.3f}, with "
     "its dependence {:.3f}",
     [loss(name) for name in ("turns", "marginals", "rates", "dependence")]),
    ("no readout of images has more than {:.3f} of a shoulder of {:.2f} radians, and agents have "
     "{:.3f}", [mean("turns", "best/shoulder", "whitening"), factors.SHOULDER,
                mean("turns", "shoulder")]),
    ("lose the wrist as well ({:.2f}, {:.2f} and {:.2f})", factors.values(ROWS, "turns", "elbow")),
    ("the same shoulders have {:.3f}", [mean("turns", "normal/shoulder")]),
    ("falls from {:.3f} to {:.3f}, the shoulder does not fall. Whitening would have {:.3f}",
     [mean("normal", "elbow"), mean("marginals", "elbow"),
      mean("marginals", "elbow", "whitening")]),
    ("all at once, with the policy's wrist of 2.06 radians, {:.3f}", [loss("all")]),
    ("the shoulder has {:.3f} and the wrist {:.3f} ({:.2f}, {:.2f} and {:.2f})",
     [mean("all", "shoulder"), mean("all", "elbow"), *factors.values(ROWS, "all", "elbow")]),
    ("On normal angles of one radian the shoulder has {:.3f}. Its best guess has {:.3f} if",
     [mean("all", "normal/shoulder"), mean("all", "best/shoulder", "whitening")]),
    ("give the wrist ({:.3f}) for the square of the shoulder",
     [mean("rates", "elbow", "whitening")]),
    ("agents keep it ({:.3f})", [mean("rates", "elbow")]),
    ("has {:.3f} of agents with {:.3f} on their own angles",
     [mean("normal", "normal/state"), mean("normal", "state")]),
    ("it has {:.3f} less than the shoulder, and still {:.3f} less with joints of 0.75 radians",
     [arm_mean("agent", "shoulder") - arm_mean("agent", "elbow"),
      mean("normal", "shoulder") - mean("normal", "elbow")]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_on_factors_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values).replace("-", "\N{MINUS SIGN}") in TEXT
