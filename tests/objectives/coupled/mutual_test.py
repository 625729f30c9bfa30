"""Two models in one agent: single runs at weight 0, and what the coupling does above it."""

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
from socialjepa_jax.objectives.coupled import Link, Mutual
from socialjepa_jax.sharding import Reduce
from tests.objectives.coupled.frames import (
    LINK,
    MUTUAL,
    PAIRED,
    PARTNERS,
    STEPS,
    alone,
    hparams,
    source,
    train,
)

ALTERNATING = dataclasses.replace(MUTUAL, method="alternating")


@pytest.fixture(scope="module")
def coupled():
    return train(MUTUAL, PAIRED, hparams())


def first(tree):
    """The part of the first agent."""
    return jax.tree.map(lambda x: jnp.asarray(x[0]), tree)


def shown(camera):
    """A batch of the first agent."""
    pair = source(camera).frames[0][:16]
    return {"image": pair[:, 0], "next": pair[:, 1], "index": jnp.arange(16)}


BATCH = {"a": shown(0), "b": shown(1)}


@functools.partial(jax.jit, static_argnums=0)
def gradients(objective, state, step, gamma):
    """Gradients of the loss in the parameters and in the map's state."""
    settings = first(hparams()) | {"gamma": gamma}
    params, aux = first((state.params, state.aux))
    batch = BATCH | {"step": step, "draw": step}

    def loss(params, link):
        carried = aux | {"link": link}
        return objective.loss(params, carried, batch, jax.random.key(0), settings, Reduce())[0]

    return jax.grad(loss, argnums=(0, 1))(params, aux["link"])


@pytest.mark.nightly
def test_without_weight_both_are_single_runs():
    state, _ = train(MUTUAL, PAIRED, hparams(0.0))
    for name, single in (("a", alone(0)), ("b", alone(1, PARTNERS))):
        for of in ("params", "aux"):
            expected, got = getattr(single, of), getattr(state, of)[name]
            chex.assert_trees_all_close(got, expected, atol=1e-6, rtol=0)


def test_weight_brings_the_two_together_and_reaches_both(coupled):
    state, together = coupled
    without, apart = train(MUTUAL, PAIRED, hparams(0.0))
    residual = [m["link/residual"][:, -4:].mean(1) for m in (together, apart)]
    assert (residual[0] < residual[1]).all()
    for name in ("a", "b"):
        heads = [s.params[name]["head"]["kernel"] for s in (state, without)]
        assert np.abs(heads[0] - heads[1]).max() > 1e-4


def test_the_pull_waits_until_w_is_ready():
    """Until then W is 0, which would pull member b to the origin."""
    early, free = (train(MUTUAL, PAIRED, hparams(w), steps=LINK.every)[0] for w in (1.0, 0.0))
    chex.assert_trees_all_equal(early.params, free.params)


def test_both_pull_each_other_and_alternating_pulls_one_in_turn(coupled):
    def pulled(objective, step):
        of = [gradients(objective, coupled[0], jnp.int32(step), g)[0] for g in (1.0, 0.0)]
        apart = jax.tree.map(lambda x, y: float(np.abs(x - y).max()), *of)
        return {name: max(jax.tree.leaves(apart[name])) for name in ("a", "b")}

    assert min(pulled(MUTUAL, 0).values()) > 1e-4
    every = MUTUAL.link.every
    for step, moved, still in ((0, "a", "b"), (every - 1, "a", "b"), (every, "b", "a")):
        found = pulled(ALTERNATING, step)
        assert found[moved] > 1e-4 and found[still] == 0.0


@pytest.mark.parametrize("objective", [MUTUAL, ALTERNATING], ids=["both", "alternating"])
def test_no_gradient_reaches_w(objective, coupled):
    _, of_link = gradients(objective, coupled[0], jnp.int32(0), 3.0)
    for name in ("w", "w_back", "center", "mean", "sums"):
        assert not np.any(of_link[name]), name


@pytest.mark.nightly
def test_four_devices_give_the_run_of_one(coupled):
    four, _ = train(MUTUAL, PAIRED, hparams(), devices=4)
    chex.assert_trees_all_close(four.params, coupled[0].params, atol=1e-5, rtol=0)


@pytest.mark.nightly
def test_longer_calls_give_the_same_bits(coupled):
    longer, _ = train(MUTUAL, PAIRED, hparams(), steps_per_call=10)
    chex.assert_trees_all_equal(longer, coupled[0])


@pytest.mark.nightly
def test_stopping_and_going_on_is_the_same_run(coupled):
    """W and its moments are part of the state."""
    half, _ = train(MUTUAL, PAIRED, hparams(), steps=STEPS // 2 + 2)
    whole, _ = train(MUTUAL, PAIRED, hparams(), steps=STEPS // 2 - 2, state=half)
    chex.assert_trees_all_equal(whole, coupled[0])


def test_a_bad_update_of_one_member_is_skipped_in_that_one_alone():
    poisoned = PairedSource(source(0), source(1, poison=5))
    state, _ = train(MUTUAL, poisoned, hparams(0.0))
    assert (state.skipped > 0).all()
    chex.assert_trees_all_close(state.params["a"], alone(0).params, atol=1e-6, rtol=0)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((state.params, state.aux)))
    moved = np.abs(
        state.params["b"]["head"]["kernel"] - alone(1, PARTNERS).params["head"]["kernel"]
    )
    assert moved.max() > 1e-4  # its other updates were made


def test_encode_is_member_a(coupled):
    params, aux = first((coupled[0].params, coupled[0].aux))
    images = BATCH["a"]["image"]
    got = MUTUAL.encode(params, aux, images)["latent"]
    expected = MUTUAL.objective.encode(params["a"], aux["a"], images)["latent"]
    np.testing.assert_array_equal(got, expected)
    assert got.shape == (16, 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"method": "none"}, "method='none'"),
        ({"weight": -1.0}, "weight=-1.0"),
        ({"link": Link(kind="learned")}, "kind='learned'"),
        ({"link": Link(memory=10)}, "memory=10 must be at least 15"),
    ],
)
def test_refuses_what_cannot_be(fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(MUTUAL, **fields)


def test_is_registered():
    assert OBJECTIVES["mutual"] is Mutual
