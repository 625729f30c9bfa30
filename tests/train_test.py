"""The launcher as a user meets it: in a process of its own, with right and wrong arguments."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.commands import Command

ROOT = pathlib.Path(__file__).parents[1]
TOYS = "--config=configs/toys_ijepa.py"
STEPS = 40  # enough that a kill after the second save is a kill on the way
SMALL = [
    "--config.data.instances=3", "--config.data.elevations=(0, 8)",
    "--config.data.lightings=(0, 3)",
    "--config.data.splits.test_instances=1", "--config.objective.vit.width=16",
    "--config.objective.vit.depth=1", "--config.objective.vit.heads=2",
    "--config.objective.mlp_width=16", f"--config.run.steps={STEPS}", "--config.run.batch_size=8",
    "--config.run.steps_per_call=1", "--config.run.log_every=1", f"--config.run.eval_every={STEPS}",
    "--config.run.save_every=1",
]  # fmt: skip


def start(*arguments):
    return Command("socialjepa_jax.train", *arguments, folder=ROOT)


def launch(*arguments):
    return start(*arguments).end()


def launch_for_real(*arguments):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"  # as the others, whose ends are compared
    command = [sys.executable, "-m", "socialjepa_jax.train", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def saved_steps(workdir):
    return {int(p.name) for p in (workdir / "checkpoints").glob("*") if p.name.isdigit()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An uninterrupted run: ((exit code, stdout, stderr), workdir)."""
    workdir = tmp_path_factory.mktemp("runs") / "straight"
    return launch_for_real(TOYS, f"--workdir={workdir}", *SMALL), workdir


def test_a_run_ends_with_a_report(run):
    (code, stdout, stderr), workdir = run
    assert code == 0, stderr
    assert f"Report: {workdir / 'report.html'}" in stdout
    assert f"step {STEPS}/{STEPS}" in stderr and "orbax" not in stderr.lower()
    rows = json.loads((workdir / "alignment.json").read_text())["rows"]
    assert {row["row"] for row in rows} >= {"trained", "untrained", "pixel_pca"}


def end_on_the_way(workdir, number):
    """Starts a run, sends it a signal once it has saved, and returns (exit code, stderr)."""
    process = start(TOYS, f"--workdir={workdir}", *SMALL)
    deadline = time.monotonic() + 300
    while not saved_steps(workdir) & set(range(2, STEPS)) and time.monotonic() < deadline:
        assert process.is_running(), process.end()
        time.sleep(0.02)
    process.send_signal(number)
    code, _, stderr = process.end()
    assert not (workdir / "alignment.json").exists()  # it did end on the way
    return code, stderr


def assert_goes_on_to_the_same_end(workdir, straight):
    code, _, stderr = launch(TOYS, f"--workdir={workdir}", *SMALL)
    assert code == 0 and "Resuming at step" in stderr, stderr
    for k in range(3):
        name = f"latents/agent_{k}.npz"
        with np.load(straight / name) as expected, np.load(workdir / name) as found:
            np.testing.assert_array_equal(found["latents"], expected["latents"])
    rows = [json.loads((w / "alignment.json").read_text()) for w in (straight, workdir)]
    assert rows[0] == rows[1]


@pytest.mark.nightly
def test_a_killed_run_goes_on_to_the_same_end(run):
    _, straight = run
    workdir = straight.parent / "killed"
    code, _ = end_on_the_way(workdir, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert_goes_on_to_the_same_end(workdir, straight)


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_an_interrupted_run_saves_and_exits_with_75(run, number):
    _, straight = run
    workdir = straight.parent / f"interrupted_{number}"
    code, stderr = end_on_the_way(workdir, number)
    assert code == 75, stderr
    saved = int(re.search(r"saved step (\d+) of", stderr)[1])
    assert max(saved_steps(workdir)) == saved
    assert_goes_on_to_the_same_end(workdir, straight)


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
        (["--preset=none", "--workdir=w"], "--preset='none' must be one of motion_lejepa"),
        pytest.param(["--preset=folder_ijepa:sheets", "--workdir=w"],
                     "error: layout='sheets' must be one of 'table', 'cameras'",
                     marks=pytest.mark.nightly),
        (["--preset=toys_ijepa", "--workdir=w", "--config.run.steps=many"], "many"),
        ([TOYS, "--workdir=w", "--config.optim.lerning_rate=1"],
         "--config.optim.lerning_rate: no such setting; did you mean 'learning_rate'?"),
        ([TOYS, "--workdir=w", "--config.seed=1", "--config.augmnt.flip=True"],
         "--config.augmnt.flip: no such setting; did you mean 'augment'?"),
        ([TOYS, "--workdir=w", "--config.run.steps=25", "--config.agents.seeds[9]=3"],
         "--config.agents.seeds[9]: no such setting"),
        ([TOYS, "--workdir=w", "--config.data.protocol.sector=()"],
         "config.data.protocol.sector=() must be 2 values: int, int"),
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
        ([TOYS, "--workdir=gs://bucket/run"],
         "--workdir=gs://bucket/run: only local paths are supported"),
        ([TOYS, "--workdir=~nosuchuser/w"], "~nosuchuser"),
        ([TOYS, "--workdir={tmp}/w", "--compilation_cache=gs://bucket"], "only local paths"),
        (["--config=~/none.py", "--workdir={tmp}/w"], f"{pathlib.Path.home()}/none.py"),
        ([TOYS, "--workdir={tmp}/" + 300 * "w"], "File name too long"),
        ([TOYS, "--workdir={tmp}/w", "--compilation_cache=/proc/none"],
         "--compilation_cache=/proc/none: the compilation cache"),
        pytest.param([TOYS, "--workdir={tmp}/w", "--profile_steps=9"],
                     "--profile_steps=9 must be FIRST:LAST", marks=pytest.mark.nightly),
        pytest.param([TOYS, "--workdir={tmp}/w", "--config.objective.vit.attention=cudnn"],
                     "attention='cudnn' needs a GPU", marks=pytest.mark.nightly),
        ([TOYS, "--workdir=w", "--config.objective.vit.patch_size=7"], "image_size=48"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path):
    code, _, stderr = launch(*[word.replace("{tmp}", str(tmp_path)) for word in arguments])
    assert code == 2, stderr
    lines = [line for line in stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and message in lines[0], stderr
    assert "Traceback" not in stderr


def test_a_misspelt_key_in_a_config_file_is_named(misspelt):
    code, _, stderr = launch(f"--config={misspelt}", "--workdir=w")
    assert code == 2 and "Traceback" not in stderr
    assert "lerning_rate" in stderr


def test_a_fault_of_a_config_file_is_not_blamed_on_an_override(tmp_path):
    path = tmp_path / "faulty.py"
    path.write_text("def get_config():\n    return {}['run']\n")
    code, _, stderr = launch(f"--config={path}", "--workdir=w", "--config.run.steps=25")
    assert code == 2 and stderr == "error: KeyError: 'run'\n"


def test_a_start_does_not_wait_for_what_only_some_runs_need():
    code = "import sys, socialjepa_jax.train; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "orbax.checkpoint" in done.stdout.split(), done.stderr
    assert not {"matplotlib", "scipy.optimize", "grain"} & set(done.stdout.split())
