"""Faults of a disk, a folder and a clock, which a child process injects into itself."""

import ctypes
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable

_NEW_MOUNTS = 0x20000  # CLONE_NEWNS


def limit_files(size: int) -> None:
    """Lets no file grow beyond a size."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes fail with EFBIG instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _fill(workdir: pathlib.Path) -> None:
    os.ftruncate(2, 0)  # or the last words would not fit
    limit_files(1024)


def own_mounts() -> None:
    """Gives this process mounts of its own, which no other process sees; needs rights.

    Call it before threads are started: those that exist keep the old mounts.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "no mounts of its own")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def _make_read_only(workdir: pathlib.Path) -> None:
    subprocess.run(["mount", "--bind", workdir, workdir], check=True)
    for _ in range(100):  # refused while a thread has a file open in the new mount
        done = subprocess.run(["mount", "-o", "remount,ro,bind", workdir], capture_output=True)
        if not done.returncode:
            return
        time.sleep(0.05)
    raise OSError(done.stderr.decode())


def _move(workdir: pathlib.Path) -> pathlib.Path:
    return workdir.rename(f"{workdir}_moved")


def _remove(workdir: pathlib.Path) -> None:
    shutil.rmtree(_move(workdir), ignore_errors=True)  # a thread may be saving into it


ACTS: dict[str, Callable[[pathlib.Path], object]] = {
    "fill": _fill,
    "read only": _make_read_only,
    "move": _move,
    "remove": _remove,
}
"""Name of a fault -> function of the workdir."""


def jumping_clock() -> Callable[[], float]:
    """Returns a clock that jumps every 0.3 s: back by an hour, to 1970, on by ten years.

    Orbax measures its patience by this clock, so that a jump may fail one attempt of a save.
    """
    clock, offsets = time.time, (0.0, -3600.0, -time.time(), 3e8)
    return lambda: clock() + offsets[int(time.monotonic() / 0.3) % len(offsets)]
