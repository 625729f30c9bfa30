"""The `official` preset against the code published with I-JEPA: weights, gradients, one EMA step.

The reference stores a linear layer's weight as [out, in] and a convolution's as [out, in, row,
column]; it has no CLS token, and its targets come block by block: [blocks, batch, slots].
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.models.masking import MaskConfig, Masks
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.sharding import Reduce

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "ijepa.npz")
VIT = ViTConfig(
    image_size=32, patch_size=8, channels=3, width=48, depth=2, heads=3, cls_token=False
)
MOMENTUM = 0.996


def dense(prefix):
    return {"kernel": GOLDEN[f"{prefix}.weight"].T, "bias": GOLDEN[f"{prefix}.bias"]}


def norm(prefix):
    return {"scale": GOLDEN[f"{prefix}.weight"], "bias": GOLDEN[f"{prefix}.bias"]}


def block(prefix):
    return {
        "norm1": norm(f"{prefix}.norm1"),
        "attention": {"qkv": dense(f"{prefix}.attn.qkv"), "proj": dense(f"{prefix}.attn.proj")},
        "norm2": norm(f"{prefix}.norm2"),
        "fc1": dense(f"{prefix}.mlp.fc1"),
        "fc2": dense(f"{prefix}.mlp.fc2"),
    }


def encoder(prefix):
    kernel = GOLDEN[f"{prefix}.patch_embed.proj.weight"].transpose(2, 3, 1, 0).reshape(-1, 48)
    return {
        "patch": {"kernel": kernel, "bias": GOLDEN[f"{prefix}.patch_embed.proj.bias"]},
        **{f"block_{i:02d}": block(f"{prefix}.blocks.{i}") for i in range(2)},
        "norm": norm(f"{prefix}.norm"),
    }


def predictor(prefix):
    return {
        "embed": dense(f"{prefix}.predictor_embed"),
        "mask_token": GOLDEN[f"{prefix}.mask_token"].reshape(-1),
        **{f"block_{i:02d}": block(f"{prefix}.predictor_blocks.{i}") for i in range(2)},
        "norm": norm(f"{prefix}.predictor_norm"),
        "project": dense(f"{prefix}.predictor_proj"),
    }


def as_jax(tree):
    return jax.tree.map(jnp.asarray, tree)


@pytest.fixture(scope="module")
def objective():
    masks = MaskConfig(variable=True, min_keep=4)  # 16 patches are too few for the default
    return IJepa.official(VIT, predictor_width=24, predictor_depth=2, masks=masks)


@pytest.fixture(scope="module")
def params():
    return as_jax({"encoder": encoder("param_enc"), "predictor": predictor("param_pred")})


@pytest.fixture(scope="module")
def target():
    """The target encoder before its EMA step; the stored one is after it."""
    undo = lambda after, source: (after - (1 - MOMENTUM) * source) / MOMENTUM  # noqa: E731
    wide = [jax.tree.map(np.float64, encoder(p)) for p in ("param_tgt", "param_enc")]
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), jax.tree.map(undo, *wide))


@pytest.fixture(scope="module")
def images():
    return jnp.asarray(GOLDEN["tiny_x"].transpose(0, 2, 3, 1))


@pytest.fixture(scope="module")
def masks():
    targets_BMS = jnp.asarray(GOLDEN["tiny_mask_pred"].transpose(1, 0, 2), jnp.int32)
    count_BN = jax.nn.one_hot(targets_BMS, 16, dtype=jnp.int32).sum((1, 2))
    context_BK = jnp.asarray(GOLDEN["tiny_mask_enc"][0], jnp.int32)
    return Masks(context_BK, None, targets_BMS, None, count_BN)


def test_encoder(objective, params, images, masks):
    apply = jax.jit(objective.encoder.apply)
    full = apply(params["encoder"], images)[1]["tokens"]
    context = apply(params["encoder"], images, masks.context_BK)[1]["tokens"]
    np.testing.assert_allclose(full, GOLDEN["tiny_enc_full"], atol=1e-5)
    np.testing.assert_allclose(context, GOLDEN["tiny_ctx"], atol=1e-5)


def test_predictor(objective, params, masks):
    context = jnp.asarray(GOLDEN["tiny_ctx"])
    out = jax.jit(objective.head.apply)(params["predictor"], context, None, masks)
    expected = GOLDEN["tiny_pred"].reshape(3, 4, 4, 48).transpose(1, 0, 2, 3)
    np.testing.assert_allclose(out, expected, atol=1e-6)


def test_loss_and_gradients(objective, params, target, images, masks):
    def loss(params):
        return objective.loss_on(params, {"target": target}, images, masks, Reduce())[0]

    value, grads = jax.jit(jax.value_and_grad(loss))(params)
    np.testing.assert_allclose(value, GOLDEN["tiny_loss"], rtol=1e-5)
    expected = as_jax({"encoder": encoder("grad_enc"), "predictor": predictor("grad_pred")})
    jax.tree.map(
        lambda g, e: np.testing.assert_allclose(g, e, atol=1e-5 * float(jnp.abs(e).max())),
        grads,
        expected,
    )


def test_slots_that_are_not_in_use_count_for_nothing(objective, params, target, images, masks):
    """Wider masks, whose last slots are not valid, are those of the reference."""

    def widened(slots, count):
        width = [(0, 0)] * (slots.ndim - 1) + [(0, count)]
        return jnp.pad(slots, width), jnp.pad(jnp.ones(slots.shape, bool), width)

    context, targets = widened(masks.context_BK, 1), widened(masks.targets_BMS, 2)
    padded = Masks(*context, *targets, masks.count_BN)
    loss = jax.jit(lambda masks: objective.loss_on(
        params, {"target": target}, images, masks, Reduce()
    )[0])  # fmt: skip
    np.testing.assert_allclose(loss(padded), GOLDEN["tiny_loss"], rtol=1e-5)


def test_ema_step(objective, params, target):
    """The first of 187,499 steps: momentum 0.996, all parameters of the encoder, no others."""
    hparams = {"total_steps": jnp.int32(187_500)}
    aux = objective.after_update(params, {"target": target}, jnp.int32(0), hparams)
    expected = {"target": as_jax(encoder("param_tgt"))}
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, atol=1e-6), aux, expected)
    moved = GOLDEN["ema_after_norm.weight"] - target["norm"]["scale"]
    assert np.abs(moved).max() > 2e-5  # the step is larger than the tolerance


def test_momentum_schedule(objective):
    steps = jnp.asarray(GOLDEN["sched_step_index0"], jnp.int32)
    np.testing.assert_allclose(objective.momentum(steps, 187_500), GOLDEN["ema"], atol=1e-6)
