"""Distillation with labels: reference numbers, a float64 oracle, and runs of a student."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.collaboration.logistic import fit_logistic
from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives.coupled import Classes, Migration
from socialjepa_jax.objectives.coupled.classes import cross_entropy
from socialjepa_jax.sharding import Reduce
from tests.objectives.coupled.frames import (
    PAIRED,
    SINGLE,
    STEPS,
    alone,
    hparams,
    labels,
    source,
    teacher,
    train,
)
from tests.objectives.coupled.pixels import HEAD, WIDE, C, Pixels, shown
from tests.objectives.rivals_oracle import softmax, u

PULL = Classes(num_classes=3)
TAUGHT_PIXELS = Migration(WIDE, teacher="in memory", link=PULL).bind(WIDE)


def loss(link, student, head, batch, **settings):
    """The loss of a student whose latents are its pixels, and its metrics."""
    taught = Migration(objective=Pixels(), teacher="in memory", link=link).bind(Pixels())
    scale, aux = {"scale": np.ones(())}, {"student": {}, "link": {"ready": 1.0}}
    params, one = {"student": scale, "link": student}, {"mean": np.zeros(1), "std": np.ones(1)}
    batch = {"a": batch["a"], "b": {**batch["b"], **one}, "step": 0, "draw": 0}
    settings["teacher"] = {"params": scale, "aux": {}, **one, "head": head}
    total, (_, metrics) = taught.loss(params, aux, batch, None, settings, Reduce())
    return total, metrics


def single(tree):
    """A tree in single precision."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, "f4"), tree)


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, 0.164885559), (4.0, 0.206244319)])
def test_the_divergence_is_the_reference(temperature, expected):
    link = Classes(num_classes=C, temperature=temperature, hard=0.0)
    batch = {"a": shown(u(3, 4, 2)), "b": shown(u(3, 4, 1))}
    total, metrics = jax.jit(lambda head: loss(link, head, head, batch))(HEAD)
    assert float(metrics["link/soft"]) == pytest.approx(expected, abs=1e-6)
    assert float(total) == pytest.approx(expected, abs=1e-6)
    assert "link/hard" not in metrics


def test_gradients_are_those_of_float64_and_reach_the_student_alone():
    """d T^2 KL / d s = T (softmax(s / T) - softmax(t / T)), d CE / d s = softmax(s) - one hot."""
    x, y = u(3, 4, 2), u(3, 4, 1)
    kernel, bias = u(4, C, 5), u(1, C, 6)[0]
    of_teacher = {"kernel": u(4, C, 7), "bias": u(1, C, 8)[0]}
    classes, temperature, soft, hard = np.array([9, 1, 3, 0]), 2.0, 0.7, 0.4
    link = Classes(num_classes=C, temperature=temperature, soft=soft, hard=hard)
    index = np.array([3, 1, 2])

    def of(student, head, images):
        batch = {"a": shown(images[0], index), "b": shown(images[1], index)}
        return loss(link, student, head, batch, labels=jnp.asarray(classes), beta=3.0)[0]

    student, head = single(({"kernel": kernel, "bias": bias}, of_teacher))
    images = np.stack([x, y]).astype("f4")
    found, of_head, of_images = jax.jit(jax.grad(of, (0, 1, 2)))(student, head, images)

    s, t = x @ kernel + bias, y @ of_teacher["kernel"] + of_teacher["bias"]
    slope = soft * temperature * (softmax(s / temperature) - softmax(t / temperature))
    slope = 3.0 * (slope + hard * (softmax(s) - np.eye(C)[classes[index]])) / 3
    np.testing.assert_allclose(found["kernel"], x.T @ slope, atol=1e-6)
    np.testing.assert_allclose(found["bias"], slope.sum(0), atol=1e-6)
    np.testing.assert_allclose(of_images[0], slope @ kernel.T, atol=1e-6)
    assert not any(np.any(g) for g in (*jax.tree.leaves(of_head), of_images[1]))


def test_without_a_teacher_its_images_and_its_head_do_not_matter():
    link = Classes(num_classes=C, soft=0.0)
    batch = {"a": shown(u(3, 4, 2)), "b": shown(np.full((3, 4), np.nan))}
    labels_N = jnp.arange(3)
    total, metrics = jax.jit(lambda head: loss(link, head, None, batch, labels=labels_N))(HEAD)
    expected = -np.log(softmax(u(3, 4, 2))[np.arange(3), np.arange(3)]).mean()
    assert float(total) == pytest.approx(expected, abs=1e-6)
    assert set(metrics) == {"coupling", "link/hard"}


