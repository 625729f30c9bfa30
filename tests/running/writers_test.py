"""The log: one JSON object a line, cut back to the checkpoint when a run resumes."""

import json
import math

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from socialjepa_jax.running.writers import Writer


def _lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def test_lines_and_tensorboard_hold_the_same(tmp_path):
    with Writer(tmp_path, 0, 10) as writer:
        writer.write(5, "train", {"agent_0/loss": 0.25})
        writer.write(10, "eval", {"pair_0_1/state/r2": 0.5})
        assert writer.holds(10, "eval") and writer.holds(5, "train")
        assert not (writer.holds(10, "train") or writer.holds(5, "eval"))
    first, second = _lines(tmp_path)
    assert (first["step"], first["kind"], first["agent_0/loss"]) == (5, "train", 0.25)
    assert second["pair_0_1/state/r2"] == 0.5
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/agent_0/loss")] == [(5, 0.25)]


def test_resuming_drops_what_came_after_the_checkpoint(tmp_path):
    with Writer(tmp_path, 0, 10) as writer:
        for step in (2, 4, 6, 8):
            writer.write(step, "train", {"loss": step / 2})
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 9, "lo')  # a kill in the middle of a line
    with Writer(tmp_path, 4, 10) as writer:
        writer.write(6, "train", {"loss": 3.0})
    assert [line["step"] for line in _lines(tmp_path)] == [2, 4, 6]


def test_a_run_that_saved_nothing_starts_an_empty_log(tmp_path):
    for _ in range(2):
        with Writer(tmp_path, 0, 10) as writer:
            writer.write(0, "eval", {"pair_0_1/state/r2": 0.5})
    assert [line["step"] for line in _lines(tmp_path)] == [0]


def _damaged(data, line, how):
    """Damages one line of a file, and returns the file."""
    lines = data.splitlines(keepends=True)
    lines[line] = how(lines[line])
    return b"".join(lines)


@pytest.mark.parametrize(
    "how",
    [
        lambda line: line[:9] + bytes([line[9] | 0x80]) + line[10:],  # no UTF-8 any more
        lambda line: line.replace(b'"', b"'"),
        lambda line: line[: len(line) // 2] + b"\n",
        lambda line: b"\x00" * (len(line) - 1) + b"\n",
        lambda line: b"[" * 100_000 + b"\n",
        lambda line: line.replace(b'"step"', b'"stop"'),
        lambda line: line.replace(b'"step": ', b'"step": -.'),
        lambda line: line.replace(b'"step": ', b'"step": 1e'),
        lambda line: b"17\n",
        lambda line: b"\n",
    ],
)
def test_one_damaged_line_costs_that_line_alone(tmp_path, how, caplog):
    with Writer(tmp_path, 0, 10) as writer:
        for step in range(9):
            writer.write(step, "train", {"loss": step / 7})
    path = tmp_path / "metrics.jsonl"
    before = path.read_bytes()
    path.write_bytes(damaged := _damaged(before, 3, how))
    with Writer(tmp_path, 7, 10) as writer:
        assert writer.holds(2, "train") and not writer.holds(3, "train")
    lines = before.splitlines(keepends=True)
    assert path.read_bytes() == b"".join([*lines[:3], *lines[4:8]])
    assert (tmp_path / "metrics.jsonl.damaged").read_bytes() == damaged
    assert "damaged lines dropped: 1; see metrics.jsonl.damaged" in caplog.text


def test_an_intact_log_has_nothing_kept_beside_it(tmp_path, caplog):
    for step in (1, 2, 3):
        with Writer(tmp_path, step, 10) as writer:
            writer.write(step + 1, "train", {"loss": 0.5})
    assert not list(tmp_path.glob("*.damaged*")) and not caplog.text
    assert [line["step"] for line in _lines(tmp_path)] == [2, 3, 4]


def test_values_that_are_not_finite_are_null(tmp_path):
    """Strict readers of JSON know no NaN."""
    with Writer(tmp_path, 0, 10) as writer:
        writer.write(1, "train", {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 0.5})

    def refuse(constant):
        raise AssertionError(constant)

    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    found = json.loads(line, parse_constant=refuse)
    assert [found[name] for name in "abcd"] == [None, None, None, 0.5]
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert math.isnan(events.Scalars("train/a")[0].value)


def test_the_files_grow_while_the_run_writes(tmp_path):
    """What was written is on disk before the writer is closed, as a kill may come."""
    with Writer(tmp_path, 0, 10) as writer:
        writer.write(1, "train", {"loss": 0.5})
        assert _lines(tmp_path)[0]["loss"] == 0.5
        events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
        assert events.Scalars("train/loss")[0].value == 0.5
