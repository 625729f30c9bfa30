"""SwAV's objective: assignments with a queue, the queue's order, the joint head, prototypes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives.base import projected
from socialjepa_jax.sharding import ONE_DEVICE
from tests.objectives import rivals_oracle as oracle
from tests.objectives import rivals_table as table

OBJECTIVE = table.KINDS["swav"]


def parts(params, aux, batch, key):
    embedding, _ = OBJECTIVE.embed_views(params, OBJECTIVE.views(batch, key), ONE_DEVICE)
    loss, (after, _) = OBJECTIVE.loss(params, aux, batch, key, table.HPARAMS, ONE_DEVICE)
    return loss, after["queue"], embedding


@pytest.fixture(scope="module")
def run():
    params, aux = table.started(OBJECTIVE)
    compiled = jax.jit(parts)

    def at(step):
        batch = {**table.batch(), "step": jnp.int32(step)}
        return table.in_float64(compiled(params, aux, batch, table.KEY))

    return params, aux, at


def test_the_loss_is_that_of_assignments_with_the_queue_of_the_steps_before(run):
    params, aux, at = run
    loss, queue, embedding = at(table.STEP)
    z_VBD, before = embedding.projection.swapaxes(0, 1), np.float64(aux["queue"])
    prototypes = np.float64(params["prototypes"])
    targets = oracle.assignments(z_VBD, prototypes, (0, 1), 0.05, before)
    expected = oracle.swap_loss(z_VBD, prototypes, targets, (0, 1), 0.1)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    # Newest first; the oldest batch leaves.
    np.testing.assert_allclose(queue[:, : table.BATCH], oracle.l2(z_VBD[:2]), atol=1e-5)
    np.testing.assert_allclose(queue[:, table.BATCH :], before[:, : table.BATCH], atol=1e-6)


def test_the_queue_waits_for_its_step(run):
    _, aux, at = run
    np.testing.assert_allclose(at(1)[1], aux["queue"], atol=1e-6)  # of 2 = 0.1 of 20


def test_crops_of_all_sizes_are_normalised_together_in_the_head(run):
    params, _, at = run
    _, _, embedding = at(table.STEP)
    rows = embedding.latents["cls"].reshape(-1, 16)
    expected = table.head_by_hand(params["projector"], rows, last_norm=False)
    np.testing.assert_allclose(embedding.projection.reshape(-1, 8), expected, rtol=1e-3, atol=1e-3)


def test_prototypes_have_unit_rows_after_an_update_and_wait():
    params = {"prototypes": 3.0 * np.float32(oracle.u(6, 8, 1))}
    after = projected(OBJECTIVE, params)["prototypes"]
    np.testing.assert_allclose(after, oracle.l2(oracle.u(6, 8, 1)), rtol=1e-5)
    groups = dataclasses.replace(OBJECTIVE, frozen=0.1).groups({**params, "encoder": 1.0})
    assert groups["prototypes"].first_step(100) == 10 and groups["encoder"].first_step(100) == 0
    assert all(g.decays and g.trust_ratio for g in groups.values())


def test_a_queue_holds_whole_batches():
    objective = dataclasses.replace(OBJECTIVE, queue=12)
    params, aux = jax.eval_shape(objective.init, table.KEY)

    def loss(params, aux):
        return objective.loss(params, aux, table.batch(), table.KEY, table.HPARAMS, ONE_DEVICE)[0]

    with pytest.raises(InputError, match="queue=12 must be a multiple of 8 images"):
        jax.eval_shape(loss, params, aux)
