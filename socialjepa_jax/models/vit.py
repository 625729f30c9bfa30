"""Vision Transformer on all patches or on a subset (Dosovitskiy et al., 2021).

Shape key: B batch, H height, W width, C channels, N patches of the grid, K kept patches,
T tokens (CLS, registers, patches), D features.
"""

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax.errors import (
    ImageSize,
    check_divides,
    check_non_negative,
    check_one_of,
    check_positive,
    sides,
)
from socialjepa_jax.models import attention
from socialjepa_jax.models.transformer import (
    Block,
    Dense,
    LayerNorm,
    Lengths,
    pack,
    sincos_positions,
    unpack,
)

SIZES: dict[str, dict[str, int]] = {
    "Ti": {"width": 192, "depth": 12, "heads": 3},
    "S": {"width": 384, "depth": 12, "heads": 6},
    "B": {"width": 768, "depth": 12, "heads": 12},
    "L": {"width": 1024, "depth": 24, "heads": 16},
    "H": {"width": 1280, "depth": 32, "heads": 16},
}


@dataclass(frozen=True)
class ViTConfig:
    """Sizes of a ViT; the defaults are ViT-S/16 at 224. Named sizes: `ViTConfig(**SIZES["B"])`.

    Attributes:
        image_size: side of a square input or (height, width), pixels.
        patch_size: height and width of a patch, pixels.
        channels: channels of the input.
        width: features per token.
        depth: number of blocks.
        heads: attention heads of a block.
        mlp_ratio: hidden width of a block's MLP over `width`.
        cls_token: prepend a learnt token, whose output is the latent; otherwise the latent is the
            mean of the patch tokens.
        registers: number of learnt tokens that take part in attention and are dropped from the
            output (Darcet et al., 2024).
        dtype: type of the matrix products, "float32" or "bfloat16"; parameters are float32.
        init_std: standard deviation of the initial kernels and learnt tokens.
        attention: "auto" | "xla" | "cudnn" | "pallas", see `models.attention`; "auto" takes the
            fastest choice measured on the device, or "xla" if none is.
        remat: store only the inputs of blocks for the gradient and recompute the rest: less
            memory, a third more computation.
        scan_layers: scan one compiled block over all layers: a smaller executable for deep models.
            The parameters "block_00", "block_01", ... become "blocks" with a leading axis of
            `depth`, with the same initial values, so checkpoints do not carry over.
        kind: names this encoder in a configuration.
    """

    image_size: ImageSize = 224
    patch_size: int = 16
    channels: int = 3
    width: int = 384
    depth: int = 12
    heads: int = 6
    mlp_ratio: float = 4.0
    cls_token: bool = True
    registers: int = 0
    dtype: str = "float32"
    init_std: float = 0.02
    attention: str = "auto"
    remat: bool = False
    scan_layers: bool = False
    kind: str = "vit"

    def __post_init__(self) -> None:
        check_one_of(("vit",), kind=self.kind)
        sizes = ("patch_size", "channels", "width", "depth", "heads", "mlp_ratio")
        check_positive(**{name: getattr(self, name) for name in (*sizes, "init_std")})
        check_non_negative(registers=self.registers)
        check_one_of(("float32", "bfloat16"), dtype=self.dtype)
        check_one_of(attention.CHOICES, attention=self.attention)
        for side in sides(self.image_size):
            check_divides(self.patch_size, image_size=side)
        check_divides(self.heads, width=self.width)
        check_divides(4, width=self.width)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width = sides(self.image_size)
        return height // self.patch_size, width // self.patch_size

    @property
    def num_patches(self) -> int:
        """Patches of an image."""
        return self.grid[0] * self.grid[1]


def vits(config: Any) -> Iterator[ViTConfig]:
    """Yields the ViTs in a configuration, also in nested ones."""
    if isinstance(config, ViTConfig):
        yield config
    elif dataclasses.is_dataclass(config):
        for field in dataclasses.fields(config):
            yield from vits(getattr(config, field.name))


