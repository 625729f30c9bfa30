"""The section of docs/results.md on agents that help each other, made again from stored rows."""

import json
import pathlib

import numpy as np
import pytest

from experiments import findings
from experiments.collaboration import methods, table9
from socialjepa_jax.report import tables

ROOT = pathlib.Path(__file__).parents[3]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
README = " ".join((ROOT / "README.md").read_text("utf-8").split())
STORED = json.loads((ROOT / "tests/golden/collaboration/table9.json").read_text("utf-8"))
ROWS = STORED["rows"]
HEAD = " ".join(table9.__doc__.split())


def cost(name, share=table9.SHARE):
    return table9.ratio(ROWS, name, share).mean


def both(name):
    """Cost, and the ends of its interval."""
    spent = table9.ratio(ROWS, name)
    return [spent.mean, spent.low, spent.high]


def final(name):
    return float(table9.curves(ROWS, name).scores[:, -1].mean())


def steps(name):
    """Mean number of steps to arrive."""
    curves = table9.curves(ROWS, name)
    length = findings.select(ROWS, method=name, part="run")[0]["steps"][-1]
    return float(curves.crossings(table9.threshold(ROWS)).mean() / curves.costs[-1] * length)


def share(name, part):
    """Share of a part in the cost of a step, of the step of a student alone."""
    (ours,) = findings.select(ROWS, method=name, part="cost")
    return (ours["own"] * (part == "own") or ours[part]) / ours["own"]


def test_claims_are_judged_again():
    found = table9.claims(ROWS)
    for claim, before in zip(found, STORED["claims"], strict=True):
        assert (claim.id, claim.agrees) == (before["id"], before["agrees"])
        assert claim.ours == pytest.approx(before["ours"], abs=1e-9)
    agrees = sum(bool(claim.agrees) for claim in found)
    assert f"{agrees} of {len(found)} claims agree" in TEXT
    assert f"{agrees} of {len(found)} claims agree" in HEAD


def test_the_table_is_that_of_its_rows():
    assert tables.to_markdown(table9.table(ROWS)) in RESULTS


TEACHERS = STORED["teachers"]
LOST = min(
    row["scores"][-1]
    for row in findings.select(ROWS, method="W, teacher on the same camera", part="run")
)
CHARGED = table9.ratio(ROWS, table9.W, charged=True).mean
PAYING = [int(np.ceil(1 / (1 - cost(name)))) for name in (table9.W, "W = I")]
SENTENCES = [
    ("arrives at {:.2f} of the cost of a student alone ({:.2f} to {:.2f}) by the paper's W",
     both(table9.W)),
    ("{:.2f} of the steps", [steps(table9.W) / steps(table9.ALONE)]),
    ("costs {:.2f} of one alone", [1 + share("W", "teacher") + share("W", "coupling")]),
    ("with W = I or a fixed random rotation, {:.2f} and {:.2f}",
     [cost("W = I"), cost("W random orthogonal")]),
    ("wrong pairs cost {:.2f}, an untrained teacher {:.2f}",
     [cost("W of shuffled pairs"), cost("W, teacher untrained")]),
    ("a teacher on the same camera {:.2f}", [cost("W, teacher on the same camera")]),
    ("without a teacher never arrive (R² {:.2f}, at the least of three weights)",
     [final("pairs without a teacher")]),
    ("starts from the teacher's weights {:.2f}", [cost("teacher's weights at first")]),
    ("as they are, hold {:.2f}", [final("teacher's weights, no training")]),
    ("no loss of its own {:.2f}", [cost("learned head, no own loss")]),
    ("with that loss beside it {:.2f}", [cost("learned head")]),
    ("was tuned with holds {:.2f} of the state", TEACHERS["tuning, same camera"]),
    ("lost the heading ({:.2f}), as its student did ({:.2f}); those on the other camera hold "
     "{:.2f} to {:.2f}", [min(TEACHERS["same camera"]), LOST, min(TEACHERS["other camera"]),
                   max(TEACHERS["other camera"])]),
    ("similarities with a queue {:.2f}", [cost("similarities")]),
    ("latents that are kept {:.2f}", [cost(table9.KEPT)]),
    ("one student costs {:.2f}; {} students pay for a teacher by W, {} with W = I",
     [CHARGED, *PAYING]),
    ("{:.2f} (both at once), {:.2f} (in turn) and {:.2f} (W = I) of two models alone",
     [cost(f"mutual, {k}") / 2 for k in ("both", "alternating", "W = I")]),
    ("does not arrive (R² {:.2f})", [final("alone, half the steps")]),
    ("beside a teacher it costs {:.2f}", [cost("W, half the steps")]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values) in TEXT


def test_those_that_never_arrive_are_named():
    never = [n for n in table9.trained_names(ROWS) if table9.ratio(ROWS, n).reached == 0.0]
    assert never == ["alone, half the steps", "pairs without a teacher"]
    (cost,) = findings.select(ROWS, method="pairs without a teacher", part="cost")
    assert cost["value"] == min(methods.WEIGHTS)


def test_the_readme_states_the_same():
    sentence = "at {:.2f} of the cost with W refitted as the paper does, at {:.2f} with no map"
    assert sentence.format(cost(table9.W), cost("W = I")) in README
    warm = cost("teacher's weights at first")
    assert f"at {warm:.2f} if it starts from the teacher's weights" in README
    wrong = cost("W of shuffled pairs")
    assert f"{cost('W = I'):.2f} without a map; {wrong:.2f} with wrong pairs" in README
