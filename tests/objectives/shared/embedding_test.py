"""Objectives on views: devices, agents, compilations, precision, running statistics."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import InputError
from socialjepa_jax.models.resnet import ResNetConfig
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.infonce import InfoNce
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.objectives.vicreg import VicReg
from socialjepa_jax.performance import flops
from socialjepa_jax.sharding import Reduce

BATCH = 8
# At this scale of the weights latents depend on the image enough for rounding not to matter.
VIT = ViTConfig(image_size=16, patch_size=4, channels=3, width=16, depth=1, heads=2, init_std=0.2)
RESNET = ResNetConfig(image_size=16, channels=3, depth=10, stem_width=4, stem="small")
CROP = Augment(crop_scale=(0.3, 1.0), flip=True)  # colours are tested with the views
CROPS = MultiCrop(2, 2, 8, view_a=CROP, view_b=CROP, local=CROP)
PAIR = dataclasses.replace(CROPS, local_views=0)
COMMON = {"encoder": VIT, "projector_width": 16, "projector_dim": 8}
HPARAMS = {"lambda": jnp.float32(0.05)}
SLOW = ("lejepa_swa", "lejepa_resnet")  # to compile
KINDS = {
    "lejepa": LeJepa(**COMMON, projector_layers=2, sigreg_slices=32, views=CROPS),
    "lejepa_swa": LeJepa(
        **COMMON,
        projector_layers=1,
        predictor_layers=2,
        centers="swa",
        latent="mean",
        view_mode="flatten",
        loss_form="additive",
        sigreg_slices=32,
        views=PAIR,
    ),
    "lejepa_resnet": LeJepa(
        encoder=RESNET, latent="mean", projector_layers=0, sigreg_slices=32, views=PAIR
    ),
    "vicreg": VicReg(**COMMON, projector_layers=3, views=PAIR),
    "infonce": InfoNce(**COMMON, projector_layers=1, views=PAIR),
}


def batch(seed=0):
    images = jax.random.uniform(jax.random.key(seed), (BATCH, 16, 16, 3))
    mean, std = jnp.array([0.4, 0.5, 0.6]), jnp.array([0.2, 0.3, 0.4])
    images = (images - mean[None, None, None]) / std[None, None, None]
    return {"image": images, "index": jnp.arange(BATCH) * 5 + 100, "mean": mean, "std": std}


def loss_and_grads(objective, params, aux, batch, key, hparams, reduce):
    run = jax.value_and_grad(objective.loss, has_aux=True)
    (loss, (aux, metrics)), grads = run(params, aux, batch, key, hparams, reduce)
    return loss, metrics, aux, grads


@functools.cache
def on_one_device(name):
    """Returns the compiled loss with gradients of one agent, its parameters and their values."""
    objective = KINDS[name]
    params, aux = jax.jit(objective.init)(jax.random.key(1))
    run = jax.jit(functools.partial(loss_and_grads, objective, reduce=Reduce()))
    return run, params, aux, run(params, aux, batch(), jax.random.key(2), HPARAMS)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "lejepa" else pytest.mark.nightly) for n in KINDS],
)
def test_shard_map_equals_one_device(name):
    _, params, aux, expected = on_one_device(name)
    mesh = jax.make_mesh((4,), ("data",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    split, whole = PartitionSpec("data"), PartitionSpec()
    of_batch = {"image": split, "index": split, "mean": whole, "std": whole}
    sharded = jax.shard_map(
        functools.partial(loss_and_grads, KINDS[name], hparams=HPARAMS, reduce=Reduce("data")),
        mesh=mesh,
        in_specs=(whole, whole, of_batch, whole),
        out_specs=whole,
    )
    ours = jax.jit(sharded)(params, aux, batch(), jax.random.key(2))
    chex.assert_trees_all_close(ours[:2], expected[:2], rtol=1e-5)
    # A bias in front of a batch normalisation has no gradient but the others' rounding.
    largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(expected[3]))
    for a, b in zip(jax.tree.leaves(ours[2:]), jax.tree.leaves(expected[2:])):
        atol = 1e-5 * float(jnp.abs(b).max()) + 1e-6 * largest
        np.testing.assert_allclose(a, b, rtol=0.0, atol=atol)


@pytest.mark.nightly
def test_packed_views_have_the_same_loss_and_gradients():
    _, params, aux, expected = on_one_device("lejepa")
    packed = dataclasses.replace(KINDS["lejepa"], pack_views=True)
    run = jax.jit(functools.partial(loss_and_grads, packed, reduce=Reduce()))
    ours = run(params, aux, batch(), jax.random.key(2), HPARAMS)
    chex.assert_trees_all_close(ours[:2], expected[:2], rtol=1e-5)
    largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(expected[3]))
    for a, b in zip(jax.tree.leaves(ours[2:]), jax.tree.leaves(expected[2:])):
        atol = 1e-5 * float(jnp.abs(b).max()) + 1e-6 * largest
        np.testing.assert_allclose(a, b, rtol=0.0, atol=atol)
    assert flops.step(packed, BATCH) == flops.step(KINDS["lejepa"], BATCH)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.nightly if n in SLOW else ()) for n in KINDS],
)
def test_loss_and_gradients_are_sound(name):
    run, params, aux, (loss, metrics, after, grads) = on_one_device(name)
    assert np.isfinite(loss) and loss > 0 and loss.dtype == jnp.float32
    chex.assert_tree_all_finite((metrics, after, grads))
    assert all(np.ndim(value) == 0 for value in metrics.values())
    moving = [float(jnp.abs(g).max()) > 1e-7 for g in jax.tree.leaves(grads["encoder"])]
    assert np.mean(moving) > 0.9
    width, dim = KINDS[name].encoder.width, KINDS[name].projection_dim
    assert 1 <= metrics["latent_rank"] <= width and 1 <= metrics["projection_rank"] <= dim
    chex.assert_trees_all_equal_structs(aux, after)
    others = [run(params, aux, batch(), jax.random.key(seed), HPARAMS)[0] for seed in (3, 4)]
    assert run._cache_size() == 1
    assert len({float(x) for x in (loss, *others)}) == 3


@pytest.mark.nightly
def test_agents_under_vmap_and_map_have_their_own_weight():
    """Two agents that differ in parameters, data and lambda equal two single runs."""
    objective, alone = KINDS["lejepa"], on_one_device("lejepa")[0]
    keys = jax.random.split(jax.random.key(3), 2)
    params, aux = jax.lax.map(objective.init, keys)
    batches = jax.tree.map(lambda *x: jnp.stack(x), batch(), batch(1))
    args = (params, aux, batches, keys, {"lambda": jnp.array([0.05, 0.5])})
    one = functools.partial(loss_and_grads, objective, reduce=Reduce())
    by_vmap = jax.jit(jax.vmap(one))(*args)
    by_map = jax.jit(lambda *args: jax.lax.map(lambda a: one(*a), args))(*args)
    each = [alone(*jax.tree.map(lambda x, i=i: x[i], args)) for i in range(2)]
    expected = jax.tree.map(lambda *x: jnp.stack(x), *each)
    chex.assert_trees_all_close(by_map, expected, rtol=1e-5, atol=1e-5)
    chex.assert_trees_all_close(by_vmap, expected, rtol=1e-5, atol=1e-5)
    loss, metrics = expected[:2]
    weight = np.array([0.05, 0.5])
    convex = (1 - weight) * metrics["prediction"] + weight * metrics["sigreg"]
    np.testing.assert_allclose(loss, convex, rtol=1e-6)


def test_views_follow_the_sample_through_the_batch():
    run, params, aux, (loss, *_) = on_one_device("infonce")
    order = jnp.array([3, 1, 7, 5, 0, 2, 6, 4])
    data = batch()
    reordered = data | {"image": data["image"][order], "index": data["index"][order]}
    key = jax.random.key(2)
    np.testing.assert_allclose(run(params, aux, reordered, key, HPARAMS)[0], loss, rtol=1e-5)
    wrong = reordered | {"index": data["index"]}
    assert abs(float(run(params, aux, wrong, key, HPARAMS)[0] / loss) - 1) > 1e-5


def test_running_statistics_move_pass_by_pass():
    objective = KINDS["lejepa"]
    _, params, aux, (_, _, after, _) = on_one_device("lejepa")
    mean, var = map(np.asarray, aux["statistics"]["projector"]["norm_0"])
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_array_equal(var, 1.0)
    views = jax.jit(objective.views)(batch(), jax.random.split(jax.random.key(2))[0])
    embed = jax.jit(objective.embed)
    for images in views:  # the global views, then the local ones
        latent = embed(params, images.reshape(-1, *images.shape[2:]))[0].latents["cls"]
        layer = params["projector"]["fc_0"]
        kernel, bias = np.asarray(layer["kernel"], np.float64), np.asarray(layer["bias"])
        hidden = np.asarray(latent) @ kernel + bias
        mean = 0.9 * mean + 0.1 * hidden.mean(0)
        var = 0.9 * var + 0.1 * hidden.var(0)
    ours = after["statistics"]["projector"]["norm_0"]
    np.testing.assert_allclose(ours[0], mean, atol=1e-5)
    np.testing.assert_allclose(ours[1], var, rtol=1e-4)
    encode = jax.jit(objective.encode)
    out = encode(params, after, batch()["image"])
    assert set(out) == {"latent", "projection", "cls", "mean"}
    np.testing.assert_array_equal(out["latent"], out["cls"])
    alone = encode(params, after, batch()["image"][:1])  # no row depends on its neighbours
    np.testing.assert_allclose(alone["projection"], out["projection"][:1], atol=1e-5)
    moved = encode(params, aux, batch()["image"])["projection"]
    assert float(jnp.abs(moved - out["projection"]).max()) > 1e-3


def test_bfloat16_is_close_to_float32():
    objective = KINDS["lejepa"]
    encoder = dataclasses.replace(objective.encoder, dtype="bfloat16")
    coarse = dataclasses.replace(objective, encoder=encoder)
    _, params, aux, (exact, *_) = on_one_device("lejepa")
    run = jax.jit(functools.partial(loss_and_grads, coarse, hparams=HPARAMS, reduce=Reduce()))
    loss, metrics, after, grads = run(params, aux, batch(), jax.random.key(2))
    chex.assert_type(jax.tree.leaves((loss, metrics, after, grads)), jnp.float32)
    chex.assert_tree_all_finite(grads)
    np.testing.assert_allclose(loss, exact, rtol=0.02)


def test_registry():
    assert {"lejepa": LeJepa, "vicreg": VicReg, "infonce": InfoNce}.items() <= OBJECTIVES.items()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"encoder": RESNET}, "latent='cls'"),
        ({"latent": "token"}, "latent='token'"),
        ({"encoder": RESNET, "latent": "mean", "pack_views": True}, "pack_views=True needs a ViT"),
        ({"projector_layers": 4}, "projector_layers=4"),
        ({"views": MultiCrop(local_size=10)}, "local_size=10"),
        ({"centers": "ema"}, "centers='ema'"),
        ({"loss_form": "sum"}, "loss_form='sum'"),
        ({"view_mode": "all"}, "view_mode='all'"),
        ({"sigreg_weight": 1.5}, "sigreg_weight=1.5"),
        ({"predictor_layers": -1}, "predictor_layers=-1"),
        ({"kind": "vicreg"}, "kind='vicreg'"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    views = {"views": MultiCrop(local_size=8)}
    with pytest.raises(InputError, match=message):
        LeJepa(**({"encoder": VIT} | views | fields))
