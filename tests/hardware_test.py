import math
import time

import jax
import jax.numpy as jnp

from socialjepa_jax import hardware


def test_the_device_is_named_and_measured_once():
    found = hardware.measured()
    assert (found.name, found.platform, found.dtype) == ("cpu", "cpu", "float32")
    assert found.devices == 1  # virtual devices share the cores
    assert found.matmul_flops > 1e9 and found.copy_bytes > 1e8
    assert hardware.measured() is found
    assert "1 x cpu: " in found.describe() and "float32" in found.describe()


def test_rates_are_work_over_the_least_time(monkeypatch):
    monkeypatch.setattr(hardware, "seconds", lambda run, x: 0.5)
    assert hardware.matmul_flops(10, "float32", products=3) == 3 * 2 * 1000 / 0.5
    assert hardware.copy_bytes(4096) == 2 * 4096 / 0.5


def test_time_is_the_least_of_the_repeats_after_one_call():
    calls, ticks = [], iter([0.0, 5.0, 5.0, 7.0, 7.0, 10.0])

    def run(x):
        calls.append(x)
        return x

    found = hardware.seconds(run, jnp.ones(1), repeats=3, clock=lambda: next(ticks))
    assert found == 2.0 and len(calls) == 4


def test_results_are_awaited():
    """A call returns before it is done; what is timed is the work."""
    x = jnp.ones((600, 600))
    chain = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: y @ x / 600, x))
    start = time.perf_counter()
    taken = hardware.seconds(chain, x, repeats=1)
    assert taken > 20 * 2 * 600**3 / 4e12  # 4 TFLOP/s are more than any CPU has
    assert taken < time.perf_counter() - start


def test_speeds_are_read_in_one_line():
    speeds = {"images_per_s": 1234.4, "tflops_per_s": 0.0261, "mfu": 0.314}
    assert hardware.shown(speeds) == "1234 images/s  0.0261 TFLOP/s  31% of the matmul peak"
    assert hardware.shown({}) == ""


def test_full_memory_is_said_and_costs_a_figure_alone(monkeypatch, caplog):
    def full(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")

    full.__name__ = "copy_bytes"
    monkeypatch.setattr(hardware, "copy_bytes", full)
    monkeypatch.setattr(hardware, "matmul_flops", lambda *arguments: 1e12)
    found = hardware.measured.__wrapped__()
    assert found.matmul_flops == 1e12 and math.isnan(found.copy_bytes)
    assert "Too little memory is left to measure copy_bytes" in caplog.text
    assert "nan GB/s" in found.describe()
