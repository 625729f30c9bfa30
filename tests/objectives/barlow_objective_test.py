"""Barlow Twins' objective on its views, its projector and its groups."""

import jax
import numpy as np

from socialjepa_jax.objectives.barlow import Barlow
from socialjepa_jax.sharding import ONE_DEVICE
from tests.objectives import rivals_oracle as oracle
from tests.objectives import rivals_table as table

OBJECTIVE = table.KINDS["barlow"]


def parts(params, aux, batch, key):
    embedding, _ = OBJECTIVE.embed_views(params, OBJECTIVE.views(batch, key), ONE_DEVICE)
    loss, (_, metrics) = OBJECTIVE.loss(params, aux, batch, key, {}, ONE_DEVICE)
    return loss, metrics, embedding


def test_the_loss_is_that_of_views_normalised_each_on_its_own():
    params, aux = table.started(OBJECTIVE)
    loss, metrics, embedding = table.by_hand(parts, params, aux, table.batch(), table.KEY)
    z = [embedding.projection[:, v] for v in range(2)]
    expected = oracle.cross_correlation_loss(*z)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    total = metrics["invariance"] + 0.0051 * metrics["redundancy"]
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    for v in range(2):
        rows = embedding.latents["cls"][:, v]
        by_hand = table.head_by_hand(params["projector"], rows, last_norm=False)
        np.testing.assert_allclose(z[v], by_hand, rtol=1e-3, atol=1e-3)


def test_biases_have_a_rate_of_their_own():
    params = jax.eval_shape(OBJECTIVE.init, table.KEY)[0]
    groups = Barlow(**table.COMMON, views=table.PAIR, bias_rate=0.024).groups(params)
    bias, kernel = groups["encoder"]["norm"]["bias"], groups["projector"]["fc_0"]["kernel"]
    assert (bias.rate, bias.decays, bias.trust_ratio) == (0.024, False, False)
    assert (kernel.rate, kernel.decays, kernel.trust_ratio) == (1.0, True, True)
    assert set(params["projector"]["fc_0"]) == set(params["projector"]["fc_1"]) == {"kernel"}
