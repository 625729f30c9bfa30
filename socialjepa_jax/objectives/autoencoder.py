"""Pixel autoencoder: the pixels of an image from its own latent, without masks.

The "AutoEncoder (Pixel-level)" of Social-JEPA's table 1, which gives no detail: every choice here
is ours. Architecture and optimiser are those of MAE (He et al., 2022) where it has them.

Shape key: B batch, H height, W width, C channels, N patches of the grid, D features of the encoder,
E values of a patch's pixels.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax import optim
from socialjepa_jax.errors import InputError, check_divides, check_one_of, check_positive, sides
from socialjepa_jax.models import encoders
from socialjepa_jax.models.encoders import EncoderConfig
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.projection import ImageDecoder
from socialjepa_jax.models.vit import ViT, ViTConfig, patchify
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.mae import normalized_pixels
from socialjepa_jax.objectives.shared.embedding import Statistics, update_running
from socialjepa_jax.objectives.shared.losses import variance
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class Autoencoder:
    """Mean squared error of all pixels, decoded from what the encoder says of the whole image.

    What the decoder sees decides what the latent is. From one vector it is an autoencoder whose
    code is the latent. From all tokens each can copy its own patch, and the latent matters little.

    Attributes:
        encoder: a ViT or another encoder.
        latent: output of the encoder that is the latent, "cls" | "mean"; a ResNet has "mean" only.
        kind: names this objective in a configuration.
        bottleneck: what the decoder sees beside a query for each patch: "cls": the latent alone |
            "tokens": all of a ViT's tokens, and CLS, as MAE's decoder does without a mask.
        decoder_width, decoder_depth, decoder_heads: of the decoder, MAE's.
        decoder_patch: height and width of the decoder's patches, pixels, for encoders other than a
            ViT, whose own they are.
        normalize_patches: targets are normalised patch by patch, as in MAE. Without, they are
            plain pixels.
    """

    encoder: EncoderConfig = ViTConfig()
    latent: str = "cls"
    kind: str = "autoencoder"
    bottleneck: str = "cls"
    decoder_width: int = 512
    decoder_depth: int = 8
    decoder_heads: int = 16
    decoder_patch: int = 16
    normalize_patches: bool = False

    def __post_init__(self) -> None:
        check_one_of(("autoencoder",), kind=self.kind)
        check_one_of(("cls", "tokens"), bottleneck=self.bottleneck)
        for name in ("decoder_width", "decoder_depth", "decoder_heads", "decoder_patch"):
            check_positive(**{name: getattr(self, name)})
        check_divides(self.decoder_heads, decoder_width=self.decoder_width)
        check_divides(4, decoder_width=self.decoder_width)
        check_one_of(encoders.latent_kinds(self.encoder), latent=self.latent)
        if self.bottleneck == "tokens" and not isinstance(self.encoder, ViTConfig):
            raise InputError("bottleneck='tokens' needs a ViT as the encoder")
        if not isinstance(self.encoder, ViTConfig):
            for side in sides(self.encoder.image_size):
                check_divides(self.decoder_patch, **{"encoder.image_size": side})

    @property
    def patches(self) -> ViTConfig:
        """The encoder, or the patches that the decoder cuts images of another encoder into."""
        if isinstance(self.encoder, ViTConfig):
            return self.encoder
        c = self.encoder
        sizes = c.image_size, self.decoder_patch, c.channels, c.width
        return ViTConfig(*sizes, heads=1, dtype=c.dtype)

    @functools.cached_property
    def decoder(self) -> Functional:
        """The decoder as pure functions."""
        vit = self.patches
        sizes = self.decoder_width, self.decoder_depth, self.decoder_heads
        return functional(lambda rngs: ImageDecoder(vit, *sizes, rngs))

    @functools.cached_property
    def token_encoder(self) -> Functional:
        """The ViT with all its outputs, as pure functions."""
        config = self.patches
        return functional(lambda rngs: ViT(config, rngs))

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns {'encoder', 'decoder'} and, with batch normalisation, {'statistics'}."""
        key_encoder, key_decoder = jax.random.split(key)
        params = {
            "encoder": encoders.init(self.encoder, key_encoder),
            "decoder": self.decoder.init(key_decoder),
        }
        shape = (1, *sides(self.encoder.image_size), self.encoder.channels)
        images = jax.ShapeDtypeStruct(shape, jnp.float32)
        used = jax.eval_shape(
            lambda images: encoders.apply(self.encoder, params["encoder"], images)[1], images
        )
        fresh = {
            name: (jnp.zeros(mean.shape), jnp.ones(var.shape)) for name, (mean, var) in used.items()
        }
        return params, {"statistics": {"encoder": fresh}} if fresh else {}

    @staticmethod
    def optimizer(batch_size: int) -> optim.AdamW:
        """Returns MAE's optimiser, for 800 epochs on ImageNet, without clipping."""
        rate = 1.5e-4 * batch_size / 256
        return optim.AdamW(learning_rate=rate, warmup_fraction=40 / 800, clip=1e6)

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the mean squared error of a batch; nothing is drawn. See `Objective.loss`.

        The metric 'explained' is 1 - loss / variance of the targets, 0 for the best constant.
        """
        predicted_BNE, latent_BD, used = self.reconstruct(params, batch["image"], reduce)
        target_BNE = self.targets(batch["image"])
        loss = reduce.mean(jnp.square(predicted_BNE - target_BNE).mean((1, 2)))
        of_targets = variance(target_BNE, jnp.ones(target_BNE.shape[:2]), reduce)
        metrics = {
            "explained": 1.0 - loss / jnp.maximum(of_targets, 1e-30),
            "target_variance": of_targets,
            "latent_variance": variance(latent_BD[:, None], jnp.ones((len(latent_BD), 1)), reduce),
        }
        return loss, (update_running(aux, used), jax.lax.stop_gradient(metrics))

    def reconstruct(
        self, params: Params, images_BHWC: jax.Array, reduce: Reduce
    ) -> tuple[jax.Array, jax.Array, list[Statistics]]:
        """Returns pixels f32[B, N, E], latents f32[B, D] and the statistics used."""
        if self.bottleneck == "tokens":
            _, out = self.token_encoder.apply(params["encoder"], images_BHWC)
            latent_BD, passes = out[self.latent].astype(jnp.float32), []
            tokens = out["tokens"], out.get("cls")
            pixels = self.decoder.apply(params["decoder"], *tokens, method="from_tokens")
        else:
            latents, used = encoders.apply(
                self.encoder, params["encoder"], images_BHWC, None, reduce.mean
            )
            latent_BD = latents[self.latent]
            passes = [{"encoder": used}] if used else []
            pixels = self.decoder.apply(params["decoder"], latent_BD, method="from_vector")
        return pixels.astype(jnp.float32), latent_BD, passes

    def targets(self, images_BHWC: jax.Array) -> jax.Array:
        """Returns the pixels of all patches: f32[B, N, E]."""
        patches_BNE = patchify(images_BHWC, self.patches.patch_size).astype(jnp.float32)
        return normalized_pixels(patches_BNE) if self.normalize_patches else patches_BNE

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns `aux`: `loss` has already updated the running statistics."""
        return aux

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes whole images with the running statistics.

        Returns:
            f32[B, D] each: 'latent', and each possible choice of it: 'mean', and 'cls' with a CLS
            token.
        """
        given = aux.get("statistics", {}).get("encoder")
        latents, _ = encoders.apply(self.encoder, params["encoder"], images, given)
        return {"latent": latents[self.latent], **latents}
