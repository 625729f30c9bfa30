"""The log: one JSON object a line, cut back to the checkpoint when a run resumes."""

import json

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from socialjepa_jax.running.writers import Writer


def _lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def test_lines_and_tensorboard_hold_the_same(tmp_path):
    with Writer(tmp_path, 0, 10) as writer:
        writer.write(5, "train", {"agent_0/loss": 0.25})
        writer.write(10, "eval", {"pair_0_1/state/r2": 0.5})
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
