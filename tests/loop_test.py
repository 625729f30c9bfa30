"""The loop end to end on a small world: what a run leaves behind, and that resuming is exact."""

import dataclasses
import json
import shutil

import chex
import jax
import numpy as np
import pytest

from configs import smoke, toys_ijepa
from socialjepa_jax import build, evaluation, loop
from socialjepa_jax import config as config_lib
from socialjepa_jax.errors import InputError, Stopped
from socialjepa_jax.performance import compilation, flops, hardware, profiling
from socialjepa_jax.running.checkpoint import Checkpoints
from tests.evaluation import oracle

STEPS = 4


@pytest.fixture(scope="module")
def experiment():
    config = smoke.shrink(toys_ijepa.get_config(), steps=STEPS)
    config.run.eval_every = config.run.save_every = 2
    return config_lib.from_config_dict(config)


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def compiled():
    """The programs that `straight` compiled ahead of time."""
    return []


@pytest.fixture(scope="module")
def encoded():
    """The steps at which `straight` encoded all states."""
    return []


@pytest.fixture(scope="module")
def straight(experiment, parent, compiled, encoded):
    """A run that is traced on the way; those it is compared with are not."""
    compile_, encode = compilation.ahead_of_time, evaluation.encode_states
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            compilation, "ahead_of_time", lambda *a: compiled.append(compile_(*a)) or compiled[-1]
        )
        patch.setattr(
            evaluation,
            "encode_states",
            lambda *a: encoded.append(int(a[1].step[0])) or encode(*a),
        )
        result = loop.fit(experiment, parent / "straight", profiling.Window(1, 2))
    return result, parent / "straight"


def _lines(workdir, kind):
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def test_the_untrained_encoders_are_evaluated_once(straight, encoded):
    assert encoded == [0, 2, 4, 0]  # the last with the same initial values for all


def test_the_workdir_holds_what_is_promised(straight, experiment):
    result, workdir = straight
    assert json.loads((workdir / "config.json").read_text())["name"] == experiment.name
    assert [line["step"] for line in _lines(workdir, "eval")] == [0, 2, 4]
    train = _lines(workdir, "train")
    assert [line["step"] for line in train] == [1, 2, 3, 4]
    assert {"agent_0/loss", "agent_1/grad_norm", "agent_2/mask_ratio"} <= train[0].keys()
    with np.load(workdir / "latents" / "agent_1.npz") as saved:
        np.testing.assert_array_equal(saved["latents"], result.latents[1])
        assert saved["latents"].dtype == np.float32 and saved["state_ids"].dtype == np.int64
        assert saved["labels"].dtype == np.int32
        assert saved["factors"].shape == (result.dataset.num_states, len(saved["factor_names"]))
        assert set(np.unique(saved["split_instance"])) == {0, 1}
    document = json.loads((workdir / "alignment.json").read_text())
    assert document["schema"] == 2 and document["rows"] == result.rows
    rows = {(row["row"], row["split"]) for row in document["rows"]}
    assert {("trained", "instance"), ("untrained", "state"), ("same_camera", "state")} <= rows
    assert result.report == workdir / "report.html" and "<html" in result.report.read_text()


def test_the_table_is_that_of_the_latents_it_stands_beside(straight, experiment):
    """Trained and untrained rows by plain NumPy; agents of one camera show what is shared."""
    result, workdir = straight
    own, same = result.untrained.own_init, result.untrained.same_init
    np.testing.assert_array_equal(same[0], own[0])
    np.testing.assert_array_equal(same[2], own[0])  # agents 0 and 2 look through one camera
    assert np.abs(own[2] - own[0]).max() > 1e-2
    agents = [oracle.Agent.read(workdir / "latents" / f"agent_{k}.npz") for k in range(3)]
    trained = [agent.z for agent in agents]
    spaces = {"trained": trained, "untrained": own, "untrained_same_init": same}
    for row in json.loads((workdir / "alignment.json").read_text())["rows"]:
        if row["row"] in spaces and row["back"] == "inverse":
            i, j = int(row["x"][-1]), int(row["y"][-1])
            pair, rows = (spaces[row["row"]][k] for k in (i, j)), agents[i].rows(row["split"])
            classes = len(result.dataset.label_names)
            found = oracle.measure(
                experiment.alignment, *pair, agents[i].labels, classes, *rows, ("none",)
            )["none"]
            for key in ("r2", "mse_raw", "n_train", "n_test", "rankme", "shared_dims"):
                np.testing.assert_allclose(row["metrics"][key], found[key], rtol=1e-4, err_msg=key)


def test_speed_is_held_against_the_hardware(straight, experiment):
    _, workdir = straight
    performance = json.loads((workdir / "performance.json").read_text())
    assert performance["hardware"]["name"] == "cpu" and performance["compile_seconds"] > 0
    per_image = performance["flops_per_image"]
    assert per_image == flops.step(experiment.objective, 8) / 8
    peak = performance["hardware"]["matmul_flops"]
    for line in _lines(workdir, "train"):
        rate = line["images_per_s"] * per_image
        assert line["tflops_per_s"] == pytest.approx(rate / 1e12, rel=1e-3)
        assert line["mfu"] == pytest.approx(rate / peak, rel=1e-3)
    page = (workdir / "report.html").read_text()
    assert "of the matmul peak" in page and "GFLOP an image" in page and "1 x cpu" in page


