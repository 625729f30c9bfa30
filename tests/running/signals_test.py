"""Signals: recorded at once, raised at the next check; a second one ends the process."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from socialjepa_jax.errors import Interrupted
from socialjepa_jax.running.signals import SIGNALS, Interruption

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def hang_up():
    """The default action of SIGHUP, which nohup ignores."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_up")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_is_recorded_and_raised_at_a_check(number):
    before = [signal.getsignal(s) for s in SIGNALS]
    with Interruption() as interruption:
        interruption.check()
        os.kill(os.getpid(), number)
        with pytest.raises(Interrupted) as end:
            interruption.check()
    assert interruption.requested and end.value.exit_code == 75
    assert [signal.getsignal(s) for s in SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_hang_up_stays_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            interruption.check()
        assert not interruption.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_the_main_thread_no_signal_is_recorded():
    found = []

    def enter():
        with Interruption() as interruption:
            found.append(interruption.requested)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [False]


# One bytecode instruction that takes minutes and releases the GIL, as a compilation does.
_BUSY = """
import hashlib
from socialjepa_jax.running.signals import Interruption
with Interruption():
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)
"""


def test_a_second_signal_ends_the_process_during_a_compilation():
    process = subprocess.Popen(
        [sys.executable, "-c", _BUSY], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "busy\n"
    process.send_signal(signal.SIGTERM)
    assert "SIGTERM: saving and stopping" in process.stderr.readline()
    assert process.poll() is None  # the first one is only recorded
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT and time.monotonic() - start < 30
