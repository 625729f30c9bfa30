"""The short form of the reliability table: processes that are killed, files that are damaged."""

import gc

import pytest

from experiments.reliability import checks, states
from experiments.reliability.checks import Lab

# Orbax forgets the reads that were under way when one of a damaged checkpoint's arrays failed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"))


def _assert_passes(result):
    seen, passed = result
    assert passed, seen


def test_six_kills(lab):
    _assert_passes(checks.kills(lab, 6))


@pytest.mark.nightly
def test_bit_flips(lab):
    _assert_passes(checks.bit_flips(lab, 15))


@pytest.mark.nightly
def test_a_damaged_newest_checkpoint(lab):
    _assert_passes(checks.damaged_latest(lab))
    gc.collect()  # while its warnings are ignored


@pytest.mark.nightly
def test_bad_folders_are_refused_before_compiling(lab):
    _assert_passes(checks.refusals(lab))


@pytest.mark.nightly
def test_every_part_of_the_state_matters(lab):
    _assert_passes(states.mutations(lab))


@pytest.mark.nightly
def test_a_skipped_batch_is_as_if_it_had_not_been(lab):
    _assert_passes(states.skipped_batch(lab))


@pytest.mark.nightly
def test_a_full_disk(lab):
    _assert_passes(checks.full_disk(lab))


@pytest.mark.nightly
@pytest.mark.parametrize("phase", checks.runs.PHASES)
def test_signals(lab, phase):
    _assert_passes(checks.signals(lab, (phase,)))


@pytest.mark.nightly
def test_a_second_run(lab):
    _assert_passes(checks.locked(lab))
