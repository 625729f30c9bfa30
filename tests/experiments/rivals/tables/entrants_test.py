"""The methods of the comparison tables: their trials, masked views, and the encoder with labels."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.rivals.tables.entrants import ENTRANTS, REFERENCES, RIVALS, MaskedPair, Supervised
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.performance import flops
from socialjepa_jax.sharding import ONE_DEVICE

SMALL = ViTConfig(image_size=8, patch_size=4, channels=1, width=8, depth=1, heads=2)
PUBLISHED = {  # knob -> the objective's field
    "simclr": "temperature", "moco": "temperature", "barlow": "off_diagonal",
    "lejepa": "sigreg_weight", "vicreg": "covariance",
}  # fmt: skip


@pytest.mark.parametrize("name", ENTRANTS)
def test_six_trials_of_which_the_first_is_the_published_setting(name):
    entrant = ENTRANTS[name]
    assert len({tuple(trial.items()) for trial in entrant.trials}) == len(entrant.trials) == 6
    first = entrant.trials[0]
    assert first["learning_rate"] == 1.0
    if entrant.knob and name in RIVALS:
        published = getattr(type(entrant.objective)(), PUBLISHED[name])
        assert first[entrant.knob] == published
    assert [trial["learning_rate"] for trial in entrant.trials].count(1.0) == max(
        1, len(entrant.values)
    )


def test_the_tables_have_all_methods_of_the_paper():
    paper = {"ijepa", "mae", "simclr", "autoencoder", "dino", "moco", "ibot", "swav", "barlow"}
    assert paper | {"dinov2", "lejepa", "vicreg"} == set(RIVALS)
    assert set(ENTRANTS) - set(RIVALS) == set(REFERENCES)


class Recorder:
    """An objective that returns its batch."""

    def loss(self, params, aux, batch, key, hparams, reduce):
        return jnp.zeros(()), (aux, batch)


def test_masked_views_hide_half_of_the_patches_and_nothing_else():
    images = np.random.default_rng(0).random((5, 8, 12, 2)).astype(np.float32) + 1
    index = np.array([3, 9, 4, 0, 1])
    objective = MaskedPair(Recorder(), patch_size=4)
    views = {}
    for order in (slice(None), slice(None, None, -1)):
        batch = {"image": images[order], "index": index[order]}
        _, (_, seen) = objective.loss({}, {}, batch, jax.random.key(1), {}, ONE_DEVICE)
        views[str(order)] = [np.asarray(seen[name])[order] for name in ("image", "next")]
    first, second = views[str(slice(None))]
    for own, again in zip((first, second), views[str(slice(None, None, -1))]):
        np.testing.assert_array_equal(own, again)  # a function of key and index
        assert set(np.unique((own != 0) == (own == images))) == {True}
        blocks = (own != 0).all(-1).reshape(5, 2, 4, 3, 4).swapaxes(2, 3).reshape(5, 6, 16)
        np.testing.assert_array_equal(blocks.all(-1), blocks.any(-1))
        np.testing.assert_array_equal(blocks.all(-1).sum(-1), 3)
    assert (first != second).any(axis=(1, 2, 3)).sum() >= 3
    assert (first[0] != 0).tolist() != (first[1] != 0).tolist()


def test_the_reference_is_trained_on_the_labels_of_its_images():
    objective = Supervised(SMALL, projector_layers=1, projector_dim=3)
    params, aux = jax.jit(objective.init)(jax.random.key(0))
    rng = np.random.default_rng(1)
    images = rng.random((4, 8, 8, 1)).astype(np.float32)
    labels = np.array([2, 0, 1, 1, 2, 0], np.float32)
    batch = {"image": images, "index": np.array([5, 0, 3, 2])}
    run = jax.jit(objective.loss, static_argnums=5)
    loss, _ = run(params, aux, batch, jax.random.key(0), {"labels": labels}, ONE_DEVICE)
    embedding, _ = jax.jit(objective.embed)(params, images)
    logits = np.asarray(embedding.projection, np.float64)
    each = np.log(np.exp(logits).sum(-1)) - logits[np.arange(4), [0, 2, 1, 1]]
    assert loss == pytest.approx(each.mean(), rel=1e-5)
    latent = objective.encode(params, aux, images)["latent"]
    np.testing.assert_allclose(latent, embedding.latents["cls"], rtol=1e-5, atol=1e-6)


def test_flops_of_an_objective_that_reads_more_than_a_run_gives():
    objective = Supervised(SMALL, projector_layers=1, projector_dim=3)
    labels = jax.ShapeDtypeStruct((6,), np.float32)
    found = flops.step(objective, 4, (8, 8, 1), labels=labels)
    wide = dataclasses.replace(objective, projector_dim=6)
    # The head has 2 x width x 3 multiply-adds more, in the forward pass and two backward products.
    assert flops.step(wide, 4, (8, 8, 1), labels=labels) - found == 4 * 3 * 2 * 8 * 3
    with pytest.raises(KeyError, match="labels"):
        flops.step(objective, 4, (8, 8, 1))
