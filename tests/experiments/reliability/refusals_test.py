"""Bad folders."""

import pytest

from experiments.reliability import refusals


@pytest.mark.nightly
def test_bad_folders_are_refused_before_compiling(fixture):
    found = refusals.refusals(fixture)
    assert found["wrong"] == [] and found["cases"] == 8 and found.passed
