"""Groups: two processes of two devices compute what one of four does, and they end together."""

import os

import pytest

from experiments.reliability import groups, streams
from experiments.reliability.checks import Lab
from socialjepa_jax.running.group import ALONE


def test_a_process_alone_waits_for_no_other():
    ALONE.barrier("anything")
    assert ALONE.from_first(3) == 3 and ALONE.is_first


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
        yield Lab(tmp_path_factory.mktemp("lab"))


def test_two_processes_of_two_devices_equal_one_of_four(lab):
    seen, passed = groups.equal(lab)
    assert passed, seen


def test_two_processes_receive_the_streamed_batches_of_one(lab):
    seen, passed = streams.ways(lab, ((groups.TWO_BY_TWO, 0),))
    assert passed, seen


def test_a_late_process_is_named(lab):
    seen, passed = groups.names_the_late(lab)
    assert passed, seen


@pytest.mark.nightly
def test_processes_stop_and_fail_together(lab):
    seen, passed = groups.processes(lab)
    assert passed, seen


@pytest.mark.nightly
def test_processes_with_streamed_data_stop_and_fail_together(lab):
    seen, passed = streams.stream_groups(lab)
    assert passed, seen
