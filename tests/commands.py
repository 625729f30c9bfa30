"""Commands of the package in processes of their own that need not import everything anew.

Importing takes most of the time of a command that is refused. A server process imports once and
forks for each command, which then runs as `python -m MODULE` would, as `__main__` and with nothing
of an earlier command in it. What depends on the end of the interpreter belongs into a real one.
"""

import multiprocessing
import os
import pathlib
import runpy
import sys
import tempfile

import jax

_FORKS = multiprocessing.get_context("forkserver")
# Modules that define flags when they are imported must be imported by the command itself.
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
    """A command under way.

    Args:
        module: what `python -m` would get.
        arguments: its command line.
        folder: where it runs.
    """

    def __init__(self, module: str, *arguments: object, folder: pathlib.Path) -> None:
        self._outputs = pathlib.Path(tempfile.mkdtemp(prefix="command_"))
        told = (module, list(map(str, arguments)), folder, self._outputs)
        self._process = _FORKS.Process(target=_run, args=told)
        self._process.start()

    def end(self) -> tuple[int | None, str, str]:
        """Waits for the end: exit code (negative for a signal's number), stdout and stderr."""
        self._process.join(300)
        texts = [(self._outputs / name).read_text() for name in ("stdout", "stderr")]
        return self._process.exitcode, texts[0], texts[1]

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    def send_signal(self, number: int) -> None:
        """Sends it a signal."""
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
