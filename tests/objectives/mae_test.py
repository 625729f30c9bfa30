"""MAE: its loss in float64, the inputs of the encoder, the masks, devices."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.masking import random_subsets
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.mae import Mae
from socialjepa_jax.sharding import Reduce

BATCH, N, K, PATCH = 8, 16, 4, 4
VIT = ViTConfig(image_size=16, patch_size=PATCH, channels=2, width=16, depth=1, heads=2)
SIZES = {"decoder_width": 8, "decoder_depth": 1, "decoder_heads": 2}
MAE = Mae(vit=VIT, **SIZES)
KEY = jax.random.key(2)


def batch():
    """Returns images of which one has flat patches, whose pixels have no variance."""
    images = 0.5 + 2.0 * jax.random.normal(jax.random.key(0), (BATCH, 16, 16, 2))
    return {"image": images.at[3, :8].set(0.75), "index": jnp.arange(BATCH) * 5 + 100}


@functools.cache
def start(objective=MAE):
    """Returns initial parameters with kernels and tokens large enough to affect the loss."""
    params, _ = jax.jit(objective.init)(jax.random.key(1))
    return jax.tree.map(lambda p: jnp.where(p == 1.0, p, 15.0 * p), params)  # scales stay 1


def loss_and_grads(objective, params, batch, key, reduce):
    run = jax.value_and_grad(objective.loss, has_aux=True)
    (loss, (aux, metrics)), grads = run(params, {}, batch, key, {}, reduce)
    assert aux == {}
    return loss, metrics, grads


@functools.cache
def compiled(objective=MAE):
    return jax.jit(functools.partial(loss_and_grads, objective, reduce=Reduce()))


@functools.cache
def on_one_device():
    return compiled()(start(), batch(), KEY)


@jax.jit
def forward(params, images, key=KEY):
    """Returns masks, visible tokens and predictions, computed as in the loss."""
    kept, masked = random_subsets(key, batch()["index"], N, K)
    seen = MAE.encoder.apply(params["encoder"], images, kept)[1]
    arguments = seen["tokens"], seen["cls"], kept, masked
    return kept, masked, seen["tokens"], MAE.decoder.apply(params["decoder"], *arguments)


def cut(image, patch):
    """Returns the pixels of a patch, in the order rows, columns, channels."""
    row, column = divmod(int(patch), 16 // PATCH)
    rows, columns = (slice(PATCH * i, PATCH * (i + 1)) for i in (row, column))
    return np.asarray(image, np.float64)[rows, columns].reshape(-1)


def numpy_loss(images, masked, predicted, norm_pix_loss):
    """Mean over masked patches of the mean over their pixels, image by image, in float64."""
    errors = []
    for image, patches, guesses in zip(images, masked, predicted):
        for patch, guess in zip(patches, guesses):
            target = cut(image, patch)
            if norm_pix_loss:
                squares = np.square(target - target.mean()).sum() / (len(target) - 1)
                target = (target - target.mean()) / np.sqrt(squares + 1e-6)
            errors.append(np.square(np.asarray(guess, np.float64) - target).mean())
    return np.mean(errors)


@pytest.mark.parametrize("norm_pix_loss", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_loss_against_float64(norm_pix_loss):
    _, masked, _, predicted = forward(start(), batch()["image"])
    assert predicted.shape == (BATCH, N - K, PATCH * PATCH * 2)
    expected = numpy_loss(batch()["image"], masked, predicted, norm_pix_loss)
    objective = dataclasses.replace(MAE, norm_pix_loss=norm_pix_loss)
    loss = on_one_device()[0]
    if not norm_pix_loss:
        loss = jax.jit(lambda p: objective.loss(p, {}, batch(), KEY, {}, Reduce())[0])(start())
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_metrics():
    """The target variance is the loss of the best constant prediction."""
    _, masked, _, predicted = forward(start(), batch()["image"])
    metrics = on_one_device()[1]
    target = np.asarray(MAE.targets(batch()["image"], masked), np.float64).reshape(-1, 32)
    spread = np.asarray(predicted, np.float64).reshape(-1, 32).var(0).mean()
    np.testing.assert_allclose(metrics["target_variance"], target.var(0).mean(), rtol=1e-5)
    np.testing.assert_allclose(metrics["prediction_variance"], spread, rtol=1e-5)
    assert set(metrics) == {"target_variance", "prediction_variance", "latent_variance"}
    assert metrics["latent_variance"] > 1e-3


def change(images, patches, by):
    """Adds `by` to the pixels of the patches [B, P] of images [B, H, W, C]."""
    images = np.array(images)
    for image, own in zip(images, patches):
        for patch in own:
            row, column = divmod(int(patch), 16 // PATCH)
            image[PATCH * row :, PATCH * column :][:PATCH, :PATCH] += by
    return jnp.asarray(images)


def test_the_encoder_never_sees_a_masked_pixel():
    kept, masked, tokens, predicted = forward(start(), batch()["image"])
    unseen = change(batch()["image"], masked, np.linspace(-9, 9, 2))
    _, _, other_tokens, other_predicted = forward(start(), unseen)
    np.testing.assert_array_equal(other_tokens, tokens)
    np.testing.assert_array_equal(other_predicted, predicted)
    loss = compiled()(start(), {**batch(), "image": unseen}, KEY)[0]
    assert abs(float(loss / on_one_device()[0]) - 1) > 1e-3
    slopes = jax.jit(jax.grad(lambda x: jnp.sin(forward(start(), x)[3]).sum()))(batch()["image"])
    for slope, seen, hidden in zip(slopes, kept, masked):
        assert all(np.abs(cut(slope, patch)).max() > 1e-6 for patch in seen)
        assert not any(cut(slope, patch).any() for patch in hidden)


def test_nothing_is_asked_about_visible_patches():
    kept, masked, *_ = forward(start(), batch()["image"])
    others = change(batch()["image"], kept, 3.0)
    np.testing.assert_array_equal(
        MAE.targets(others, masked), MAE.targets(batch()["image"], masked)
    )


def test_flat_patches_have_a_target():
    """The rounding error of the mean over sqrt(1e-6) is small."""
    patches = jnp.arange(8)[None]
    flat = MAE.targets(jnp.full((1, 16, 16, 2), 0.7), patches)
    np.testing.assert_allclose(flat, 0.0, atol=2e-4)
    others = MAE.targets(batch()["image"][:1], patches)
    np.testing.assert_allclose(others.mean(-1), 0.0, atol=1e-5)
    np.testing.assert_allclose(np.var(others, axis=-1, ddof=1), 1.0, rtol=1e-5)


def test_masks_follow_key_and_sample_through_the_batch():
    """Reordering the batch reorders the masks; other samples and steps have other masks."""
    loss = on_one_device()[0]
    order = jnp.array([3, 1, 7, 5, 0, 2, 6, 4])
    reordered = jax.tree.map(lambda x: x[order], batch())
    np.testing.assert_allclose(compiled()(start(), reordered, KEY)[0], loss, rtol=1e-6)
    wrong = {**reordered, "index": batch()["index"]}
    losses = [compiled()(start(), wrong, KEY)[0]]
    losses += [compiled()(start(), batch(), jax.random.key(seed))[0] for seed in (3, 4)]
    assert len({round(float(x), 6) for x in (loss, *losses)}) == 4
    assert compiled()._cache_size() == 1


def test_shard_map_equals_one_device():
    loss, metrics, grads = on_one_device()
    mesh = jax.make_mesh((4,), ("data",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    split, whole = PartitionSpec("data"), PartitionSpec()
    sharded = jax.shard_map(
        functools.partial(loss_and_grads, MAE, reduce=Reduce("data")),
        mesh=mesh,
        in_specs=(whole, split, whole),
        out_specs=whole,
    )
    loss4, metrics4, grads4 = jax.jit(sharded)(start(), batch(), KEY)
    np.testing.assert_allclose(loss4, loss, rtol=1e-5)
    chex.assert_trees_all_close(metrics4, metrics, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5 * float(jnp.abs(b).max()) + 1e-9),
        grads4,
        grads,
    )


def test_gradient_by_differences():
    """Along the gradient of each parameter the loss has a slope of the gradient's norm."""
    _, _, grads = on_one_device()
    leaves, form = jax.tree.flatten(grads)
    params = jax.tree.leaves(start())
    assert len(leaves) == len(params) == 36
    for number, slope in enumerate(leaves):
        length = float(jnp.linalg.norm(slope))

        def loss(sign, number=number, move=slope * (0.02 / length)):
            moved = [p + sign * move if i == number else p for i, p in enumerate(params)]
            return float(compiled()(form.unflatten(moved), batch(), KEY)[0])

        np.testing.assert_allclose((loss(1) - loss(-1)) / 0.04, length, rtol=0.01)


