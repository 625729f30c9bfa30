"""Ahead-of-time compilation and the cache of compiled programs."""

import dataclasses
import os
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
from absl import logging

from socialjepa_jax.errors import InputError


def use_cache(folder: pathlib.Path, flag: str) -> None:
    """Keeps compiled programs in a folder, so that the same command starts faster the next time.

    Launchers call it, the library does not. It changes settings of jax and uses no device, so
    `hosts.joined` may follow.

    Args:
        folder: the cache; created if missing. Its programs are executed: whoever can write there
            is trusted.
        flag: flag that selects the folder, for the message.

    Raises:
        InputError: the folder cannot be created or written.
    """
    folder = folder.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, flag, error) from None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _unwritable(folder: pathlib.Path, flag: str, error: OSError) -> InputError:
    return InputError(f"{flag}: the compilation cache {folder} cannot be written: {error.strerror}")


def use_own_cache(folder: pathlib.Path, flag: str) -> None:
    """Calls `use_cache` with a folder that this user alone can enter; without one, does nothing.

    A folder that another user has made is left alone, as its programs would be executed.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            logging.warning("%s belongs to another user: programs are compiled anew.", folder)
            return
        folder.chmod(0o700)
    except OSError as error:
        raise _unwritable(folder, flag, error) from None
    use_cache(folder, flag)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled function.

    Attributes:
        call: runs it on arguments of the same shapes, dtypes and shardings.
        seconds: time to trace and to compile it or to load it from the cache.
        argument_bytes: size of the arguments on one device.
        temporary_bytes: size of the temporary buffers on one device.
        accessed_bytes: bytes that the operations read and write, as XLA counts them: the body of a
            loop once, and without regard to caches. NaN if XLA does not report it.
        text: returns the optimised HLO module as text.
    """

    call: Callable[..., Any]
    seconds: float
    argument_bytes: int
    temporary_bytes: int
    accessed_bytes: float
    text: Callable[[], str]

    def describe(self) -> str:
        """Returns one line with compile time and memory."""
        return (
            f"Compiled in {self.seconds:.1f} s; {self.argument_bytes / 1e6:.0f} MB of state and "
            f"data and {self.temporary_bytes / 1e6:.0f} MB of temporaries on a device."
        )


def ahead_of_time(function: Any, *arguments: Any) -> Compiled:
    """Compiles a jitted function for the arguments without running it."""
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
