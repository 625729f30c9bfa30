"""The section of docs/results.md on few pairs and none, made again from the stored rows."""

# ruff: noqa: RUF001 (a true minus and a dash are meant)

import json
import pathlib

import pytest

from experiments import findings
from experiments.motion import pairs
from experiments.motion.unpaired import claims, experiment

ROOT = pathlib.Path(__file__).parents[4]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
STORED = json.loads((ROOT / "tests/golden/motion/motion_unpaired.json").read_text("utf-8"))
ROWS = STORED["rows"]
CLAIMS = {claim["id"]: claim for claim in STORED["claims"]}
COUNTS = (1, 2, 3, 5, 10, 50, 2000)
STEPS = (100, 300, 1000, 3000, 10_000)


def cell(world, method, steps, measure="W", digits=3):
    """Mean and half of the 95 % t-interval over ten pairs of agents."""
    for row in findings.select(ROWS, world=world, method=method, steps=steps, measure=measure):
        assert len(row["values"]) == 10
        found = pairs.interval(row["values"])
        return f"{found['mean']:.{digits}f} ± {found['half']:.{digits}f}".replace("-", "−")
    return "–"


def line(label, cells):
    return f"| {label} | {' | '.join(cells)} |"


FEW = [
    (f"{name}, {world}", [cell(world, method, count) for count in COUNTS])
    for world in experiment.WORLDS
    for name, method in (
        ("Procrustes", "procrustes"), ("handedness told", "rotation"), ("best ridge", "ridge"),
    )
]  # fmt: skip
ACTIONS = [
    (f"{label}, {world}", [cell(world, method, steps, measure, digits) for steps in STEPS])
    for label, world, method, measure, digits in (
        ("three actions", "equal", "actions", "W", 3),
        ("predicted loss", "equal", "actions", "expected loss", 4),
        ("three actions", "distinct", "actions", "W", 3),
        ("predicted loss", "distinct", "actions", "expected loss", 4),
        ("mean of the walk itself", "distinct", "own mean", "W", 3),
        ("one action, axes", "distinct", "one action, axes", "W", 3),
        ("one action, joint", "distinct", "one action, joint", "W", 3),
        ("one action, joint, A of the walk", "distinct", "one action, joint, own A", "W", 3),
        ("one action, axes", "equal", "one action, axes", "W", 3),
        ("one action, joint", "equal", "one action, joint", "W", 3),
    )
]
MOTOR = [
    (
        f"{label}, {world}",
        [cell(world, f"{space}, motor", steps, "state") for steps in STEPS]
        + [cell(world, f"{space}, own labels", None, "state")],
    )
    for label, world, space in (
        ("agents", "equal", "trained"),
        ("inverse model of 3,000", "equal", "inverse_3000"),
        ("inverse model of 10,000", "equal", "inverse_10000"),
        ("untrained", "equal", "untrained"),
        ("pixel PCA, 12", "equal", "pixels"),
        ("agents", "distinct", "trained"),
        ("untrained", "distinct", "untrained"),
        ("pixel PCA, 12", "distinct", "pixels"),
    )
]
WRONG = [
    (name, [cell(world, method, 3000) for world in experiment.WORLDS])
    for name, method in (
        ("names permuted", "labels permuted"), ("shuffled in time", "shuffled in time"),
        ("in each camera's frame", "camera's frame"), ("mismatched states", "mismatched states"),
    )
]  # fmt: skip
BLIND = [
    (
        lags,
        [
            cell("distinct", f"{lags}, signs told", 2000),
            cell("distinct", f"{lags}, chosen pair", 1),
            cell("distinct", f"{lags}, random pairs", 1),
            cell("distinct", f"{lags}, random pairs", 5),
        ],
    )
    for lags in ("lag 1", "lag 8", "lags 1 to 12")
]
TABLES = {"few": FEW, "actions": ACTIONS, "motor": MOTOR, "wrong": WRONG, "blind": BLIND}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_that_of_its_rows(name):
    for label, cells in TABLES[name]:
        assert line(label, cells) in RESULTS


