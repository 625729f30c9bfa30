"""MoCo v3's objective: both directions, the momentum encoder, what is trained."""

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.sharding import ONE_DEVICE
from tests.objectives import rivals_oracle as oracle
from tests.objectives import rivals_table as table

OBJECTIVE = table.KINDS["moco"]


def parts(params, aux, batch, key):
    views = OBJECTIVE.views(batch, key)
    student, _ = OBJECTIVE.embed_views(params, views, ONE_DEVICE)
    teacher, _ = OBJECTIVE.embed_views(aux["teacher"], views, ONE_DEVICE)
    loss, _ = OBJECTIVE.loss(params, aux, batch, key, table.HPARAMS, ONE_DEVICE)
    return loss, student.projection, teacher.projection


def test_the_loss_is_the_sum_of_both_directions():
    params, aux = table.started(OBJECTIVE)
    loss, z, k = table.by_hand(parts, params, aux, table.batch(), table.KEY)
    q = [table.head_by_hand(params["predictor"], z[:, v], last_norm=True) for v in range(2)]
    expected = oracle.contrast(q[0], k[:, 1], 0.2) + oracle.contrast(q[1], k[:, 0], 0.2)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    for v in range(2):  # a normalisation without parameters ends the projector of each view
        np.testing.assert_allclose(z[:, v].mean(0), 0.0, atol=1e-5)
        np.testing.assert_allclose(z[:, v].var(0), 1.0, atol=2e-2)
    assert set(params["projector"]) == {"fc_0", "norm_0", "fc_1"}


def test_keys_have_no_gradient():
    params, aux = table.started(OBJECTIVE)

    def loss(teacher):
        state = {**aux, "teacher": teacher}
        return OBJECTIVE.loss(params, state, table.batch(), table.KEY, table.HPARAMS, ONE_DEVICE)[0]

    grads = jax.jit(jax.grad(loss))(aux["teacher"])
    assert not any(np.any(g) for g in jax.tree.leaves(grads))
    assert "predictor" not in aux["teacher"] and "predictor" in params


def test_the_momentum_encoder_of_a_step_has_the_weights_before_its_update():
    """The published order: average with step t's weights and momentum, then its forward pass."""
    weights = [np.float32(x) for x in (1.0, 3.0, -2.0, 5.0)]  # before the updates of steps 0 to 3
    published = float(weights[0])
    seen = []
    for t, weight in enumerate(weights):
        m = 1.0 - 0.5 * (1.0 + np.cos(np.pi * t / table.TOTAL)) * (1.0 - 0.99)
        published = m * published + (1.0 - m) * float(weight)
        seen.append(published)
    aux = {"teacher": {"w": weights[0]}}
    ours = [float(aux["teacher"]["w"])]
    for step, weight in enumerate(weights[1:]):
        aux = OBJECTIVE.after_update({"w": weight}, aux, jnp.int32(step), table.HPARAMS)
        ours.append(float(aux["teacher"]["w"]))
    np.testing.assert_allclose(ours, seen, rtol=1e-6)
    np.testing.assert_allclose(OBJECTIVE.momentum(149, 300), 0.995, rtol=1e-6)


def test_the_patch_embedding_of_a_vit_never_moves_and_all_decays():
    params = jax.eval_shape(OBJECTIVE.init, table.KEY)[0]
    groups = OBJECTIVE.groups(params)
    for name in ("kernel", "bias"):
        assert groups["encoder"]["patch"][name].first_step(77) == 77
    rest = {k: v for k, v in groups["encoder"].items() if k != "patch"}
    assert all(g.first_step(77) == 0 and g.decays for g in jax.tree.leaves(rest))
    assert not groups["encoder"]["norm"]["bias"].trust_ratio
