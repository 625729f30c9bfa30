import json
import math

import pytest

from socialjepa_jax.report.run import data
from socialjepa_jax.report.run.data import mean, pick
from socialjepa_jax.report.tables import Interval


def test_reads_a_whole_run(run):
    assert run.name == "shapes_ijepa" and run.agents == [0, 1, 2]
    assert [run.camera(agent) for agent in run.agents] == [0, 1, 0]
    assert len(run.train) == 20 and len(run.evals) == 5
    assert run.latents[1].z.shape == (300, 32)
    assert set(run.latents[1].splits) == {"instance", "state"}
    assert data.main_pair(run) == (0, 1)
    assert data.curve_pairs(run, "state") == [(0, 1), (0, 2), (1, 2)]


def test_an_empty_folder_is_an_empty_run(tmp_path):
    run = data.read_run(tmp_path)
    assert run.name == tmp_path.name and run.agents == [] and run.scores == []
    assert data.main_pair(run) is None and run.camera(5) == 5


def test_a_line_cut_short_is_left_out(tmp_path):
    lines = ['{"step": 20, "kind": "train", "agent_0/loss": 2}', '{"step": 10, "kind": "train", ',
             '{"step": 10, "kind": "train", "agent_0/loss": NaN}']  # fmt: skip
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    steps, losses = data.curve(data.read_run(tmp_path).train, "agent_0/loss")
    assert steps.tolist() == [10, 20] and math.isnan(losses[0]) and losses[1] == 2


def test_a_damaged_line_is_left_out_alone_and_null_is_no_number(tmp_path):
    line = b'{"step": %d, "kind": "train", "agent_0/loss": %s}'
    lines = [line % (1, b"4"), (line % (2, b"9")).replace(b"s", b"\xf3"), line % (3, b"null"),
             line.replace(b"%d", b'"4"') % b"1", line % (5, b"2")]  # fmt: skip
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    steps, losses = data.curve(data.read_run(tmp_path).train, "agent_0/loss")
    assert steps.tolist() == [1, 3, 5] and losses.tolist()[::2] == [4, 2] and math.isnan(losses[1])


def test_pick_takes_one_score_a_pair(run):
    scores = pick(run, "trained", "instance")
    assert [(s.x, s.y, s.back) for s in scores] == [
        ("agent_0", "agent_1", "inverse"),
        ("agent_1", "agent_2", "inverse"),
    ]
    assert {s.back for s in pick(run, "trained", "instance", "forward")} == {"forward"}


def test_mean_of_one_several_none_and_nan(run):
    scores = pick(run, "trained", "state")
    assert mean(scores[:1], "r2") == pytest.approx(0.40)
    interval = mean(scores, "r2")
    assert isinstance(interval, Interval)
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.39, 0.38, 0.40))
    assert mean(scores, "no_such_metric") is None
    broken = [data.Score("a", "b", "r", "s", metrics={"r2": v}) for v in (0.5, math.nan)]
    assert math.isnan(data.value(mean(broken, "r2")))


def test_best_control_ignores_the_ceiling_and_what_is_left_after_partialling(run):
    name, r2 = data.best_control(run, "instance")
    assert name == "untrained_same_init" and r2 == pytest.approx(0.235)


def test_null_metrics_are_nan(tmp_path):
    row = {"x": "a", "y": "b", "row": "trained", "split": "state", "metrics": {"r2": None}}
    (tmp_path / "alignment.json").write_text(json.dumps({"schema": 1, "rows": [row]}))
    (score,) = data.read_run(tmp_path).scores
    assert math.isnan(score.metrics["r2"])
