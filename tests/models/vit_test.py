import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.vit import SIZES, ViT, ViTConfig, patchify

SMALL = ViTConfig(image_size=16, patch_size=4, channels=2, width=16, depth=2, heads=2, registers=3)
KEEP = jnp.array([[3, 0, 9, 14, 5], [1, 2, 15, 8, 7], [4, 12, 6, 11, 10]])


@functools.cache
def build(config):
    vit = functional(lambda rngs: ViT(config, rngs))
    params = jax.tree.map(
        lambda p: p * (5.0 if p.ndim > 1 else 1.0), jax.jit(vit.init)(jax.random.key(0))
    )
    return jax.jit(vit.apply), params


def images(config=SMALL, count=3):
    shape = (count, config.image_size, config.image_size, config.channels)
    return jax.random.normal(jax.random.key(1), shape)


def test_equal_blocks_are_traced_once():
    deep = dataclasses.replace(SMALL, depth=5)
    vit = functional(lambda rngs: ViT(deep, rngs))
    params = jax.eval_shape(vit.init, jax.random.key(0))
    text = jax.jit(lambda p, x: vit.apply(p, x)[0]).lower(params, images()).as_text()
    assert text.count("call @_block(") == 5 and text.count("func.func private @_block(") == 1


def test_patches_in_raster_order():
    grid = np.arange(24).reshape(1, 4, 6, 1)
    patches = patchify(jnp.asarray(np.concatenate([grid, grid + 100], axis=-1)), 2)
    assert patches.shape == (1, 6, 8)
    np.testing.assert_array_equal(patches[0, 4], [14, 114, 15, 115, 20, 120, 21, 121])


def test_packed_images_of_several_sizes_equal_one_pass_for_each_size():
    """Also with scanned and rematerialised layers and without CLS token."""
    config = dataclasses.replace(SMALL, remat=True, scan_layers=True, cls_token=False)
    _, params = build(config)
    small = dataclasses.replace(config, image_size=8)
    vit, vit_small = (functional(lambda rngs, c=c: ViT(c, rngs)) for c in (config, small))
    batches = (images(config, 2), images(small, 5))

    def total(outs):
        kept = [{name: out[name] for name in ("tokens", "mean")} for out in outs]
        return sum(jnp.sin(x).sum() for x in jax.tree.leaves(kept)), kept

    def apart(params):
        return total([v.apply(params, x)[1] for v, x in zip((vit, vit_small), batches)])

    def packed(params):
        return total(vit.apply(params, batches, method="packed"))

    results = [jax.jit(jax.value_and_grad(f, has_aux=True))(params) for f in (packed, apart)]
    (ours, slopes), (theirs, expected) = results
    assert [out["tokens"].shape for out in ours[1]] == [(2, 16, 16), (5, 4, 16)]
    chex.assert_trees_all_close(ours, theirs, rtol=1e-5, atol=2e-6)
    largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(expected))
    chex.assert_trees_all_close(slopes, expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("cls_token", [True, False])
def test_dropped_patches_are_dropped(cls_token):
    """Encoding a subset of patches equals encoding all with the others hidden from attention."""
    config = dataclasses.replace(SMALL, cls_token=cls_token)
    apply, params = build(config)
    latent, parts = apply(params, images(), KEEP)
    everything = jnp.tile(jnp.arange(16)[None], (3, 1))
    seen = (everything[:, :, None] == KEEP[:, None, :]).any(-1)
    full_latent, full = apply(params, images(), everything, seen)
    kept = jnp.take_along_axis(full["tokens"], KEEP[:, :, None], axis=1)
    chex.assert_trees_all_close(parts["tokens"], kept, atol=2e-6)
    chex.assert_trees_all_close(latent, full_latent, atol=2e-6)
    chex.assert_trees_all_close(parts["mean"], kept.mean(1), atol=2e-6)
    chex.assert_trees_all_equal(latent, parts["cls" if cls_token else "mean"])


def test_the_order_of_kept_patches_does_not_matter_and_all_is_the_default():
    apply, params = build(SMALL)
    order = jax.random.permutation(jax.random.key(2), 16)
    latent, parts = apply(params, images())
    other_latent, other = apply(params, images(), jnp.tile(order[None], (3, 1)))
    chex.assert_trees_all_close(latent, other_latent, atol=2e-6)
    chex.assert_trees_all_close(parts["tokens"][:, order], other["tokens"], atol=2e-6)


def test_positions_are_seen():
    apply, params = build(SMALL)
    same = jnp.ones((1, 16, 16, 2))
    tokens = apply(params, same)[1]["tokens"][0]
    assert jnp.abs(tokens[0] - tokens[1]).max() > 0.1


def test_intermediates_by_name():
    apply, params = build(SMALL)
    parts = apply(params, images(), KEEP)[1]
    names = {"tokens", "cls", "mean"}
    names |= {f"block_{i:02d}/{part}" for i in range(2) for part in ("tokens", "cls")}
    assert set(parts) == names
    chex.assert_shape([parts["tokens"], parts["block_01/tokens"]], (3, 5, 16))
    chex.assert_shape([parts["cls"], parts["mean"], parts["block_00/cls"]], (3, 16))


def test_bfloat16_computes_low_and_keeps_parameters_high():
    apply, params = build(SMALL)
    latent = apply(params, images())[0]
    apply_low, _ = build(dataclasses.replace(SMALL, dtype="bfloat16"))
    low = apply_low(params, images())[0]
    assert low.dtype == jnp.bfloat16
    chex.assert_type(jax.tree.leaves(params), jnp.float32)
    np.testing.assert_allclose(low.astype(jnp.float32), latent, atol=0.1)
    assert jnp.abs(low.astype(jnp.float32) - latent).max() > 0


def test_initial_kernels_have_the_stated_deviation():
    config = ViTConfig(image_size=32, channels=1, width=192, depth=1, heads=3)
    params = jax.jit(functional(lambda rngs: ViT(config, rngs)).init)(jax.random.key(3))
    kernel = params["block_00"]["fc1"]["kernel"]
    assert abs(float(kernel.std()) / 0.02 - 1) < 0.01  # 147,456 draws: 5 sigma are 0.9 %
    assert all(
        float(jnp.abs(b).max()) == 0 for b in (params["patch"]["bias"], params["norm"]["bias"])
    )


@pytest.mark.parametrize("size, millions", [("Ti", 5.5), ("S", 21.7), ("B", 85.8), ("L", 303.3)])
def test_named_sizes_have_the_published_parameter_counts(size, millions):
    config = ViTConfig(**SIZES[size])
    shapes = jax.eval_shape(functional(lambda rngs: ViT(config, rngs)).init, jax.random.key(0))
    count = sum(np.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
    # Published with position table (196 + 1) * width and without head.
    assert abs(count / 1e6 - millions) < 0.02 * millions


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"image_size": 50}, "image_size=50 must be a multiple of 16"),
        ({"heads": 5}, "width=384 must be a multiple of 5"),
        ({"depth": 0}, "depth=0"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"mlp_ratio": float("nan")}, "mlp_ratio=nan"),
        ({"registers": -1}, "registers=-1"),
    ],
)
def test_sizes_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        ViTConfig(**fields)


