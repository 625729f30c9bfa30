import functools

import jax
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from socialjepa_jax.objectives import dino, ibot
from tests.objectives import rivals_oracle as oracle
from tests.objectives.rivals_checks import DEVICES, Loss, f32


def crops_first(batch):
    student, teacher = (batch[name].swapaxes(0, 1) for name in ("student", "teacher"))
    return student, teacher, batch["mask"].swapaxes(0, 1) > 0.5


def of_batch(reduce, batch, whole, settings):
    arrays = crops_first(batch)
    return ibot.patch_loss(*arrays, whole["centre"], **settings, reduce=reduce)


def reference(batch, whole, settings):
    student, teacher, mask = crops_first(batch)
    targets = oracle.softmax((teacher - whole["centre"]) / settings["teacher_temperature"])
    return oracle.masked_loss(student, targets, mask, settings["student_temperature"])


def images(num, start):
    """Logits [B, C, P, K] at four patches of two crops; image b is moved by b / 2."""
    return np.stack([oracle.stack(4, 5, start + b / 2, start + 1 + b / 2) for b in range(num)])


LOSS = Loss(of_batch)
MASK = np.array([[0b1010, 0b0111], [0b0000, 0b1000]])[..., None] >> np.arange(3, -1, -1) & 1
MANY = np.array([3, 0, 0, 5, 15, 8, 0, 0, 1, 0, 0, 0, 0, 6, 2, 0]).reshape(8, 2, 1)
BATCH = f32(
    {"student": images(8, 0.3), "teacher": images(8, 0.1), "mask": MANY >> np.arange(4) & 1}
)
WHOLE = f32({"centre": 0.3 * oracle.u(1, 5, 7)[0]})
SETTINGS = f32({"teacher_temperature": 0.07, "student_temperature": 0.1})
ARGUMENTS = BATCH, WHOLE, SETTINGS
GOLDEN = f32({"student": images(2, 0.3), "teacher": images(2, 0.1), "mask": MASK})
NUM = 600
KEYS = jax.random.split(jax.random.key(0), NUM)


def test_golden_value():
    value = LOSS.value(GOLDEN, f32({"centre": np.zeros(5)}), SETTINGS)
    np.testing.assert_allclose(value, 0.165666593, rtol=2e-6)


def test_golden_centre_of_all_patches():
    centre = jax.jit(dino.update_centre)(f32(np.zeros(5)), GOLDEN["teacher"])
    expected = [0.038479266, -0.023214444, 0.000764558, -0.008860403, 0.021801195]
    np.testing.assert_allclose(centre, expected, rtol=2e-6, atol=2e-9)


@pytest.mark.parametrize("devices", DEVICES)
def test_value_and_gradient_on_devices_with_a_constant_teacher(devices):
    LOSS.check(devices, reference, ("teacher", "centre", "mask"), *ARGUMENTS)


@pytest.mark.parametrize(
    ("masked", "share"),
    [([[1, 0], [0, 0]], 1 / 4), ([[4, 0], [0, 0]], 1 / 4), ([[4, 1], [2, 0]], 3 / 4), ([[0]], 0)],
)
def test_images_weigh_alike_whatever_is_masked_and_count_without_a_mask(masked, share):
    """Every masked patch costs ln K, an image their mean, an image without a mask 0."""
    masked_CB1 = np.broadcast_to(np.asarray(masked), (2, 2))[..., None]
    mask_BCP = np.arange(4) < masked_CB1.swapaxes(0, 1)
    batch = {"student": 0 * GOLDEN["student"], "teacher": 0 * GOLDEN["teacher"]}
    whole = f32({"centre": np.zeros(5)})
    value = LOSS.value({**batch, "mask": f32(mask_BCP)}, whole, SETTINGS)
    np.testing.assert_allclose(value, share * np.log(5), rtol=1e-6)


def test_bfloat16():
    LOSS.check_bfloat16(*ARGUMENTS)


def test_new_values_do_not_compile():
    LOSS.check_compiled_once(*ARGUMENTS)


