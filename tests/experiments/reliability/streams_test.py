"""The checks of streamed data in one process."""

import pytest

from experiments.reliability import streams

pytestmark = pytest.mark.nightly  # the table of `bench_reliability` has them all


def test_batches_do_not_depend_on_processes_and_workers(fixture):
    found = streams.same_batches(fixture)
    assert found["wrong"] == [] and found["cases"] == 13 and found.passed


def test_a_stream_trains_as_resident_data(fixture):
    found = streams.same_losses(fixture)
    assert found["logged losses"] == 24 and found["equal"] and found.passed


def test_a_few_broken_files_are_replaced_and_many_end_the_run(fixture):
    found = streams.broken_records(fixture)
    for count, code in ((1, 0), (5, 0), (115, 3)):
        assert found[f"{count} broken: exit code"] == code
        assert found[f"{count} broken: other images equal"]
    assert (found["1 broken: listed"], found["5 broken: listed"]) == (1, 5)
    assert "files are broken" in found["115 broken: message"] and found.passed


def test_a_signalled_stream_goes_on_to_the_same_end(fixture):
    found = streams.stream_resumes(fixture)
    assert found["exit codes"] == [75, 0] and found["equal end"] and found.passed


def test_no_worker_and_no_shared_memory_is_left(fixture):
    found = streams.stream_leftovers(fixture)
    for name, code in streams.ENDS.items():
        assert found[f"{name}: exit code"] == code and found[f"{name}: started"] >= 3
        assert found[f"{name}: alive"] == [] and found[f"{name}: shared memory"] == []
    assert found.passed