def test_bfloat16_is_close_to_float32():
    low = dataclasses.replace(MAE, vit=dataclasses.replace(VIT, dtype="bfloat16"))
    loss, metrics, grads = compiled(low)(start(), batch(), KEY)
    exact, exact_metrics, _ = on_one_device()
    assert loss.dtype == jnp.float32 and loss != exact
    np.testing.assert_allclose(loss, exact, rtol=0.02)
    chex.assert_trees_all_close(metrics, exact_metrics, rtol=0.05)
    chex.assert_tree_all_finite(grads)
    chex.assert_type([*metrics.values(), *jax.tree.leaves(grads)], jnp.float32)
    patches = jnp.tile(jnp.arange(N)[None], (BATCH, 1))
    ours, theirs = (m.targets(batch()["image"], patches) for m in (low, MAE))
    np.testing.assert_array_equal(ours, theirs)


def test_encode_offers_every_choice_of_latent():
    mean = dataclasses.replace(MAE, latent="mean")

    @jax.jit
    def encoded(params, images):
        return mean.encode(params, {}, images), MAE.encoder.apply(params["encoder"], images)[1]

    out, whole = encoded(start(), batch()["image"])
    assert set(out) == {"latent", "cls", "mean"}
    chex.assert_shape(list(out.values()), (BATCH, 16))
    chex.assert_type(list(out.values()), jnp.float32)
    expected = {"latent": whole["mean"], "mean": whole["mean"], "cls": whole["cls"]}
    chex.assert_trees_all_close(out, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out["mean"], whole["tokens"].mean(1), rtol=1e-5, atol=1e-6)
    without = Mae(vit=dataclasses.replace(VIT, cls_token=False), latent="mean", **SIZES)
    params, _ = jax.eval_shape(without.init, KEY)
    assert set(jax.eval_shape(without.encode, params, {}, batch()["image"])) == {"latent", "mean"}
    assert jax.eval_shape(compiled(without), params, batch(), KEY)[0].shape == ()


