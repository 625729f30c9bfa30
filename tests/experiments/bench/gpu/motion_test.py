"""The GPU suite's section of worlds in motion: what it times and what it makes of the times."""

import dataclasses

import pytest

from experiments.bench import steps
from experiments.bench.gpu import motion, suite
from experiments.bench.gpu.sizes import GPU, REHEARSAL
from socialjepa_jax.data.toys.moving import MotionPool, MotionStream


class _Compiled:
    temporary_bytes, seconds = 1, 1.0


def test_rates_and_the_share_of_rendering(monkeypatch):
    """0.2 s on a pool and 0.5 s on fresh pairs, 8 of them: 0.3 s render 16 images."""
    sources, seconds = [], {MotionPool: 0.2, MotionStream: 0.5}

    def compile_step(objective, batch_size, source):
        sources.append(source)
        return steps.Step(type(source), _Compiled(), batch_size, 1e9, 1.0)

    monkeypatch.setattr(steps, "compile_step", compile_step)
    monkeypatch.setattr(steps, "times", lambda made, effort: [seconds[s.advance] for s in made])
    sizes = dataclasses.replace(REHEARSAL, motion=REHEARSAL.motion[:1])
    assert suite.SECTIONS["motion"] is motion.motion
    pool, fresh, share = motion.motion(sizes)
    assert pool.name == "motion_conv, pool, pairs/s" and pool.value == pytest.approx(40)
    assert fresh.name == "motion_conv, fresh pairs, pairs/s" and fresh.value == pytest.approx(16)
    assert share.value == pytest.approx(0.6) and share.note == "53 images/s rendered"
    (stored,) = (source for source in sources if isinstance(source, MotionPool))
    assert stored.frames.shape == (1, 16, 2, 32, 32, 3)


def test_the_sizes_are_those_of_the_configurations():
    named = {name: experiment for name, experiment in GPU.motion}
    assert set(named) == {"motion_conv", "motion_vits"} == {name for name, _ in REHEARSAL.motion}
    conv, vits = named["motion_conv"], named["motion_vits"]
    assert (conv.data.image_size, conv.run.steps, conv.data.pool) == (64, 39_000, 100_000)
    assert (vits.objective.encoder.width, vits.run.batch_size, vits.data.pool) == (384, 256, 0)
