"""The pixel autoencoder: what its decoder sees, its targets and metrics."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.objectives.mae import normalized_pixels
from socialjepa_jax.sharding import ONE_DEVICE
from tests.objectives import rivals_oracle as oracle
from tests.objectives import rivals_table as table

VECTOR = table.KINDS["autoencoder"]
TOKENS = dataclasses.replace(VECTOR, bottleneck="tokens")


def test_the_loss_is_the_mean_square_over_all_pixels():
    params, aux = table.started(VECTOR)
    images = table.batch()["image"]

    def parts(params, aux, batch, key):
        loss, (_, metrics) = VECTOR.loss(params, aux, batch, key, {}, ONE_DEVICE)
        return loss, metrics, VECTOR.reconstruct(params, batch["image"], ONE_DEVICE)

    loss, metrics, (pixels, latent, _) = table.by_hand(parts, params, aux, table.batch(), table.KEY)
    x = np.float64(images).reshape(8, 4, 4, 4, 4, 3).swapaxes(2, 3).reshape(8, 16, 48)
    expected = np.square(pixels - x).mean()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    variance = x.reshape(-1, 48).var(0).mean()
    np.testing.assert_allclose(metrics["target_variance"], variance, rtol=1e-2)
    explained = 1 - expected / metrics["target_variance"]
    np.testing.assert_allclose(metrics["explained"], explained, rtol=1e-4)
    assert latent.shape == (8, 16)


def test_all_pixels_come_from_the_latent_alone_or_from_all_tokens():
    """Gradients of one pixel with respect to what the decoder is given."""
    key = jax.random.key(0)
    tokens, latent = jax.random.normal(key, (1, 16, 16)), jnp.ones((1, 16))
    decoder = VECTOR.decoder.init(key)

    def from_vector(latent):
        return VECTOR.decoder.apply(decoder, latent, method="from_vector")[0, 3, 7]

    def from_tokens(tokens, latent):
        return TOKENS.decoder.apply(decoder, tokens, latent, method="from_tokens")[0, 3, 7]

    slope = jax.jit(jax.grad(from_vector))(latent)
    of_tokens, of_latent = jax.jit(jax.grad(from_tokens, (0, 1)))(tokens, latent)
    assert np.all(slope != 0) and np.all(of_latent != 0)
    reach = np.abs(of_tokens[0]).max(1)
    assert np.all(reach > 0) and reach.argmax() == 3  # each patch from its own token, mostly


def test_patches_may_be_normalised_by_their_unbiased_variance():
    row = np.asarray(normalized_pixels(jnp.float32(oracle.u(1, 12, 1))[None]))[0, 0]
    np.testing.assert_allclose(row[0], 1.047311045, rtol=1e-5)
    np.testing.assert_allclose(np.square(row).mean(), 0.916665012, rtol=1e-5)
    images = table.batch()["image"]
    targets = dataclasses.replace(VECTOR, normalize_patches=True).targets(images)
    np.testing.assert_allclose(np.square(targets).mean(), 47 / 48, rtol=1e-3)
