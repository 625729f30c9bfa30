"""A student beside a frozen teacher: a single run at weight 0, and what the pull does above it."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data.protocols import PairedSource
from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.coupled import Link, Migration
from socialjepa_jax.sharding import Reduce
from tests.objectives.coupled.frames import (
    LINK,
    MIGRATION,
    SINGLE,
    STEPS,
    alone,
    hparams,
    source,
    teacher,
    train,
)

TAUGHT = MIGRATION.bind(SINGLE)
PAIRED = PairedSource(source(0), source(1))


def settings(weight=1.0, **columns):
    return hparams(weight, **columns) | {"teacher": teacher()}


@pytest.fixture(scope="module")
def migrated():
    return train(TAUGHT, PAIRED, settings())


def test_without_weight_the_student_is_a_single_run():
    state, _ = train(TAUGHT, PAIRED, settings(0.0))
    for of in ("params", "aux"):
        got, expected = getattr(state, of)["student"], getattr(alone(0), of)
        chex.assert_trees_all_close(got, expected, atol=1e-6, rtol=0)


def test_the_pull_lowers_the_residual_on_fresh_pairs(migrated):
    """And the residual is that of pairs which W has not seen."""
    free = train(TAUGHT, PAIRED, settings(0.0))[1]
    ready = migrated[1]["link/ready"][0] == 1.0
    assert 0 < ready.sum() < STEPS
    residual = [m["link/residual"][:, -4:].mean(1) for m in (migrated[1], free)]
    assert (residual[0] < residual[1]).all()
    np.testing.assert_allclose(migrated[1]["coupling"], migrated[1]["link/residual"], rtol=1e-6)


def test_the_pull_waits_until_w_is_ready(migrated):
    """Before the first refit the student takes the steps of a single run."""
    steps = LINK.every
    early, _ = train(TAUGHT, PAIRED, settings(), steps=steps)
    free, _ = train(TAUGHT, PAIRED, settings(0.0), steps=steps)
    chex.assert_trees_all_equal(early.params, free.params)


@functools.partial(jax.jit, static_argnums=0)
def gradient(objective, params, aux, own):
    """Gradients in the parameters, the carried state and the settings of a step."""
    found = jax.tree.map(lambda x: jnp.asarray(x[0]), settings(own=own))
    pairs = {}
    for name, camera in (("a", 0), ("b", 1)):
        pair = source(camera).frames[0][:16]
        pairs[name] = {"image": pair[:, 0], "next": pair[:, 1], "index": jnp.arange(16)}
        pairs[name] |= {"mean": jnp.zeros(2), "std": jnp.ones(2)}

    def loss(params, link, constants):
        carried, columns = aux | {"link": link}, found | {"teacher": constants}
        batch = pairs | {"step": jnp.int32(0), "draw": jnp.int32(0)}
        return objective.loss(params, carried, batch, jax.random.key(0), columns, Reduce())[0]

    return jax.grad(loss, argnums=(0, 1, 2))(params, aux["link"], found["teacher"])


def test_no_gradient_reaches_the_teacher_or_w(migrated):
    params, aux = (jax.tree.map(lambda x: jnp.asarray(x[0]), t)
                   for t in (migrated[0].params, migrated[0].aux))  # fmt: skip
    of_student, of_link, of_teacher = gradient(TAUGHT, params, aux, 1.0)
    assert max(float(np.abs(g).max()) for g in jax.tree.leaves(of_student)) > 1e-4
    del of_link["ready"]  # a switch, 0 or 1
    assert not any(np.any(g) for g in jax.tree.leaves((of_link, of_teacher)))


def test_own_weight_zero_leaves_the_pull_alone(migrated):
    params, aux = (jax.tree.map(lambda x: jnp.asarray(x[0]), t)
                   for t in (migrated[0].params, migrated[0].aux))  # fmt: skip
    with_own, pull = (gradient(TAUGHT, params, aux, own)[0]["student"] for own in (1.0, 0.0))
    assert float(np.abs(pull["head"]["kernel"]).max()) > 1e-5
    apart = np.abs(with_own["head"]["kernel"] - pull["head"]["kernel"]).max()
    assert apart > 1e-5


def test_the_teacher_sees_pixels_on_its_own_scale():
    """Its latents do not change when both sides are normalised in another way."""
    batch = {"image": source(1).frames[0][:8, 0], "mean": jnp.zeros(2), "std": jnp.ones(2)}
    moved = {
        "image": (batch["image"] - 0.3) / 2.0,
        "mean": jnp.full(2, 0.3),
        "std": jnp.full(2, 2.0),
    }
    constants = {"teacher": jax.tree.map(lambda x: jnp.asarray(x[0]), teacher())}
    first, second = (TAUGHT._seen(b, constants) for b in (batch, moved))
    np.testing.assert_allclose(first, second, atol=1e-5)


@pytest.mark.nightly
def test_a_student_learns_by_itself_from_more_than_the_pairs():
    """Without weight the pairs do not matter, whatever camera they are of."""
    apart = PairedSource(source(1), source(0), own=source(0))
    state, _ = train(TAUGHT, apart, settings(0.0))
    chex.assert_trees_all_close(state.params["student"], alone(0).params, atol=1e-6, rtol=0)


@pytest.mark.nightly
def test_a_learned_map_is_trained_and_clipped_apart():
    learned = dataclasses.replace(MIGRATION, link=dataclasses.replace(LINK, kind="learned"))
    state, _ = train(learned.bind(SINGLE), PAIRED, settings(0.0))
    chex.assert_trees_all_close(state.params["student"], alone(0).params, atol=1e-6, rtol=0)
    clips = {g.clip for g in jax.tree.leaves(learned.groups(state.params))}
    assert clips == {"student/all", "link/all"}


def test_it_encodes_without_a_teacher_and_refuses_to_learn():
    params, aux = MIGRATION.init(jax.random.key(0))
    images = source(0).frames[0][:4, 0]
    expected = SINGLE.encode(params["student"], aux["student"], images)["latent"]
    np.testing.assert_array_equal(MIGRATION.encode(params, aux, images)["latent"], expected)
    with pytest.raises(InputError, match="needs its teacher"):
        MIGRATION.loss(params, aux, {}, jax.random.key(0), {}, Reduce())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"teacher": ""}, "teacher=''"),
        ({"weight": -1.0}, "weight=-1.0"),
        ({"own": -1.0}, "own=-1.0"),
        ({"teacher_width": 50}, "memory=64 must be at least 250"),
        ({"link": Link(kind="identity"), "teacher_width": 4}, "equal widths, these are 3 and 4"),
    ],
)
def test_refuses_what_cannot_be(fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(MIGRATION, **fields)


def test_a_teacher_of_another_width_is_named():
    with pytest.raises(InputError, match="stands for 3 features, the teacher's latents have 5"):
        MIGRATION.bind(dataclasses.replace(SINGLE, outputs=5))


def test_is_registered():
    assert OBJECTIVES["migration"] is Migration
