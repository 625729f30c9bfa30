import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.masking import MaskConfig
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.sharding import Reduce

VIT = ViTConfig(image_size=16, patch_size=2, channels=1, width=16, depth=1, heads=2)
SIZES = {"mlp_width": 32, "predictor_width": 8, "predictor_depth": 1, "predictor_heads": 2}
BATCH = 8
HPARAMS = {"total_steps": jnp.int32(10)}


def make(predictor, **fields):
    return IJepa(vit=fields.pop("vit", VIT), predictor=predictor, **SIZES, **fields)


KINDS = {
    "mlp_cls": make("mlp_cls"),
    "mlp_patch": make("mlp_patch", target_norm="layernorm"),
    "vit": make("vit", error="smooth_l1", ema="off"),
    "official": IJepa.official(
        dataclasses.replace(VIT, cls_token=False), predictor_width=8, predictor_depth=1
    ),
}


@functools.cache
def batch(seed=0):
    images = jax.random.normal(jax.random.key(seed), (BATCH, 16, 16, 1))
    return {"image": images, "index": jnp.arange(BATCH) * 5 + 100}


def loss_and_grads(objective, params, aux, batch, key, reduce):
    run = jax.value_and_grad(objective.loss, has_aux=True)
    (loss, (_, metrics)), grads = run(params, aux, batch, key, HPARAMS, reduce)
    return loss, metrics, grads


@functools.cache
def on_one_device(name):
    """Returns the compiled loss with gradients of one agent, its parameters and their values."""
    objective = KINDS[name]
    params, aux = jax.jit(objective.init)(jax.random.key(1))
    run = jax.jit(functools.partial(loss_and_grads, objective, reduce=Reduce()))
    return run, params, aux, run(params, aux, batch(), jax.random.key(2))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n == "mlp_patch" else pytest.mark.nightly)
        for n in ("mlp_cls", "mlp_patch", "official")
    ],
)
def test_shard_map_equals_one_device(name):
    _, params, aux, (loss, metrics, grads) = on_one_device(name)
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
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5 * float(jnp.abs(b).max()) + 1e-12),
        grads4,
        grads,
    )


@pytest.mark.parametrize("name", KINDS)
def test_the_aligned_latent_is_trained(name):
    """A step along the gradient moves the aligned latent, and the CLS token has a gradient."""
    _, params, aux, (loss, metrics, grads) = on_one_device(name)
    objective = KINDS[name]

    def latent(scale):
        moved = jax.tree.map(lambda p, g: p - scale * g, params, grads)
        return objective.encode(moved, aux, batch()["image"])[f"context/{objective.latent}"]

    _, speed = jax.jit(lambda: jax.jvp(latent, (0.0,), (1.0,)))()
    assert float(jnp.abs(speed).max()) > 1e-6
    if objective.vit.cls_token:
        assert float(jnp.abs(grads["encoder"]["cls"]).max()) > 1e-9
    assert np.isfinite(loss) and loss > 0
    names = {"mask_ratio", "prediction_variance", "target_variance", "latent_variance"}
    assert set(metrics) == names
    assert all(np.ndim(value) == 0 and value > 0 for value in metrics.values())


@pytest.mark.nightly
def test_agents_under_vmap_and_map_are_each_their_own():
    run, *_ = on_one_device("mlp_patch")
    objective = KINDS["mlp_patch"]
    keys = jax.random.split(jax.random.key(3), 2)
    params, aux = jax.jit(lambda keys: jax.lax.map(objective.init, keys))(keys)
    first, second = params["encoder"]["patch"]["kernel"]
    assert jnp.abs(first - second).max() > 0.01
    batches = jax.tree.map(lambda *x: jnp.stack(x), batch(), batch(1))
    args = (params, aux, batches, keys)
    one = lambda *args: loss_and_grads(objective, *args, Reduce())  # noqa: E731
    by_vmap = jax.jit(jax.vmap(one))(*args)
    by_map = jax.jit(lambda *args: jax.lax.map(lambda a: one(*a), args))(*args)
    alone = [run(*jax.tree.map(lambda x, i=i: x[i], args)) for i in range(2)]
    expected = jax.tree.map(lambda *x: jnp.stack(x), *alone)
    chex.assert_trees_all_close(by_map, expected, rtol=1e-5, atol=1e-6)
    chex.assert_trees_all_close(by_vmap, expected, rtol=1e-5, atol=1e-6)


