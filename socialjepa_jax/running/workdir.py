"""The workdir of a run: its lock, and checks before anything is compiled.

The folder must be writable, large enough for the checkpoints, used by no other process, and must
hold no other experiment.
"""

import contextlib
import errno
import fcntl
import functools
import json
import os
import pathlib
import shutil
import socket
from collections.abc import Callable, Iterator
from typing import Any

from absl import logging

from socialjepa_jax import config as config_lib
from socialjepa_jax.errors import InputError, Stopped
from socialjepa_jax.records import write_atomically, write_json
from socialjepa_jax.running.checkpoint import Checkpoints
from socialjepa_jax.running.folder import open_own, refuse_links, refusing

# Written by Orbax. A folder with a number for a name and none of these is not a checkpoint.
_PARTS = ("state", "manifest", "_CHECKPOINT_METADATA")

# Of `environment.json`, between a run and its resumption.
_MAY_NOT_CHANGE = ("x64", "prng_impl", "threefry_partitionable", "matmul_precision")
_MAY_CHANGE = ("jax", "jaxlib", "numpy", "devices", "xla_flags", "disable_most_optimizations")


@contextlib.contextmanager
def locked(workdir: pathlib.Path) -> Iterator[Callable[[], None]]:
    """Creates the folder and holds its lock. The kernel frees the lock of a process that dies.

    Yields:
        A function that raises `Stopped` once the folder was moved or removed: what is written from
        then on would be lost, or begin another folder.

    Raises:
        InputError: the folder cannot be made or written, another process holds the lock, or a link
            in the folder leads out of it.
    """
    with refusing(workdir):
        workdir.mkdir(parents=True, exist_ok=True)
        descriptor = open_own(workdir / "lock")
    try:
        with refusing(workdir):
            _lock(descriptor, workdir)
            refuse_links(workdir)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield functools.partial(_check_place, workdir, os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _check_place(workdir: pathlib.Path, held: os.stat_result) -> None:
    with contextlib.suppress(OSError):
        if os.path.samestat(os.lstat(workdir / "lock"), held):
            return
    raise Stopped(f"{workdir} was moved or removed, or its lock was, while the run was using it")


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
        versions: contents of `environment.json`, some of which must equal the old ones.

    Raises:
        InputError: the folder cannot be written or holds another run; the message names the
            setting, file or folder.
    """
    with refusing(workdir):
        _check_writable(workdir)
        checkpoints = workdir / "checkpoints"
        plain = json.loads(json.dumps(plain))
        named = (workdir / name for name in ("tensorboard", "latents", "maps"))
        for folder in (checkpoints, *named):
            if folder.exists() and not folder.is_dir():
                raise InputError(f"--workdir={workdir}: {folder.name} is a file")
        # Without checkpoints nothing is lost, and another run may begin.
        if _has_checkpoints(checkpoints) or _has_checkpoints(checkpoints / "best"):
            _refuse_another_run(workdir, plain)
            _compare_environments(workdir, versions)
        for folder in (checkpoints, checkpoints / "best"):
            _refuse_foreign_folders(folder)
        write_json(workdir / "config.json", plain)
        write_json(workdir / "environment.json", versions)


def _check_writable(workdir: pathlib.Path) -> None:
    """Writes, syncs, renames and removes a file, as a checkpoint does."""
    probe = workdir / ".probe"
    write_atomically(probe, bytes(4096))
    probe.unlink()


def _has_checkpoints(folder: pathlib.Path) -> bool:
    if not folder.exists():
        return False
    return any(path.name.split(".")[0].isdigit() for path in folder.iterdir())


def _recorded(workdir: pathlib.Path, file: str, item: str) -> Any:
    """Returns the content of a file; if it is damaged, the item of the newest manifest; or None."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return json.loads((workdir / file).read_bytes())
    for folder in (workdir / "checkpoints", workdir / "checkpoints" / "best"):
        with Checkpoints(folder, 1, read_only=True) as checkpoints:
            for step in reversed(checkpoints.steps()):
                with contextlib.suppress(Exception):  # Orbax raises many types on damaged files
                    found = checkpoints.manifest(step)[item]
                    logging.warning(
                        "%s: %s cannot be read; checkpoint %d has its content.", workdir, file, step
                    )
                    return found
    return None


def _refuse_another_run(workdir: pathlib.Path, plain: dict[str, Any]) -> None:
    old = _recorded(workdir, "config.json", "config")
    if old is None:
        raise InputError(
            f"--workdir={workdir} holds checkpoints but no config.json that can be read; "
            "use another workdir"
        )
    with contextlib.suppress(InputError):  # gives settings newer than the run their defaults
        old = json.loads(json.dumps(config_lib.to_plain(config_lib.from_config_dict(old))))
    changed = config_lib.differences(old, plain)
    if changed:
        raise InputError(
            f"--workdir={workdir} holds another run ({'; '.join(changed[:3])}); "
            "use another workdir or the same settings"
        )


def _compare_environments(workdir: pathlib.Path, versions: dict[str, str]) -> None:
    """Refuses settings that give other numbers, and warns of what may change the last digits."""
    old = _recorded(workdir, "environment.json", "versions")
    if not isinstance(old, dict):
        return
    changed = {
        name: f"{name}: {old[name]} -> {new}"
        for name, new in versions.items()
        if name in old and old[name] != new
    }
    if wrong := [changed[name] for name in _MAY_NOT_CHANGE if name in changed]:
        raise InputError(
            f"--workdir={workdir} holds a run with other numerics ({'; '.join(wrong)}); "
            "use another workdir or the same environment"
        )
    if shown := [changed[name] for name in _MAY_CHANGE if name in changed]:
        logging.warning(
            "The run was begun elsewhere (%s): its end may differ in the last digits from that of "
            "an uninterrupted run.", "; ".join(shown),
        )  # fmt: skip


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
