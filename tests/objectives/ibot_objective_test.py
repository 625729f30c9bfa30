"""iBOT's objective: masked crops of the student, unmasked ones of the teacher, two centres."""

import jax
import numpy as np
import pytest

from socialjepa_jax.models import encoders
from socialjepa_jax.sharding import ONE_DEVICE
from tests.objectives import rivals_oracle as oracle
from tests.objectives import rivals_table as table

OBJECTIVE = table.KINDS["ibot"]
WARM = table.STEP / (0.3 * table.TOTAL)
TEMPERATURE = 0.04 + 0.03 * WARM


def parts(params, aux, batch, key):
    key_views, key_masks = jax.random.split(key)
    views = OBJECTIVE.views(batch, key_views)
    mask = OBJECTIVE.masks(key_masks, batch["index"], ONE_DEVICE)
    student = OBJECTIVE.outputs_of(params, views[0], mask, params["mask_token"])
    teacher = OBJECTIVE.outputs_of(aux["teacher"], views[0], None, params["mask_token"])
    local, _ = OBJECTIVE.embed_views(params, views[1:], ONE_DEVICE)
    local = OBJECTIVE.last.apply(params["last"], local.projection.swapaxes(0, 1))
    flat = views[0].reshape(-1, 16, 16, 3)
    plain, _ = encoders.apply(table.VIT, aux["teacher"]["encoder"], flat)
    loss, (after, metrics) = OBJECTIVE.loss(params, aux, batch, key, table.HPARAMS, ONE_DEVICE)
    return {
        "loss": loss, "after": (after["centre"], after["patch_centre"]), "mask": mask,
        "student": student, "teacher": teacher, "local": local, "plain": plain,
        "metrics": metrics,
    }  # fmt: skip


@pytest.fixture(scope="module")
def found():
    params, aux = table.started(OBJECTIVE)
    return aux, table.by_hand(parts, params, aux, table.batch(), table.KEY)


def test_the_loss_is_that_of_masked_crops_against_whole_ones(found):
    aux, out = found
    mask = out["mask"].swapaxes(0, 1).astype(bool)
    student, teacher = out["student"], out["teacher"]
    cls = np.concatenate([student.cls_GBK, out["local"]])
    centres = [np.float64(aux[name]) for name in ("centre", "patch_centre")]
    expected = oracle.cross_view_loss(cls, teacher.cls_GBK, centres[0], TEMPERATURE)
    targets = oracle.softmax((teacher.patches_GBPK - centres[1]) / TEMPERATURE)
    patch = oracle.masked_loss(student.patches_GBPK, targets, mask)
    np.testing.assert_allclose(out["metrics"]["cls"], expected, rtol=1e-4)
    np.testing.assert_allclose(out["metrics"]["patch"], patch, rtol=1e-4)
    np.testing.assert_allclose(out["loss"], expected + patch, rtol=1e-4)
    assert 0.0 < mask.mean() < 0.5


def test_the_teacher_sees_unmasked_crops_and_the_student_masked_ones(found):
    _, out = found
    teacher = out["teacher"].embedding.latents["cls"].reshape(-1, 16)
    np.testing.assert_allclose(teacher, out["plain"]["cls"], rtol=1e-4, atol=1e-5)
    masked = out["mask"].any(-1)
    assert masked.any() and not masked.all()


def test_both_centres_move_after_the_loss_that_of_patches_by_all_of_them(found):
    aux, out = found
    for name, logits, after in (
        ("centre", out["teacher"].cls_GBK, out["after"][0]),
        ("patch_centre", out["teacher"].patches_GBPK, out["after"][1]),
    ):
        mean = logits.reshape(-1, 6).mean(0)
        expected = 0.9 * np.float64(aux[name]) + 0.1 * mean
        np.testing.assert_allclose(after, expected, rtol=0, atol=1e-5)


def test_patches_may_have_a_head_of_their_own():
    params, aux = jax.eval_shape(OBJECTIVE.init, table.KEY)
    assert {"patch_projector", "patch_last", "mask_token"} <= set(params)
    assert {"patch_projector", "patch_last"} <= set(aux["teacher"])
    assert "mask_token" not in aux["teacher"]
    groups = OBJECTIVE.groups(params)
    for name in ("last", "patch_last"):
        assert groups[name]["kernel"].first_step(1000) == 10
    assert groups["mask_token"].decays and groups["mask_token"].first_step(1000) == 0
    shared = type(OBJECTIVE)(**table.COMMON, views=table.CROPS, outputs=6)
    assert not {"patch_projector", "patch_last"} & set(jax.eval_shape(shared.init, table.KEY)[0])
