"""The GPU suite's sections of training steps: their targets and notes."""

import dataclasses

import numpy as np
import pytest

from experiments.bench import steps
from experiments.bench.gpu import training
from experiments.bench.gpu.sizes import REHEARSAL
from socialjepa_jax.performance import hardware
from socialjepa_jax.performance.hardware import Hardware


class _Compiled:
    temporary_bytes, seconds = 1, 1.0


def test_the_peak_is_measured_before_a_step_fills_the_memory(monkeypatch):
    order = []
    peak = Hardware("H", "gpu", 1, "bfloat16", 1e12, 1e9)
    step = steps.Step(lambda: np.zeros(1), _Compiled(), 2, 1e9, 1.0)
    monkeypatch.setattr(hardware, "measured", lambda: order.append("peak") or peak)
    monkeypatch.setattr(steps, "make_step", lambda *a, **k: order.append("step") or step)
    list(training.ijepa(dataclasses.replace(REHEARSAL, ijepa=(2,))))
    assert order[:2] == ["peak", "step"]


def test_targets_and_stretch_targets_of_the_steps():
    """Shares of the peak for steps that the sections build: pass and stretch."""
    sizes = dataclasses.replace(REHEARSAL, ijepa=(2,))
    step = steps.Step(lambda: np.zeros(1), _Compiled(), 2, 1e9, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "make_step", lambda *a, **k: step)
        ijepa, lejepa, mae = (
            list(getattr(training, name)(sizes))[-1] for name in ("ijepa", "lejepa", "mae")
        )
    assert (ijepa.target, ijepa.stretch) == pytest.approx((0.35, 0.47))
    assert (lejepa.target, lejepa.stretch) == pytest.approx((0.33, 0.45))
    assert (mae.target, mae.stretch) == pytest.approx((0.33, 0.45))


def test_an_unknown_bandwidth_is_left_out_of_the_note():
    for accessed, said in ((1e6, True), (float("nan"), False)):
        step = steps.Step(lambda: None, _Compiled(), 2, 1e9, accessed)
        assert ("of the bandwidth" in training._note(step, 0.1)) is said
