"""Compiling ahead of time, and keeping what was compiled for the next start."""

import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax

from socialjepa_jax.errors import InputError


def use_cache(folder: pathlib.Path, flag: str) -> None:
    """Keeps compiled programs in a folder, so that a second start of the same command is quick.

    Commands call it, a library's caller decides by himself. It changes settings alone and touches
    no device, so it may come before the processes of a run find each other, as `train` has it.

    Args:
        folder: made if missing.
        flag: the setting that named it, for the message.

    Raises:
        InputError: the folder cannot be made or written.
    """
    folder = folder.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"{flag}: the compilation cache {folder} cannot be written: {error.strerror}"
        ) from None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled program.

    Attributes:
        call: runs it, on arguments of the same shapes, types and shardings.
        seconds: that tracing and compiling (or loading from the cache) took.
        argument_bytes: of what goes in, on one device; donated buffers come back as results.
        temporary_bytes: of what is needed in between, on one device.
        accessed_bytes: that XLA counts its operations to read and write, the bodies of loops once,
            caches unheeded; NaN where it does not say.
        text: its optimised HLO.
    """

    call: Callable[..., Any]
    seconds: float
    argument_bytes: int
    temporary_bytes: int
    accessed_bytes: float
    text: Callable[[], str]

    def describe(self) -> str:
        """One line."""
        return (
            f"Compiled in {self.seconds:.1f} s; {self.argument_bytes / 1e6:.0f} MB of state and "
            f"data and {self.temporary_bytes / 1e6:.0f} MB of temporaries on a device."
        )


def ahead_of_time(function: Any, *arguments: Any) -> Compiled:
    """Compiles a jitted function for these arguments, without running it."""
    start = time.perf_counter()
    compiled = function.lower(*arguments).compile()
    taken = time.perf_counter() - start
    memory = compiled.memory_analysis()
    cost = compiled.cost_analysis() or {}
    return Compiled(
        call=compiled,
        seconds=taken,
        argument_bytes=getattr(memory, "argument_size_in_bytes", 0),
        temporary_bytes=getattr(memory, "temp_size_in_bytes", 0),
        accessed_bytes=float(cost.get("bytes accessed", float("nan"))),
        text=compiled.as_text,
    )