def test_claims_are_judged_again():
    for claim in claims.claims(ROWS):
        before = CLAIMS[claim.id]
        assert claim.agrees == before["agrees"]
        assert claim.ours == pytest.approx(before["ours"], abs=1e-12)
    assert len(CLAIMS) == len(claims.claims(ROWS))


def test_the_count_of_claims_and_those_that_differ_are_named():
    agree = sum(claim["agrees"] for claim in CLAIMS.values())
    assert f"{agree} of {len(CLAIMS)} claims agree" in TEXT


def mean(world, method, steps, measure="W"):
    (row,) = findings.select(ROWS, world=world, method=method, steps=steps, measure=measure)
    return row["value"]


def both(method, steps, measure="W"):
    return [mean(world, method, steps, measure) for world in ("equal", "distinct")]


LOSSES = [
    mean(world, "trained, paired", 2000) - mean(world, "actions", 1000)
    for world in ("equal", "distinct")
]
SENTENCES = [
    ("R² of W is {:.3f} and {:.3f} at 3,000 transitions", both("actions", 3000)),
    ("after {:.3f} and {:.3f} from all pairs", both("trained, paired", 2000)),
    ("loses {:.4f} and {:.4f} at 1,000 transitions", LOSSES),
    ("(n - 1) sigma^2 / (T g^2) predicts {:.4f} and {:.4f}",
     both("actions", 1000, "expected loss")),
    ("{:.3f} by the joint fit and {:.3f} by axes",
     [mean("distinct", f"one action, {k}", 3000) for k in ("joint", "axes")]),
    ("(worst pair of agents {:.3f} and {:.3f})",
     [min(findings.select(ROWS, world="distinct", method=f"one action, {k}", steps=3000)[0]
          ["values"]) for k in ("joint", "axes")]),
    ("({:.4f} below Procrustes, .02 claimed)", [CLAIMS["distinct/ridge needs more pairs"]["ours"]]),
    ("5 pairs give {:.3f}, 1,000 transitions {:.3f}",
     [mean("distinct", "procrustes", 5), mean("distinct", "actions", 1000)]),
    ("with no label is {:.3f} and {:.3f} at 10,000 transitions",
     both("trained, motor", 10_000, "state")),
    ("own labels {:.3f} and {:.3f}", both("trained, own labels", None, "state")),
    ("an inverse model has {:.2f} at 3,000 and {:.2f} at 10,000",
     [mean("equal", f"inverse_{k}, motor", k, "state") for k in (3000, 10_000)]),
    ("with its own labels {:.2f} and {:.2f}",
     [mean("equal", f"inverse_{k}, own labels", None, "state") for k in (3000, 10_000)]),
    ("two pairs give {:.2f} and {:.2f} if the handedness is told",
     both("rotation", 2)),
    ("{:.2f} and {:.2f} if it is not", both("procrustes", 2)),
    ("lag 1 alone gives {:.3f}, lags 1 to 12 {:.3f}",
     [mean("distinct", f"{k}, signs told", 2000) for k in ("lag 1", "lags 1 to 12")]),
    ("{:.3f} of a latent's variance lies aslant", [mean("distinct", "noise", None, "aslant")]),
    ("tells all signs in {:.0f} % of draws",
     [100 * mean("distinct", "lag 1, random pairs", 1, "right signs")]),
    ("found in {:.0f} % of stretches with distinct rates and in {:.0f} % with equal ones",
     [100 * m for m in both("dictionary", 3000, "right order")][::-1]),
    ("one action has {:.2f} on average there, from {:.2f} to {:.2f} over pairs",
     [f(findings.select(ROWS, world="equal", method="one action, joint", steps=3000)[0]["values"])
      for f in (lambda v: sum(v) / len(v), min, max)]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values).replace("-0", "−0") in TEXT
