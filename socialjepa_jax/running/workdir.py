"""The workdir of a run: its lock, and checks before anything is compiled.

The folder must be writable, large enough for the checkpoints, used by no other process, and must
hold no other experiment.
"""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import shutil
import socket
from collections.abc import Iterator
from typing import Any

from absl import logging

from socialjepa_jax import config as config_lib
from socialjepa_jax.errors import InputError
from socialjepa_jax.records import write_json

# Written by Orbax. A folder with a number for a name and none of these is not a checkpoint.
_PARTS = ("state", "manifest", "_CHECKPOINT_METADATA")


@contextlib.contextmanager
def locked(workdir: pathlib.Path) -> Iterator[None]:
    """Creates the folder and holds its lock. The kernel frees the lock of a process that dies.

    Raises:
        InputError: the folder cannot be made or written, or another process holds the lock.
    """
    path = workdir / "lock"
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"--workdir={workdir} cannot be written: {error.strerror}") from None
    try:
        _lock(descriptor, workdir)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, workdir: pathlib.Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
        raise InputError(f"--workdir={workdir} is in use by {holder or 'another run'}") from None
    except OSError as error:  # some network file systems have no locks
        if error.errno not in (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL):
            raise
        logging.warning("%s cannot be locked; do not start a second run in it.", workdir)


def prepare(workdir: pathlib.Path, plain: dict[str, Any], versions: dict[str, str]) -> None:
    """Checks the folder and writes `config.json` and `environment.json`.

    Args:
        workdir: the run's folder.
        plain: the configuration, which must equal that of the checkpoints in the folder.
        versions: contents of `environment.json`.

    Raises:
        InputError: the folder cannot be written or holds another run; the message names the
            setting, file or folder.
    """
    _check_writable(workdir)
    path, checkpoints = workdir / "config.json", workdir / "checkpoints"
    plain = json.loads(json.dumps(plain))
    if checkpoints.exists() and not checkpoints.is_dir():
        raise InputError(f"--workdir={workdir}: checkpoints is a file")
    # Without checkpoints nothing is lost, and another run may begin.
    if _has_checkpoints(checkpoints) or _has_checkpoints(checkpoints / "best"):
        _refuse_another_run(path, plain)
    for folder in (checkpoints, checkpoints / "best"):
        _refuse_foreign_folders(folder)
    write_json(path, plain)
    write_json(workdir / "environment.json", versions)


def _check_writable(workdir: pathlib.Path) -> None:
    """Writes, syncs, renames and removes a file, as a checkpoint does."""
    before, after = workdir / ".probe.tmp", workdir / ".probe"
    try:
        with before.open("wb") as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        before.replace(after)
        after.unlink()
    except OSError as error:
        raise InputError(f"--workdir={workdir} cannot be written: {error.strerror}") from None


def _has_checkpoints(folder: pathlib.Path) -> bool:
    if not folder.exists():
        return False
    return any(path.name.split(".")[0].isdigit() for path in folder.iterdir())


def _refuse_another_run(path: pathlib.Path, plain: dict[str, Any]) -> None:
    workdir = path.parent
    if not path.exists():
        raise InputError(f"--workdir={workdir} holds checkpoints but no config.json")
    try:
        old = json.loads(path.read_bytes())
    except ValueError:
        raise InputError(f"{path} is not a run's configuration; use another workdir") from None
    with contextlib.suppress(InputError):  # gives settings newer than the run their defaults
        old = json.loads(json.dumps(config_lib.to_plain(config_lib.from_config_dict(old))))
    changed = config_lib.differences(old, plain)
    if changed:
        raise InputError(
            f"--workdir={workdir} holds another run ({'; '.join(changed[:3])}); "
            "use another workdir or the same settings"
        )


def _refuse_foreign_folders(folder: pathlib.Path) -> None:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.isdigit() and not any((path / part).exists() for part in _PARTS):
            raise InputError(f"{path} is not a checkpoint; move it away")


def check_space(workdir: pathlib.Path, state_bytes: int, states: int) -> None:
    """Raises `InputError` if the disk cannot hold the checkpoints of the run.

    The checkpoints in the folder count as free space, since the run replaces them.

    Args:
        workdir: the run's folder.
        state_bytes: size of one state.
        states: largest number of states on disk at once.
    """
    present = sum(p.stat().st_size for p in (workdir / "checkpoints").rglob("*") if p.is_file())
    needed, free = states * state_bytes, shutil.disk_usage(workdir).free + present
    if needed > free:
        raise InputError(
            f"--workdir={workdir} has room for {free / 1e6:.1f} MB of checkpoints; "
            f"{needed / 1e6:.1f} MB are needed ({states} states of {state_bytes / 1e6:.1f} MB, "
            "see config.run.keep_checkpoints)"
        )
