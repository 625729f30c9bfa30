"""Stored runs of the comparisons: what a file holds, its page, and its claims judged again."""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "rivals"


def run(name):
    """What a run of an experiment left: rows, claims, tables."""
    return json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))


def page(name):
    """A page of `docs/tables`, and the same in one line."""
    text = (ROOT / "docs" / "tables" / f"{name}.md").read_text("utf-8")
    return text, in_one_line(text)


def in_one_line(text):
    return " ".join(text.split())


def check_claims(found, before, *, abs, rel=1e-3):
    """The claims of an experiment are those of its file, with the same verdicts and numbers."""
    assert [claim.id for claim in found] == [claim["id"] for claim in before]
    for claim, kept in zip(found, before, strict=True):
        assert claim.agrees == kept["agrees"], claim.id
        assert claim.ours == pytest.approx(kept["ours"], rel=rel, abs=abs), claim.id
