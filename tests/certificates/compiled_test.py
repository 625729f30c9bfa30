"""Every certificate made anew, where a compiler for its chips is installed, and held to its budget.

Hours of one core for all: `pytest -m nightly -n 2 tests/certificates/compiled_test.py -k h100x1`.
"""

import importlib.util
import subprocess
import sys

import pytest

from experiments.aot import certify, parts
from tests.certificates.stored_test import HERE, STORED

COMPILERS = {"v5e": "libtpu", "h10": "jax_cuda12_plugin"}
PAIRS = [(target, name) for target in certify.TARGETS for name in STORED[target]]


@pytest.mark.nightly
@pytest.mark.parametrize(("target", "name"), PAIRS, ids=map("-".join, PAIRS))
def test_no_number_of_a_certificate_got_worse(target, name, tmp_path):
    compiler = COMPILERS[target[:3]]
    if importlib.util.find_spec(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    kind = "--presets=,--parts={}" if name in parts.PARTS else "--presets={}"
    command = [sys.executable, "-m", "experiments.certificates", *kind.format(name).split(",")]
    command += [f"--targets={target}", f"--out={tmp_path}", f"--budgets={HERE}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
