"""Command lines of the benches: refused flags and written files."""

import json
import subprocess
import sys

import pytest

from experiments.bench import alignment, sigreg, start, steps, sweep, vit
from experiments.motion import worlds
from socialjepa_jax.errors import InputError

BENCHES = (alignment, sigreg, start, sweep, vit)


@pytest.fixture
def run(call_main, monkeypatch):
    """Calls a bench's `main` with its flags set to these arguments."""
    monkeypatch.setattr(steps, "use_one_thread", lambda: None)  # nor all that follow
    return call_main


@pytest.mark.parametrize(
    ("bench", "argument", "message"),
    [
        (alignment, "--repeats=0", "--repeats=0 must be > 0"),
        (alignment, "--large=-1", "--large=-1 must be >= 0"),
        (sigreg, "--repeats=0", "--repeats=0 must be > 0"),
        (sigreg, "--shapes=4", r"--shapes=4 must be in \[1, 3\]"),
        (vit, "--batch=0", "--batch=0 must be > 0"),
        *((bench, "--out=/none/x.json", "--out=/none/x.json must be a file in a folder that")
          for bench in (*BENCHES[1:], worlds)),
    ],
)  # fmt: skip
def test_bad_flags_are_refused_before_anything_is_measured(run, bench, argument, message):
    with pytest.raises(InputError, match=message):
        run(bench, argument)


@pytest.mark.parametrize("table6", [False, True])
def test_sigreg_is_measured_as_the_flags_say(run, table6, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sigreg, "SHAPES", ((64, 8, 16), (32, 4, 8)))
    monkeypatch.setattr(sigreg, "TABLE6", ((32, 8, 16, 0.5), (32, 8, 64, 0.6)))
    monkeypatch.setattr(sigreg, "torch_times", lambda *arguments: {"eager": 1e-9})
    out = tmp_path / "x.json"
    run(sigreg, "--repeats=1", "--shapes=1", f"--out={out}", *["--table6"] * table6)
    rows = json.loads(out.read_text())["rows"]
    assert [row.get("shape") for row in rows] == ([None, None] if table6 else [[64, 8, 16]])
    assert [row.get("knots") for row in rows] == ([16, 64] if table6 else [None])
    printed = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in printed if line[0] == "{"] == rows
    missed = "  missed: 0.00 times eager, wanted 10.0"
    assert (missed in printed) is not table6 and "gradient error" not in str(printed)


def test_an_unknown_flag_is_refused_in_one_line():
    command = [sys.executable, "-m", "experiments.bench_sigreg", "--shape=1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert "Unknown command line flag 'shape'" in done.stderr and done.stderr.count("\n") == 1
