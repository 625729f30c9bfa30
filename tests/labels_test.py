"""Labels that methods read: those of training states alone, and heads of the right teachers."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from experiments.collaboration import methods, scenes
from socialjepa_jax import build, labels, sharding
from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.errors import InputError

N, HELD_OUT = 60, np.arange(3, 60, 4)
METHODS = methods.methods(scenes.TOYS, "smoke")
NAMES = ["distillation, labels", "distillation, labels, no own loss", "labels without a teacher",
         "mutual learning, labels"]  # fmt: skip


def experiment(name):
    return methods.experiment(METHODS[name], scenes.TOYS, "smoke", (3, 4))


def data(of_held_out=0):
    """Two cameras' images and labels 2, 4, ..., 10; those of held-out states can be changed."""
    rng = np.random.default_rng(0)
    classes = rng.permutation(np.arange(N) % 5)
    images = rng.integers(200, size=(2, N, 2, 2, 1), dtype=np.uint8)
    images[:, :, 0, 0, 0] += 10 * classes.astype(np.uint8)
    classes[HELD_OUT] = (classes[HELD_OUT] + of_held_out) % 5
    images[:, HELD_OUT] += np.uint8(of_held_out)
    return SimpleNamespace(labels=2 * classes + 2, images=images, num_states=N,
                           train_rows=np.setdiff1d(np.arange(N), HELD_OUT))  # fmt: skip


def latents(agent, images):
    return (agent + 1.0) * images.reshape(len(images), -1)


TEACHER = SimpleNamespace(num_agents=2, encode=latents)


def given(name, of_held_out=0, teacher=TEACHER):
    chosen = experiment(name)
    objective = chosen.objective
    if hasattr(objective, "bind"):
        objective = objective.bind(objective.objective)
    trainer = SimpleNamespace(mesh=sharding.make_mesh(2, 16, jax.devices()[:1]))
    trainer.objective = objective
    parts = build.Parts(trainer, {"seed": np.zeros(2), "teacher": {"mean": np.zeros(2)}})
    return labels.given(parts, chosen, data(of_held_out), teacher).hparams


@pytest.mark.parametrize("name", [NAMES[0], NAMES[3]])
def test_no_label_of_a_held_out_state_reaches_a_method(name):
    found, changed = given(name), given(name, of_held_out=1)
    assert (np.asarray(found["labels"])[:, HELD_OUT] == labels.HIDDEN).all()
    jax.tree.map(np.testing.assert_array_equal, found, changed)
    rows = data().train_rows
    expected = (data().labels[rows] - 2) // 2
    np.testing.assert_array_equal(found["labels"][:, rows], np.tile(expected, (2, 1)))
    assert set(found) == {"seed", "teacher", "labels"}


def test_a_head_is_fitted_to_the_teacher_and_its_camera():
    found, dataset = given("distillation, labels")["teacher"], data()
    rows = dataset.train_rows
    assert set(found) == {"mean", "head"}
    for k in range(2):
        z = latents(k, dataset.images[methods.OTHER][rows])
        probe = fit_logistic(z, (dataset.labels[rows] - 2) // 2, 5)
        np.testing.assert_allclose(found["head"]["kernel"][k], probe.weight, rtol=1e-5)
        np.testing.assert_allclose(found["head"]["bias"][k], probe.bias, rtol=1e-5)


def test_without_a_teacher_or_classes_there_is_no_head():
    assert "head" not in given("labels without a teacher")["teacher"]
    assert set(given("W")) == {"seed", "teacher"}


def test_another_number_of_classes_is_named():
    few = data()
    few.labels[:] = np.arange(N) % 2
    with pytest.raises(InputError, match="num_classes=5, the training states have 2"):
        labels.training_labels(experiment(NAMES[0]), few, 5)


@pytest.mark.nightly
def test_methods_with_labels_run_through(tmp_path):
    """At smoke scale, with what their steps cost."""
    from experiments.collaboration import runs

    rows = {name: runs.rows(name, scenes.TOYS, "smoke", tmp_path) for name in NAMES}
    cost = {name: found[-1] for name, found in rows.items()}
    for name, found in rows.items():
        scores = [row["scores"] for row in found if row["part"] == "run"]
        assert len(scores) == 2 and np.isfinite(scores).all(), name
    assert cost[NAMES[0]]["teacher"] > 0 == cost[NAMES[2]]["teacher"]
    assert cost[NAMES[1]]["own"] == 0 and cost[NAMES[3]]["own"] == 2 * cost[NAMES[0]]["own"]
