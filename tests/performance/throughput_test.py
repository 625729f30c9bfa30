"""Speeds: what they are made of, and what is left out where it is not known."""

import math

import pytest

from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.performance import throughput
from socialjepa_jax.performance.compilation import Compiled
from socialjepa_jax.performance.hardware import Hardware

COMPILED = Compiled(lambda: None, 1.0, 1, 1, 6e6, str)


def program(bytes_per_image, platform="gpu"):
    hardware = Hardware("H", platform, 2, "bfloat16", 1e12, 1e9)
    return throughput.CompiledStep(COMPILED, hardware, 1e9, bytes_per_image)


def test_speeds_are_shares_of_what_all_devices_reach():
    found = program(3e6).scalars(500.0)
    assert found == pytest.approx(
        {"images_per_s": 500, "tflops_per_s": 0.5, "mfu": 0.25, "bandwidth_share": 0.75}
    )
    assert "bandwidth_share" not in program(3e6, "cpu").scalars(500.0)


def test_the_bandwidth_of_scanned_layers_is_not_known_and_left_out():
    """XLA counts the body of a loop once."""
    for scanned in (False, True):
        objective = IJepa(vit=ViTConfig(width=16, heads=1, depth=2, scan_layers=scanned))
        accessed = throughput.accessed_bytes(objective, COMPILED)
        assert math.isnan(accessed) if scanned else accessed == 6e6
        assert ("bandwidth_share" in program(accessed).scalars(1.0)) is not scanned


def test_evaluations_and_saves_are_no_part_of_a_speed(monkeypatch):
    now = iter([100.0, 103.0, 163.0, 165.0, 170.0, 171.0, 171.5, 181.5])
    monkeypatch.setattr(throughput.time, "monotonic", lambda: next(now))
    watch = throughput.Stopwatch(10)
    with watch.paused():  # for 60 s
        pass
    assert watch.lap(30) == (20, 5.0)
    assert watch.lap(40) == (10, 5.0)
    with pytest.raises(KeyError), watch.paused():  # for 0.5 s
        raise KeyError
    assert watch.lap(50) == (10, 11.0)
