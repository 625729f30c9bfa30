import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.resnet import ResNet, ResNetConfig
from socialjepa_jax.sharding import Reduce

TINY = ResNetConfig(image_size=8, channels=2, depth=10, stem_width=4, stem="small")


@functools.cache
def tiny():
    init, apply = functional(lambda rngs: ResNet(TINY, rngs))
    params = jax.tree.map(  # scales and shifts that are not 1 and 0
        lambda x: x + 0.1 * jnp.cos(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape),
        init(jax.random.key(0)),
    )
    return apply, params, jax.random.normal(jax.random.key(1), (8, 8, 8, 2))


@pytest.mark.parametrize(
    ("depth", "size", "width"),
    [(18, 11_176_512, 512), (34, 21_284_672, 512), (50, 23_508_032, 2048)],
)
def test_parameters_of_the_published_networks(depth, size, width):
    """Counts of torchvision's networks without their classifiers."""
    config = ResNetConfig(depth=depth)
    init, apply = functional(lambda rngs: ResNet(config, rngs))
    params = jax.eval_shape(init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == size
    images = jax.ShapeDtypeStruct((2, 224, 224, 3), jnp.float32)
    latent, out, _ = jax.eval_shape(apply, params, images)
    assert latent.shape == (2, width) and config.width == width
    stages = [out[f"stage_{i}"].shape[1:3] for i in range(4)]
    assert stages == [(56, 56), (28, 28), (14, 14), (7, 7)]


def _conv(x, kernel, stride):
    pad = kernel.shape[0] // 2
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    patches = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[:2], axis=(1, 2))
    return np.einsum("bijchw,hwco->bijo", patches[:, ::stride, ::stride], kernel)


def _norm(x, layer):
    x = (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 1e-5)
    return x * layer["scale"] + layer["bias"]


def test_against_float64():
    """A small network with its batch statistics, written in NumPy."""
    apply, params, images = tiny()
    latent, _, _ = jax.jit(apply)(params, images)
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    x = np.asarray(images, np.float64)
    x = np.maximum(_norm(_conv(x, p["stem"]["kernel"], 1), p["norm_stem"]), 0)
    for stage in range(4):
        block, stride = p[f"stage_{stage}_block_0"], 2 if stage else 1
        y = np.maximum(_norm(_conv(x, block["conv_0"]["kernel"], stride), block["norm_0"]), 0)
        y = _norm(_conv(y, block["conv_1"]["kernel"], 1), block["norm_1"])
        if stage:
            x = _norm(_conv(x, block["shortcut"]["kernel"], stride), block["norm_shortcut"])
        x = np.maximum(x + y, 0)
    np.testing.assert_allclose(latent, x.mean((1, 2)), rtol=1e-4, atol=1e-4)


def test_statistics_are_of_the_global_batch():
    apply, params, images = tiny()

    def value_and_grads(params, images, reduce):
        def loss(params):
            latent, _, used = apply(params, images, mean=reduce.mean)
            return reduce.mean(jnp.sin(latent).sum(1)), used

        return jax.value_and_grad(loss, has_aux=True)(params)

    mesh = jax.make_mesh((4,), ("data",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    sharded = jax.shard_map(
        functools.partial(value_and_grads, reduce=Reduce("data")),
        mesh=mesh,
        in_specs=(P(), P("data")),
        out_specs=P(),
    )
    (loss4, used4), grads4 = jax.jit(sharded)(params, images)
    (loss, used), grads = jax.jit(functools.partial(value_and_grads, reduce=Reduce()))(
        params, images
    )
    np.testing.assert_allclose(loss4, loss, rtol=1e-5)
    for ours, theirs in zip(jax.tree.leaves((used4, grads4)), jax.tree.leaves((used, grads))):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * float(jnp.abs(theirs).max()))


def test_given_statistics_make_rows_independent():
    apply, params, images = tiny()
    latent, _, used = jax.jit(apply)(params, images)
    assert len(used) == 1 + 4 * 2 + 3  # stem, two a block, three shortcuts
    alone, _, _ = jax.jit(apply)(params, images[:1], used)
    np.testing.assert_allclose(alone, latent[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
def test_bfloat16_keeps_statistics_and_latents_in_float32():
    apply, params, images = tiny()
    config = dataclasses.replace(TINY, dtype="bfloat16")
    coarse = functional(lambda rngs: ResNet(config, rngs)).apply
    latent, _, used = jax.jit(coarse)(params, images)
    assert {x.dtype for x in jax.tree.leaves((latent, used))} == {jnp.dtype(jnp.float32)}
    exact = apply(params, images)[0]
    np.testing.assert_allclose(latent, exact, atol=0.05 * float(jnp.abs(exact).max()))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 17}, "depth=17"),
        ({"stem": "cifar"}, "stem='cifar'"),
        ({"channels": 0}, "channels=0"),
    ],
)
def test_settings_that_cannot_work_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        ResNetConfig(**fields)
