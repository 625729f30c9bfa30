"""What the device can do, measured: the matmul peak and bandwidth that speeds are held against.

Data sheets promise more than any program reaches, so shares are of what a large matrix product and
a large copy reach here, in this process.
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
    """The devices at hand.

    Attributes:
        name: kind of the devices.
        platform: "cpu" | "gpu" | "tpu".
        devices: how many count; 1 on CPUs, whose virtual devices share the same cores.
        dtype: that the matmul peak is of: bfloat16, on CPUs float32.
        matmul_flops: FLOP/s of a large square matrix product on one device.
        copy_bytes: bytes/s, read and written, of a large copy on one device.
            Both are NaN where the memory that is left does not suffice to measure them.
    """

    name: str
    platform: str
    devices: int
    dtype: str
    matmul_flops: float
    copy_bytes: float

    def describe(self) -> str:
        """One line: name, count and what was measured; what was not is said to be so."""
        figures = (
            (self.matmul_flops / 1e12, "TFLOP/s", f"{self.dtype} products"),
            (self.copy_bytes / 1e9, "GB/s", "copies"),
        )
        known = [
            f"{rate:.4g} {unit} in {what}" for rate, unit, what in figures if not math.isnan(rate)
        ]
        unknown = [what for rate, _, what in figures if math.isnan(rate)]
        parts = [f"{', '.join(known)} (each, measured)"] if known else []
        if unknown:
            parts.append(f"{' and '.join(unknown)} not measured, as memory was full")
        return f"{self.devices} x {self.name}: {'; '.join(parts)}"


def from_json(found: Mapping[str, Any]) -> Hardware:
    """The devices that JSON describes, where a measurement that failed is null.

    Raises:
        KeyError, TypeError: it describes something else.
    """
    measurements = ("matmul_flops", "copy_bytes")
    numbers = {name: math.nan if found[name] is None else found[name] for name in measurements}
    return Hardware(**{**found, **numbers})


# How a speed is measured (`throughput.Program.scalars`), and how it is read.
SPEEDS = {
    "images_per_s": "{:.0f} images/s",
    "tflops_per_s": "{:.4g} TFLOP/s",
    "mfu": "{:.0%} of the matmul peak",
    "bandwidth_share": "{:.0%} of the bandwidth",
}


def shown(speeds: Mapping[str, float]) -> str:
    """Speeds on one line, as they are read."""
    return ", ".join(form.format(speeds[name]) for name, form in SPEEDS.items() if name in speeds)


@functools.cache
def measured() -> Hardware:
    """The default devices; measured once in a process: 0.2 s on a CPU, 2 s on a GPU."""
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
    """NaN where the device's memory is full: state and data are there already."""
    try:
        return measure(*arguments)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        logging.warning("Too little memory is left to measure %s.", measure.__name__)
        return math.nan


def matmul_flops(size: int, dtype: str, products: int = 8) -> float:
    """FLOP/s of square products that follow each other."""
    # Random, as predictable operands draw less power and run faster on some devices.
    x = jax.random.normal(jax.random.key(0), (size, size), dtype) / math.sqrt(size)
    # Not a loop, which would copy each product: on a GPU some 7 % of its time.
    chain = jax.jit(lambda x: functools.reduce(lambda y, _: y @ x, range(products), x))
    return products * 2 * size**3 / seconds(chain, x)


def copy_bytes(size: int) -> float:
    """Bytes/s of reading `size` bytes and writing as many."""
    x = jnp.zeros(size // 4, jnp.float32)
    return 2 * size / seconds(jax.jit(lambda x: x + 1.0), x)


def seconds(
    run: Callable[..., Any],
    *arguments: Any,
    repeats: int = 4,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Least seconds of a call, results awaited, after one to warm up."""
    jax.block_until_ready(run(*arguments))
    times = []
    for _ in range(repeats):
        start = clock()
        jax.block_until_ready(run(*arguments))
        times.append(clock() - start)
    return min(times)
