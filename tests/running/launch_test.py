"""Launch: exit codes and messages of the errors that end a command."""

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
