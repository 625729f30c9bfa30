"""Environments, clocks, pauses, rivals and long runs."""

import pytest

from experiments.reliability import surroundings

pytestmark = pytest.mark.nightly


def test_no_environment_changes_a_run(fixture):
    found = surroundings.environments(fixture)
    assert found["wrong"] == [] and found["cases"] == 6 and found.passed


def test_a_clock_that_jumps_changes_nothing(fixture):
    found = surroundings.clock_jumps(fixture)
    assert found["exit codes"] == [75, 0] and found["equal losses"] and found.passed


def test_one_of_several_starts_gets_the_folder(fixture):
    found = surroundings.races(fixture)
    assert found["exit codes"] == [0, 2, 2, 2] and found["equal end"] and found.passed


def test_paused_processes_go_on(fixture):
    found = surroundings.pauses(fixture)
    assert found["alone: exit codes"] == [75, 0] and found["pair: exit codes"] == [0, 0]
    assert found["alone: equal end"] and found["pair: difference"] <= 1e-5 and found.passed


def test_long_runs_do_not_grow(fixture):
    found = surroundings.growth(fixture, 1000)
    assert found["more MB"] < 20 and found["more files"] <= 2 and found.passed