def patchify(images_BHWC: jax.Array, patch: int) -> jax.Array:
    """Cuts images into patches in raster order: [B, H, W, C] -> [B, N, patch * patch * C]."""
    B, H, W, C = images_BHWC.shape
    x = images_BHWC.reshape(B, H // patch, patch, W // patch, patch, C)
    return x.swapaxes(2, 3).reshape(B, -1, patch * patch * C)


class Tower(nnx.Module):
    """Stack of pre-LayerNorm blocks with the sizes and the execution options of a `ViTConfig`."""

    def make_blocks(self, config: ViTConfig, rngs: nnx.Rngs) -> None:
        """Adds the blocks, with parameters drawn from `rngs` in order."""
        c = config
        self.config = config
        blocks = [
            Block(
                c.width, c.heads, c.mlp_ratio, std=c.init_std, dtype=c.dtype, choice=c.attention,
                rngs=rngs,
            )
            for _ in range(c.depth)
        ]  # fmt: skip
        if c.scan_layers:
            self.blocks = _stack(blocks)
        else:
            for i, block in enumerate(blocks):
                setattr(self, f"block_{i:02d}", block)

    def through_blocks(
        self,
        x_BTD: jax.Array,
        valid_BT: jax.Array | None = None,
        lengths: Lengths | None = None,
    ) -> tuple[jax.Array, list[jax.Array]]:
        """Returns the tokens after the last block, and after each block; see `Block`."""
        depth = self.config.depth
        names = ["blocks"] if self.config.scan_layers else [f"block_{i:02d}" for i in range(depth)]
        parts = [nnx.split(getattr(self, name)) for name in names]
        graph = parts[0][0]  # the same for all

        def apply(x_BTD: jax.Array, state: nnx.State) -> tuple[jax.Array, jax.Array]:
            x_BTD = _block(graph, lengths, state, x_BTD, valid_BT)
            return x_BTD, x_BTD

        block = jax.checkpoint(apply) if self.config.remat else apply
        if self.config.scan_layers:
            x_BTD, each = jax.lax.scan(block, x_BTD, parts[0][1])
            return x_BTD, list(each)
        outputs = []
        for _, state in parts:
            x_BTD, _ = block(x_BTD, state)
            outputs.append(x_BTD)
        return x_BTD, outputs


class ViT(Tower):
    """Patch embedding, fixed sine-cosine positions, pre-LayerNorm blocks, final LayerNorm."""

    def __init__(self, config: ViTConfig, rngs: nnx.Rngs) -> None:
        c = config
        self.patch = Dense(
            c.patch_size**2 * c.channels, c.width, std=c.init_std, dtype=c.dtype, rngs=rngs
        )
        count = c.cls_token + c.registers
        if c.cls_token:
            self.cls = nnx.Param(c.init_std * jax.random.normal(rngs.params(), (c.width,)))
        if c.registers:
            shape = (c.registers, c.width)
            self.registers = nnx.Param(c.init_std * jax.random.normal(rngs.params(), shape))
        self.num_prefix = count
        self.make_blocks(c, rngs)
        self.norm = LayerNorm(c.width, dtype=c.dtype)

    def __call__(
        self,
        images_BHWC: jax.Array,
        keep_BK: jax.Array | None = None,
        valid_BK: jax.Array | None = None,
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Encodes all patches of images, or a subset.

        Args:
            images_BHWC: f32[B, H, W, C].
            keep_BK: i32[B, K], patches to encode, numbered in raster order; the others are dropped
                before the embedding and cost nothing. None: all patches.
            valid_BK: bool[B, K], True for slots of `keep_BK` in use; no token attends to the
                others and the mean excludes them. None: all are in use.

        Returns:
            The latent [B, D] (CLS, or the mean of the patch tokens without a CLS token) and the
            intermediates by name: "block_03/tokens" [B, K, D] and "block_03/cls" [B, D] after
            each block, "tokens", "cls" and "mean" after the final LayerNorm ("cls" entries only
            with a CLS token).
        """
        x = self._embed(images_BHWC, keep_BK, self.config.grid)
        valid_BT = valid_BK
        if valid_BK is not None:
            valid_BT = jnp.pad(valid_BK, ((0, 0), (self.num_prefix, 0)), constant_values=True)
        x, outputs = self.through_blocks(x, valid_BT)
        out: dict[str, jax.Array] = {}
        for i, x_BTD in enumerate(outputs):
            out |= {f"block_{i:02d}/{name}": part for name, part in self._parts(x_BTD).items()}
        out |= self._parts(self.norm(x))
        out["mean"] = _masked_mean(out["tokens"], valid_BK)
        return out["cls" if self.config.cls_token else "mean"], out

    def packed(self, images: tuple[jax.Array, ...]) -> list[dict[str, jax.Array]]:
        """Encodes whole images of several sizes in one pass.

        Layers that act on each token (LayerNorm, projections, MLP) take the tokens of all images
        together; attention is computed for each size, so that no score is computed and masked.

        Args:
            images: f32[B, H, W, C] of each size, which the patch size divides.

        Returns:
            For each size the entries "tokens", "cls" and "mean" of `__call__`.
        """
        patch = self.config.patch_size
        parts = [self._embed(x, None, (x.shape[1] // patch, x.shape[2] // patch)) for x in images]
        lengths = tuple((part.shape[0], part.shape[1]) for part in parts)
        x_ND, _ = self.through_blocks(pack(parts), None, lengths)
        outputs = [self._parts(x_BTD) for x_BTD in unpack(self.norm(x_ND), lengths)]
        return [out | {"mean": _masked_mean(out["tokens"], None)} for out in outputs]

    def _embed(
        self, images_BHWC: jax.Array, keep_BK: jax.Array | None, grid: tuple[int, int]
    ) -> jax.Array:
        patches = patchify(images_BHWC, self.config.patch_size)
        positions = jnp.asarray(sincos_positions(grid, self.config.width))
        if keep_BK is None:
            x = self.patch(patches) + positions.astype(self.config.dtype)[None]
        else:  # dropped before they are embedded
            kept = jnp.take_along_axis(patches, keep_BK[:, :, None], axis=1)
            x = self.patch(kept) + positions[keep_BK].astype(self.config.dtype)
        prefix = [self.cls[...][None]] if self.config.cls_token else []
        prefix += [self.registers[...]] if self.config.registers else []
        tokens = [jnp.broadcast_to(p[None], (x.shape[0], *p.shape)).astype(x.dtype) for p in prefix]
        return jnp.concatenate([*tokens, x], axis=1)

    def _parts(self, x_BTD: jax.Array) -> dict[str, jax.Array]:
        parts = {"tokens": x_BTD[:, self.num_prefix :]}
        return parts | ({"cls": x_BTD[:, 0]} if self.config.cls_token else {})


@functools.partial(jax.jit, static_argnums=(0, 1))
def _block(
    graph: nnx.GraphDef,
    lengths: Lengths | None,
    state: nnx.State,
    x_BTD: jax.Array,
    valid_BT: jax.Array | None,
) -> jax.Array:
    """Applies a block given as graph and parameters.

    The inner `jit` traces equal blocks once, which saves most of a warm start; XLA inlines it.
    """
    return nnx.merge(graph, state)(x_BTD, valid_BT, lengths)


def _stack(blocks: list[Block]) -> Block:
    """Stacks the parameters of blocks along a new leading axis."""
    graph, first = nnx.split(blocks[0])
    rest = [nnx.state(block) for block in blocks[1:]]
    return nnx.merge(graph, jax.tree.map(lambda *leaves: jnp.stack(leaves), first, *rest))


def _masked_mean(tokens_BKD: jax.Array, valid_BK: jax.Array | None) -> jax.Array:
    tokens_BKD = tokens_BKD.astype(jnp.float32)
    if valid_BK is None:
        return tokens_BKD.mean(1)
    weight = valid_BK[:, :, None].astype(jnp.float32)
    return (tokens_BKD * weight).sum(1) / jnp.maximum(weight.sum(1), 1.0)
