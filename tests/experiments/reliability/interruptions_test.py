"""Runs that are killed, signalled or started twice."""

import pytest

from experiments.reliability import interruptions, runs


@pytest.mark.nightly
def test_six_kills(fixture):
    found = interruptions.kills(fixture, 6)
    assert found["differing losses"] == 0 and found["leftover files"] == []
    assert found["equal ends"] == found["ends"] >= 1
    assert found["inside a save"] >= 1 and found["from a checkpoint"] >= 3
    assert found.passed


@pytest.mark.nightly
@pytest.mark.parametrize("phase", runs.PHASES)
def test_signals(fixture, phase):
    found = interruptions.signals(fixture, (phase,))
    assert found["wrong"] == [] and found["cases"] == 4 and found.passed


@pytest.mark.nightly
def test_a_second_run(fixture):
    found = interruptions.locked(fixture)
    assert found["second exit code"] == 2 and found["names the first"]
    assert found["exit code after a kill"] == 0 and found["equal end"]
    assert found.passed
