"""DINOv2's objective: Sinkhorn targets, KoLeo, masks of half of the crops, groups."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.dinov2 import DinoV2
from socialjepa_jax.objectives.ibot import Outputs
from socialjepa_jax.objectives.shared.embedding import Embedding
from socialjepa_jax.sharding import ONE_DEVICE
from tests.objectives import rivals_oracle as oracle
from tests.objectives import rivals_table as table

OBJECTIVE = table.KINDS["dinov2"]
TEMPERATURE = 0.04 + 0.03 * table.STEP / (0.3 * table.TOTAL)


def parts(params, aux, batch, key):
    key_views, key_masks = jax.random.split(key)
    (views,) = OBJECTIVE.views(batch, key_views)
    mask = OBJECTIVE.masks(key_masks, batch["index"], ONE_DEVICE)
    student = OBJECTIVE.outputs_of(params, views, mask, params["mask_token"])
    teacher = OBJECTIVE.outputs_of(aux["teacher"], views, None, params["mask_token"])
    loss, _ = OBJECTIVE.loss(params, aux, batch, key, table.HPARAMS, ONE_DEVICE)
    return loss, mask, student, teacher


def test_targets_are_those_of_sinkhorn_over_crops_and_over_masked_patches():
    params, aux = table.started(OBJECTIVE)
    loss, mask, student, teacher = table.by_hand(parts, params, aux, table.batch(), table.KEY)
    mask = mask.swapaxes(0, 1).astype(bool)
    cls = oracle.sinkhorn(teacher.cls_GBK.reshape(-1, 6), TEMPERATURE)
    log_p = oracle.log_softmax(student.cls_GBK / 0.1)
    expected = oracle.between_crops(cls.reshape(2, -1, 6), log_p, range(2))
    targets = np.zeros(teacher.patches_GBPK.shape)
    targets[mask] = oracle.sinkhorn(teacher.patches_GBPK[mask], TEMPERATURE)
    expected += oracle.masked_loss(student.patches_GBPK, targets, mask)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    assert 0.0 < mask.mean() < 0.5


def test_half_of_the_crops_are_masked_by_ratios_that_fill_their_range():
    vit = ViTConfig(image_size=56, patch_size=4, channels=3, width=16, depth=1, heads=2)
    objective = dataclasses.replace(OBJECTIVE, encoder=vit)
    draw = jax.jit(lambda key, index: objective.masks(key, index, ONE_DEVICE))
    index = np.arange(table.BATCH)
    mask = np.asarray(draw(table.KEY, index))
    counts = np.sort(mask.sum(-1).reshape(-1))
    assert mask.shape == (table.BATCH, 2, 196) and not np.any(counts[: table.BATCH])
    greatest = (0.1 + 0.05 * np.arange(1, 9)) * 196  # one crop in each eighth of 0.1 to 0.5
    assert np.all(counts[table.BATCH :] <= greatest)
    assert np.all(counts[table.BATCH :] >= greatest - 0.05 * 196 - 12)
    assert np.any(mask != np.asarray(draw(jax.random.key(3), index)))


def test_koleo_is_on_by_default_on_the_students_latents_crop_by_crop():
    objective = dataclasses.replace(OBJECTIVE, koleo_weight=DinoV2.koleo_weight)
    assert objective.koleo_weight == 0.1
    latent = np.stack([oracle.u(5, 16, 1), oracle.u(5, 16, 2)], axis=1)
    embedding = Embedding({"cls": jnp.float32(latent)}, jnp.zeros((5, 2, 8)))
    term, metrics = objective.extra(embedding, ONE_DEVICE)
    expected = oracle.koleo(latent[:, 0]) + oracle.koleo(latent[:, 1])
    np.testing.assert_allclose(term, 0.1 * expected, rtol=1e-5)
    np.testing.assert_allclose(metrics["koleo"], expected, rtol=1e-5)


def test_the_centre_of_patches_is_that_of_masked_ones():
    """The published centre after one step: two crops of two images."""
    teacher = np.stack([[oracle.u(4, 5, 0.1 + v + 0.5 * b) for b in range(2)] for v in range(2)])
    mask = np.array([[[1, 0, 1, 0], [0, 0, 0, 0]], [[0, 1, 1, 1], [1, 0, 0, 0]]], bool)
    outputs = Outputs(jnp.zeros((2, 2, 5)), jnp.float32(teacher), Embedding({}, jnp.zeros(())))
    aux = {"centre": jnp.zeros(5), "patch_centre": jnp.zeros(5)}
    after = OBJECTIVE.centred(aux, outputs, jnp.asarray(mask), ONE_DEVICE)
    expected = [0.043039933, -0.025933758, -0.000133512, -0.002481014, 0.007989343]
    np.testing.assert_allclose(after["patch_centre"], expected, atol=1e-8)


def test_rates_fall_with_the_depth_and_sub_networks_are_clipped_as_one():
    vit = ViTConfig(16, 4, 3, 16, depth=3, heads=2)
    objective = dataclasses.replace(OBJECTIVE, encoder=vit, shared_head=False)
    params = jax.eval_shape(objective.init, table.KEY)[0]
    groups = objective.groups(params)
    encoder = groups["encoder"]
    rates = [encoder["patch"]["kernel"].rate, encoder["cls"].rate, groups["mask_token"].rate]
    np.testing.assert_allclose(rates, [0.2 * 0.9**4, 0.9**4, 0.9**4])
    for i in range(3):
        block = {group.rate for group in jax.tree.leaves(encoder[f"block_{i:02d}"])}
        np.testing.assert_allclose([*block], [0.9 ** (3 - i)])
    assert encoder["norm"]["scale"].rate == groups["last"]["kernel"].rate == 1.0
    clips = {name: {g.clip for g in jax.tree.leaves(groups[name])} for name in groups}
    assert clips == {
        "encoder": {"encoder"}, "mask_token": {"encoder"}, "projector": {"head"},
        "last": {"head"}, "patch_projector": {"patch_head"}, "patch_last": {"patch_head"},
    }  # fmt: skip
    last = groups["last"]["kernel"]
    assert last.first_step(1000) == 10 and last.keeps_moments
    assert "magnitude" in params["last"]
    assert DinoV2.optimizer(1024).learning_rate == 4e-3