def test_one_compilation_and_masks_by_step_key():
    run, params, aux, (loss, *_) = on_one_device("official")
    others = [run(params, aux, batch(), jax.random.key(seed))[0] for seed in range(3, 6)]
    assert run._cache_size() == 1
    assert len({float(x) for x in (loss, *others)}) == 4


def test_masks_follow_the_sample_through_the_batch():
    """Reordering the batch reorders the masks with it: the loss is the same."""
    run, params, aux, (loss, *_) = on_one_device("mlp_patch")
    order = jnp.array([3, 1, 7, 5, 0, 2, 6, 4])
    reordered = jax.tree.map(lambda x: x[order], batch())
    np.testing.assert_allclose(run(params, aux, reordered, jax.random.key(2))[0], loss, rtol=1e-6)
    wrong = {**reordered, "index": batch()["index"]}
    assert abs(float(run(params, aux, wrong, jax.random.key(2))[0] / loss) - 1) > 1e-6


def test_predictions_by_patch_equal_predictions_by_slot():
    """The weights of mlp_patch count slots, so its loss is the mean over slots."""
    _, params, aux, (loss, *_) = on_one_device("mlp_patch")
    objective = KINDS["mlp_patch"]

    @jax.jit
    def parts():
        masks = objective.sampler(jax.random.key(2), batch()["index"])
        encode = objective.encoder.apply
        latent = encode(params["encoder"], batch()["image"], masks.context_BK)[0]
        predicted = objective.head.apply(params["predictor"], latent, method="at_patches")
        return predicted, encode(aux["target"], batch()["image"])[1]["tokens"], masks.targets_BMS

    predicted, target, targets_BMS = jax.tree.map(np.asarray, parts())
    target = target.astype(np.float64)
    target = target - target.mean(-1, keepdims=True)
    target /= np.sqrt(target.var(-1, keepdims=True) + 1e-5)
    slots = targets_BMS.reshape(BATCH, -1, 1)
    error = np.take_along_axis(predicted, slots, 1) - np.take_along_axis(target, slots, 1)
    np.testing.assert_allclose(loss, np.square(error).mean(), rtol=1e-5)


def test_targets_carry_no_gradient():
    """Without EMA the encoder makes its own targets; only the context path may be trained."""
    objective = dataclasses.replace(KINDS["mlp_cls"], ema="off")
    _, params, aux, (loss, _, grads) = on_one_device("mlp_cls")
    run = jax.jit(functools.partial(loss_and_grads, objective, reduce=Reduce()))
    chex.assert_trees_all_equal(aux["target"], params["encoder"])
    loss_off, _, grads_off = run(params, {}, batch(), jax.random.key(2))
    np.testing.assert_allclose(loss_off, loss, rtol=1e-6)
    chex.assert_trees_all_close(grads_off, grads, rtol=1e-5, atol=1e-7)


def test_cosine_momentum_and_its_end():
    objective = KINDS["mlp_cls"]
    steps = jnp.array([0, 5, 10])
    np.testing.assert_allclose(objective.momentum(steps, 10), [0.996, 0.998, 1.0], atol=1e-7)
    params, aux = {"encoder": {"w": jnp.ones(2)}}, {"target": {"w": jnp.zeros(2)}}
    middle = objective.after_update(params, aux, jnp.int32(5), HPARAMS)
    np.testing.assert_allclose(middle["target"]["w"], 0.002, rtol=1e-4)
    end = objective.after_update(params, aux, jnp.int32(10), HPARAMS)
    np.testing.assert_array_equal(end["target"]["w"], 0.0)
    assert KINDS["vit"].after_update(params, {}, jnp.int32(0), HPARAMS) == {}


