"""One training of every method: its agents and worlds, its checkpoints, and what is kept."""

import json
import types

import jax
import numpy as np
import pytest

from experiments.rivals.tables import trained
from experiments.rivals.tables.entrants import ENTRANTS
from socialjepa_jax import build
from socialjepa_jax.config import from_config_dict, to_config_dict

OBJECTIVES = sorted(set(ENTRANTS) - {"supervised", "vicreg_masked"})  # those of the registry


@pytest.mark.parametrize("name", OBJECTIVES)
def test_settings_are_chosen_on_other_toys_and_seeds_than_those_reported(name, tmp_path):
    world = trained.World("cpu", tmp_path)
    tuning = world.experiment(name, trained.TUNING_TOYS, trained.TUNING_STEPS["cpu"])
    reported = world.experiment(name, trained.TOYS)
    assert tuning.data.seed != reported.data.seed
    assert not set(tuning.agents.seeds) & set(reported.agents.seeds)
    assert tuning.agents.cameras == (0,) * 6
    assert reported.agents.cameras == (0, 0, 0, 1, 1, 1, 0, 1)
    assert len(set(reported.agents.seeds)) == 8
    assert (tuning.run.steps, reported.run.steps) == (200, 500)
    assert (reported.run.batch_size, tuning.run.batch_size) == (64, 64)
    assert from_config_dict(to_config_dict(reported)) == reported


def test_photographs_are_reported_with_the_settings_of_the_toys(tmp_path, monkeypatch):
    world = trained.World("cpu", tmp_path, "photographs.npz")
    assert world.experiment("mae", trained.TUNING_TOYS).data.kind == "toys"
    reported = world.experiment("supervised", trained.TOYS)
    assert (reported.data.kind, reported.data.path) == ("arrays", "photographs.npz")
    assert (reported.data.image_size, reported.data.channels) == (48, 1)
    assert reported.objective.projector_dim == 8
    rows = [{"method": "mae", "row": "trial", "trial": 3, "accuracy": 0.7},
            {"method": "mae", "row": "cost", "chosen": 3}]  # fmt: skip
    asked = []

    def of_toys(self, name):
        asked.append((self.photographs, name))
        return trained.Trained(name, *[np.zeros(1)] * 3, rows)

    monkeypatch.setattr(trained.World, "trained", of_toys)
    assert trained.tuned(world, "mae") == [{"row": "trial", "trial": 3, "accuracy": 0.7}]
    assert asked == [(None, "mae")]


def test_pairs_are_all_tuned_agents_of_unlike_cameras():
    assert trained.cross_pairs() == [(0, 3), (0, 4), (0, 5), (1, 3), (1, 4), (1, 5), (2, 3),
                                     (2, 4), (2, 5)]  # fmt: skip


def test_rows_of_an_experiment_are_measured_once_and_named(tmp_path):
    calls = []

    def make():
        calls.append(1)
        return [{"row": "a", "value": 1.5}, {"row": "b"}]

    expected = [{"method": "pixel PCA", "row": "a", "value": 1.5},
                {"method": "pixel PCA", "row": "b"}]  # fmt: skip
    for world in (trained.World("cpu", tmp_path), trained.World("cpu", tmp_path)):
        assert world.kept("table", "pixel PCA", make) == expected
    assert len(calls) == 1 and (tmp_path / "table" / "cpu_pixel_PCA.json").exists()
    trained.World("cpu", tmp_path, "photographs.npz").kept("table", "pixel PCA", make)
    assert len(calls) == 2


def test_pixels_are_the_components_of_both_cameras(tmp_path):
    world = trained.World("cpu", tmp_path)
    rng = np.random.default_rng(0)
    light = rng.uniform(20, 180, (2, 70, 1, 1, 1))  # one direction stands out
    images = (light + rng.integers(0, 60, (2, 70, 8, 8, 1))).astype(np.uint8)
    world.__dict__["dataset"] = types.SimpleNamespace(images=images)  # in place of the rendered
    world.__dict__["split"] = types.SimpleNamespace(train=np.arange(60))
    assert world.pixels.shape == (2, 70, 48)
    flat = images[1].reshape(70, -1) / 255
    flat = flat - flat[:60].mean(0)
    components = np.linalg.svd(flat[:60], full_matrices=False)[2][:48]
    expected = flat @ components.T  # up to a rotation, which keeps inner products
    found = world.pixels[1].astype(float)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)


