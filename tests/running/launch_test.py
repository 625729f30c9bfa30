"""Launch: exit codes and messages of the errors that end a command."""

import os
import pathlib
import subprocess
import sys

import jax
import pytest

from socialjepa_jax.errors import InputError, Interrupted, Stopped
from socialjepa_jax.running import launch


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("two\n  lines"), 2, "error: two lines"),
        (Stopped("agent_0 collapsed"), 3, "stopped: agent_0 collapsed"),
        (Interrupted("saved step 3"), 75, "stopped: saved step 3"),
    ],
)
def test_expected_errors_are_one_line_and_an_exit_code(error, code, message):
    assert launch.exit_status(error) == (code, message)


def test_other_errors_keep_their_traceback():
    try:
        raise KeyError("name")
    except KeyError as error:
        code, message = launch.exit_status(error)
    assert code == 1
    assert message.startswith("Traceback") and message.endswith("KeyError: 'name'\n")


def test_the_refusal_of_a_config_file_is_found_below_what_libraries_make_of_it():
    first = InputError("layout='sheets'")
    again = InputError("Error whilst parsing config file: Traceback ...")
    again.__context__ = first
    flag = ValueError("flag --config: ...")
    flag.__cause__ = again
    assert launch._refusal(flag) is launch._refusal(first) is first
    assert launch._refusal(ValueError("other")) is None


def test_devices_that_the_machine_lacks_are_one_line():
    before = jax.config.values["jax_platforms"]
    try:
        jax.config.update("jax_platforms", "nosuch")
        with pytest.raises(RuntimeError) as missing:
            jax.devices("nosuch")
        code, message = launch.exit_status(missing.value)
        other, _ = launch.exit_status(RuntimeError("of something else"))
    finally:
        jax.config.update("jax_platforms", before)
    assert code == 2 and message == "error: JAX_PLATFORMS=nosuch: this machine has no such device"
    assert other == 1


_PRINTS = """
import sys
from absl import logging
from socialjepa_jax.running import launch

def main():
    sys.stdin.readline()  # the reader has gone
    for _ in range(3):
        print("x" * 100_000)
        logging.warning("y")
    with open(sys.argv[0] + ".done", "w"):
        pass

launch.run(main)
"""


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_command_goes_on_when_nobody_reads_its_output(tmp_path, closed):
    script = tmp_path / "command.py"
    script.write_text(_PRINTS)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    if closed == "stdout":
        streams["stderr"] = (tmp_path / "stderr").open("wb")
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, env=environment, **streams
    )
    process.stdout.close()
    process.communicate(b"go\n")
    assert process.returncode == 0 and (tmp_path / "command.py.done").exists()
    if closed == "stdout":
        streams["stderr"].close()
        assert (tmp_path / "stderr").read_text().split() == ["y"] * 3


def test_a_full_disk_under_the_output_is_no_closed_pipe():
    stream = launch.Unheard(open("/dev/full", "w"))
    stream.write("x")
    for end in (stream.flush, stream.close):
        with pytest.raises(OSError, match="No space left"):
            end()
