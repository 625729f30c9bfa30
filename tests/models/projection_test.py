"""Heads and prototypes by hand, and a ViT that does not see masked patches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.projection import Head, HeadStyle, MaskedViT, Prototypes
from socialjepa_jax.models.vit import ViT, ViTConfig

KEY = jax.random.key(0)
VIT = ViTConfig(image_size=16, patch_size=4, channels=1, width=16, depth=2, heads=2, init_std=0.3)


@pytest.mark.parametrize(
    ("style", "names"),
    [
        (HeadStyle(), {"fc_0": {"kernel"}, "norm_0": {"scale", "bias"}, "fc_1": {"kernel"}}),
        (
            HeadStyle(last_norm="scale"),
            {"fc_0": {"kernel"}, "norm_0": {"scale", "bias"}, "fc_1": {"kernel"},
             "norm_1": {"scale"}},
        ),
        (
            HeadStyle(last_norm="plain"),
            {"fc_0": {"kernel"}, "norm_0": {"scale", "bias"}, "fc_1": {"kernel"}},
        ),
        (
            HeadStyle(norm="none", bias=True),
            {"fc_0": {"kernel", "bias"}, "fc_1": {"kernel", "bias"}},
        ),
    ],
)  # fmt: skip
def test_parameters_and_statistics_of_a_head(style, names):
    head = Head((4, 6, 3), style, dtype="float32", rngs=nnx.Rngs(0))
    params = nnx.to_pure_dict(nnx.state(head, nnx.Param))
    assert {name: set(layer) for name, layer in params.items() if layer} == names
    x = np.sin(np.arange(20, dtype=np.float32)).reshape(5, 4)
    y, used = head(x)
    norms = {"norm_0"} if style.norm == "batch" else set()
    norms |= {"norm_1"} if style.last_norm != "none" else set()
    assert set(used) == norms
    if style.last_norm != "none":
        np.testing.assert_allclose(y.mean(0), 0.0, atol=1e-5)
        np.testing.assert_allclose(y.var(0), 1.0, atol=1e-2)
    np.testing.assert_allclose(head(x, used)[0], y, rtol=1e-6)  # of given statistics


def test_logits_are_magnitudes_times_cosines():
    layer = functional(lambda rngs: Prototypes(4, 3, magnitude=True, dtype="float32", rngs=rngs))
    params = {"kernel": np.sin(np.arange(12.0)).reshape(4, 3), "magnitude": np.arange(1.0, 4.0)}
    z = np.cos(np.arange(40.0)).reshape(2, 5, 4)
    ours = layer.apply(jax.tree.map(jnp.float32, params), jnp.float32(z))
    directions = params["kernel"] / np.linalg.norm(params["kernel"], axis=0)
    unit = z / np.linalg.norm(z, axis=-1, keepdims=True)
    np.testing.assert_allclose(ours, unit @ directions * params["magnitude"], rtol=1e-5, atol=1e-6)
    assert not np.any(layer.apply(jax.tree.map(jnp.float32, params), jnp.zeros((1, 4))))


def test_masked_patches_are_not_seen():
    masked, plain = (functional(lambda rngs, m=m: m(VIT, rngs)) for m in (MaskedViT, ViT))
    params, token = plain.init(KEY), jnp.full(16, 0.5)
    images = jax.random.normal(KEY, (2, 16, 16, 1))
    mask = np.zeros((2, 16), bool)
    mask[0, [0, 5]] = True
    run = jax.jit(masked.apply)
    other = images.at[0, :4, :4].set(7.0)  # patch 0
    seen, unseen = run(params, images, mask, token), run(params, other, mask, token)
    for name in ("cls", "tokens", "mean"):
        np.testing.assert_allclose(seen[name], unseen[name], rtol=1e-5, atol=1e-6)
    _, whole = jax.jit(plain.apply)(params, images)
    np.testing.assert_allclose(seen["cls"][1], whole["cls"][1], rtol=1e-4, atol=1e-5)
    assert np.abs(seen["cls"][0] - whole["cls"][0]).max() > 1e-3
    # The token stands in for the embedding, before the position: two masked patches differ.
    assert np.abs(seen["tokens"][0, 0] - seen["tokens"][0, 5]).max() > 1e-3
