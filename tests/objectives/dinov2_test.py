import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.objectives import dino, dinov2
from socialjepa_jax.objectives.shared import crossentropy
from tests.objectives import rivals_oracle as oracle
from tests.objectives.ibot_test import BATCH as PATCHES
from tests.objectives.ibot_test import GOLDEN as FEW_PATCHES
from tests.objectives.ibot_test import crops_first
from tests.objectives.rivals_checks import DEVICES, Loss, f32, f64, replaced, sharded

LOSS = Loss(lambda reduce, batch, _, eps: dinov2.koleo(batch["z"], eps=eps, reduce=reduce))
BATCH, EPS = f32({"z": 3 * oracle.u(8, 3, 1)}), np.float32(1e-8)
ARGUMENTS = BATCH, {}, EPS


def test_golden_value():
    value = jax.jit(dinov2.koleo)(f32(oracle.u(5, 3, 1)))
    np.testing.assert_allclose(value, -0.112872933, rtol=2e-6)


@pytest.mark.parametrize("devices", DEVICES)
def test_koleo_is_the_mean_of_the_devices_values(devices):
    def reference(batch, _, eps):
        return np.mean([oracle.koleo(z, eps) for z in np.split(batch["z"], devices)])

    LOSS.check(devices, reference, (), *ARGUMENTS)


def test_equal_vectors_are_finite():
    value = LOSS.finite({"z": np.ones_like(BATCH["z"])}, {}, EPS)
    np.testing.assert_allclose(value, 17.4156, rtol=1e-5)
    value = LOSS.value({"z": np.ones((4, 384), np.float32)}, {}, EPS)
    np.testing.assert_allclose(value, 15.3956, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("eps", [1e-8, 0.0])
def test_zero_and_equal_vectors_have_finite_gradients(value, eps):
    """Two equal ones are at distance 0 without `eps`, where a square root has no slope."""
    LOSS.finite({"z": replaced(BATCH["z"], np.s_[2:4], value)}, {}, np.float32(eps))
    LOSS.finite({"z": np.full_like(BATCH["z"], value)}, {}, np.float32(eps))


@pytest.mark.parametrize("scale", [1e4, 1e30, 1e-30])
def test_length_does_not_matter(scale):
    value = LOSS.finite({"z": scale * BATCH["z"]}, {}, EPS)
    np.testing.assert_allclose(value, LOSS.on(1)(*ARGUMENTS)[0], rtol=1e-5)


def test_bfloat16():
    LOSS.check_bfloat16(*ARGUMENTS)


def test_new_values_do_not_compile():
    LOSS.check_compiled_once(*ARGUMENTS)


def test_golden_centre_of_masked_patches():
    arrays = f32(np.zeros(5)), FEW_PATCHES["teacher"]
    centre = jax.jit(dino.update_centre)(*arrays, mask=FEW_PATCHES["mask"] > 0)
    expected = [0.043039933, -0.025933758, -0.000133512, -0.002481014, 0.007989343]
    np.testing.assert_allclose(centre, expected, rtol=2e-6, atol=2e-9)


def balanced(teacher, mask, temperature):
    """Targets at masked patches, from all of them together; NaN at the others."""
    targets = np.full(teacher.shape, np.nan)
    targets[mask] = oracle.sinkhorn(teacher[mask], temperature)
    return targets


def of_batch(reduce, batch, _, temperature):
    student, teacher, mask = crops_first(batch)
    targets = dinov2.sinkhorn_targets(teacher, mask, teacher_temperature=temperature, reduce=reduce)
    return crossentropy.at_masked(targets, student / 0.1, mask, reduce)


BALANCED = Loss(of_batch)


@pytest.mark.parametrize("devices", DEVICES)
def test_patch_loss_with_balanced_targets_on_devices(devices):
    """Devices have from 0 to 8 masked patches; the teacher is a constant."""
    _, teacher, mask = crops_first(f64(PATCHES))
    targets = balanced(teacher, mask, 0.07)

    def reference(batch, _, temperature):
        return oracle.masked_loss(crops_first(batch)[0], targets, mask)

    settings = np.float32(0.07)
    BALANCED.check(devices, reference, ("teacher", "mask"), PATCHES, {}, settings)


@pytest.mark.parametrize("devices", DEVICES)
def test_balanced_targets_use_all_outputs_about_equally(devices):
    def targets(reduce, cut, batch):
        _, teacher, mask = crops_first(cut(batch))
        options = {"teacher_temperature": 0.07, "rounds": 100, "reduce": reduce}
        targets = dinov2.sinkhorn_targets(teacher, mask, **options)
        return reduce.sum(jnp.where(mask[..., None], targets, 0.0).sum((0, 2)))

    sums_K = sharded(targets, devices)(PATCHES)
    masked = float(PATCHES["mask"].sum())
    np.testing.assert_allclose(sums_K, masked / 5, rtol=1e-3)


def test_extreme_scores_and_no_masked_patch():
    extreme = {**PATCHES, "student": 1e4 * PATCHES["student"], "teacher": 1e4 * PATCHES["teacher"]}
    assert BALANCED.finite(extreme, {}, np.float32(0.07)) > 0.0
    unmasked = {**PATCHES, "mask": np.zeros_like(PATCHES["mask"])}
    assert BALANCED.finite(unmasked, {}, np.float32(0.07)) == 0.0
