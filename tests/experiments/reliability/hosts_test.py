"""Runs in several processes, with resident and with streamed data."""

import pytest

from experiments.reliability import hosts, stream_hosts


def test_two_processes_of_two_devices_equal_one_of_four(fixture):
    found = hosts.equal(fixture)
    assert found["exit codes"] == [0, 0] and found["difference"] <= 1e-5 and found.passed


@pytest.mark.nightly
def test_two_processes_receive_the_streamed_batches_of_one(fixture):
    found = stream_hosts.ways(fixture, ((hosts.TWO_BY_TWO, 0),))
    assert found["ways"] == found["with equal batches"] == 1
    assert found["difference of losses and end"] <= 1e-5 and found.passed


def test_a_late_process_is_named(fixture):
    found = hosts.names_the_late(fixture)
    assert found["exit codes"] == [3, 3] and found["seconds"] <= 15
    assert found["named"] and found.passed


@pytest.mark.nightly
def test_processes_stop_and_fail_together(fixture):
    found = hosts.processes(fixture)
    assert found["signal: signalled"] == [[75, 75]]
    assert found["SIGINT and SIGUSR1: signalled"] == [[75] * 4, [75] * 2]
    for name in ("two by two", "signal", "SIGINT and SIGUSR1"):
        assert set(found[f"{name}: exit codes"]) == {0} and found[f"{name}: difference"] <= 1e-5
    for name in ("kill", "kill of the first", "error", "second signal", "late"):
        assert all(found[f"{name}: exit codes"]) and found[f"{name}: seconds"] <= 15
    assert found["second signal: exit codes"][1] == 143
    assert found["second signal: own seconds"] <= 2
    assert found.passed


@pytest.mark.nightly
def test_processes_with_streamed_data_stop_and_fail_together(fixture):
    found = stream_hosts.stream_processes(fixture)
    assert found["streamed: with equal batches"] == found["streamed: ways"] == 3
    assert found["streamed: difference of losses and end"] <= 1e-5
    assert found["signal: signalled"] == [[75, 75]] and found["signal: exit codes"] == [0, 0]
    assert found["signal: unequal calls"] == [] and found["signal: difference"] == 0.0
    assert all(found["kill: pair: exit codes"]) and found["kill: pair: seconds"] <= 15
    assert found["kill: workers: alive"] == found["kill: workers: shared memory"] == []
    assert found["kill: workers: started"] >= 8
    assert found["kill: one by four: difference"] <= 1e-5
    assert found.passed
