import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from flax import nnx

from socialjepa_jax.errors import InputError
from socialjepa_jax.models import transformer

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "ijepa.npz")


@pytest.mark.parametrize("grid, dim", [(4, 48), (8, 192), (14, 384), (16, 1280)])
def test_positions_match_the_reference(grid, dim):
    table = transformer.sincos_positions((grid, grid), dim)
    np.testing.assert_allclose(table, GOLDEN[f"sincos_d{dim}_g{grid}"], atol=1e-6)


def test_positions_of_a_wide_grid_are_in_raster_order():
    table = transformer.sincos_positions((2, 3), 8)
    assert table.shape == (6, 8)
    np.testing.assert_allclose(table[4, :4], np.r_[np.sin([1, 0.01]), np.cos([1, 0.01])], rtol=1e-6)
    np.testing.assert_array_equal(table[4, 4:], table[3, 4:])  # same row
    with pytest.raises(InputError, match="dim=6"):
        transformer.sincos_positions((2, 2), 6)


def test_gelu_and_its_derivative():
    x = np.linspace(-8, 8, 401)
    cdf = scipy.special.ndtr(x)
    slope = cdf + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    x32 = jnp.asarray(x, jnp.float32)
    np.testing.assert_allclose(transformer.gelu(x32), x * cdf, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(transformer.gelu))(x32), slope, atol=1e-6)


def test_normalize_is_accurate_far_from_zero():
    x = np.random.default_rng(0).normal(1000.0, 2.0, (5, 64)).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(transformer.normalize(jnp.asarray(x), 1e-6), expected, atol=2e-4)


def normalize64(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize(
    "ours, oracle",
    [
        (lambda x: transformer.normalize(x, 1e-6), normalize64),
        (transformer.softmax, lambda x: scipy.special.softmax(x, axis=-1)),
    ],
    ids=["normalize", "softmax"],
)
def test_derivatives_against_float64_differences(ours, oracle):
    x, dx, dy = np.random.default_rng(0).normal(size=(3, 4, 16))
    x32, dx32, dy32 = (jnp.asarray(a, jnp.float32) for a in (x, dx, dy))
    slope = (oracle(x + 1e-5 * dx) - oracle(x - 1e-5 * dx)) / 2e-5
    np.testing.assert_allclose(ours(x32), oracle(x), atol=1e-6)
    np.testing.assert_allclose(jax.jvp(ours, (x32,), (dx32,))[1], slope, atol=2e-6)
    (pulled,) = jax.vjp(ours, x32)[1](dy32)
    np.testing.assert_allclose(np.sum(pulled * dx), np.sum(dy * slope), rtol=1e-5)


def kept(function, *args):
    """Elements that the backward pass of a function needs, those of its arguments among them."""
    arrays = jax.tree.leaves(jax.vjp(function, *args)[1])
    return sum(array.size for array in {id(array): array for array in arrays}.values())


@pytest.mark.nightly
def test_little_is_kept_for_the_backward_pass():
    x = jax.random.normal(jax.random.key(0), (4, 16, 32))
    rows = x.size // 32
    assert kept(transformer.softmax, x) <= x.size
    assert kept(lambda x: transformer.normalize(x, 1e-6), x) <= x.size + rows
    block = transformer.Block(32, 2, 4.0, std=0.02, dtype="float32", rngs=nnx.Rngs(0))
    graph, state = nnx.split(block)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state))
    # Twice a LayerNorm's result without and with scale, queries, keys and values, as many scores
    # as features, the attended values, GELU's argument and result.
    features = 2 * 2 + 3 + 1 + 1 + 2 * 4
    most = features * x.size + parameters + 4 * rows
    assert kept(lambda x: nnx.merge(graph, state)(x), x) <= most


def attention_oracle(x, qkv, proj, heads, valid):
    """Attention for one image in float64, head by head."""
    tokens, dim = x.shape
    size = dim // heads
    q, k, v = np.split(x @ qkv["kernel"] + qkv["bias"], 3, axis=1)
    out = np.zeros((tokens, dim))
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        score = q[:, part] @ k[:, part].T / np.sqrt(size)
        score[:, ~valid] = -np.inf
        out[:, part] = scipy.special.softmax(score, axis=1) @ v[:, part]
    return out @ proj["kernel"] + proj["bias"]


@pytest.mark.parametrize("masked", [False, True])
def test_attention_against_float64(masked):
    rngs = nnx.Rngs(0)
    layer = transformer.Attention(12, 3, std=0.5, dtype="float32", rngs=rngs)
    layer.qkv.bias[...] = jax.random.normal(rngs.params(), (36,))
    x = np.random.default_rng(1).normal(size=(2, 7, 12))
    valid = np.ones((2, 7), bool)
    if masked:
        valid[0, [0, 3]] = valid[1, 5] = False
    out = layer(jnp.asarray(x, jnp.float32), jnp.asarray(valid) if masked else None)
    dense = [
        {"kernel": np.asarray(d.kernel[...], float), "bias": np.asarray(d.bias[...], float)}
        for d in (layer.qkv, layer.proj)
    ]
    for b in range(2):
        expected = attention_oracle(x[b], *dense, heads=3, valid=valid[b])
        np.testing.assert_allclose(out[b], expected, atol=1e-5)
