"""Altered states and skipped updates."""

import pytest

from experiments.reliability import states

pytestmark = pytest.mark.nightly


def test_every_part_of_the_state_matters(fixture):
    found = states.mutations(fixture)
    assert found["wrong"] == [] and found["cases"] == 11 and found.passed


def test_a_skipped_batch_leaves_no_trace(fixture):
    found = states.skipped_batch(fixture)
    assert found["skips"] > 0 and found["difference"] == 0.0 and found.passed
