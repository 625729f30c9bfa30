"""Groups: processes agree on values and wait for each other, and they end together."""

import threading
import time

import pytest

from socialjepa_jax.errors import Stopped
from socialjepa_jax.running import group as group_lib
from socialjepa_jax.running.group import ALONE, Group


class _Service:
    """A coordination service inside this process, for groups in threads."""

    def __init__(self, size):
        self.values, self.barriers, self.size = {}, {}, size

    def key_value_set(self, key, value):
        if self.values.setdefault(key, value) is not value:
            raise RuntimeError(f"{key} exists")

    def key_value_dir_get(self, folder):
        return [(key, self.values[key]) for key in list(self.values) if key.startswith(folder)]

    def blocking_key_value_get(self, key, milliseconds):
        deadline = time.monotonic() + milliseconds / 1000
        while key not in self.values and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.values[key]

    def wait_at_barrier(self, key, milliseconds):
        barrier = self.barriers.setdefault(key, threading.Barrier(self.size))
        barrier.wait(milliseconds / 1000)


def _in_threads(groups, function):
    """Returns the results of `function(group)`, called in one thread per group."""
    results = {}

    def call(group):
        results[group.index] = function(group)

    threads = [threading.Thread(target=call, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[group.index] for group in groups]


def _make(size, wait_s):
    service = _Service(size)
    return [Group(index, size, service, wait_s) for index in range(size)]


def test_all_processes_stop_at_the_same_check():
    def train(group):
        done = 0
        group.listen(lambda: group.index == 1 and done >= 3)
        while not group.stops_here():
            time.sleep(0.01 + 0.02 * group.index)
            done += 1
        group.leave()
        return done

    steps = _in_threads(_make(3, 20.0), train)
    assert steps[0] >= 3 and len(set(steps)) == 1


def test_the_check_to_stop_at_is_the_first_that_nobody_has_passed():
    groups = _make(2, 20.0)
    for group in groups:
        group._left.set()
        group._reader.join()  # events are obeyed by hand
    passed = (1, 3)
    for group, checks in zip(groups, passed):
        assert not any(group.stops_here() for _ in range(checks))
    groups[0]._obey({"stop": "0"})
    assert groups[0]._blocked  # until the number of the other is known
    groups[1]._obey({"stop": "0"})
    groups[0]._obey({"stop": "0"})
    for group, checks in zip(groups, passed):
        assert [group.stops_here() for _ in range(4 - checks)] == [False] * (3 - checks) + [True]


def test_values_of_process_0_reach_the_others():
    def exchange(group):
        values = [group.from_first([group.index, step]) for step in range(3)]
        group.leave()
        return values

    assert _in_threads(_make(2, 20.0), exchange) == 2 * [[[0, 0], [0, 1], [0, 2]]]


def test_a_barrier_and_a_value_without_process_0_name_it():
    groups = _make(2, 0.1)
    for wait, name in ((lambda: groups[1].barrier("data"), "data"),
                       (lambda: groups[1].from_first(1), "a decision")):  # fmt: skip
        with pytest.raises(Stopped, match=f"process 0 on .* did not reach '{name}' within 0.1 s"):
            wait()
    for group in groups:
        group._left.set()


def test_all_processes_exit_with_the_code_and_message_of_the_first_failure(monkeypatch, capsys):
    codes, groups = [], _make(2, 20.0)
    groups[0]._left.set()  # the failing process itself does not read its message

    def end(code):
        codes.append(code)
        groups[1]._left.set()

    monkeypatch.setattr(group_lib, "_exit", end)
    groups[0].fail(3, "stopped: for a reason")
    groups[1]._reader.join()
    assert codes == [3, 3]
    printed = capsys.readouterr().err.splitlines()
    assert sorted(printed) == ["process 0 ended: stopped: for a reason", "stopped: for a reason"]


def test_a_process_alone_waits_for_no_other():
    ALONE.barrier("anything")
    assert ALONE.from_first(3) == 3 and ALONE.is_first
