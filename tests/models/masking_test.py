import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from socialjepa_jax.errors import InputError
from socialjepa_jax.models.masking import BlockSampler, MaskConfig, block_size, random_subsets

GOLDEN = np.load(pathlib.Path(__file__).parents[1] / "golden" / "ijepa.npz")
COUNT = 4000  # samples; statistics hold for the fixed keys used here
NO_SELECTION = MaskConfig(context_fraction=1 / 196, candidates=1)


@functools.cache
def compiled(config, grid, count):
    return jax.jit(BlockSampler(config, grid).__call__)


def draw(config, grid=(14, 14), seed=0, index=None):
    index = jnp.arange(COUNT) if index is None else index
    return jax.device_get(compiled(config, grid, len(index))(jax.random.key(seed), index))


def target_corners(masks, columns):
    first = masks.targets_BMS[:, :, 0]
    return first // columns, first % columns


def test_fixed_blocks_are_blocks():
    masks = draw(MaskConfig(), grid=(8, 12), index=jnp.arange(50))
    assert masks.targets_BMS.shape == (50, 4, 4 * 6)
    assert masks.context_valid_BK is None and masks.targets_valid_BMS is None
    rows, columns = np.divmod(masks.targets_BMS, 12)
    height, width = np.divmod(np.arange(24), 6)
    np.testing.assert_array_equal(rows, rows[..., :1] + height)
    np.testing.assert_array_equal(columns, columns[..., :1] + width)


@pytest.mark.parametrize("variable", [False, True])
def test_context_is_distinct_visible_patches(variable):
    masks = draw(MaskConfig(context_fraction=0.4, variable=variable))
    valid = np.ones(masks.context_BK.shape, bool) if not variable else masks.context_valid_BK
    target_valid = masks.targets_valid_BMS if variable else np.ones(masks.targets_BMS.shape, bool)
    in_context = np.zeros((COUNT, 196), int)
    in_targets = np.zeros((COUNT, 196), int)
    np.add.at(in_context, (np.where(valid)[0], masks.context_BK[valid]), 1)
    np.add.at(in_targets, (np.where(target_valid)[0], masks.targets_BMS[target_valid]), 1)
    np.testing.assert_array_equal(in_targets, masks.count_BN)
    assert in_context.max() == 1
    assert not (in_context * in_targets).any()
    np.testing.assert_allclose(masks.ratio_B, (in_targets > 0).mean(1), rtol=1e-6)
    least = in_context.sum(1).min()
    assert least == 78 if not variable else 10 <= least < 78


def test_every_position_is_equally_likely():
    """Corners without selection are uniform over all 8 x 8 positions of the grid."""
    rows, columns = target_corners(draw(NO_SELECTION), 14)
    counts = np.bincount((rows * 8 + columns).ravel(), minlength=64)
    assert counts.shape == (64,)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4
    # With two blocks of one sample: no dependence between them.
    table, _, _ = np.histogram2d(rows[:, 0], rows[:, 1], bins=8)
    assert scipy.stats.chi2_contingency(table).pvalue > 1e-4


def test_context_is_symmetric_and_reaches_every_patch():
    """Selection and subset preserve the symmetries of the grid: rotations and reflections."""
    masks = draw(MaskConfig(context_fraction=1 / 3))
    counts = np.bincount(masks.context_BK.ravel(), minlength=196).reshape(14, 14)
    sets = [np.rot90(c, k) for c in (counts, counts.T) for k in range(4)]
    mean = np.mean(sets, axis=0)
    rate = mean / COUNT
    z = (counts - mean) / np.sqrt(COUNT * rate * (1 - rate))
    assert np.abs(z).max() < 5
    assert counts.min() > 0  # even the centre, which a block misses with probability 15 / 64


def test_mean_mask_ratio():
    """Four random 7x7 blocks cover 0.58 of a 14x14 grid: the paper's 0.6."""
    u = (np.arange(14)[:, None] >= np.arange(8)) & (np.arange(14)[:, None] < np.arange(8) + 7)
    hit = np.outer(u.mean(1), u.mean(1))
    expected = (1 - (1 - hit) ** 4).mean()
    assert abs(expected - 0.578) < 1e-3
    ratio = draw(NO_SELECTION).ratio_B
    assert abs(ratio.mean() - expected) < 4 * ratio.std() / np.sqrt(COUNT)
    selected = draw(MaskConfig(context_fraction=0.4)).ratio_B
    assert selected.max() <= 1 - 78 / 196 + 1e-6 and selected.mean() < expected


