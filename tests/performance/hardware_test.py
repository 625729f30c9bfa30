"""Measured limits of the devices, timing, and the text that reports them."""

import dataclasses
import json
import math
import time

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.performance import hardware
from socialjepa_jax.performance.hardware import Hardware
from socialjepa_jax.records import write_json


def test_the_device_is_named_and_measured_once():
    found = hardware.measured()
    assert (found.name, found.platform, found.dtype) == ("cpu", "cpu", "float32")
    assert found.devices == 1  # virtual devices share the cores
    assert found.matmul_flops > 1e9 and found.copy_bytes > 1e8
    assert hardware.measured() is found
    assert "1 x cpu: " in found.describe() and "float32" in found.describe()


def test_rates_are_work_divided_by_the_shortest_time(monkeypatch):
    monkeypatch.setattr(hardware, "seconds", lambda run, x: 0.5)
    assert hardware.matmul_flops(10, "float32", products=3) == 3 * 2 * 1000 / 0.5
    assert hardware.copy_bytes(4096) == 2 * 4096 / 0.5


def test_the_products_are_not_copied(monkeypatch):
    programs = []
    monkeypatch.setattr(hardware, "seconds", lambda run, x: programs.append((run, x)) or 1.0)
    hardware.matmul_flops(16, "float32", products=3)
    ((chain, x),) = programs
    compiled = chain.lower(x).compile()
    np.testing.assert_allclose(compiled(x), np.linalg.matrix_power(x, 4), rtol=1e-4, atol=1e-6)
    text = compiled.as_text()
    assert text.count(" dot(") == 3 and " copy(" not in text and " while(" not in text


def test_seconds_is_the_shortest_repeat_after_a_warm_up():
    calls, ticks = [], iter([0.0, 5.0, 5.0, 7.0, 7.0, 10.0])

    def run(x):
        calls.append(x)
        return x

    found = hardware.seconds(run, jnp.ones(1), repeats=3, clock=lambda: next(ticks))
    assert found == 2.0 and len(calls) == 4


def test_seconds_waits_for_the_results():
    """A call returns before its computation ends; the time includes the computation."""
    x = jnp.ones((600, 600))
    chain = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: y @ x / 600, x))
    start = time.perf_counter()
    taken = hardware.seconds(chain, x, repeats=1)
    assert taken > 20 * 2 * 600**3 / 4e12  # no CPU reaches 4 TFLOP/s
    assert taken < time.perf_counter() - start


def test_speeds_are_formatted_on_one_line():
    speeds = {"images_per_s": 1234.4, "tflops_per_s": 0.0261, "mfu": 0.314}
    assert hardware.shown(speeds) == "1234 images/s, 0.0261 TFLOP/s, 31% of the matmul peak"
    assert hardware.shown({}) == ""


def test_full_memory_is_reported_and_loses_one_limit(monkeypatch, caplog):
    def full(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")

    full.__name__ = "copy_bytes"
    monkeypatch.setattr(hardware, "copy_bytes", full)
    monkeypatch.setattr(hardware, "matmul_flops", lambda *arguments: 1e12)
    found = hardware.measured.__wrapped__()
    assert found.matmul_flops == 1e12 and math.isnan(found.copy_bytes)
    assert "Too little memory is left to measure copy_bytes" in caplog.text
    assert found.describe() == (
        "1 x cpu: 1 TFLOP/s in float32 products (each, measured); copies not measured, as memory "
        "was full"
    )


def test_the_line_of_fast_devices_has_no_powers_of_ten_and_no_nan():
    fast = Hardware("H100", "gpu", 8, "bfloat16", 791.26e12, 2712.4e9)
    assert fast.describe() == (
        "8 x H100: 791.3 TFLOP/s in bfloat16 products, 2712 GB/s in copies (each, measured)"
    )
    nothing = dataclasses.replace(fast, matmul_flops=math.nan, copy_bytes=math.nan)
    assert nothing.describe() == (
        "8 x H100: bfloat16 products and copies not measured, as memory was full"
    )
    assert hardware.shown({"tflops_per_s": 2345.6}) == "2346 TFLOP/s"


def test_hardware_survives_a_round_trip_through_json(tmp_path):
    for copies in (3e12, math.nan):
        found = Hardware("H100", "gpu", 8, "bfloat16", 8e14, copies)
        write_json(tmp_path / "x.json", dataclasses.asdict(found))
        again = hardware.from_json(json.loads((tmp_path / "x.json").read_text()))
        np.testing.assert_equal(dataclasses.asdict(again), dataclasses.asdict(found))
