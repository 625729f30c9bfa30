"""The section of docs/results.md on labels that a carried probe is worth, from the stored rows."""

import json
import pathlib

import numpy as np
import pytest

from experiments import findings
from experiments.collaboration import probe_labels
from socialjepa_jax.report import tables

ROOT = pathlib.Path(__file__).parents[3]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
HEAD = " ".join(probe_labels.__doc__.split())
STORED = json.loads((ROOT / "tests/golden/collaboration/probe_labels.json").read_text("utf-8"))
ROWS = STORED["rows"]
STATES = ("x", "y", "yaw")


def mean(world, of, probe, **where):
    found = findings.select(ROWS, world=world, of=of, probe=probe, **where)
    return float(np.mean([row["score"] for row in found]))


def category(probe, **where):
    return mean("toys", "category", probe, **where)


LOST = [mean("motion", s, "all") - mean("motion", s, "carried", by="regression") for s in STATES]


def test_claims_are_judged_again():
    found = probe_labels.claims(ROWS)
    for claim, before in zip(found, STORED["claims"], strict=True):
        assert (claim.id, claim.agrees) == (before["id"], before["agrees"])
        assert claim.ours == pytest.approx(before["ours"], abs=1e-4)
    agrees = sum(bool(claim.agrees) for claim in found)
    assert f"{agrees} of {len(found)} claims agree." in TEXT
    assert f"{agrees} of {len(found)} claims agree:" in HEAD


def test_the_table_is_that_of_its_rows():
    assert tables.to_markdown(probe_labels.table(ROWS)) in RESULTS


@pytest.mark.parametrize(
    ("sentence", "values"),
    [
        ("lose at most {:.3f} of R²", [max(LOST)]),
        ("category on toys has accuracy {:.3f}, where 100 labels a class give {:.3f} and all of "
         "them {:.3f}", [category("carried", by="regression"), category("own", labels=100),
                         category("all")]),
        ("W^-1 it is {:.3f} on the toys (chance {:.3f})",
         [category("carried", by="inverse"), category("chance")]),
        ("As it is the probe has at most {:.3f}",
         [max(mean("motion", state, "as it is") for state in STATES)]),
    ],
)  # fmt: skip
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values).replace("-0.", "\N{MINUS SIGN}0.") in TEXT


def test_the_words_hold():
    for state in STATES:
        by_inverse = findings.select(ROWS, world="motion", of=state, probe="carried", by="inverse")
        scores = np.sort([row["score"] for row in by_inverse])
        assert scores.mean() < 0 < scores[1]  # one pair alone
    regression = [r for r in ROWS if r["probe"] == "carried" and r["by"] == "regression"]
    worth = [500 if row["labels"] is None else row["labels"] for row in regression]
    assert np.median(worth) >= 100
    assert max(LOST) <= 0.01 and "at most 0.01 of R2" in HEAD
    by_regression, all_labels = category("carried", by="regression"), category("all")
    assert f"{by_regression:.2f} on the toys ({all_labels:.2f} from all labels)" in HEAD
