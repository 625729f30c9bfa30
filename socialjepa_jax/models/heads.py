"""Predictors of I-JEPA: from what the context encoder saw to what the target encoder says; and the
decoder of MAE: from what the encoder saw to pixels.

Shape key: B batch, N patches of the grid, K context patches, M target blocks, S slots of a block,
D features of the encoder, P features of the predictor, T tokens, E values of a patch's pixels.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax.models import attention
from socialjepa_jax.models.masking import Masks
from socialjepa_jax.models.transformer import Block, Dense, LayerNorm, gelu, sincos_positions
from socialjepa_jax.models.vit import Tower, ViTConfig


class MlpPredictor(nnx.Module):
    """Two-layer MLP: linear, LayerNorm, GELU, linear (Social-JEPA, appendix A.1).

    The paper gives the width (2048), GELU and LayerNorm, not their order or how the target's
    position enters; both are ours.
    """

    def __init__(self, encoder: ViTConfig, width: int, rngs: nnx.Rngs) -> None:
        std, dtype = encoder.init_std, encoder.dtype
        self.fc1 = Dense(encoder.width, width, std=std, dtype=dtype, rngs=rngs)
        self.norm = LayerNorm(width, dtype=dtype)
        self.fc2 = Dense(width, encoder.width, std=std, dtype=dtype, rngs=rngs)
        self.grid = encoder.grid

    def __call__(self, latent_BD: jax.Array) -> jax.Array:
        """Context latents [B, D] -> predicted target latents [B, D]."""
        return self.fc2(gelu(self.norm(self.fc1(latent_BD))))

    def at_patches(self, latent_BD: jax.Array) -> jax.Array:
        """Context latents [B, D] -> predicted tokens [B, N, D] at every patch.

        The input for a patch is latent + position. The first layer is linear, so it is applied to
        both apart, B + N times instead of B * N times.
        """
        positions_ND = jnp.asarray(sincos_positions(self.grid, latent_BD.shape[-1]))
        position_part = (positions_ND @ self.fc1.kernel[...]).astype(latent_BD.dtype)
        hidden = self.fc1(latent_BD)[:, None] + position_part[None]
        return self.fc2(gelu(self.norm(hidden)))


class ViTPredictor(nnx.Module):
    """I-JEPA's narrow transformer: context tokens and position-tagged mask tokens in one sequence.

    Each target block is predicted apart from the others (Assran et al., 2023). A CLS token of the
    context takes part without a position.
    """

    def __init__(
        self, encoder: ViTConfig, width: int, depth: int, heads: int, rngs: nnx.Rngs
    ) -> None:
        std, dtype = encoder.init_std, encoder.dtype
        self.embed = Dense(encoder.width, width, std=std, dtype=dtype, rngs=rngs)
        self.mask_token = nnx.Param(std * jax.random.normal(rngs.params(), (width,)))
        for i in range(depth):
            block = Block(
                width, heads, encoder.mlp_ratio, std=std, dtype=dtype, choice=encoder.attention,
                rngs=rngs,
            )  # fmt: skip
            setattr(self, f"block_{i:02d}", block)
        self.norm = LayerNorm(width, dtype=dtype)
        self.project = Dense(width, encoder.width, std=std, dtype=dtype, rngs=rngs)
        self.depth, self.width, self.grid, self.dtype = depth, width, encoder.grid, dtype

    def __call__(
        self,
        tokens_BKD: jax.Array,
        cls_BD: jax.Array | None,
        masks: Masks,
    ) -> jax.Array:
        """Predicted target tokens [B, M, S, D].

        Args:
            tokens_BKD: context tokens after the encoder's final LayerNorm.
            cls_BD: the context's CLS token, if there is one.
            masks: what was seen and what is to be predicted.
        """
        B, M, S = masks.targets_BMS.shape
        positions_NP = jnp.asarray(sincos_positions(self.grid, self.width)).astype(self.dtype)
        context = self.embed(tokens_BKD) + positions_NP[masks.context_BK]
        if cls_BD is not None:
            context = jnp.concatenate([self.embed(cls_BD)[:, None], context], axis=1)
        queries = self.mask_token[...].astype(self.dtype)[None, None, None]
        queries = (queries + positions_NP[masks.targets_BMS]).reshape(B * M, S, self.width)
        x = jnp.concatenate([jnp.repeat(context, M, axis=0), queries], axis=1)
        valid_T = _valid(masks, context.shape[1])
        for i in range(self.depth):
            x = getattr(self, f"block_{i:02d}")(x, valid_T)
        return self.project(self.norm(x[:, -S:])).reshape(B, M, S, -1)


def _valid(masks: Masks, num_context: int) -> jax.Array | None:
    """bool[B * M, T]: the tokens in use, `num_context` of the context and then a block's slots."""
    valid_BK, valid_BMS = masks.context_valid_BK, masks.targets_valid_BMS
    if valid_BK is None or valid_BMS is None:
        return None
    B, M, S = valid_BMS.shape
    prefix = num_context - valid_BK.shape[1]  # CLS
    valid_BT = jnp.pad(valid_BK, ((0, 0), (prefix, 0)), constant_values=True)
    return jnp.concatenate([jnp.repeat(valid_BT, M, axis=0), valid_BMS.reshape(B * M, S)], axis=1)


class PixelDecoder(Tower):
    """MAE's decoder: a transformer on the visible tokens and a mask token for every other patch.

    As in He et al. (2022) all tokens get fixed sine-cosine positions, a CLS token none, and a
    linear layer makes pixels of what is in the places of the mask tokens. Blocks are run as the
    encoder's are. Attention does not ask for an order of tokens, so they are not put back into that
    of the grid; and what the loss never sees, the pixels of visible patches, is not computed.
    """

    def __init__(
        self, encoder: ViTConfig, width: int, depth: int, heads: int, rngs: nnx.Rngs
    ) -> None:
        c = dataclasses.replace(encoder, width=width, depth=depth, heads=heads)
        attention.check(c.attention, width // heads, c.dtype)  # before anything is compiled
        self.embed = Dense(encoder.width, width, std=c.init_std, dtype=c.dtype, rngs=rngs)
        self.mask_token = nnx.Param(c.init_std * jax.random.normal(rngs.params(), (width,)))
        self.make_blocks(c, rngs)
        self.norm = LayerNorm(width, dtype=c.dtype)
        pixels = c.patch_size**2 * c.channels
        self.project = Dense(width, pixels, std=c.init_std, dtype=c.dtype, rngs=rngs)

    def __call__(
        self,
        tokens_BKD: jax.Array,
        cls_BD: jax.Array | None,
        kept_BK: jax.Array,
        masked_BM: jax.Array,
    ) -> jax.Array:
        """Predicted pixels [B, M, E] of the masked patches, each laid out as `patchify` does.

        Args:
            tokens_BKD: visible tokens after the encoder's final LayerNorm.
            cls_BD: its CLS token, if there is one.
            kept_BK: i32[B, K], the visible patches.
            masked_BM: i32[B, M], the others.
        """
        c = self.config
        positions_NP = jnp.asarray(sincos_positions(c.grid, c.width)).astype(c.dtype)
        x = self.embed(tokens_BKD) + positions_NP[kept_BK]
        hidden = self.mask_token[...].astype(c.dtype)[None, None] + positions_NP[masked_BM]
        prefix = [] if cls_BD is None else [self.embed(cls_BD)[:, None]]
        x, _ = self.through_blocks(jnp.concatenate([*prefix, x, hidden], axis=1))
        return self.project(self.norm(x[:, -masked_BM.shape[1] :]))
