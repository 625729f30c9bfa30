"""The lines of the reliability table that are about streamed data."""

import pytest

from experiments.reliability import data
from experiments.reliability.checks import Lab

pytestmark = pytest.mark.nightly  # the table has them all


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"))


CHECKS = (
    data.same_batches,
    data.same_losses,
    data.broken_records,
    data.stream_resumes,
    data.stream_leftovers,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_line_of_the_table(lab, check):
    seen, passed = check(lab)
    assert passed, seen