def test_checkpoints_hold_the_mean_loss_since_the_last(monkeypatch):
    """Encoded at 0 and at every share of the steps; the other calls are only counted."""
    run = types.SimpleNamespace(steps=40, steps_per_call=2)
    chosen = types.SimpleNamespace(run=run)
    world = types.SimpleNamespace(
        chosen=chosen, parts=types.SimpleNamespace(trainer=types.SimpleNamespace(encode=None)),
        feed=None,
    )  # fmt: skip
    monkeypatch.setattr(trained, "encode_states", lambda encode, state, feed: state["z"])
    hook = trained.Checkpoints(world)
    for step in range(0, 42, 2):
        loss = np.array([[step, step + 1.0], [0.0, 2.0 * step]])  # two agents, two steps a call
        hook(types.SimpleNamespace(
            step=step, metrics={"loss": loss}, state={"z": np.full((2, 3, 1), step)}
        ))  # fmt: skip
    kept = hook.arrays()
    assert kept["steps"].tolist() == [0, 4, 6, 8, 12, 16, 24, 32, 40]
    np.testing.assert_array_equal(kept["latents"][:, 0, 0, 0], kept["steps"])
    assert np.isnan(kept["losses"][0]).all()
    np.testing.assert_allclose(kept["losses"][1], [(2.5 + 4.5) / 2, (2 + 4) / 2])
    np.testing.assert_allclose(kept["losses"][2], [6.5, 6])
    np.testing.assert_allclose(kept["losses"][4], [(10.5 + 12.5) / 2, 11])
    assert 0 < hook.seconds < 1


def test_labels_reach_the_reference_alone_and_settings_their_agents():
    seen = {}
    dataset = types.SimpleNamespace(labels=np.array([3, 1]))

    def world(name):
        chosen = types.SimpleNamespace(objective=ENTRANTS[name].objective)
        return types.SimpleNamespace(
            chosen=chosen, dataset=dataset, train=lambda hooks, **columns: seen.update(columns)
        )

    trained.train(world("simclr"), ENTRANTS["simclr"].trials)
    assert seen.keys() == {"learning_rate", "temperature"}
    np.testing.assert_array_equal(seen["temperature"], [0.1, 0.3, 1.0] * 2)
    trained.train(world("supervised"), ENTRANTS["supervised"].trials[:2])
    np.testing.assert_array_equal(seen["labels"], [[3, 1], [3, 1]])


def test_a_probe_is_fitted_to_training_rows_and_tested_on_others():
    labels = np.array([0, 1] * 20)
    split = types.SimpleNamespace(train=np.arange(20), test=np.arange(20, 40))
    dataset = types.SimpleNamespace(labels=labels, label_names=("a", "b"))
    world = types.SimpleNamespace(split=split, dataset=dataset)
    z = np.stack([labels, np.random.default_rng(0).normal(size=40)], axis=1).astype(float)
    assert trained.accuracy(world, z) == 1.0
    z[30:, 0] = 1 - z[30:, 0]
    assert trained.accuracy(world, z) == 0.5


@pytest.mark.nightly
@pytest.mark.parametrize("name", ENTRANTS)
def test_a_method_steps_with_the_settings_of_its_trials(name, tmp_path):
    """Traced, not compiled."""
    world = trained.World("smoke", tmp_path)
    chosen = world.experiment(name, trained.TUNING_TOYS, 25)
    parts = build.build(chosen, devices=jax.devices()[:1])
    feed = build.open_feed(chosen, chosen.data.load(tmp_path), parts, tmp_path, tmp_path)
    trials = ENTRANTS[name].trials
    settings = {key: np.array([t[key] for t in trials], np.float32) for key in trials[0]}
    if name == "supervised":
        settings["labels"] = np.zeros((6, len(feed.good)), np.float32)
    hparams = parts.hparams | settings
    state = jax.eval_shape(parts.trainer.init, hparams)
    after, metrics = jax.eval_shape(parts.trainer.step, state, feed.at(0), hparams)
    assert jax.tree.map(np.shape, after) == jax.tree.map(np.shape, state)
    assert metrics["loss"].shape == (6, 25)


@pytest.mark.nightly
def test_a_method_is_tuned_trained_and_read_again(tmp_path):
    world = trained.World("smoke", tmp_path)
    first = world.trained("ijepa")
    assert first.latents.shape == (3, 8, world.dataset.num_states, 48)
    assert first.steps.tolist() == [0, 25, 50]
    assert [row["row"] for row in first.rows] == ["trial"] * 6 + ["cost"]
    accuracies = [row["accuracy"] for row in first.rows[:6]]
    assert first.cost["chosen"] == int(np.argmax(accuracies))
    again = trained.World("smoke", tmp_path).trained("ijepa")
    np.testing.assert_array_equal(first.latents, again.latents)
    assert json.loads(json.dumps(first.rows)) == again.rows
