"""MAE: predicts the pixels of masked patches from the visible patches (He et al., 2022).

"Masked Autoencoders Are Scalable Vision Learners" (arXiv:2111.06377), section 3. The published code
is github.com/facebookresearch/mae.

Shape key: B batch, H height, W width, C channels, N patches of the grid, K visible patches,
M masked patches, D features of the encoder, E values of a patch's pixels.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import (
    InputError,
    check_divides,
    check_inside,
    check_one_of,
    check_positive,
)
from socialjepa_jax.models import encoders
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.heads import PixelDecoder
from socialjepa_jax.models.masking import random_subsets
from socialjepa_jax.models.vit import ViT, ViTConfig, patchify
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.shared.losses import variance
from socialjepa_jax.sharding import Reduce

VARIANCE_EPS = 1e-6  # added to the variance of a patch's pixels, as in the published code


@dataclass(frozen=True)
class Mae:
    """Masked autoencoder: the encoder takes the visible patches, the decoder all positions.

    The defaults are the paper's mask and decoder (table 1; the heads are the published code's) for
    all its encoders. One deviation from the published code: initial kernels are normal with
    `ViTConfig.init_std`, not uniform with Xavier's deviation.

    Attributes:
        kind: names this objective in a configuration.
        vit: the encoder; the decoder computes in its `dtype`, with its `attention`, `remat`,
            `scan_layers` and `mlp_ratio`.
        mask_ratio: share of the patches that are masked; the number of visible ones is rounded
            down, as in the published code.
        decoder_width: features per token of the decoder.
        decoder_depth: blocks of the decoder.
        decoder_heads: attention heads of the decoder.
        norm_pix_loss: predict pixels that are normalised within each patch to zero mean and unit
            (unbiased) variance, all channels together. Off by default in the published code, on in
            its published command, "for better representation learning".
        latent: output of the encoder that is the latent, "cls" | "mean" (of the patch tokens). No
            loss acts on either; CLS is trained through the decoder, which takes it as an input.
    """

    kind: str = "mae"
    vit: ViTConfig = ViTConfig()
    mask_ratio: float = 0.75
    decoder_width: int = 512
    decoder_depth: int = 8
    decoder_heads: int = 16
    norm_pix_loss: bool = True
    latent: str = "cls"

    def __post_init__(self) -> None:
        check_one_of(("mae",), kind=self.kind)
        check_inside(0.0, 1.0, mask_ratio=self.mask_ratio)
        for name in ("decoder_width", "decoder_depth", "decoder_heads"):
            check_positive(**{name: getattr(self, name)})
        check_divides(self.decoder_heads, decoder_width=self.decoder_width)
        check_divides(4, decoder_width=self.decoder_width)
        check_one_of(encoders.latent_kinds(self.vit), latent=self.latent)
        if not 0 < self.num_kept < self.vit.num_patches:
            raise InputError(
                f"mask_ratio={self.mask_ratio} of {self.vit.num_patches} patches leaves "
                f"{self.num_kept} visible; there must be a visible and a masked one"
            )
        if self.norm_pix_loss and self.vit.patch_size**2 * self.vit.channels == 1:
            raise InputError(
                f"norm_pix_loss={self.norm_pix_loss} needs patches of more than one value; here "
                f"are vit.patch_size={self.vit.patch_size} and channels={self.vit.channels}"
            )

    @property
    def num_kept(self) -> int:
        """Number of visible patches K."""
        return int(self.vit.num_patches * (1.0 - self.mask_ratio) + 1e-6)

    @functools.cached_property
    def encoder(self) -> Functional:
        """The ViT as pure functions."""
        return functional(lambda rngs: ViT(self.vit, rngs))

    @functools.cached_property
    def decoder(self) -> Functional:
        """The decoder as pure functions."""
        sizes = self.decoder_width, self.decoder_depth, self.decoder_heads
        return functional(lambda rngs: PixelDecoder(self.vit, *sizes, rngs))

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns {'encoder', 'decoder'} and no other state."""
        key_encoder, key_decoder = jax.random.split(key)
        encoder, decoder = self.encoder.init(key_encoder), self.decoder.init(key_decoder)
        return {"encoder": encoder, "decoder": decoder}, {}

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the loss under masks drawn from (key, batch['index']); see `Objective.loss`."""
        sizes = self.vit.num_patches, self.num_kept
        kept_BK, masked_BM = random_subsets(key, batch["index"], *sizes)
        loss, metrics = self.loss_on(params, batch["image"], kept_BK, masked_BM, reduce)
        return loss, (aux, metrics)

    def loss_on(
        self,
        params: Params,
        images_BHWC: jax.Array,
        kept_BK: jax.Array,
        masked_BM: jax.Array,
        reduce: Reduce,
    ) -> tuple[jax.Array, Metrics]:
        """Computes the mean squared error over the pixels of the masked patches.

        The metric 'target_variance' is the loss of the best constant prediction.
        """
        _, visible = self.encoder.apply(params["encoder"], images_BHWC, kept_BK)
        tokens = visible["tokens"], visible.get("cls")
        predicted_BME = self.decoder.apply(params["decoder"], *tokens, kept_BK, masked_BM)
        predicted_BME = predicted_BME.astype(jnp.float32)
        target_BME = self.targets(images_BHWC, masked_BM)
        loss = reduce.mean(jnp.square(predicted_BME - target_BME).mean((1, 2)))
        latent_B1D = visible[self.latent].astype(jnp.float32)[:, None]
        vectors = {"prediction": predicted_BME, "target": target_BME, "latent": latent_B1D}
        metrics = {
            f"{name}_variance": variance(x, jnp.ones(x.shape[:2]), reduce)
            for name, x in vectors.items()
        }
        return loss, jax.lax.stop_gradient(metrics)

    def targets(self, images_BHWC: jax.Array, masked_BM: jax.Array) -> jax.Array:
        """Returns the targets at the masked patches: f32[B, M, E]."""
        patches_BNE = patchify(images_BHWC, self.vit.patch_size)
        target_BME = jnp.take_along_axis(patches_BNE, masked_BM[:, :, None], axis=1)
        target_BME = target_BME.astype(jnp.float32)
        return normalized_pixels(target_BME) if self.norm_pix_loss else target_BME

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns `aux`: no state is carried beside the parameters."""
        return aux

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes whole images, without masks.

        Returns:
            f32[B, D] each: 'latent', and each possible choice of it: 'mean', and 'cls' with a CLS
            token.
        """
        latents, _ = encoders.apply(self.vit, params["encoder"], images)
        return {"latent": latents[self.latent], **latents}


def normalized_pixels(patches_BME: jax.Array) -> jax.Array:
    """Normalises the values of each patch to zero mean and unit unbiased variance."""
    centred_BME = patches_BME - patches_BME.mean(-1, keepdims=True)
    variance_BM1 = patches_BME.var(-1, keepdims=True, ddof=1)
    return centred_BME * jax.lax.rsqrt(variance_BM1 + VARIANCE_EPS)
