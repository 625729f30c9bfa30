"""iBOT: the student also predicts the teacher's output at masked patches (Zhou et al., 2022).

"iBOT: Image BERT Pre-Training with Online Tokenizer" (arXiv:2111.07832). The published code is
github.com/bytedance/ibot.

Shape key: B images of this shard, C crops, P patches, K outputs, R rows and L columns of the grid.
"""

import math

import jax
import jax.numpy as jnp

from socialjepa_jax.objectives.dino import teacher_targets
from socialjepa_jax.objectives.shared.crossentropy import at_masked
from socialjepa_jax.sharding import ONE_DEVICE, Reduce

State = tuple[jax.Array, ...]  # the mask, blocks drawn, and how many of the last were not taken

ASPECT = 0.3  # least height over width of a block; the greatest is its inverse
TRIES = 10  # draws of a block before the mask is taken as it is
ROUNDING = 1e-3  # patches; lets a ratio of k / P mask k patches whatever its last digits


def patch_loss(
    student_CBPK: jax.Array,
    teacher_CBPK: jax.Array,
    mask_CBP: jax.Array,
    centre_K: jax.Array,
    *,
    teacher_temperature: float | jax.Array,
    student_temperature: float | jax.Array = 0.1,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns the cross-entropy of student and teacher at masked patches of the same crop.

    The masked-image term of section 3. An image's sum is divided by max(1, masked patches), and the
    mean is over all images and crops, including those without a mask, which add 0. DINOv2's patch
    loss has the same value. The teacher has no gradient. `centre_K` is that of the steps before:
    `dino.update_centre` with all the teacher's patches follows the loss.

    A loss that stays at ln K (9.011 for 8192) times the share of images with a mask is that of a
    uniform teacher; one near 0 is that of one output for all patches.

    Args:
        student_CBPK: logits at the patches of the masked global crops, of any float type.
        teacher_CBPK: raw logits at the patches of the same crops without a mask.
        mask_CBP: bool[C, B, P], True for patches that the student does not see.
        centre_K: f32[K], running mean of the teacher's patch logits; not that of the CLS token.
        teacher_temperature: 0.04 to 0.07 over 30 epochs.
        student_temperature: 0.1.
        reduce: reductions over the global batch.

    Returns:
        f32[].
    """
    targets_CBPK = teacher_targets(teacher_CBPK, centre_K, teacher_temperature)
    logits_CBPK = student_CBPK.astype(jnp.float32) / student_temperature
    return at_masked(targets_CBPK, logits_CBPK, mask_CBP, reduce)


def block_mask(
    key: jax.Array,
    grid: tuple[int, int],
    ratio: float | jax.Array,
    *,
    least_area: float | jax.Array | None = None,
    greatest_area: float | jax.Array = math.inf,
) -> jax.Array:
    """Draws a mask of overlapping blocks (Bao et al., 2022, algorithm 1, as used by iBOT).

    Blocks are added while ratio x P patches are not reached: area uniform between `least_area` and
    what remains (in either order), height over width log-uniform in [0.3, 1 / 0.3], each side
    shorter than the grid's, position uniform. A block is taken if it adds at least one patch and no
    more than remain; after ten in a row that are not, the mask is taken as it is. So the number of
    masked patches varies and is at most ratio x P: on 14 x 14 at 0.3 the mean is 57.2 of 58.8.

    It can be compiled and mapped, and ends after at most 10 P draws.

    Args:
        key: one mask's own key.
        grid: rows and columns of patches.
        ratio: share of masked patches, may be traced; iBOT draws 0 for half of the crops and
            otherwise a uniform one in [0.1, 0.5].
        least_area: patches; (min(grid) // 3)^2 by default. DINOv2: 4.
        greatest_area: patches that a block may have and add. DINOv2: half of the grid.

    Returns:
        bool[P], True for masked patches, in raster order.
    """
    rows, columns = grid
    low = (min(grid) // 3) ** 2 if least_area is None else least_area
    target = ratio * (rows * columns) + ROUNDING
    # Arrays made from the arguments, so that inside `shard_map` they vary as what is drawn does.
    like = jax.random.uniform(key, grid) * target
    state = jnp.zeros_like(like, bool), *(jnp.zeros_like(like[0, 0], jnp.int32) for _ in range(2))

    def unfinished(state: State) -> jax.Array:
        mask_RL, _, failures = state
        return (target - mask_RL.sum() >= 1.0) & (failures < TRIES)

    def draw(state: State) -> State:
        mask_RL, draws, failures = state
        room = jnp.minimum(target - mask_RL.sum(), greatest_area)
        u = jax.random.uniform(jax.random.fold_in(key, draws), (4,))
        block_RL, fits = _block(u, grid, low, room)
        added = (block_RL & ~mask_RL).sum()
        taken = fits & (added >= 1) & (added <= room)
        return mask_RL | (block_RL & taken), draws + 1, jnp.where(taken, 0, failures + 1)

    return jax.lax.while_loop(unfinished, draw, state)[0].reshape(-1)


def _block(
    u: jax.Array, grid: tuple[int, int], low: float | jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns a block bool[R, L] for u f32[4] uniform in [0, 1), and whether its sides fit."""
    area = low + u[0] * (high - low)
    aspect = jnp.exp((2.0 * u[1] - 1.0) * math.log(1.0 / ASPECT))
    sides = jnp.round(jnp.sqrt(jnp.stack([area * aspect, area / aspect])))
    free = jnp.asarray(grid) - sides
    first = jnp.minimum(jnp.floor(u[2:] * (free + 1.0)), free)
    inside = [
        (jnp.arange(length) >= first[i]) & (jnp.arange(length) < first[i] + sides[i])
        for i, length in enumerate(grid)
    ]
    return inside[0][:, None] & inside[1][None], jnp.all(free > 0.0)
