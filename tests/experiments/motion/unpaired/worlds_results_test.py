"""The sentences of docs/results.md on W from actions in other worlds, from the stored rows."""

import json
import pathlib

import numpy as np
import pytest

from experiments import findings
from experiments.motion.unpaired import worlds
from experiments.motion.unpaired.worlds import VARIANTS

ROOT = pathlib.Path(__file__).parents[4]
TEXT = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
HEAD = " ".join(worlds.__doc__.split())
STORED = json.loads((ROOT / "tests/golden/motion/motion_unpaired_worlds.json").read_text("utf-8"))
ROWS = STORED["rows"]


def mean(variant, method, measure="W", steps=3000):
    where = {"variant": variant, "method": method, "measure": measure, "steps": steps}
    values = [row["value"] for row in findings.select(ROWS, **where)]
    assert len(values) == 3
    return float(np.mean(values))


def test_claims_are_judged_again():
    found = worlds.claims(ROWS)
    for claim, before in zip(found, STORED["claims"], strict=True):
        assert (claim.id, claim.agrees) == (before["id"], before["agrees"])
        assert claim.ours == pytest.approx(before["ours"], abs=1e-4)
    agrees = sum(bool(claim.agrees) for claim in found)
    assert f"{agrees} of {len(found)} claims agree, written before the run" in TEXT
    assert f"{agrees} of {len(found)} claims agree" in HEAD


def by_both(variant):
    """R2 of W from actions, and from all pairs."""
    return [mean(variant, "actions"), mean(variant, "trained, paired", steps=2000)]


SENTENCES = [
    ("W from actions has R² {:.3f} (pairs: {:.3f})", by_both("two toys")),
    ("depend half on the state {:.3f} ({:.3f})", by_both("policy")),
    ("it has {:.3f} where pairs give {:.3f}", by_both("wide")),
    ("is then {:.3f} ({:.3f} by own labels)",
     [mean("wide", "trained, motor", "state"),
      mean("wide", "trained, own labels", "state", None)]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "values"), SENTENCES)
def test_a_sentence_states_numbers_of_the_rows(sentence, values):
    assert sentence.format(*values) in TEXT


def test_the_head_states_r2_of_every_variant():
    for variant in VARIANTS:
        assert f"{mean(variant, 'actions'):.3f} ({variant}" in HEAD
