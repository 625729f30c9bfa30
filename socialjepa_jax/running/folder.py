"""Files of a folder that others may write to, on a disk that may be full.

Errors of the file system become refusals before a run starts, and end a run without a traceback.
"""

import contextlib
import errno
import itertools
import os
import pathlib
import stat
from collections.abc import Iterator

from socialjepa_jax.errors import InputError, Stopped

# Of a disk that takes nothing more.
_STORAGE_ERRORS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE,
)  # fmt: skip


@contextlib.contextmanager
def refusing(workdir: pathlib.Path) -> Iterator[None]:
    """Turns errors of the file system into refusals."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename not in (None, str(workdir)) else ""
        raise InputError(
            f"--workdir={workdir} cannot be written: {error.strerror}{where}"
        ) from None


@contextlib.contextmanager
def stopping(workdir: pathlib.Path) -> Iterator[None]:
    """Raises `Stopped` in place of the error of a disk that takes nothing more.

    The same for a workdir that was removed. Errors of other files are passed on.
    """
    try:
        yield
    except OSError as error:
        path = pathlib.Path(os.fsdecode(error.filename or workdir))
        if not workdir.is_dir():
            raise Stopped(f"{workdir} was removed while the run was writing to it") from error
        if error.errno in _STORAGE_ERRORS or (error.filename and path.is_relative_to(workdir)):
            raise Stopped(
                f"{path} cannot be written: {error.strerror}; the checkpoints are intact, and the "
                "same command goes on"
            ) from error
        raise


def open_own(path: pathlib.Path, flags: int = 0) -> int:
    """Opens a file of a workdir to read and write; made if missing. Returns the descriptor.

    Others may write to the folder: a link is refused, since its target would be overwritten.

    Args:
        path: of the file.
        flags: of `os.open`, besides the access.
    """
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would wait
    return os.open(path, flags, 0o644)


def unused(path: pathlib.Path) -> pathlib.Path:
    """Returns the path; if it exists, with the first number from 2 on that makes it a new one."""
    numbers = itertools.chain([""], itertools.count(2))
    candidates = (path.with_name(f"{path.name}{number}") for number in numbers)
    return next(candidate for candidate in candidates if not candidate.exists())


def refuse_links(workdir: pathlib.Path) -> None:
    """Refuses what is neither a file nor a folder: writing to it would change something else."""
    for folder, folders, files in os.walk(workdir):
        for path in (pathlib.Path(folder, name) for name in (*folders, *files)):
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
                raise InputError(
                    f"{path} is {kind}, and a workdir may hold files and folders alone"
                )
