"""Masked LeJEPA: its terms in float64, its gradients, devices."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.masked_lejepa import MaskedLeJepa
from socialjepa_jax.sharding import Reduce
from socialjepa_jax.sigreg import sample_directions
from socialjepa_jax.sigreg.epps_pulley import reference

BATCH = 8
VIT = ViTConfig(image_size=16, patch_size=4, channels=1, width=8, depth=1, heads=2)
COMMON = {"vit": VIT, "mlp_width": 16, "sigreg_slices": 16}
VIT_HEAD = {"predictor_width": 8, "predictor_depth": 1, "predictor_heads": 2}
KINDS = {
    "mlp_patch": MaskedLeJepa(**COMMON, predictor="mlp_patch"),
    "mlp_cls": MaskedLeJepa(**COMMON, predictor="mlp_cls", regularize="targets"),
    "vit": MaskedLeJepa(**COMMON, **VIT_HEAD, predictor="vit", stop_gradient=True, latent="mean"),
}


def batch():
    images = jax.random.normal(jax.random.key(0), (BATCH, 16, 16, 1))
    return {"image": images, "index": jnp.arange(BATCH) * 5 + 100}


def loss_and_grads(objective, params, aux, batch, key, reduce):
    run = jax.value_and_grad(objective.loss, has_aux=True)
    (loss, (_, metrics)), grads = run(params, aux, batch, key, {}, reduce)
    return loss, metrics, grads


@functools.cache
def on_one_device(name):
    objective = KINDS[name]
    params, aux = jax.jit(objective.init)(jax.random.key(1))
    run = jax.jit(functools.partial(loss_and_grads, objective, reduce=Reduce()))
    return params, aux, run(params, aux, batch(), jax.random.key(2))


@pytest.mark.nightly
@pytest.mark.parametrize("name", KINDS)
def test_shard_map_equals_one_device(name):
    params, aux, (loss, metrics, grads) = on_one_device(name)
    mesh = jax.make_mesh((4,), ("data",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    split, whole = PartitionSpec("data"), PartitionSpec()
    sharded = jax.shard_map(
        functools.partial(loss_and_grads, KINDS[name], reduce=Reduce("data")),
        mesh=mesh,
        in_specs=(whole, whole, split, whole),
        out_specs=whole,
    )
    loss4, metrics4, grads4 = jax.jit(sharded)(params, aux, batch(), jax.random.key(2))
    np.testing.assert_allclose(loss4, loss, rtol=1e-5)
    chex.assert_trees_all_close(metrics4, metrics, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5 * float(jnp.abs(b).max()) + 1e-9),
        grads4,
        grads,
    )


def test_terms_against_float64():
    """SIGReg of every token position and of both latents; the prediction is I-JEPA's."""
    objective = KINDS["mlp_patch"]
    params, _, (loss, metrics, _) = on_one_device("mlp_patch")
    key_masks, key_slices = jax.random.split(jax.random.key(2))
    masks = jax.jit(objective.sampler.__call__)(key_masks, batch()["index"])
    encode = jax.jit(objective.encoder.apply)
    context = encode(params["encoder"], batch()["image"], masks.context_BK)[1]
    whole = encode(params["encoder"], batch()["image"])[1]
    directions = np.asarray(sample_directions(key_slices, 8, 16), np.float64)

    statistic = jax.jit(reference)

    def sigreg(z_BD):
        with jax.enable_x64(True):
            return float(statistic(np.asarray(z_BD, np.float64) @ directions).mean())

    latents = np.mean([sigreg(context["cls"]), sigreg(whole["cls"])])
    tokens = np.mean([sigreg(whole["tokens"][:, n]) for n in range(16)])
    np.testing.assert_allclose(metrics["sigreg_latents"], latents, rtol=1e-5)
    np.testing.assert_allclose(metrics["sigreg_targets"], tokens, rtol=1e-5)
    predicted = objective.head.apply(params["predictor"], context["cls"], method="at_patches")
    error = np.square(np.asarray(predicted, np.float64) - np.asarray(whole["tokens"])).mean(-1)
    weight = np.asarray(masks.count_BN)
    prediction = (weight * error).sum() / weight.sum()
    np.testing.assert_allclose(metrics["prediction"], prediction, rtol=1e-5)
    total = 0.95 * prediction + 0.05 * (latents + tokens) / 2
    np.testing.assert_allclose(loss, total, rtol=1e-5)


@pytest.mark.nightly
def test_targets_carry_gradient_unless_stopped():
    """With lambda 0 gradients pass through targets and context, or through the context alone."""
    objective = KINDS["mlp_patch"]
    params, aux, _ = on_one_device("mlp_patch")
    stopped = dataclasses.replace(objective, stop_gradient=True)

    def grads(objective):
        def loss(params):
            hparams = {"lambda": 0.0}
            return objective.loss(params, aux, batch(), jax.random.key(2), hparams, Reduce())[0]

        return jax.jit(jax.grad(loss))(params)

    free, constant = grads(objective), grads(stopped)
    chex.assert_trees_all_close(free["predictor"], constant["predictor"], rtol=1e-4, atol=1e-7)
    moved, held = free["encoder"]["norm"]["bias"], constant["encoder"]["norm"]["bias"]
    assert float(jnp.abs(moved - held).max()) > 1e-3


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["mlp_patch", "mlp_cls"])
def test_sigreg_moves_the_targets_that_the_prediction_holds_fast(name):
    """With lambda 1 nothing but SIGReg of the targets is left, and its gradient passes."""
    stopped = dataclasses.replace(KINDS[name], regularize="targets", stop_gradient=True)
    params, aux, _ = on_one_device(name)

    def loss(params):
        return stopped.loss(params, aux, batch(), jax.random.key(2), {"lambda": 1.0}, Reduce())[0]

    grads = jax.jit(jax.grad(loss))(params)["encoder"]
    assert float(jnp.abs(grads["norm"]["bias"]).max()) > 1e-3


def test_tokens_that_tell_only_their_position_are_punished():
    """SIGReg over images and positions together would accept them."""
    objective = KINDS["mlp_patch"]
    token_N1D = jax.random.normal(jax.random.key(0), (400, 1, 8))
    constant = jnp.broadcast_to(token_N1D.swapaxes(0, 1), (BATCH, 400, 8))
    key = jax.random.key(1)
    by_position = objective.sigreg_loss(constant, key, {}, Reduce())
    together = objective.sigreg_loss(constant.reshape(-1, 1, 8)[:400], key, {}, Reduce())
    assert by_position > 3 * together


def test_registry_and_encoder():
    assert OBJECTIVES["masked_lejepa"] is MaskedLeJepa
    params, aux, (_, metrics, grads) = on_one_device("vit")
    assert aux == {} and set(params) == {"encoder", "predictor"}
    chex.assert_tree_all_finite((metrics, grads))
    out = jax.eval_shape(KINDS["vit"].encode, params, aux, batch()["image"])
    assert set(out) == {"latent", "context/cls", "context/mean"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"view_mode": "flatten"}, "view_mode='flatten'"),
        ({"regularize": "tokens"}, "regularize='tokens'"),
        ({"kind": "ijepa"}, "kind='ijepa'"),
        ({"sigreg_slices": 0}, "sigreg_slices=0"),
        ({"ema": "cosine", "predictor": "mlp_cls"}, "regularize='both'"),
        ({"predicts": "next"}, "predicts='next' must be one of 'image'"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        MaskedLeJepa(**({"vit": VIT} | fields))
