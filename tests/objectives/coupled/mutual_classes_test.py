"""Deep mutual learning: reference numbers, a float64 oracle, and runs of two models."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.data.protocols import PairedSource
from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.coupled import MutualClasses
from socialjepa_jax.objectives.coupled.mutual_classes import HEADS
from socialjepa_jax.sharding import Reduce
from tests.objectives.coupled.frames import (
    PAIRED,
    PARTNERS,
    SINGLE,
    STEPS,
    alone,
    hparams,
    labels,
    source,
    train,
)
from tests.objectives.coupled.pixels import HEAD, WIDE, C, Pixels, shown
from tests.objectives.rivals_oracle import softmax, u

PEERS = MutualClasses(WIDE, num_classes=3)
OF_PIXELS = MutualClasses(Pixels(), num_classes=C)
LABELS = np.array([2, 0, 3])


def loss(params, images, **settings):
    """The loss of two models whose latents are their pixels, and its metrics."""
    batch = {"a": shown(images[0]), "b": shown(images[1]), "step": 0, "draw": 0}
    settings = {"partner_seed": jnp.uint32(1), "labels": jnp.asarray(LABELS), **settings}
    total, (_, found) = OF_PIXELS.loss(
        params, {"a": {}, "b": {}}, batch, jax.random.key(0), settings, Reduce()
    )
    return total, found


def models(head_a=HEAD, head_b=HEAD):
    scale = {"scale": np.ones((), "f4")}
    return {"a": scale, "b": scale, "head_a": head_a, "head_b": head_b}


def test_divergences_are_the_reference_from_both_sides():
    first, second = u(3, 4, 1), u(3, 4, 2)
    total, found = jax.jit(lambda params: loss(params, [first, second]))(models())
    assert float(found["a/soft"]) == pytest.approx(0.179311981, abs=1e-6)
    assert float(found["b/soft"]) == pytest.approx(0.164885559, abs=1e-6)
    rows = np.arange(3), LABELS
    hard = [-np.log(softmax(s)[rows]).mean() for s in (first, second)]
    assert float(found["a/hard"]) == pytest.approx(hard[0], abs=1e-6)
    assert float(total) == pytest.approx(sum(hard) + 0.179311981 + 0.164885559, abs=1e-6)


def test_gradients_are_those_of_float64_and_stop_at_the_peer():
    """Those of an own head: (softmax(own) - one hot) + (softmax(own) - softmax(peer))."""
    images, kernels = [u(3, 4, 1), u(3, 4, 2)], [u(4, C, 5), u(4, C, 6)]
    heads = [{"kernel": k.astype("f4"), "bias": np.zeros(C, "f4")} for k in kernels]
    found = jax.jit(jax.grad(lambda params: loss(params, images, gamma=2.0)[0]))(models(*heads))
    p = [softmax(x @ k) for x, k in zip(images, kernels)]
    for name, model, k in zip(HEADS, ("a", "b"), (0, 1)):
        slope = 2.0 * ((p[k] - np.eye(C)[LABELS]) + (p[k] - p[1 - k])) / 3
        np.testing.assert_allclose(found[name]["kernel"], images[k].T @ slope, atol=1e-6)
        np.testing.assert_allclose(found[name]["bias"], slope.sum(0), atol=1e-6)
        own = float((images[k] * (slope @ kernels[k].T)).sum())
        assert float(found[model]["scale"]) == pytest.approx(own, abs=1e-6)


def settings(weight=1.0):
    return hparams(weight) | {"labels": labels()}


@pytest.fixture(scope="module")
def peers():
    return train(PEERS, PAIRED, settings())


@pytest.mark.nightly
def test_without_weight_both_are_single_runs():
    peers = dataclasses.replace(PEERS, objective=SINGLE)
    state, _ = train(peers, PAIRED, settings(0.0))
    for name, single in (("a", alone(0)), ("b", alone(1, PARTNERS))):
        for of in ("params", "aux"):
            expected, got = getattr(single, of), getattr(state, of)[name]
            chex.assert_trees_all_close(got, expected, atol=1e-6, rtol=0)


def test_weight_lowers_the_errors_of_labels(peers):
    for name in ("a/hard", "b/hard"):
        assert (peers[1][name][:, -4:].mean(1) < peers[1][name][:, :4].mean(1)).all()


@pytest.mark.nightly  # by day `mutual_test`, of the same `Pair`
def test_four_devices_give_the_run_of_one(peers):
    four, _ = train(PEERS, PAIRED, settings(), devices=4)
    chex.assert_trees_all_close(four.params, peers[0].params, atol=1e-5, rtol=0)


@pytest.mark.nightly  # by day `mutual_test`, of the same `Pair`
def test_stopping_and_going_on_is_the_same_run(peers):
    half, _ = train(PEERS, PAIRED, settings(), steps=STEPS // 2 + 2)
    whole, _ = train(PEERS, PAIRED, settings(), steps=STEPS // 2 - 2, state=half)
    chex.assert_trees_all_equal(whole, peers[0])


def test_a_bad_update_of_one_model_is_skipped_with_its_head_alone():
    poisoned = PairedSource(source(0), source(1, poison=5))
    state, found = train(PEERS, poisoned, settings())
    assert (state.skipped > 0).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((state.params, state.aux)))
    assert np.isnan(found["b/hard"]).any() and np.isfinite(found["a/hard"]).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_classes": 1}, "num_classes=1 must be at least 2"),
        ({"weight": -1.0}, "weight=-1.0"),
        ({"own": -1.0}, "own=-1.0"),
        ({"kind": "mutual"}, "kind='mutual'"),
    ],
)
def test_refuses_what_cannot_be(fields, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(PEERS, **fields)


def test_refuses_settings_without_labels():
    batch = {"a": shown(u(3, 4, 1)), "b": shown(u(3, 4, 2)), "step": 0, "draw": 0}
    with pytest.raises(InputError, match="no 'labels'"):
        OF_PIXELS.loss(models(), {"a": {}, "b": {}}, batch, jax.random.key(0),
                       {"partner_seed": jnp.uint32(1)}, Reduce())  # fmt: skip


def test_is_registered():
    assert OBJECTIVES["mutual_classes"] is MutualClasses