def test_a_hidden_label_cannot_teach_unnoticed():
    """Neither one below the classes nor one above; the other rows are as they were."""
    logits, hidden = jnp.asarray(u(3, 4, 1), "f4"), jnp.array([-1, 2, 4])
    found, slope = jax.jit(lambda z: jax.vjp(lambda z: cross_entropy(z, hidden), z))(logits)
    assert np.isnan(np.asarray(found)).tolist() == [True, False, True]
    assert float(found[1]) == pytest.approx(-np.log(softmax(u(3, 4, 1)))[1, 2], abs=1e-6)
    (slopes,) = slope(jnp.ones(3))
    assert np.isnan(np.asarray(slopes)).all(1).tolist() == [True, False, True]


TAUGHT = dataclasses.replace(TAUGHT_PIXELS, objective=SINGLE, taught_by=SINGLE)


def run(**changes):
    """Trains students whose latents are pixels, as are those of their teachers."""
    heads = []
    for images, classes in zip(source(1).frames[:, :, 0], labels()):
        probe = fit_logistic(images.reshape(len(images), -1), classes, 3)
        heads.append(single({"kernel": probe.weight, "bias": probe.bias}))
    head = jax.tree.map(lambda *of: np.stack(of), *heads)
    told = {"params": {"scale": np.ones(2, "f4")}, "aux": {}, "head": head}
    told |= {"mean": np.zeros((2, 2), "f4"), "std": np.ones((2, 2), "f4")}
    return train(
        TAUGHT_PIXELS, PAIRED, hparams() | {"teacher": told, "labels": labels()}, **changes
    )


@pytest.fixture(scope="module")
def taught():
    return run()


@pytest.mark.nightly
def test_the_pull_lowers_both_terms(taught):
    for name in ("link/soft", "link/hard"):
        assert (taught[1][name][:, -4:].mean(1) < taught[1][name][:, :4].mean(1)).all()
    clips = {group.clip for group in jax.tree.leaves(TAUGHT_PIXELS.groups(taught[0].params))}
    assert clips == {"student/all", "link/all"}


@pytest.mark.nightly
def test_four_devices_give_the_run_of_one(taught):
    chex.assert_trees_all_close(run(devices=4)[0].params, taught[0].params, atol=1e-5, rtol=0)


@pytest.mark.nightly
def test_stopping_and_going_on_is_the_same_run(taught):
    half, _ = run(steps=STEPS // 2 + 2)
    chex.assert_trees_all_equal(run(steps=STEPS // 2 - 2, state=half)[0], taught[0])


@pytest.mark.nightly
def test_without_weight_the_student_is_a_single_run():
    head = {"kernel": np.tile(np.eye(3, dtype="f4"), (2, 1, 1)), "bias": np.zeros((2, 3), "f4")}
    settings = hparams(0.0) | {"teacher": teacher() | {"head": head}, "labels": labels()}
    state, _ = train(TAUGHT, PAIRED, settings)
    for of in ("params", "aux"):
        got, expected = getattr(state, of)["student"], getattr(alone(0), of)
        chex.assert_trees_all_close(got, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_classes": 1}, "num_classes=1 must be at least 2"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"soft": -1.0}, "soft=-1.0"),
        ({"soft": 0.0, "hard": 0.0}, "leave nothing to learn"),
        ({"kind": "closed"}, "kind='closed'"),
    ],
)
def test_refuses_what_cannot_be(fields, message):
    with pytest.raises(InputError, match=message):
        Classes(**fields)


def test_refuses_settings_without_labels_or_a_head():
    index = jnp.arange(2)
    with pytest.raises(InputError, match="no 'labels'"):
        PULL.bind(index, {"teacher": {"head": HEAD}})
    with pytest.raises(InputError, match="no 'head'"):
        PULL.bind(index, {"labels": index, "teacher": {}})
    with pytest.raises(InputError, match="num_classes=3, the teacher's head has 4"):
        PULL.bind(index, {"labels": index, "teacher": {"head": HEAD}})
    with pytest.raises(InputError, match="call bind first"):
        PULL.pull({}, {}, index, index, index, Reduce())
