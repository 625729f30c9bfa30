"""A copy of the repository in which one file at a time is changed and tests are run."""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import jax

from tests.conftest import CACHE, QUICK_FUSIONS
from tests.mutants.mutant import Mutant

PACKAGE = "socialjepa_jax"
_TEST = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What became of some tests.

    Attributes:
        code: exit status of pytest; None if the time was up.
        seconds: how long they took.
        output: what pytest printed.
    """

    code: int | None
    seconds: float
    output: str

    @property
    def failures(self) -> list[str]:
        """Node ids of the tests that failed, in order."""
        return _TEST.findall(self.output)


class Tree:
    """A copy of the tracked files, as they are now, committed or not.

    Attributes:
        root: folder of the copy.
        digest: of all its files.

    Args:
        source: root of the repository.
        root: where the copy goes; made.
        cache: folder of compiled programs, shared by all copies.
    """

    def __init__(self, source: pathlib.Path, root: pathlib.Path, cache: pathlib.Path) -> None:
        self.root = root
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=source, check=True, capture_output=True, text=True
        ).stdout
        files = sorted(name for name in listed.split("\0") if (source / name).is_file())
        for name in files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, root / name)
        contents = (hashlib.sha256((root / name).read_bytes()).digest() for name in files)
        self.digest = hashlib.sha256(b"".join(contents)).hexdigest()
        # Programs of an earlier process are taken from the cache, which conftest makes anew
        # otherwise; it then leaves the flags to the process that made it.
        fusions = QUICK_FUSIONS if jax.__version_info__ < (0, 11) else ""
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(root),
            CACHE: str(cache),
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {fusions}".strip(),
        }

    def imports_itself(self) -> bool:
        """True if a process in this tree imports the package from it, not an installed one."""
        code = f"import {PACKAGE}; print({PACKAGE}.__file__)"
        command = [sys.executable, "-P", "-c", code]
        out = subprocess.run(
            command, cwd="/", env=self._environment, check=True, capture_output=True, text=True
        ).stdout
        return pathlib.Path(out.strip()).is_relative_to(self.root)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Applies a mutant; puts the file back afterwards, with its time."""
        path = self.root / mutant.path
        before, times = path.read_bytes(), path.stat()
        path.write_text(mutant.applied(self.root), "utf-8")
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def test(
        self, tests: Sequence[str], *options: str, limit: float, bytecode: bool = False
    ) -> Outcome:
        """Runs tests in one process of their own.

        Args:
            tests: files or node ids.
            options: of pytest, beside quiet ones.
            limit: seconds after which the process and its children are ended.
            bytecode: keep compiled Python; not where a file is changed, which would be taken from
                it after it is put back.
        """
        quiet = ("-q", "-n", "0", "-p", "no:cacheprovider", "--tb=line", *options)
        environment = self._environment | ({} if bytecode else {"PYTHONDONTWRITEBYTECODE": "1"})
        start = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *quiet, *tests],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return Outcome(None, time.monotonic() - start, output)
        return Outcome(process.returncode, time.monotonic() - start, output)
