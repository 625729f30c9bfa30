"""DINO's objective: pairs of crops, the centre, the last layer, temperature and momentum."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax import optim
from socialjepa_jax.sharding import ONE_DEVICE
from tests.objectives import rivals_oracle as oracle
from tests.objectives import rivals_table as table

OBJECTIVE = table.KINDS["dino"]
TEMPERATURE = 0.04 + 0.03 * table.STEP / (0.3 * table.TOTAL)


def parts(params, aux, batch, key):
    views = OBJECTIVE.views(batch, key)
    student, _ = OBJECTIVE.embed_views(params, views, ONE_DEVICE)
    teacher, _ = OBJECTIVE.embed_views(aux["teacher"], views[:1], ONE_DEVICE)
    loss, (after, _) = OBJECTIVE.loss(params, aux, batch, key, table.HPARAMS, ONE_DEVICE)
    return loss, after["centre"], student.projection, teacher.projection


def logits(last, z_BVP):
    """Cosines with the directions: the last layer with its magnitudes at 1."""
    directions = oracle.l2(np.float64(last["kernel"]).T)
    return oracle.l2(z_BVP).swapaxes(0, 1) @ directions.T


def test_all_crops_learn_from_global_ones_and_the_centre_is_used_before_it_moves():
    params, aux = table.started(OBJECTIVE)
    loss, centre, student, teacher = table.by_hand(parts, params, aux, table.batch(), table.KEY)
    assert student.shape[1] == 3 and teacher.shape[1] == 2
    of_student = logits(params["last"], student)
    of_teacher = logits(aux["teacher"]["last"], teacher)
    before = np.float64(aux["centre"])
    expected = oracle.cross_view_loss(of_student, of_teacher, before, TEMPERATURE)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    np.testing.assert_allclose(
        centre, 0.9 * before + 0.1 * of_teacher.mean((0, 1)), rtol=0, atol=1e-5
    )
    late = oracle.cross_view_loss(of_student, of_teacher, centre, TEMPERATURE)
    assert abs(late - expected) > 1e-3 * expected


def test_the_last_layer_is_frozen_for_its_share_and_then_begins():
    """No decay and no moments before; every tensor is clipped alone."""
    params = {"encoder": {"kernel": np.ones((2, 2), np.float32)},
              "last": {"kernel": np.ones((2, 3), np.float32)}}  # fmt: skip
    groups = dataclasses.replace(OBJECTIVE, frozen=0.2).groups(params)
    adamw = OBJECTIVE.optimizer(256)
    grads = jax.tree.map(lambda p: 100.0 * p, params)
    apply = jax.jit(
        lambda params, state, step: adamw.apply(
            grads, state, params, step=step, total_steps=10, rate=1.0, groups=groups
        )
    )
    state, now, moved = adamw.init(params), params, []
    for step in range(4):
        before, (now, state, _) = now, apply(now, state, jnp.int32(step))
        moved.append([bool(np.any(now[n]["kernel"] != before[n]["kernel"])) for n in params])
        if step == 1:
            assert not np.any(state.mu["last"]["kernel"])
    assert [m[1] for m in moved] == [False, False, True, True] and moved[1][0]
    clips = [group.clip for group in jax.tree.leaves(groups)]
    assert len(set(clips)) == len(clips)
    clipped = optim.clip_by_group(grads, groups, adamw.clip)
    for name in params:
        np.testing.assert_allclose(np.linalg.norm(clipped[name]["kernel"]), 3.0, rtol=1e-6)


def test_biases_and_scales_do_not_decay_and_the_class_token_does():
    params = jax.eval_shape(OBJECTIVE.init, table.KEY)[0]
    groups = OBJECTIVE.groups(params)
    assert groups["encoder"]["cls"].decays and groups["last"]["kernel"].decays
    assert not groups["encoder"]["norm"]["scale"].decays
    assert not groups["projector"]["fc_0"]["bias"].decays
    assert set(params["last"]) == {"kernel"}
    free = dataclasses.replace(OBJECTIVE, magnitude=True)
    last = jax.eval_shape(free.init, table.KEY)[0]["last"]
    assert last["magnitude"].shape == (6,) and free.groups({"last": last})["last"]["magnitude"]


def test_temperature_and_momentum_follow_their_schedules():
    for step, expected in ((0, 0.04), (3, 0.055), (6, 0.07), (15, 0.07)):
        batch = {"step": jnp.int32(step)}
        np.testing.assert_allclose(OBJECTIVE.temperature(batch, table.HPARAMS), expected, rtol=1e-6)
    np.testing.assert_allclose(OBJECTIVE.momentum(1, 1000), 0.99600000987, rtol=1e-6)
    aux = {"teacher": {"w": np.float32(2.0)}, "centre": np.float32(7.0)}
    after = OBJECTIVE.after_update(
        {"w": np.float32(1.0), "x": np.float32(0.0)}, aux, jnp.int32(0), table.HPARAMS
    )
    np.testing.assert_allclose(after["teacher"]["w"], 0.996 * 2.0 + 0.004, rtol=1e-6)
    assert after["centre"] == 7.0 and set(after["teacher"]) == {"w"}
