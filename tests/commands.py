"""Commands of the package in forked processes, which need not import everything again.

Imports take most of the time of a command that is refused. A server process imports once and forks
for each command, which then runs like `python -m MODULE`: as `__main__`, without any state of an
earlier command. A test that depends on the exit of the interpreter needs `subprocess` instead.
"""

import multiprocessing
import os
import pathlib
import runpy
import shutil
import sys
import tempfile

import jax

_FORKS = multiprocessing.get_context("forkserver")
# Without modules that define flags on import, since the command itself must import them.
_FORKS.set_forkserver_preload(
    [
        "socialjepa_jax.loop",
        "socialjepa_jax.running.presets",
        "ml_collections.config_flags",
        "socialjepa_jax.report.run.page",
        "scipy.optimize",
        "grain",
    ]
)


class Command:
    """A running command.

    Args:
        module: name of the module, as for `python -m`.
        arguments: command line.
        folder: working directory.
    """

    def __init__(self, module: str, *arguments: object, folder: pathlib.Path) -> None:
        self._outputs = pathlib.Path(tempfile.mkdtemp(prefix="command_"))
        args = (module, list(map(str, arguments)), folder, self._outputs)
        self._process = _FORKS.Process(target=_run, args=args)
        self._process.start()

    def end(self) -> tuple[int | None, str, str]:
        """Waits for the end; returns exit code (negative number of a signal), stdout and stderr."""
        self._process.join(300)
        texts = [(self._outputs / name).read_text() for name in ("stdout", "stderr")]
        shutil.rmtree(self._outputs)
        return self._process.exitcode, texts[0], texts[1]

    def said(self) -> str:
        """Returns what the command has written to stdout so far."""
        stdout = self._outputs / "stdout"
        return stdout.read_text() if stdout.exists() else ""

    def is_running(self) -> bool:
        """True until the command has ended."""
        return self._process.is_alive()

    def send_signal(self, number: int) -> None:
        """Sends a signal to the command."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


def _run(module: str, arguments: list[str], folder: pathlib.Path, outputs: pathlib.Path) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(outputs / name, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    sys.argv = [module, *arguments]
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_disable_most_optimizations", True)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
