"""Speed of a run, and its share of the limits of the devices."""

import contextlib
import dataclasses
import math
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from absl import logging

from socialjepa_jax.agents import Trainer
from socialjepa_jax.models.vit import vits
from socialjepa_jax.performance import compilation, flops, hardware
from socialjepa_jax.performance.compilation import Compiled
from socialjepa_jax.performance.hardware import Hardware
from socialjepa_jax.records import write_json


@dataclasses.dataclass(frozen=True)
class CompiledStep:
    """The compiled steps of all agents.

    Attributes:
        compiled: the program.
        hardware: what it runs on.
        flops_per_image: model FLOPs of an update, over the pictures of its batch.
        bytes_per_image: what XLA counts the step to read and write, likewise; NaN where unknown.
    """

    compiled: Compiled
    hardware: Hardware
    flops_per_image: float
    bytes_per_image: float

    def scalars(self, images_per_second: float) -> dict[str, float]:
        """Speed: 'images_per_s', 'tflops_per_s' of the model, 'mfu', their share of the measured
        matmul peak, and 'bandwidth_share', bytes accessed over those of the measured copy. What is
        unknown is left out, and on CPUs the last: their caches serve most bytes."""
        flops_per_second = images_per_second * self.flops_per_image
        bytes_per_second = images_per_second * self.bytes_per_image
        devices = self.hardware.devices
        found = {
            "images_per_s": images_per_second,
            "tflops_per_s": flops_per_second / 1e12,
            "mfu": flops_per_second / (devices * self.hardware.matmul_flops),
            "bandwidth_share": bytes_per_second / (devices * self.hardware.copy_bytes),
        }
        if self.hardware.platform == "cpu":
            del found["bandwidth_share"]
        return {name: _rounded(value) for name, value in found.items() if math.isfinite(value)}


class Stopwatch:
    """Times a run's steps alone: compiling, evaluations and saves pause it.

    Calls are dispatched without waiting, so whoever pauses or reads it waits for them before.

    Args:
        step: updates done so far.
    """

    def __init__(self, step: int) -> None:
        self._step, self._since = step, time.monotonic()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Excludes the time of the body."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._since += time.monotonic() - start

    def lap(self, step: int) -> tuple[int, float]:
        """Steps since the last call, of `step` in all, and the seconds that they took."""
        now = time.monotonic()
        steps, seconds = step - self._step, now - self._since
        self._step, self._since = step, now
        return steps, max(seconds, 1e-9)


def accessed_bytes(objective: Any, compiled: Compiled) -> float:
    """Returns the bytes that XLA counts a step to read and write.

    NaN if a ViT's layers are scanned: XLA counts the body of a loop once.
    """
    looped = any(vit.scan_layers for vit in vits(objective))
    return math.nan if looped else compiled.accessed_bytes


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _flops_per_image(trainer: Trainer, source: Any) -> float:
    shape = getattr(source, "shape", None)
    try:
        return flops.step(trainer.objective, trainer.batch_size, shape) / trainer.batch_size
    except (ValueError, AttributeError) as error:  # products or images that cannot be seen
        logging.info("The FLOPs of a step are not counted (%s).", error)
        return math.nan


def prepare(
    trainer: Trainer, arguments: tuple[Any, Any, Any], workdir: pathlib.Path | None
) -> CompiledStep:
    """Compiles the step, measures the devices, logs both, and writes `performance.json`.

    Args:
        trainer: its step is compiled.
        arguments: state, source and hparams of the first call; nothing is run or donated.
        workdir: of the run; None if another process writes.
    """
    compiled = compilation.ahead_of_time(trainer.step, *arguments)
    logging.info("%s", compiled.describe())
    found = hardware.measured()
    logging.info("%s", found.describe())
    # XLA counts the body of a loop once: one step, and one agent where they are looped over.
    agents = len(arguments[2]["seed"]) // trainer.mesh.shape["agent"]
    images = trainer.batch_size / trainer.mesh.shape["data"]
    images *= agents if trainer.agent_map == "vmap" else 1
    program = CompiledStep(
        compiled,
        found,
        _flops_per_image(trainer, arguments[1]),
        accessed_bytes(trainer.objective, compiled) / images,
    )
    if workdir is not None:
        _write(program, workdir / "performance.json")
    return program


def _write(program: CompiledStep, path: pathlib.Path) -> None:
    compiled = program.compiled
    write_json(
        path,
        {
            "hardware": dataclasses.asdict(program.hardware),
            "flops_per_image": program.flops_per_image,
            "bytes_per_image": program.bytes_per_image,
            "compile_seconds": compiled.seconds,
            "argument_bytes": compiled.argument_bytes,
            "temporary_bytes": compiled.temporary_bytes,
        },
    )


class StepProgram:
    """The compiled step of a run, compiled ahead of time at its first call.

    Args:
        trainer: its step is compiled.
        stopwatch: paused while the step is compiled.
        workdir: of the run; None if another process writes.
    """

    def __init__(
        self, trainer: Trainer, stopwatch: Stopwatch, workdir: pathlib.Path | None
    ) -> None:
        self._trainer, self._stopwatch, self._workdir = trainer, stopwatch, workdir
        self.compiled: CompiledStep | None = None

    def __call__(self, state: Any, source: Any, hparams: Any) -> tuple[Any, Any]:
        """Does the steps of one call: (state, metrics [A, S]). Donates state."""
        if self.compiled is None:
            with self._stopwatch.paused():
                self.compiled = prepare(self._trainer, (state, source, hparams), self._workdir)
        return self.compiled.compiled.call(state, source, hparams)

    def scalars(self, images_per_second: float) -> dict[str, float]:
        """Returns `CompiledStep.scalars`; nothing before the first call."""
        return {} if self.compiled is None else self.compiled.scalars(images_per_second)

    def text(self) -> str:
        """Returns the optimised HLO; empty before the first call."""
        return "" if self.compiled is None else self.compiled.compiled.text()
