"""Workdirs that others have changed, in odd places, and on disks that take nothing more."""

import pytest

from experiments.reliability import folders


def test_planted_links_are_refused(fixture):
    found = folders.planted_links(fixture)
    assert found["wrong"] == [] and found["cases"] == 16 and found.passed


@pytest.mark.nightly
def test_folders_with_flipped_bits_are_refused_or_go_on(fixture):
    found = folders.damaged_folders(fixture, 40)
    assert found["wrong"] == [] and found["cases"] == 40 and found.passed


@pytest.mark.nightly
def test_odd_and_moved_folders_end_equal(fixture):
    found = folders.places(fixture)
    assert found["wrong"] == [] and found["cases"] == 13 and found.passed


@pytest.mark.nightly
def test_a_disk_that_takes_nothing_more_stops_the_run(fixture):
    found = folders.full_elsewhere(fixture)
    assert found["wrong"] == [] and found["cases"] >= 9 and found.passed
