import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from socialjepa_jax.errors import InputError
from socialjepa_jax.objectives import dino
from tests.objectives import rivals_oracle as oracle
from tests.objectives.rivals_checks import DEVICES, Loss, f32, f64, sharded


def of_batch(reduce, batch, whole, settings):
    student, teacher = (batch[name].swapaxes(0, 1) for name in ("student", "teacher"))
    return dino.cross_view_loss(student, teacher, whole["centre"], **settings, reduce=reduce)


def reference(batch, whole, settings):
    student, teacher = (batch[name].swapaxes(0, 1) for name in ("student", "teacher"))
    return oracle.cross_view_loss(student, teacher, whole["centre"], **settings)


def crops(num):
    """Logits of two crops of the teacher and four of the student, images first."""
    student, teacher = oracle.stack(num, 5, 0.3, 0.4, 0.5, 0.6), oracle.stack(num, 5, 0.1, 0.2)
    return f32({"student": student.swapaxes(0, 1), "teacher": teacher.swapaxes(0, 1)})


LOSS = Loss(of_batch)
BATCH, WHOLE = crops(8), f32({"centre": 0.3 * oracle.u(1, 5, 7)[0]})
SETTINGS = f32({"teacher_temperature": 0.07, "student_temperature": 0.1})
ARGUMENTS = BATCH, WHOLE, SETTINGS
update_centre = jax.jit(dino.update_centre)
ZERO, OTHER = np.zeros(5), oracle.u(1, 5, 7)[0]


@pytest.mark.parametrize(
    ("centre", "temperature", "value"),
    [
        (ZERO, 0.04, 0.579223672),
        (ZERO, 0.07, 0.606081556),
        (OTHER, 0.04, 6.154402666),
        (OTHER, 0.07, 5.792929930),
    ],
)
def test_golden_values(centre, temperature, value):
    settings = f32({"teacher_temperature": temperature, "student_temperature": 0.1})
    found = LOSS.value(crops(3), f32({"centre": centre}), settings)
    np.testing.assert_allclose(found, value, rtol=2e-6)


@pytest.mark.parametrize(
    ("centre", "after"),
    [
        (ZERO, (0.064779643, 0.004629069, -0.034352357, 0.011603492, -0.000852344)),
        (OTHER, (0.656067582, 0.601301376, -0.77939618, -0.393079226, 0.848473759)),
    ],
)
def test_golden_centres(centre, after):
    found = update_centre(f32(centre), crops(3)["teacher"])
    np.testing.assert_allclose(found, after, rtol=2e-6, atol=2e-9)


def test_the_loss_takes_the_centre_of_the_steps_before():
    """Taken off before it moves; with the centre after this step the value is another."""
    batch, settings = crops(3), f32({"teacher_temperature": 0.04, "student_temperature": 0.1})
    before = f32(OTHER)
    after = update_centre(before, batch["teacher"])
    value, moved = (LOSS.value(batch, {"centre": c}, settings) for c in (before, after))
    np.testing.assert_allclose(value, 6.154402666, rtol=2e-6)
    assert abs(moved - value) > 1e-3


@pytest.mark.parametrize("devices", DEVICES)
def test_value_and_gradient_on_devices_with_a_constant_teacher(devices):
    LOSS.check(devices, reference, ("teacher", "centre"), *ARGUMENTS)


@pytest.mark.parametrize("devices", DEVICES)
def test_centre_on_devices(devices):
    """All rows, and those of a mask with unequal numbers on the devices."""

    def update(reduce, cut, batch, centre):
        rows = cut(batch)
        options = {"momentum": 0.8, "reduce": reduce}
        every = dino.update_centre(centre, rows["teacher"], **options)
        return every, dino.update_centre(centre, rows["teacher"], mask=rows["mask"], **options)

    mask = np.arange(16).reshape(8, 2) % 7 < 2
    batch = {"teacher": BATCH["teacher"], "mask": mask}
    every, masked = sharded(update, devices)(batch, WHOLE["centre"])
    teacher, centre = f64((BATCH["teacher"], WHOLE["centre"]))
    for found, rows in ((every, teacher.reshape(-1, 5)), (masked, teacher[mask])):
        np.testing.assert_allclose(found, 0.8 * centre + 0.2 * rows.mean(0), atol=1e-7)


def test_centre_without_a_masked_row_stays():
    mask = np.zeros(BATCH["teacher"].shape[:-1], bool)
    found = update_centre(WHOLE["centre"], BATCH["teacher"], mask=mask)
    np.testing.assert_allclose(found, WHOLE["centre"], rtol=1e-6)


def test_bfloat16():
    LOSS.check_bfloat16(*ARGUMENTS)
    rounded = crops(3)["teacher"].astype(jnp.bfloat16)
    centre = update_centre(f32(ZERO), rounded)
    np.testing.assert_allclose(centre, update_centre(f32(ZERO), f32(rounded)), atol=1e-8)


def test_new_values_do_not_compile():
    LOSS.check_compiled_once(*ARGUMENTS)


def test_extreme_scores():
    batch = {name: 1e4 * x for name, x in BATCH.items()}
    expected = reference(*f64((batch, WHOLE, SETTINGS)))
    np.testing.assert_allclose(LOSS.finite(batch, WHOLE, SETTINGS), expected, rtol=1e-5)


def test_zero_logits_give_the_chance_level():
    zeros = {name: np.zeros_like(x) for name, x in BATCH.items()}
    value = LOSS.finite(zeros, f32({"centre": ZERO}), SETTINGS)
    np.testing.assert_allclose(value, np.log(5), rtol=1e-6)


@pytest.mark.parametrize(("students", "teachers"), [(1, 2), (1, 1)])
def test_crops_without_a_pair_are_refused(students, teachers):
    arrays = np.zeros((students, 3, 5)), np.zeros((teachers, 3, 5)), ZERO
    loss = functools.partial(dino.cross_view_loss, teacher_temperature=0.04)
    with pytest.raises(InputError, match="must name one of 1 >= 2 crops"):
        jax.eval_shape(loss, *arrays)
