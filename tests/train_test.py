"""The launcher as a user meets it: in a process of its own, with right and wrong arguments."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TOYS = "--config=configs/toys_ijepa.py"
SMALL = [
    "--config.data.instances=3", "--config.data.elevations=(0, 8)",
    "--config.data.lightings=(0, 3)",
    "--config.data.splits.test_instances=1", "--config.objective.vit.width=16",
    "--config.objective.vit.depth=1", "--config.objective.vit.heads=2",
    "--config.objective.mlp_width=16", "--config.run.steps=2", "--config.run.batch_size=8",
    "--config.run.steps_per_call=1", "--config.run.log_every=1", "--config.run.eval_every=2",
    "--config.run.save_every=1",
]  # fmt: skip


def launch(*arguments):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "socialjepa_jax.train", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


def test_a_run_ends_with_a_report(tmp_path):
    done = launch(TOYS, f"--workdir={tmp_path / 'run'}", *SMALL)
    assert done.returncode == 0, done.stderr
    assert f"Report: {tmp_path / 'run' / 'report.html'}" in done.stdout
    assert "step 2/2" in done.stderr and "orbax" not in done.stderr.lower()
    rows = json.loads((tmp_path / "run" / "alignment.json").read_text())["rows"]
    assert {row["row"] for row in rows} >= {"trained", "untrained", "pixel_pca"}


@pytest.fixture(scope="module")
def misspelt(tmp_path_factory):
    path = tmp_path_factory.mktemp("configs") / "misspelt.py"
    path.write_text(
        "from configs import toys_ijepa\n"
        "def get_config():\n"
        "    config = toys_ijepa.get_config()\n"
        "    config.optim.lerning_rate = 1.0\n"
        "    return config\n"
    )
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TOYS], "workdir"),
        (["--workdir=w"], "config"),
        ([TOYS, "--workdir=w", "--config.optim.lerning_rate=1"], "lerning_rate"),
        ([TOYS, "--workdir=w", "--config.run.steps=many"], "many"),
        ([TOYS, "--workdir=w", "--config.optim.learning_rate=nan"], "learning_rate=nan"),
        ([TOYS, "--workdir=w", "--config.optim.weight_decay=-1"], "weight_decay=-1"),
        ([TOYS, "--workdir=w", "--nonsense=1"], "nonsense"),
        ([TOYS, "--workdir=w", "stray"], "stray"),
        (["--config=configs/none.py", "--workdir=w"], "none.py"),
        (["--config=configs/smallnorb_ijepa.py", "--workdir={tmp}/w",
          "--config.data.path={tmp}/nowhere"], "nowhere"),
        (["--config=configs/eth80_ijepa.py", "--workdir={tmp}/w",
          "--config.data.path={tmp}/nothing.npz"], "nothing.npz"),
        ([TOYS, "--workdir=/proc/none"], "/proc/none"),
        ([TOYS, "--workdir=w", "--config.objective.vit.patch_size=7"], "image_size=48"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path):
    done = launch(*[argument.replace("{tmp}", str(tmp_path)) for argument in arguments])
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and message in lines[0], done.stderr
    assert "Traceback" not in done.stderr


def test_a_misspelt_key_in_a_config_file_is_named(misspelt):
    done = launch(f"--config={misspelt}", "--workdir=w")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "lerning_rate" in done.stderr
