"""Measured limits of the devices: matmul peak and memory bandwidth, the reference of speeds.

Both are measured in this process, with a large matrix product and a large copy, since no program
reaches the numbers of a data sheet.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging


@dataclasses.dataclass(frozen=True)
class Hardware:
    """The devices of a run and their measured limits.

    Attributes:
        name: kind of the devices.
        platform: "cpu" | "gpu" | "tpu".
        devices: number of devices; 1 on CPUs, whose virtual devices share the same cores.
        dtype: dtype of the matmul peak: bfloat16, on CPUs float32.
        matmul_flops: FLOP/s of a large square matrix product on one device; NaN if too little
            memory was free to measure it.
        copy_bytes: bytes/s, read and written, of a large copy on one device; NaN likewise.
    """

    name: str
    platform: str
    devices: int
    dtype: str
    matmul_flops: float
    copy_bytes: float

    def describe(self) -> str:
        """Returns one line: number, name, and the limits, measured or not."""
        limits = (
            (self.matmul_flops / 1e12, "TFLOP/s", f"{self.dtype} products"),
            (self.copy_bytes / 1e9, "GB/s", "copies"),
        )
        known = [
            f"{rate:.4g} {unit} in {name}" for rate, unit, name in limits if not math.isnan(rate)
        ]
        unknown = [name for rate, _, name in limits if math.isnan(rate)]
        parts = [f"{', '.join(known)} (each, measured)"] if known else []
        if unknown:
            parts.append(f"{' and '.join(unknown)} not measured, as memory was full")
        return f"{self.devices} x {self.name}: {'; '.join(parts)}"


def from_json(record: Mapping[str, Any]) -> Hardware:
    """Returns the devices of a JSON record, in which null stands for NaN.

    Raises:
        KeyError, TypeError: the record has other fields.
    """
    limits = ("matmul_flops", "copy_bytes")
    numbers = {name: math.nan if record[name] is None else record[name] for name in limits}
    return Hardware(**{**record, **numbers})


# Names of the speeds of a run (see `throughput`), and their formats.
SPEEDS = {
    "images_per_s": "{:.0f} images/s",
    "tflops_per_s": "{:.4g} TFLOP/s",
    "mfu": "{:.0%} of the matmul peak",
    "bandwidth_share": "{:.0%} of the bandwidth",
}


def shown(speeds: Mapping[str, float]) -> str:
    """Formats speeds on one line."""
    return ", ".join(form.format(speeds[name]) for name, form in SPEEDS.items() if name in speeds)


@functools.cache
def measured() -> Hardware:
    """Measures the default devices, once per process: 0.2 s on a CPU, 2 s on a GPU."""
    device = jax.devices()[0]
    on_cpu = device.platform == "cpu"
    dtype = "float32" if on_cpu else "bfloat16"
    return Hardware(
        name=device.device_kind,
        platform=device.platform,
        devices=1 if on_cpu else jax.device_count(),
        dtype=dtype,
        matmul_flops=_unless_full(matmul_flops, 512 if on_cpu else 8192, dtype),
        copy_bytes=_unless_full(copy_bytes, 2**25 if on_cpu else 2**30),
    )


def _unless_full(measure: Callable[..., float], *arguments: Any) -> float:
    """Returns NaN if the device's memory, which already holds state and data, is full."""
    try:
        return measure(*arguments)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        logging.warning("Too little memory is left to measure %s.", measure.__name__)
        return math.nan


def matmul_flops(size: int, dtype: str, products: int = 8) -> float:
    """Returns the FLOP/s of `products` consecutive products of [size, size] matrices."""
    # Random, because constant operands draw less power and run faster on some devices.
    x = jax.random.normal(jax.random.key(0), (size, size), dtype) / math.sqrt(size)
    # Unrolled, because a loop copies every product, 7 % of the time on a GPU.
    chain = jax.jit(lambda x: functools.reduce(lambda y, _: y @ x, range(products), x))
    return products * 2 * size**3 / seconds(chain, x)


def copy_bytes(size: int) -> float:
    """Returns the bytes/s of a copy that reads and writes `size` bytes each."""
    x = jnp.zeros(size // 4, jnp.float32)
    return 2 * size / seconds(jax.jit(lambda x: x + 1.0), x)


def seconds(
    run: Callable[..., Any],
    *arguments: Any,
    repeats: int = 4,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Returns the shortest time of a call until its results are ready, after a warm-up call."""
    jax.block_until_ready(run(*arguments))
    times = []
    for _ in range(repeats):
        start = clock()
        jax.block_until_ready(run(*arguments))
        times.append(clock() - start)
    return min(times)
