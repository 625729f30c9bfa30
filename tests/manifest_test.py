"""The command that makes and checks manifests."""

import subprocess
import sys

import pytest


def _run(*arguments):
    command = [sys.executable, "-m", "socialjepa_jax.manifest", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.nightly  # five processes; tests/data/manifest_test.py makes and checks a manifest too
def test_make_and_check(tmp_path):
    (tmp_path / "a.png").write_bytes(b"one")
    folder = f"--folder={tmp_path}"
    code, text = _run(folder)
    assert code == 2 and text.startswith(f"error: {tmp_path}/manifest.json: cannot be read (")
    assert _run(folder, "--make") == (0, f"{tmp_path}/manifest.json: 1 files\n")
    assert _run(folder) == (0, f"{tmp_path}: all files are as recorded\n")
    (tmp_path / "a.png").write_bytes(b"two")
    code, text = _run(folder)
    assert code == 2 and text.endswith("1 files are not as recorded; a.png: has changed\n")
    code, text = _run()
    assert code != 0 and "folder" in text