def test_extreme_scores():
    batch = {**BATCH, "student": 1e4 * BATCH["student"], "teacher": 1e4 * BATCH["teacher"]}
    as_float64 = jax.tree.map(np.float64, (batch, WHOLE, SETTINGS))
    value = LOSS.finite(batch, WHOLE, SETTINGS)
    np.testing.assert_allclose(value, reference(*as_float64), rtol=1e-5)


@functools.cache
def sampler(grid):
    """Draws masks [B, P] for keys and ratios [B] and the least and greatest area of a block."""

    def draw(key, ratio, least, greatest):
        sizes = {"least_area": least, "greatest_area": greatest}
        return ibot.block_mask(key, grid, ratio, **sizes)

    return jax.jit(jax.vmap(draw, (0, 0, None, None)))


@functools.cache
def masks(grid, ratio, least, greatest=np.inf):
    """Returns bool[NUM, R, L]."""
    ratios = np.full(NUM, ratio, np.float32)
    drawn = sampler(grid)(KEYS, ratios, np.float32(least), np.float32(greatest))
    return np.asarray(drawn).reshape(NUM, *grid)


@pytest.mark.parametrize(
    ("grid", "ratio", "least", "mean", "low", "high"),
    [
        ((14, 14), 0.3, 16, 57.2, 48, 58),
        ((14, 14), 0.5, 16, 97.5, 88, 98),
        ((8, 8), 0.3, 4, 18.9, 17, 19),
        ((6, 6), 0.3, 4, 9.9, 8, 10),
    ],
)
def test_numbers_of_masked_patches(grid, ratio, least, mean, low, high):
    """Mean and range are of 1,500 draws of the published sampler, which has a rare lower tail."""
    counts = masks(grid, ratio, least).sum((1, 2))
    assert abs(counts.mean() - mean) < 0.15
    assert counts.max() == high
    assert (counts < low).mean() < 0.005 and counts.min() < high


def test_places_of_masked_patches():
    """In 12,000 draws of a plain Python sampler corners are masked in 3 %, the centre in 58 %."""
    share = masks((14, 14), 0.3, 16).mean(0)
    corners = share[[0, 0, -1, -1], [0, -1, 0, -1]]
    np.testing.assert_allclose(corners.mean(), 0.03, atol=0.008)
    np.testing.assert_allclose(share[6:8, 6:8].mean(), 0.58, atol=0.03)
    np.testing.assert_allclose(share, share[::-1], atol=0.08)
    np.testing.assert_allclose(share, share[:, ::-1], atol=0.08)


def test_masks_of_dinov2():
    """Blocks of at least 4 patches and at most half of the grid, towards a number of patches."""
    counts = masks((14, 14), 58 / 196, 4, 98).sum((1, 2))
    assert abs(counts.mean() - 57.9) < 0.1 and counts.min() >= 56 and counts.max() == 58


def test_a_ratio_of_a_number_of_patches_masks_that_many():
    """In float32 27 / 196 x 196 is less than 27."""
    assert np.float32(27 / 196) * np.float32(196) < 27
    assert masks((14, 14), 27 / 196, 16).sum((1, 2)).max() == 27


def test_masks_on_devices():
    """From keys and ratios that differ between devices, by default sizes, without compiling again.

    They are those of one device, to the bit; a ratio of 0 masks nothing, and one of 0.9 much.
    """
    draw = jax.vmap(lambda key, ratio: ibot.block_mask(key, (6, 6), ratio))
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2], axis_types=(AxisType.Auto,))
    rows = P("data")
    on_two = jax.jit(jax.shard_map(draw, mesh=mesh, in_specs=rows, out_specs=rows))
    ratios = np.full(NUM, 0.3, np.float32)
    first = on_two(KEYS, ratios)
    assert first.dtype == bool and first.shape == (NUM, 36)
    np.testing.assert_array_equal(first.reshape(NUM, 6, 6), masks((6, 6), 0.3, 4))
    assert len(np.unique(first, axis=0)) > NUM / 4
    ratios[:2] = 0.0, 0.9
    none, many = on_two(KEYS, ratios)[:2]
    assert not none.any() and many.sum() > 18
    assert on_two._cache_size() == 1
