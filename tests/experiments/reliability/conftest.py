"""The fixture of the reliability checks, with one uninterrupted run for all files of tests."""

import pytest

from experiments.reliability.fixture import Fixture


@pytest.fixture(scope="session")
def fixture(tmp_path_factory):
    return Fixture(tmp_path_factory.mktemp("reliability"))
