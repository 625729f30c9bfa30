import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.heads import MlpPredictor, PixelDecoder, ViTPredictor
from socialjepa_jax.models.masking import Masks
from socialjepa_jax.models.transformer import Block, LayerNorm, sincos_positions
from socialjepa_jax.models.vit import ViTConfig

ENCODER = ViTConfig(image_size=16, patch_size=4, channels=1, width=16, depth=1, heads=2)


def enlarge(params):
    return jax.tree.map(lambda p: p * (10.0 if p.ndim > 1 else 1.0), params)


def test_prediction_at_a_patch_is_the_mlp_of_latent_plus_position():
    head = functional(lambda rngs: MlpPredictor(ENCODER, 24, rngs))
    params = enlarge(jax.jit(head.init)(jax.random.key(0)))
    latent = jax.random.normal(jax.random.key(1), (3, 16))
    out = head.apply(params, latent, method="at_patches")
    assert out.shape == (3, 16, 16)
    for n in (0, 7, 15):
        position = jnp.asarray(sincos_positions((4, 4), 16)[n])
        np.testing.assert_allclose(
            out[:, n], head.apply(params, latent + position[None]), atol=1e-5
        )


def predictor_inputs():
    key = jax.random.key(2)
    masks = Masks(
        context_BK=jnp.array([[0, 5, 3, 9], [1, 2, 8, 15]]),
        context_valid_BK=None,
        targets_BMS=jnp.array([[[10, 11], [6, 7]], [[4, 5], [12, 13]]]),
        targets_valid_BMS=None,
        count_BN=jnp.zeros((2, 16), jnp.int32),
    )
    return jax.random.normal(key, (2, 4, 16)), jax.random.normal(key, (2, 16)), masks


def vit_head():
    head = functional(lambda rngs: ViTPredictor(ENCODER, 12, 2, 3, rngs))
    return jax.jit(head.apply), enlarge(jax.jit(head.init)(jax.random.key(0)))


def pad(x, axis):
    """Appends a slot with a wrong value."""
    widths = [(0, int(i == axis)) for i in range(x.ndim)]
    return jnp.pad(x, widths, constant_values=7)


def test_blocks_are_predicted_apart():
    apply, params = vit_head()
    tokens, cls, masks = predictor_inputs()
    out = apply(params, tokens, cls, masks)
    assert out.shape == (2, 2, 2, 16)
    alone = masks._replace(targets_BMS=masks.targets_BMS[:, 1:])
    np.testing.assert_allclose(apply(params, tokens, cls, alone)[:, 0], out[:, 1], atol=1e-6)
    assert jnp.abs(apply(params, tokens, None, masks) - out).max() > 1e-3  # CLS takes part


def test_slots_not_in_use_change_nothing():
    apply, params = vit_head()
    tokens, cls, masks = predictor_inputs()
    out = apply(params, tokens, cls, masks)
    padded = masks._replace(
        context_BK=pad(masks.context_BK, 1),
        context_valid_BK=jnp.ones((2, 5), bool).at[:, 4].set(False),
        targets_BMS=pad(masks.targets_BMS, 2),
        targets_valid_BMS=jnp.ones((2, 2, 3), bool).at[:, :, 2].set(False),
    )
    out_padded = apply(params, pad(tokens, 1), cls, padded)
    np.testing.assert_allclose(out_padded[:, :, :2], out, atol=1e-6)


def part(make, params, x):
    return functional(make).apply(params, x)


def published_decoder(params, tokens, cls, kept):
    """The published decoder: CLS and all positions in the grid's order, every patch predicted."""
    dense = lambda p, x: x @ p["kernel"] + p["bias"][None, None]  # noqa: E731
    x = jnp.tile(params["mask_token"][None, None], (2, 16, 1))
    x = x.at[jnp.arange(2)[:, None], kept].set(dense(params["embed"], tokens))
    positions = jnp.pad(jnp.asarray(sincos_positions((4, 4), 12)), ((1, 0), (0, 0)))
    x = jnp.concatenate([dense(params["embed"], cls[:, None]), x], axis=1) + positions[None]
    for i in range(2):
        make = lambda rngs: Block(12, 3, 4.0, std=1.0, dtype="float32", rngs=rngs)  # noqa: E731
        x = part(make, params[f"block_{i:02d}"], x)
    x = part(lambda rngs: LayerNorm(12, dtype="float32"), params["norm"], x)
    return dense(params["project"], x)[:, 1:]


def test_the_pixel_decoder_is_the_published_one_at_the_masked_patches():
    head = functional(lambda rngs: PixelDecoder(ENCODER, 12, 2, 3, rngs))
    params = enlarge(jax.jit(head.init)(jax.random.key(0)))
    tokens, cls, masks = predictor_inputs()
    kept = masks.context_BK
    masked = np.stack([np.setdiff1d(np.arange(16), own)[::-1] for own in np.asarray(kept)])
    out = jax.jit(head.apply)(params, tokens, cls, kept, masked)
    everything = jax.jit(published_decoder)(params, tokens, cls, kept)
    assert out.shape == (2, 12, 4 * 4)
    expected = np.take_along_axis(np.asarray(everything), masked[:, :, None], axis=1)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    assert jnp.abs(out).max() > 0.1
    without = jax.jit(head.apply)(params, tokens, None, kept, masked)
    assert jnp.abs(without - out).max() > 1e-3  # CLS takes part