def test_the_step_was_compiled_once_and_traced(straight, compiled, experiment):
    _, workdir = straight
    assert len(compiled) == 1 and compiled[0].temporary_bytes > 0
    assert "operation" in (workdir / "profile" / "top.txt").read_text()
    with pytest.raises(InputError, match="begins after the last"):
        loop.fit(experiment, workdir, profiling.Window(STEPS, STEPS + 1))


def test_agents_started_apart_and_moved(straight):
    result, _ = straight
    assert np.abs(result.latents[0] - result.latents[2]).max() > 1e-3  # one camera, two seeds
    assert np.abs(result.latents - result.untrained.own_init).max() > 1e-5


def test_going_on_after_a_kill_is_the_same_run_bit_for_bit(straight, experiment, parent):
    """The state of step 2 is all that a killed run leaves; what came after it is done again."""
    result, workdir = straight
    other = parent / "killed"
    (other / "checkpoints").mkdir(parents=True)
    for name in ("config.json", "metrics.jsonl"):
        (other / name).write_bytes((workdir / name).read_bytes())
    source = workdir / "checkpoints" / "2"
    for path in source.rglob("*"):
        target = other / "checkpoints" / "2" / path.relative_to(source)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    resumed = loop.fit(experiment, other)
    chex.assert_trees_all_equal(jax.device_get(resumed.state), jax.device_get(result.state))
    np.testing.assert_array_equal(resumed.latents, result.latents)
    assert resumed.rows == result.rows
    for kind in ("train", "eval"):
        ours, theirs = _lines(other, kind), _lines(workdir, kind)
        for line in (*ours, *theirs):
            del line["time"]
            for name in hardware.SPEEDS:
                line.pop(name, None)
        assert ours == theirs


def test_a_finished_run_is_not_trained_again(straight, experiment):
    result, workdir = straight
    before = (workdir / "metrics.jsonl").read_text()
    again = loop.fit(experiment, workdir)
    assert (workdir / "metrics.jsonl").read_text() == before
    np.testing.assert_array_equal(again.latents, result.latents)


def test_a_call_length_that_cannot_end_is_refused(straight, experiment):
    """From step 4 of 8, calls of 3 steps would never meet the end."""
    _, workdir = straight
    target = workdir.parent / "other_calls"
    shutil.copytree(workdir, target)
    config = json.loads((target / "config.json").read_text())
    run = dataclasses.replace(experiment.run, steps=9, steps_per_call=3, log_every=3,
                              eval_every=3, save_every=3)  # fmt: skip
    config["run"]["steps"] = 9
    (target / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="steps_per_call=3 must divide 4"):
        loop.fit(dataclasses.replace(experiment, run=run), target)


@pytest.mark.nightly
def test_a_failed_first_try_does_not_block_the_corrected_one(straight, experiment, parent):
    workdir = parent / "corrected"
    workdir.mkdir()
    (workdir / "config.json").write_text(json.dumps({"name": "a mistake"}))
    result = loop.fit(experiment, workdir)
    np.testing.assert_array_equal(result.latents, straight[0].latents)


def test_too_few_states_are_refused_before_training(experiment, parent):
    data = dataclasses.replace(
        experiment.data, splits=dataclasses.replace(experiment.data.splits, test_states=0.01)
    )
    with pytest.raises(InputError, match="states to test on in the state split"):
        loop.fit(dataclasses.replace(experiment, data=data), parent / "too_few")


def test_another_run_in_the_workdir_is_refused(straight, experiment):
    _, workdir = straight
    other = dataclasses.replace(experiment, seed=1)
    with pytest.raises(InputError, match=r"holds another run \(config.seed: 0 -> 1\)"):
        loop.fit(other, workdir)


def test_a_strange_workdir_is_refused(experiment, tmp_path):
    (tmp_path / "checkpoints" / "99").mkdir(parents=True)
    with pytest.raises(InputError, match="holds checkpoints but no config"):
        loop.fit(experiment, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        loop.fit(experiment, tmp_path / "file")


def test_a_batch_larger_than_the_data_is_refused(experiment, parent, tmp_path):
    run = dataclasses.replace(experiment.run, batch_size=4096)
    with pytest.raises(InputError, match=r"batch_size=4096 is more than the \d+ training states"):
        loop.fit(dataclasses.replace(experiment, run=run), parent / "too_large")


def test_a_loss_that_is_not_finite_stops_the_run(experiment, parent):
    optim = dataclasses.replace(experiment.optim, learning_rate=1e30, warmup_fraction=0.0)
    workdir = parent / "diverged"
    run = dataclasses.replace(experiment.run, log_every=STEPS)  # found before the log says so
    monitors = config_lib.Monitors(max_skips=2)
    with pytest.raises(Stopped, match="not finite") as stop:
        loop.fit(dataclasses.replace(experiment, optim=optim, run=run, monitors=monitors), workdir)
    assert stop.value.exit_code == 3
    with Checkpoints(workdir / "checkpoints", 2) as checkpoints:
        assert checkpoints.steps() == []  # nothing that is not finite was saved


def test_states_are_made_of_arrays_that_a_checkpoint_can_hold(straight, experiment):
    result, workdir = straight
    with Checkpoints(workdir / "checkpoints", 2) as checkpoints:
        assert checkpoints.steps() == [2, 4]
        restored = checkpoints.restore(build.build(experiment).abstract_state)
    chex.assert_trees_all_equal(restored, result.state)
