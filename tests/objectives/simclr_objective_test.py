"""SimCLR's objective on its views, and its head."""

import numpy as np

from socialjepa_jax import optim
from socialjepa_jax.sharding import ONE_DEVICE
from tests.objectives import rivals_oracle as oracle
from tests.objectives import rivals_table as table

OBJECTIVE = table.KINDS["simclr"]


def parts(params, aux, batch, key):
    embedding, _ = OBJECTIVE.embed_views(params, OBJECTIVE.views(batch, key), ONE_DEVICE)
    loss, (_, metrics) = OBJECTIVE.loss(params, aux, batch, key, {}, ONE_DEVICE)
    return loss, metrics["chance"], embedding


def test_the_loss_is_that_of_the_projections_of_both_views():
    params, aux = table.started(OBJECTIVE)
    loss, chance, embedding = table.by_hand(parts, params, aux, table.batch(), table.KEY)
    z1, z2 = embedding.projection[:, 0], embedding.projection[:, 1]
    np.testing.assert_allclose(loss, oracle.nt_xent(z1, z2, 0.1), rtol=1e-5)
    np.testing.assert_allclose(chance, np.log(2 * table.BATCH - 1), rtol=1e-6)
    # Batch normalisation, of both views together, is the head's last layer too.
    rows = embedding.latents["cls"].reshape(-1, 16)
    expected = table.head_by_hand(params["projector"], rows, last_norm=True)
    np.testing.assert_allclose(embedding.projection.reshape(-1, 8), expected, atol=2e-3)
    assert "scale" in params["projector"]["norm_1"] and "bias" not in params["projector"]["norm_1"]
    assert "bias" not in params["projector"]["fc_0"]


def test_the_published_rate_stands_inside_the_momentum():
    assert OBJECTIVE.optimizer(4096) == optim.Lars(
        form="inside", learning_rate=4.8, weight_decay=1e-4, final_weight_decay=1e-4
    )
