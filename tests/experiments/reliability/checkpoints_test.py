"""Damaged checkpoints and a full disk."""

import gc

import pytest

from experiments.reliability import checkpoints

# Orbax forgets the reads that were under way when one of a damaged checkpoint's arrays failed.
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collect():
    yield
    gc.collect()  # while its warnings are ignored


def test_bit_flips(fixture):
    found = checkpoints.bit_flips(fixture, 15)
    assert found["silent"] == 0 and found["refused"] + found["intact"] == 15
    assert found.passed


def test_a_damaged_newest_checkpoint(fixture):
    found = checkpoints.damaged_latest(fixture)
    assert found["wrong"] == [] and found["cases"] == 10 and found.passed


def test_a_full_disk(fixture):
    found = checkpoints.full_disk(fixture)
    assert found["exit code"] == 3 and "cannot be written" in found["message"]
    assert found["intact"] and found["checkpoints"] >= 1 and found.passed