def test_a_mask_depends_on_key_and_sample_alone():
    whole = draw(MaskConfig())
    subset = draw(MaskConfig(), index=jnp.array([17, 3999, 0]))
    np.testing.assert_array_equal(subset.context_BK, whole.context_BK[[17, 3999, 0]])
    np.testing.assert_array_equal(subset.targets_BMS, whole.targets_BMS[[17, 3999, 0]])
    other = draw(MaskConfig(), seed=1, index=jnp.array([17, 3999, 0]))
    assert (other.targets_BMS[0] != whole.targets_BMS[17]).any()
    assert len(np.unique(whole.targets_BMS.reshape(COUNT, -1), axis=0)) > 0.99 * COUNT


def test_the_fallback_always_leaves_enough():
    """With one candidate that rarely suffices, the fallback fills every context slot."""
    masks = draw(MaskConfig(context_fraction=0.75, candidates=1))
    context = np.take_along_axis(masks.count_BN, masks.context_BK, axis=1)
    assert context.shape == (COUNT, 147) and not context.any()
    np.testing.assert_allclose(masks.ratio_B, 0.25)  # four blocks at one position


@pytest.mark.parametrize("name, grid", [("img224_p16", 14), ("img224_p14", 16), ("img96_p8", 12)])
def test_variable_sizes_match_the_reference(name, grid):
    table = GOLDEN[f"blocksize_{name}_u_pred_u_enc_ph_pw_eh_ew"]
    config = MaskConfig(variable=True)
    u = jnp.asarray(table[:, :2], jnp.float32)
    target = block_size(u[:, 0], (grid, grid), config.target_scale, config.target_aspect)
    context = block_size(u[:, 1], (grid, grid), config.context_scale, (1.0, 1.0))
    np.testing.assert_array_equal(np.stack([*target, *context], axis=1), table[:, 2:])


def test_variable_blocks_share_a_size_within_a_batch():
    sizes = set()
    for seed in range(8):
        masks = draw(MaskConfig(variable=True), seed=seed, index=jnp.arange(3))
        used = masks.targets_valid_BMS.sum(2)
        assert (used == used[0, 0]).all()
        rows, columns = np.divmod(masks.targets_BMS[0, 0][masks.targets_valid_BMS[0, 0]], 14)
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert height * width == used[0, 0]
        sizes.add((int(height), int(width)))
    assert len(sizes) > 1


@pytest.mark.parametrize(
    "config, grid, message",
    [
        (MaskConfig(context_fraction=0.8), (14, 14), "14x14 grid: .* 49 patches .* 156 are needed"),
        (MaskConfig(block_fraction=1.0), (8, 8), "8x8 grid"),
        (MaskConfig(context_fraction=0.01), (8, 8), "context_fraction=0.01 of a 8x8 grid"),
        (MaskConfig(variable=True), (4, 4), "4x4 grid"),  # here the reference never returns
        (MaskConfig(variable=True, context_fraction=0.001), (14, 14), "context_fraction=0.001"),
    ],
)
def test_sizes_that_cannot_work_are_refused(config, grid, message):
    with pytest.raises(InputError, match=message):
        BlockSampler(config, grid)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_targets": 0},
        {"candidates": 0},
        {"context_fraction": 1.5},
        {"block_fraction": float("nan")},
        {"target_scale": (0.3, 0.2)},
        {"target_aspect": (0.0, 1.0)},
    ],
)
def test_bad_settings_are_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        MaskConfig(**fields)


@functools.cache
def subsets(count=COUNT, num_patches=6, num_kept=2, seed=0):
    draw = jax.jit(random_subsets, static_argnums=(2, 3))
    return jax.device_get(draw(jax.random.key(seed), jnp.arange(count), num_patches, num_kept))


def test_a_patch_is_kept_or_masked():
    kept, masked = subsets()
    assert kept.shape == (COUNT, 2) and masked.shape == (COUNT, 4)
    whole = np.sort(np.concatenate([kept, masked], axis=1), axis=1)
    np.testing.assert_array_equal(whole, np.tile(np.arange(6), (COUNT, 1)))


def test_every_subset_is_equally_likely():
    kept, masked = subsets()
    counts = np.bincount(np.ravel_multi_index(kept.T, (6, 6)), minlength=36).reshape(6, 6)
    assert not np.diagonal(counts).any()
    pairs = counts[~np.eye(6, dtype=bool)]  # in both orders
    assert scipy.stats.chisquare(pairs).pvalue > 1e-4
    first = np.bincount(masked[:, 0], minlength=6)
    assert scipy.stats.chisquare(first).pvalue > 1e-4


def test_a_subset_depends_on_key_and_sample_alone():
    kept, masked = subsets()
    index = jnp.array([17, 3999, 0])
    some_kept, some_masked = random_subsets(jax.random.key(0), index, 6, 2)
    np.testing.assert_array_equal(some_kept, kept[index])
    np.testing.assert_array_equal(some_masked, masked[index])
    assert (subsets(seed=1)[0] != kept).any(axis=1).mean() == pytest.approx(29 / 30, abs=0.02)