@functools.cache
def _plain():
    """Parameters of the unrolled model, loss and gradients."""
    params = jax.jit(functional(lambda rngs: ViT(SMALL, rngs)).init)(jax.random.key(0))
    return params, *_gradients(SMALL, params)


def _gradients(config, params):
    vit = functional(lambda rngs: ViT(config, rngs))

    def loss(params):
        latent, parts = vit.apply(params, images(), KEEP)
        return latent.sum() + jnp.square(parts["tokens"]).sum() + parts["block_00/cls"].sum()

    return jax.jit(jax.value_and_grad(loss))(params)


@pytest.mark.parametrize(
    "scan_layers, remat",
    [
        (True, True),
        pytest.param(False, True, marks=pytest.mark.nightly),
        pytest.param(True, False, marks=pytest.mark.nightly),
    ],
)
def test_remat_and_scan_change_nothing_but_how_it_runs(scan_layers, remat):
    config = dataclasses.replace(SMALL, scan_layers=scan_layers, remat=remat)
    plain, expected, plain_gradient = _plain()
    params = jax.jit(functional(lambda rngs: ViT(config, rngs)).init)(jax.random.key(0))

    def stacked(tree):
        if not scan_layers:
            return tree
        each = [tree[f"block_{i:02d}"] for i in range(SMALL.depth)]
        rest = {name: leaf for name, leaf in tree.items() if not name.startswith("block_")}
        return rest | {"blocks": jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)}

    chex.assert_trees_all_equal(params, stacked(plain))  # the same initial values
    value, gradient = _gradients(config, params)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    chex.assert_trees_all_close(gradient, stacked(plain_gradient), rtol=1e-4, atol=1e-5)
