"""Masks of patches: blocks to predict for I-JEPA, random subsets to encode for MAE.

All shapes are static, so that a training step compiles once and dropped patches cost nothing. The
mask of a sample depends on (key, sample index) alone, not on its batch or device. The block sampler
follows Assran et al. (2023) with three differences from the published code: positions reach the
last row and column, the context is a random subset of the visible patches (not the first in raster
order), and the search is bounded.

Shape key: B batch, R candidate sets, M target blocks, N patches of the grid, K context slots,
S slots of a target block.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from socialjepa_jax.errors import InputError, check_in_range, check_positive


class Masks(NamedTuple):
    """Masks of a batch.

    Attributes:
        context_BK: i32[B, K], distinct patches of the context, in random order.
        context_valid_BK: bool[B, K], True for slots in use; None: all are, in every batch.
        targets_BMS: i32[B, M, S], patches of each target block in raster order.
        targets_valid_BMS: bool[B, M, S], True for slots in use; None: all are, in every batch.
        count_BN: i32[B, N], number of target blocks that cover each patch.
    """

    context_BK: jax.Array
    context_valid_BK: jax.Array | None
    targets_BMS: jax.Array
    targets_valid_BMS: jax.Array | None
    count_BN: jax.Array

    @property
    def ratio_B(self) -> jax.Array:
        """Mask ratio f32[B]: share of the grid that the union of the target blocks covers."""
        return (self.count_BN > 0).mean(1, dtype=jnp.float32)


@dataclass(frozen=True)
class MaskConfig:
    """Settings of the block sampler.

    Fixed blocks (`variable=False`): every target block has `block_fraction` of the grid's rows and
    of its columns (7x7 on 14x14), and the context is `context_fraction` of all patches.

    Variable blocks (`variable=True`, the sampler of Assran et al.): one target size and one context
    size per batch, drawn from the scales below; slots beyond the drawn size are not valid.

    A sample draws `candidates` sets of target blocks and takes the first that leaves enough visible
    patches: all context slots filled (fixed), or at least `min_keep` patches (variable). The last
    candidate is a fallback: all its targets equal the first block of the first set. The sampler
    checks at construction that the fallback leaves enough patches, so the search is bounded. A
    larger context rejects sets that cover much of the grid, which lowers the mask ratio.

    Attributes:
        num_targets: number of target blocks M.
        context_fraction: context slots K over patches N, rounded down.
        candidates: number of sets R drawn per sample.
        variable: draw the block sizes anew for each batch.
        block_fraction: height and width of a fixed target block over those of the grid.
        target_scale: least and greatest area of a variable target block over the grid's.
        target_aspect: least and greatest height over width of a variable target block.
        context_scale: least and greatest area of the variable, square context block.
        min_keep: least number of visible patches with variable blocks.
    """

    num_targets: int = 4
    context_fraction: float = 1 / 3
    candidates: int = 16
    variable: bool = False
    block_fraction: float = 0.5
    target_scale: tuple[float, float] = (0.15, 0.2)
    target_aspect: tuple[float, float] = (0.75, 1.5)
    context_scale: tuple[float, float] = (0.85, 1.0)
    min_keep: int = 10

    def __post_init__(self) -> None:
        check_positive(
            num_targets=self.num_targets, candidates=self.candidates, min_keep=self.min_keep
        )
        for name in ("context_fraction", "block_fraction"):
            check_positive(**{name: getattr(self, name)})
            check_in_range(0.0, 1.0, **{name: getattr(self, name)})
        for name in ("target_scale", "target_aspect", "context_scale"):
            low, high = getattr(self, name)
            check_positive(**{name: low})
            check_in_range(low, math.inf if name == "target_aspect" else 1.0, **{name: high})


class BlockSampler:
    """Draws the masks of `MaskConfig` on a grid of patches.

    Raises:
        InputError: at construction, if blocks of these sizes cannot leave enough visible patches.
    """

    def __init__(self, config: MaskConfig, grid: tuple[int, int]) -> None:
        self.config = config
        self.grid = grid
        self.num_context = int(config.context_fraction * grid[0] * grid[1] + 1e-6)
        if config.variable:
            check_in_range(2, math.inf, grid=min(grid))
            sizes = _reachable(grid, config.target_scale, config.target_aspect)
            self.needed = config.min_keep
            contexts = _reachable(grid, config.context_scale, (1.0, 1.0))
            self.smallest_context = min(h * w for h, w in contexts)
        else:
            sizes = [tuple(max(1, round(config.block_fraction * g)) for g in grid)]
            self.needed = self.num_context
            self.smallest_context = grid[0] * grid[1]
        self.target_slots = max(h * w for h, w in sizes)
        self.fixed_size = sizes[0]
        if self.num_context < 1:
            raise InputError(
                f"context_fraction={config.context_fraction} of a {grid[0]}x{grid[1]} grid is "
                "less than one patch"
            )
        if self.needed > self.smallest_context - self.target_slots:
            raise InputError(
                f"masks on a {grid[0]}x{grid[1]} grid: a target block of up to "
                f"{self.target_slots} patches leaves at least "
                f"{self.smallest_context - self.target_slots} visible, {self.needed} are needed"
            )

    def __call__(self, key: jax.Array, index_B: jax.Array) -> Masks:
        """Draws the masks of samples i32[B]; `key` must be the same for all of them."""
        key_size, key_position = jax.random.split(key)
        target_size, context_size = self._sizes(key_size)
        sample = jax.vmap(self._sample, in_axes=(0, None, None))
        keys_B = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key_position, index_B)
        masks = sample(keys_B, target_size, context_size)
        if self.config.variable:
            return masks
        return masks._replace(context_valid_BK=None, targets_valid_BMS=None)

    def _sizes(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        if not self.config.variable:
            return jnp.asarray(self.fixed_size), jnp.asarray(self.grid)
        u_target, u_context = jax.random.uniform(key, (2,))
        target = block_size(
            u_target, self.grid, self.config.target_scale, self.config.target_aspect
        )
        context = block_size(u_context, self.grid, self.config.context_scale, (1.0, 1.0))
        return jnp.stack(target), jnp.stack(context)

    def _sample(self, key: jax.Array, target_size: jax.Array, context_size: jax.Array) -> Masks:
        """Draws the masks of one sample, without batch axis; sizes i32[2] are (rows, columns)."""
        R, M = self.config.candidates, self.config.num_targets
        num_patches = self.grid[0] * self.grid[1]
        u = jax.random.uniform(key, (2 * R * M + 2 + num_patches,))  # one call for all draws
        u_targets, u_context, u_N = jnp.split(u, (2 * R * M, 2 * R * M + 2))
        corner_RM2 = _corners(u_targets.reshape(R, M, 2), self.grid, target_size)
        same_1M2 = jnp.broadcast_to(corner_RM2[:1, :1], (1, M, 2))
        corner_RM2 = jnp.concatenate([corner_RM2, same_1M2])  # the fallback
        count_RN = self._inside(corner_RM2, target_size).sum(1)
        corner_12 = _corners(u_context[None], self.grid, context_size)
        visible_RN = (count_RN == 0) & self._inside(corner_12, context_size)
        chosen = jnp.argmax(visible_RN.sum(1) >= self.needed)
        visible_N = visible_RN[chosen]
        order_N = jnp.where(visible_N, u_N, -1.0)
        score_K, context_K = jax.lax.top_k(order_N, self.num_context)
        targets_MS, valid_S = self._targets(corner_RM2[chosen], target_size)
        return Masks(
            context_BK=context_K,
            context_valid_BK=score_K >= 0,
            targets_BMS=targets_MS,
            targets_valid_BMS=jnp.broadcast_to(valid_S[None], targets_MS.shape),
            count_BN=count_RN[chosen],
        )

    def _inside(self, corner: jax.Array, size: jax.Array) -> jax.Array:
        """Returns bool[..., N], True for patches inside blocks with corners i32[..., 2]."""
        inside = []
        for axis, length in enumerate(self.grid):
            offset = (
                jnp.arange(length).reshape(*(1,) * (corner.ndim - 1), -1) - corner[..., axis, None]
            )
            inside.append((offset >= 0) & (offset < size[axis]))
        row, column = inside
        return (row[..., :, None] & column[..., None, :]).reshape(*corner.shape[:-1], -1)

    def _targets(self, corner_M2: jax.Array, size: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the patches i32[M, S] of blocks in raster order, and bool[S] of slots in use."""
        slot_S = jnp.arange(self.target_slots)
        valid_S = slot_S < size[0] * size[1]
        row_MS = corner_M2[:, :1] + (slot_S // size[1])[None]
        column_MS = corner_M2[:, 1:] + (slot_S % size[1])[None]
        return jnp.where(valid_S[None], row_MS * self.grid[1] + column_MS, 0), valid_S


def random_subsets(
    key: jax.Array, index_B: jax.Array, num_patches: int, num_kept: int
) -> tuple[jax.Array, jax.Array]:
    """Draws a uniformly random subset of each sample's patches to keep (MAE, He et al., 2022).

    As in the published code, random numbers are sorted and the first patches kept.

    Args:
        key: the same for all samples.
        index_B: i32[B], sample indices.
        num_patches: number of patches N.
        num_kept: number of kept patches K.

    Returns:
        Kept patches i32[B, K] and masked patches i32[B, N - K], both in random order.
    """

    def order(index: jax.Array) -> jax.Array:
        return jnp.argsort(jax.random.bits(jax.random.fold_in(key, index), (num_patches,)))

    order_BN = jax.vmap(order)(index_B)
    return order_BN[:, :num_kept], order_BN[:, num_kept:]


def block_size(
    u: jax.Array, grid: tuple[int, int], scale: tuple[float, float], aspect: tuple[float, float]
) -> tuple[jax.Array, jax.Array]:
    """Returns rows and columns i32 of a variable block, for u uniform in [0, 1).

    As in the code of Assran et al., one u determines both area and aspect ratio, halves are rounded
    to even, and a block is smaller than the grid in both directions.
    """
    area = jnp.floor(grid[0] * grid[1] * (scale[0] + u * (scale[1] - scale[0])))
    ratio = aspect[0] + u * (aspect[1] - aspect[0])
    rows = jnp.minimum(jnp.round(jnp.sqrt(area * ratio)), grid[0] - 1)
    columns = jnp.minimum(jnp.round(jnp.sqrt(area / ratio)), grid[1] - 1)
    return rows.astype(jnp.int32), columns.astype(jnp.int32)


def _reachable(
    grid: tuple[int, int], scale: tuple[float, float], aspect: tuple[float, float]
) -> list[tuple[int, ...]]:
    """Returns all block sizes that occur, from a grid of u fine enough to meet each of them."""
    with jax.ensure_compile_time_eval():
        rows, columns = map(
            np.asarray, block_size(jnp.linspace(0.0, 1.0, 4097), grid, scale, aspect)
        )
    return sorted(set(zip(rows.tolist(), columns.tolist())))


def _corners(u: jax.Array, grid: tuple[int, int], size: jax.Array) -> jax.Array:
    """Maps uniform u [..., 2] to upper left corners i32[..., 2] at which a block fits."""
    positions = (jnp.asarray(grid) - size + 1).reshape(*(1,) * (u.ndim - 1), 2)
    return jnp.minimum((u * positions).astype(jnp.int32), positions - 1)