def test_encode_offers_every_choice_of_latent():
    _, params, aux, _ = on_one_device("mlp_cls")
    moved = {"target": jax.tree.map(lambda p: 1.5 * p, aux["target"])}
    target = dataclasses.replace(KINDS["mlp_cls"], latent_encoder="target")
    out = jax.jit(target.encode)(params, moved, batch()["image"])
    assert set(out) == {"latent", "context/cls", "context/mean", "target/cls", "target/mean"}
    chex.assert_shape(list(out.values()), (BATCH, 16))
    chex.assert_type(list(out.values()), jnp.float32)
    np.testing.assert_array_equal(out["latent"], out["target/cls"])
    kinds = [out[name] for name in ("context/cls", "context/mean", "target/cls", "target/mean")]
    assert all(jnp.abs(a - b).max() > 1e-3 for i, a in enumerate(kinds) for b in kinds[:i])
    without = jax.eval_shape(KINDS["vit"].encode, params, {}, batch()["image"])  # no EMA there
    assert set(without) == {"latent", "context/cls", "context/mean"}


@pytest.mark.parametrize("name", ["mlp_cls", "mlp_patch", "vit"])
def test_bfloat16_is_close_to_float32(name):
    _, params, aux, (exact, *_) = on_one_device(name)
    low = dataclasses.replace(KINDS[name], vit=dataclasses.replace(VIT, dtype="bfloat16"))
    run = jax.jit(functools.partial(loss_and_grads, low, reduce=Reduce()))
    loss, _, grads = run(params, aux, batch(), jax.random.key(2))
    assert loss.dtype == jnp.float32 and loss != exact
    np.testing.assert_allclose(loss, exact, rtol=0.02)
    chex.assert_tree_all_finite(grads)
    chex.assert_type(jax.tree.leaves(grads), jnp.float32)


def test_registry_and_official_preset():
    assert OBJECTIVES["ijepa"] is IJepa
    official = KINDS["official"]
    assert official.masks == MaskConfig(variable=True) and official.predictor_heads == 2
    assert (official.ema, official.error, official.target_norm) == (
        "linear",
        "smooth_l1",
        "layernorm",
    )


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"predictor": "mlp"}, "predictor='mlp'"),
        ({"ema_start": 1.2}, "ema_start=1.2"),
        ({"ema": "off", "latent_encoder": "target"}, "latent_encoder='target'"),
        ({"vit": dataclasses.replace(VIT, cls_token=False)}, "latent='cls'"),
        ({"masks": MaskConfig(context_fraction=0.9)}, "8x8 grid"),
        ({"predictor_width": 9, "predictor_heads": 2}, "predictor_width=9"),
        ({"error": "huber"}, "error='huber'"),
        ({"mlp_width": float("nan")}, "mlp_width=nan"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        IJepa(**({"vit": VIT} | fields))


def test_the_targets_may_lie_in_the_next_image():
    """Targets of the next image, context of this one; equal images give the loss of one."""
    objective = dataclasses.replace(KINDS["mlp_patch"], predicts="next")
    params, aux = jax.eval_shape(objective.init, jax.random.key(1))
    rng = np.random.default_rng(0)
    params, aux = jax.tree.map(
        lambda x: 0.3 * rng.normal(size=x.shape).astype(np.float32), (params, aux)
    )
    images, others = batch()["image"], batch(1)["image"]
    run = jax.jit(
        lambda image, later: objective.loss(
            params, aux, {**batch(), "image": image, "next": later}, jax.random.key(2), HPARAMS,
            Reduce(),
        )[0]
    )  # fmt: skip
    usual = jax.jit(
        lambda: KINDS["mlp_patch"].loss(params, aux, batch(), jax.random.key(2), HPARAMS, Reduce())[
            0
        ]
    )
    assert run(images, images) == pytest.approx(float(usual()), rel=1e-6)
    masks = objective.sampler(jax.random.key(2), batch()["index"])
    hidden = np.ones((BATCH, 64), bool)
    np.put_along_axis(hidden, np.asarray(masks.context_BK), False, axis=1)
    pixels = hidden.reshape(BATCH, 8, 8).repeat(2, 1).repeat(2, 2)[..., None]
    mixed = jnp.where(pixels, others, images)  # the context alone is seen
    assert run(mixed, others) == pytest.approx(float(run(images, others)), rel=1e-6)
    assert abs(run(images, others) - usual()) > 1e-3
    with pytest.raises(InputError, match=r"predicts='next' needs config.data.kind='motion'"):
        objective.loss(params, aux, batch(), jax.random.key(2), HPARAMS, Reduce())
    with pytest.raises(InputError, match="predicts='past' must be one of"):
        make("mlp_cls", predicts="past")
