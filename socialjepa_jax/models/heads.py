"""Predictors of I-JEPA, from context tokens to target tokens, and the decoder of MAE, to pixels.

Shape key: B batch, N patches of the grid, K context patches, M target blocks, S slots of a block,
D features of the encoder, P features of the predictor, T tokens, E values of a patch's pixels.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from socialjepa_jax.models import attention
from socialjepa_jax.models.masking import Masks
from socialjepa_jax.models.transformer import Dense, LayerNorm, gelu, sincos_positions
from socialjepa_jax.models.vit import Tower, ViTConfig


class MlpPredictor(nnx.Module):
    """Two-layer MLP: linear, LayerNorm, GELU, linear (Social-JEPA, appendix A.1).

    The paper gives the width (2048), GELU and LayerNorm. The order of the layers and the use of
    the target's position are our choice.
    """

    def __init__(self, encoder: ViTConfig, width: int, rngs: nnx.Rngs) -> None:
        std, dtype = encoder.init_std, encoder.dtype
        self.fc1 = Dense(encoder.width, width, std=std, dtype=dtype, rngs=rngs)
        self.norm = LayerNorm(width, dtype=dtype)
        self.fc2 = Dense(width, encoder.width, std=std, dtype=dtype, rngs=rngs)
        self.grid = encoder.grid

    def __call__(self, latent_BD: jax.Array) -> jax.Array:
        """Predicts target latents from context latents: [B, D] -> [B, D]."""
        return self.fc2(gelu(self.norm(self.fc1(latent_BD))))

    def at_patches(self, latent_BD: jax.Array) -> jax.Array:
        """Predicts the token of every patch from context latents: [B, D] -> [B, N, D].

        The input for a patch is latent + position. The first layer is linear, so it is applied to
        latents and positions separately, B + N times instead of B * N times.
        """
        positions_ND = jnp.asarray(sincos_positions(self.grid, latent_BD.shape[-1]))
        position_part = (positions_ND @ self.fc1.kernel[...]).astype(latent_BD.dtype)
        hidden = self.fc1(latent_BD)[:, None] + position_part[None]
        return self.fc2(gelu(self.norm(hidden)))


class MaskTower(Tower):
    """Narrow transformer on an encoder's tokens and mask tokens, with sine-cosine positions."""

    def __init__(self, encoder: ViTConfig, config: ViTConfig, outputs: int, rngs: nnx.Rngs) -> None:
        c = config
        attention.check(c.attention, c.width // c.heads, c.dtype)  # before anything is compiled
        self.embed = Dense(encoder.width, c.width, std=c.init_std, dtype=c.dtype, rngs=rngs)
        self.mask_token = nnx.Param(c.init_std * jax.random.normal(rngs.params(), (c.width,)))
        self.make_blocks(c, rngs)
        self.norm = LayerNorm(c.width, dtype=c.dtype)
        self.project = Dense(c.width, outputs, std=c.init_std, dtype=c.dtype, rngs=rngs)

    def visible(
        self, tokens_BKD: jax.Array, cls_BD: jax.Array | None, kept_BK: jax.Array
    ) -> jax.Array:
        """Embeds visible tokens with their positions, and the CLS token without: [B, T, P]."""
        x_BKP = self.embed(tokens_BKD) + self._positions(kept_BK)
        prefix = [] if cls_BD is None else [self.embed(cls_BD)[:, None]]
        return jnp.concatenate([*prefix, x_BKP], axis=1)

    def queries(self, patches: jax.Array) -> jax.Array:
        """Returns mask tokens with the positions of patches i32[...]: [..., P]."""
        token_P = self.mask_token[...].astype(self.config.dtype)
        return token_P.reshape((1,) * patches.ndim + (-1,)) + self._positions(patches)

    def _positions(self, patches: jax.Array) -> jax.Array:
        table_NP = jnp.asarray(sincos_positions(self.config.grid, self.config.width))
        return table_NP.astype(self.config.dtype)[patches]


class ViTPredictor(MaskTower):
    """I-JEPA's predictor: context tokens and the mask tokens of one block in one sequence.

    Each target block is predicted independently of the others (Assran et al., 2023). A CLS token of
    the context takes part without a position.
    """

    def __init__(
        self, encoder: ViTConfig, width: int, depth: int, heads: int, rngs: nnx.Rngs
    ) -> None:
        config = dataclasses.replace(
            encoder, width=width, depth=depth, heads=heads, remat=False, scan_layers=False
        )
        super().__init__(encoder, config, encoder.width, rngs)

    def __call__(
        self,
        tokens_BKD: jax.Array,
        cls_BD: jax.Array | None,
        masks: Masks,
    ) -> jax.Array:
        """Predicts the target tokens [B, M, S, D].

        Args:
            tokens_BKD: context tokens after the encoder's final LayerNorm.
            cls_BD: the context's CLS token, if there is one.
            masks: context patches and target blocks.
        """
        B, M, S = masks.targets_BMS.shape
        context_BTP = self.visible(tokens_BKD, cls_BD, masks.context_BK)
        queries = self.queries(masks.targets_BMS).reshape(B * M, S, -1)
        x = jnp.concatenate([jnp.repeat(context_BTP, M, axis=0), queries], axis=1)
        x, _ = self.through_blocks(x, _valid(masks, context_BTP.shape[1]))
        return self.project(self.norm(x[:, -S:])).reshape(B, M, S, -1)


def _valid(masks: Masks, num_context: int) -> jax.Array | None:
    """Returns bool[B * M, T], True for used tokens: `num_context` of the context, then a block."""
    valid_BK, valid_BMS = masks.context_valid_BK, masks.targets_valid_BMS
    if valid_BK is None or valid_BMS is None:
        return None
    B, M, S = valid_BMS.shape
    prefix = num_context - valid_BK.shape[1]  # CLS
    valid_BT = jnp.pad(valid_BK, ((0, 0), (prefix, 0)), constant_values=True)
    return jnp.concatenate([jnp.repeat(valid_BT, M, axis=0), valid_BMS.reshape(B * M, S)], axis=1)


class PixelDecoder(MaskTower):
    """MAE's decoder: a transformer on the visible tokens and a mask token for every other patch.

    As in He et al. (2022), all tokens get fixed sine-cosine positions except a CLS token, and a
    linear layer maps the outputs of the mask tokens to pixels. `remat` and `scan_layers` are those
    of the encoder. The tokens are not put into the order of the grid, on which attention does not
    depend, and the pixels of visible patches, on which the loss does not depend, are not computed.
    """

    def __init__(
        self, encoder: ViTConfig, width: int, depth: int, heads: int, rngs: nnx.Rngs
    ) -> None:
        config = dataclasses.replace(encoder, width=width, depth=depth, heads=heads)
        super().__init__(encoder, config, encoder.patch_size**2 * encoder.channels, rngs)

    def __call__(
        self,
        tokens_BKD: jax.Array,
        cls_BD: jax.Array | None,
        kept_BK: jax.Array,
        masked_BM: jax.Array,
    ) -> jax.Array:
        """Predicts the pixels [B, M, E] of the masked patches, in the layout of `patchify`.

        Args:
            tokens_BKD: visible tokens after the encoder's final LayerNorm.
            cls_BD: the encoder's CLS token, if there is one.
            kept_BK: i32[B, K], visible patches.
            masked_BM: i32[B, M], masked patches.
        """
        x = [self.visible(tokens_BKD, cls_BD, kept_BK), self.queries(masked_BM)]
        x_BTP, _ = self.through_blocks(jnp.concatenate(x, axis=1))
        return self.project(self.norm(x_BTP[:, -masked_BM.shape[1] :]))