@pytest.mark.nightly
def test_scanned_and_rematerialised_layers_are_the_same_loss():
    deep = dataclasses.replace(MAE, vit=dataclasses.replace(VIT, depth=2), decoder_depth=3)
    ways = dataclasses.replace(deep.vit, scan_layers=True, remat=True)
    other = dataclasses.replace(deep, vit=ways)

    def stacked(tree):
        blocks = [tree[name] for name in sorted(tree) if name.startswith("block_")]
        rest = {name: leaf for name, leaf in tree.items() if not name.startswith("block_")}
        return rest | {"blocks": jax.tree.map(lambda *leaves: jnp.stack(leaves), *blocks)}

    together = {name: stacked(tree) for name, tree in start(deep).items()}
    depths = [len(together[name]["blocks"]["fc1"]["bias"]) for name in ("encoder", "decoder")]
    assert depths == [2, 3]
    loss, _, grads = compiled(deep)(start(deep), batch(), KEY)
    other_loss, _, other_grads = compiled(other)(together, batch(), KEY)
    np.testing.assert_allclose(other_loss, loss, rtol=1e-6)
    expected = {name: stacked(tree) for name, tree in grads.items()}
    chex.assert_trees_all_close(other_grads, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.nightly
def test_agents_under_vmap_and_map_are_each_their_own():
    keys = jax.random.split(jax.random.key(3), 2)
    params = jax.tree.map(lambda p: jnp.stack([p, 1.1 * p]), start())
    batches = jax.tree.map(lambda x: jnp.stack([x, x[::-1]]), batch())
    one = functools.partial(loss_and_grads, MAE, reduce=Reduce())
    args = (params, batches, keys)
    by_vmap = jax.jit(jax.vmap(one))(*args)
    by_map = jax.jit(lambda *args: jax.lax.map(lambda a: one(*a), args))(*args)
    alone = [compiled()(*jax.tree.map(lambda x, i=i: x[i], args)) for i in range(2)]
    expected = jax.tree.map(lambda *x: jnp.stack(x), *alone)
    chex.assert_trees_all_close(by_map, expected, rtol=1e-5, atol=1e-6)
    chex.assert_trees_all_close(by_vmap, expected, rtol=1e-5, atol=1e-6)


def test_registry_and_the_papers_settings():
    assert OBJECTIVES["mae"] is Mae
    assert set(start()) == {"encoder", "decoder"} and MAE.after_update({}, {}, 0, {}) == {}
    paper = Mae()
    assert (paper.num_kept, paper.norm_pix_loss) == (49, True)
    assert (paper.decoder_width, paper.decoder_depth, paper.decoder_heads) == (512, 8, 16)
    ratios = {0.75: 4, 0.6: 6, 0.9: 1, 0.06: 15, 0.5: 8}
    assert {r: dataclasses.replace(MAE, mask_ratio=r).num_kept for r in ratios} == ratios


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mask_ratio": 0.95}, "mask_ratio=0.95 of 16 patches leaves 0 visible"),
        ({"mask_ratio": 1e-9}, "mask_ratio=1e-09 of 16 patches leaves 16 visible"),
        ({"mask_ratio": 1.0}, r"mask_ratio=1.0 must be in \(0.0, 1.0\)"),
        ({"mask_ratio": 0.0}, "mask_ratio=0.0"),
        ({"mask_ratio": float("nan")}, "mask_ratio=nan"),
        ({"decoder_width": 12, "decoder_heads": 5}, "decoder_width=12 must be a multiple of 5"),
        ({"decoder_width": 6, "decoder_heads": 3}, "decoder_width=6 must be a multiple of 4"),
        ({"decoder_depth": 0}, "decoder_depth=0"),
        ({"decoder_heads": 0}, "decoder_heads=0"),
        ({"kind": "ijepa"}, "kind='ijepa'"),
        ({"latent": "token"}, "latent='token'"),
        ({"vit": dataclasses.replace(VIT, cls_token=False)}, "latent='cls'"),
        (
            {"vit": ViTConfig(image_size=8, patch_size=1, channels=1)},
            "norm_pix_loss=True needs patches of more than one value",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Mae(**({"vit": VIT} | fields))


def test_a_decoder_that_a_kernel_cannot_do_is_refused_before_anything_is_compiled(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    vit = ViTConfig(depth=1, dtype="bfloat16", attention="cudnn")  # 64 features per head
    with pytest.raises(InputError, match="16 to 128 features per head, not 4"):
        _ = Mae(vit=vit, decoder_width=64).decoder
