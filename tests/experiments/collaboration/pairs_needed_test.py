"""The feed of few and wrong pairs, and the section of docs/results.md from the stored rows."""

import dataclasses
import json
import pathlib

import jax
import numpy as np
import pytest

from experiments.collaboration import pairs_needed, table9
from socialjepa_jax import sharding
from socialjepa_jax.report import tables

ROOT = pathlib.Path(__file__).parents[3]
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")
TEXT = " ".join(RESULTS.split())
HEAD = " ".join(pairs_needed.__doc__.split())
GOLDEN = ROOT / "tests" / "golden" / "collaboration"
STORED = json.loads((GOLDEN / "pairs_needed.json").read_text("utf-8"))
BASE = json.loads((GOLDEN / "table9.json").read_text("utf-8"))["rows"]
ROWS = [row for row in BASE if row["method"] in (table9.ALONE, table9.W)] + STORED["rows"]


@dataclasses.dataclass(frozen=True)
class Pool:
    """A source whose rows name their camera and state."""

    pixels: object


class Feed:
    """The feed of one camera."""

    def __init__(self, camera):
        rows = 100 * camera + np.arange(2 * 20).reshape(2, 20, 1)
        by_agent = sharding.by_agent(sharding.make_mesh(2, 4, jax.devices()[:1]))
        self.source = Pool(sharding.put(rows.astype(np.int32), by_agent))
        self.name = camera

    def at(self, step):
        return self.source


class Both:
    """The feeds of both cameras."""

    a, b = Feed(0), Feed(1)


def rows_of(source):
    return np.asarray(sharding.fetch(source.pixels))[:, :, 0]


def test_few_pairs_are_the_first_and_a_student_keeps_all_of_its_own():
    source = pairs_needed.Shared(Both(), 5, 0.0).at(3)
    np.testing.assert_array_equal(rows_of(source.a)[0], np.arange(5))
    np.testing.assert_array_equal(rows_of(source.b) - 100, rows_of(source.a))
    assert rows_of(source.own).shape == (2, 20)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_wrong_pairs_show_another_state_and_no_state_is_lost(share):
    source = pairs_needed.Shared(Both(), 20, share).at(0)
    wrong = rows_of(source.b) - 100 != rows_of(source.a)
    np.testing.assert_array_equal(wrong.sum(1), [20 * share] * 2)
    np.testing.assert_array_equal(np.sort(rows_of(source.b), axis=1) - 100, rows_of(source.a))


def test_it_has_what_else_the_feed_has():
    assert pairs_needed.Shared(Both(), 5, 0.0).a is Both.a


def cost(count, wrong=0.0):
    return pairs_needed.ratio(ROWS, count, wrong).mean


def test_claims_are_judged_again():
    found = pairs_needed.claims(ROWS)
    for claim, before in zip(found, STORED["claims"], strict=True):
        assert (claim.id, claim.agrees) == (before["id"], before["agrees"])
        assert claim.ours == pytest.approx(before["ours"], abs=1e-9)
    agrees = sum(bool(claim.agrees) for claim in found)
    assert f"{agrees} of {len(found)} claims agree. **In words" in TEXT
    assert f"{agrees} of {len(found)} claims agree. The cost of arriving" in HEAD


def test_the_table_and_the_sentences_are_those_of_the_rows():
    assert tables.to_markdown(pairs_needed.table(ROWS)) in RESULTS
    right = "{:.2f} of the cost alone with 128 pairs, {:.2f} with 512, {:.2f} with 2,048 and {:.2f}"
    assert right.format(*map(cost, (128, 512, 2048, 12_000))) in TEXT
    wrong = "a quarter of wrong pairs {:.2f}, with half {:.2f}, with wrong pairs alone {:.2f}"
    assert wrong.format(*(cost(12_000, share) for share in pairs_needed.WRONG)) in TEXT
    head = "{:.2f} of that alone with 128 pairs, {:.2f} with 512, {:.2f} with all, {:.2f} if half"
    assert head.format(cost(128), cost(512), cost(12_000), cost(12_000, 0.5)) in HEAD
