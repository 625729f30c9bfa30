"""Profiler: the window of steps and the table of operations."""

import jax
import jax.numpy as jnp
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.performance import compilation, traces
from socialjepa_jax.performance.profiling import Profiler, Window


@pytest.mark.parametrize("text", ["", "10", "10:10", "20:10", "-1:5", "a:b", "1:2:3", "1.5:3"])
def test_invalid_windows_are_refused(text):
    with pytest.raises(InputError, match="--profile_steps="):
        Window.parse(text)


def test_a_window_after_the_end_is_refused():
    Window.parse("39:50").check(40)
    with pytest.raises(InputError, match=r"40:50 begins after the last of config.run.steps=40"):
        Window.parse("40:50").check(40)


@pytest.mark.parametrize(
    ("window", "traced"),
    [("10:20", [10, 15]), ("11:12", [10]), ("0:1", [0]), ("38:99", [35]), ("14:16", [10, 15])],
)
def test_the_trace_covers_whole_calls_around_the_window(window, traced, tmp_path, monkeypatch):
    log = []
    monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: log.append("start"))
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: log.append("stop"))
    with Profiler(Window.parse(window), tmp_path, None) as profiler:
        for done in range(0, 40, 5):
            profiler.before(done, 5)
            log.append(done)
            profiler.after(done + 5, ())
    assert log[log.index("start") + 1 : log.index("stop")] == traced
    assert log.count("start") == log.count("stop") == 1
    assert "operation" in (tmp_path / "top.txt").read_text()


def test_the_table_names_the_slowest_operations(tmp_path):
    def function(x):
        with jax.named_scope("heavy"):
            x = jax.lax.fori_loop(0, 8, lambda _, y: y @ x / 400, x)
        with jax.named_scope("light"):
            return jnp.sum(x)

    x = jnp.ones((400, 400))
    compiled = compilation.ahead_of_time(jax.jit(function), x)
    compiled.call(x).block_until_ready()
    with Profiler(Window(0, 3), tmp_path, compiled) as profiler:
        for step in range(3):
            profiler.before(step, 1)
            profiler.after(step + 1, compiled.call(x))
    found = traces.operations(tmp_path, compiled.text())
    assert sum(operation.share for operation in found) == pytest.approx(1)
    heavy = [op for op in found if "heavy" in op.name and "dot_general" in op.name]
    assert sum(op.count for op in heavy) == 3 * 8
    light = [op for op in found if "light" in op.name]
    assert sum(op.share for op in heavy) > sum(op.share for op in light) > 0
    lines = (tmp_path / "top.txt").read_text().splitlines()
    assert "heavy" in lines[1] and len(lines) <= 11


def test_operations_of_other_modules_are_not_counted(tmp_path):
    def step(x):
        return jnp.sort(x)

    def evaluation(x):
        return x @ x

    x = jnp.ones((64, 64))
    compiled = compilation.ahead_of_time(jax.jit(step), x)
    other = compilation.ahead_of_time(jax.jit(evaluation), x)
    with Profiler(Window(0, 1), tmp_path, compiled) as profiler:
        profiler.before(0, 1)
        jax.block_until_ready([other.call(x), compiled.call(x)])
        profiler.after(1, ())
    every = {operation.name for operation in traces.operations(tmp_path)}
    ours = {operation.name for operation in traces.operations(tmp_path, compiled.text())}
    assert len(every) > 1 and ours and all("sort" in name for name in ours)


def test_a_window_before_the_step_to_resume_at_gives_a_warning(caplog):
    with caplog.at_level("WARNING"):
        Window(10, 20).warn_if_past(19)
        assert not caplog.records
        Window(10, 20).warn_if_past(20)
    assert "--profile_steps=10:20 ends before step 20" in caplog.text
