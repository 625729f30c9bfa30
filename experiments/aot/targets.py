"""Accelerators that a program can be compiled for without one: data sheets and topologies."""

import contextlib
import dataclasses
import importlib.util
import math
import os
import re
from collections.abc import Iterator
from typing import Any

import jax
from jax.experimental import topologies

from socialjepa_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Chip:
    """Limits of a chip from its data sheet.

    Attributes:
        name: for tables.
        flops: FLOP/s of dense bfloat16 products.
        memory: bytes.
        bandwidth: bytes/s of its main memory.
        link: bytes/s that it sends over a link, in one direction.
        torus: side of the torus from which on a row of chips is a ring; 0: all chips of a node are
            connected by a switch, which is one link.
        tile: rows, contracted and columns of the smallest product that its matrix units compute.
    """

    name: str
    flops: float
    memory: float
    bandwidth: float
    link: float
    torus: int = 0
    tile: tuple[int, int, int] = (1, 1, 1)

    def sends(self, sides: tuple[int, ...]) -> float:
        """Returns the bytes/s that the chip with the fewest links sends in a slice."""
        if not self.torus:
            return self.link
        return self.link * sum(2 if side >= self.torus else 1 for side in sides if side > 1)


# Four links of 400 Gbit/s; NVLink of 900 GB/s in both directions.
V5E = Chip("TPU v5e", 197e12, 16e9, 819e9, 50e9, torus=16, tile=(8, 128, 128))
H100 = Chip("H100 SXM", 989e12, 80e9, 3350e9, 450e9, tile=(64, 16, 8))

_H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84978434048 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 minor: 0 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 12 minor: 9 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
_TPU = {  # without them libtpu asks the cloud's metadata server what it runs on
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


@dataclasses.dataclass(frozen=True)
class Target:
    """Chips to compile for.

    Attributes:
        name: "v5e:ROWSxCOLUMNS" | "h100xNUMBER", the GPUs of one host.
        chip: its data sheet.
        sides: of the slice.
    """

    name: str
    chip: Chip
    sides: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of chips."""
        return math.prod(self.sides)

    @property
    def compiler_options(self) -> dict[str, Any]:
        """Options without which the compiler asks for the device."""
        return {"xla_gpu_autotune_level": 0} if self.chip is H100 else {}

    def devices(self) -> list[jax.Device]:
        """Returns devices that programs can be compiled for and not run on.

        Raises:
            InputError: the compiler is not installed, or knows no such topology.
        """
        module, extra = (
            ("jax_plugins.xla_cuda12", "aot-cuda") if self.chip is H100 else ("libtpu", "aot-tpu")
        )
        if not _installed(module):
            raise InputError(
                f"--targets={self.name} needs {module}: pip install socialjepa_jax[{extra}]"
            )
        try:
            if self.chip is H100:
                described = topologies.get_topology_desc(
                    "", "cuda", target_config=_H100, topology=f"1x1x{self.size}"
                )
            else:
                for name, value in _TPU.items():
                    os.environ.setdefault(name, value)
                described = topologies.get_topology_desc(self.name, "tpu")
        except (RuntimeError, ValueError, NotImplementedError) as error:
            raise InputError(f"--targets={self.name}: {str(error).splitlines()[0]}") from None
        return list(described.devices)


_traced_for = jax.make_user_context(None)  # part of the keys of jit's caches


@contextlib.contextmanager
def traced_for(devices: list[jax.Device]) -> Iterator[None]:
    """Traces as a process would whose default backend is that of the devices.

    SIGReg's blocks, the map over agents and the rays of a block go by `jax.default_backend()`. What
    is traced here is not reused outside, nor the other way round.
    """
    platform = {"cuda": "gpu"}.get(devices[0].platform, devices[0].platform)
    of_process = jax.default_backend
    jax.default_backend = lambda: platform
    try:
        with _traced_for(platform):
            yield
    finally:
        jax.default_backend = of_process


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that holds it
        return False


def parse(name: str) -> Target:
    """Returns the target of a name.

    Raises:
        InputError: it is none.
    """
    if match := re.fullmatch(r"v5e:([1-9]\d?)x([1-9]\d?)", name):
        return Target(name, V5E, (int(match[1]), int(match[2])))
    if match := re.fullmatch(r"h100x([1-8])", name):
        return Target(name, H100, (int(match[1]),))
    raise InputError(f"--targets={name} must be v5e:ROWSxCOLUMNS, as in v5e:2x2, or h100x1 ... x8")
