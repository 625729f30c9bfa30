"""I-JEPA: predicts the latents of masked blocks from the visible context (Assran et al., 2023).

Shape key: B batch, H height, W width, C channels, N patches of the grid, K context slots, M target
blocks, S slots of a block, P predictions per image, D features.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from socialjepa_jax import optim
from socialjepa_jax.errors import (
    InputError,
    check_divides,
    check_in_range,
    check_one_of,
    check_positive,
)
from socialjepa_jax.models import encoders
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.heads import MlpPredictor, ViTPredictor
from socialjepa_jax.models.masking import BlockSampler, MaskConfig, Masks
from socialjepa_jax.models.transformer import normalize
from socialjepa_jax.models.vit import ViT, ViTConfig
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.shared.losses import variance
from socialjepa_jax.sharding import Reduce

ERRORS = {"mse": jnp.square, "smooth_l1": optax.losses.huber_loss}
Tokens = dict[str, jax.Array]  # intermediates of the ViT by name
Encode = Callable[..., Tokens]  # (patches to keep, slots of them in use) -> tokens
Terms = tuple[jax.Array, jax.Array, jax.Array]  # predictions, targets [B, P, D], weights [B, P]


@dataclass(frozen=True)
class IJepa:
    """Objective of the Social-JEPA paper's agents (eq. 1) and its variants.

    The paper does not specify inputs and targets of the prediction. Predictors:
        "mlp_cls": the context latent predicts the latent of each target block, which is encoded
            alone: eq. (1) literally. The predictor is not told the position of the block.
        "mlp_patch": the context latent plus a position predicts the target token there.
        "vit": I-JEPA's narrow transformer on all context tokens predicts the target tokens.
    With the MLPs the context latent is the one named by `latent`, so the loss trains the latent
    that is aligned. With "vit" the CLS token, if present, is an input of the predictor.

    Attributes:
        kind: names this objective in a configuration.
        vit: the encoder.
        predictor: "mlp_cls" | "mlp_patch" | "vit".
        mlp_width: hidden width of the MLP predictors.
        predictor_width: features per token of the "vit" predictor.
        predictor_depth: blocks of the "vit" predictor.
        predictor_heads: attention heads of the "vit" predictor.
        masks: the block sampler.
        ema: schedule of the target encoder's momentum, "cosine" | "linear" | "off"; "off" takes
            targets from the encoder itself (eq. 1 has a single encoder).
        ema_start: momentum at the first step.
        ema_end: momentum at the last step.
        target_norm: "none" | "layernorm" (no learnt scale, eps 1e-5) on the targets.
        error: "mse" | "smooth_l1" (beta 1), averaged over features; eq. (1) sums over features,
            which scales the gradient by the width and so changes the effect of clipping.
        latent: output of the encoder that is the latent, "cls" | "mean" (of the patch tokens).
        latent_encoder: encoder of the latent that `encode` returns, "context" (the trained encoder)
            | "target" (its moving average).
        predicts: where the target blocks lie: in the same "image" | in the "next" one of a pair in
            time, of which the context sees nothing.
    """

    kind: str = "ijepa"
    vit: ViTConfig = ViTConfig()
    predictor: str = "mlp_cls"
    mlp_width: int = 2048
    predictor_width: int = 192
    predictor_depth: int = 6
    predictor_heads: int = 6
    masks: MaskConfig = MaskConfig()
    ema: str = "cosine"
    ema_start: float = 0.996
    ema_end: float = 1.0
    target_norm: str = "none"
    error: str = "mse"
    latent: str = "cls"
    latent_encoder: str = "context"
    predicts: str = "image"

    def __post_init__(self) -> None:
        check_one_of((type(self).kind,), kind=self.kind)
        check_one_of(("mlp_cls", "mlp_patch", "vit"), predictor=self.predictor)
        for name in ("mlp_width", "predictor_width", "predictor_depth", "predictor_heads"):
            check_positive(**{name: getattr(self, name)})
        check_divides(self.predictor_heads, predictor_width=self.predictor_width)
        check_divides(4, predictor_width=self.predictor_width)
        check_one_of(("cosine", "linear", "off"), ema=self.ema)
        check_in_range(0.0, 1.0, ema_start=self.ema_start, ema_end=self.ema_end)
        check_one_of(("none", "layernorm"), target_norm=self.target_norm)
        check_one_of(tuple(ERRORS), error=self.error)
        check_one_of(encoders.latent_kinds(self.vit), latent=self.latent)
        networks = ("context",) if self.ema == "off" else ("context", "target")
        check_one_of(networks, latent_encoder=self.latent_encoder)
        check_one_of(("image", "next"), predicts=self.predicts)
        BlockSampler(self.masks, self.vit.grid)  # refuses sizes that cannot work

    @classmethod
    def official(cls, vit: ViTConfig, **fields: Any) -> "IJepa":
        """Returns the settings of I-JEPA's published code, for an encoder without CLS token.

        Public API: variable blocks, LayerNorm without affine parameters on the targets, smooth L1,
        linear momentum, and the transformer predictor with as many heads as the encoder. `fields`
        override them.
        """
        settings: dict[str, Any] = {
            "predictor": "vit",
            "predictor_width": 384,
            "predictor_depth": 12,
            "predictor_heads": vit.heads,
            "masks": MaskConfig(variable=True),
            "ema": "linear",
            "target_norm": "layernorm",
            "error": "smooth_l1",
            "latent": "mean",
            "latent_encoder": "target",
        }
        return cls(vit=vit, **(settings | fields))

    @functools.cached_property
    def sampler(self) -> BlockSampler:
        """The sampler of the masks of a batch."""
        return BlockSampler(self.masks, self.vit.grid)

    @functools.cached_property
    def encoder(self) -> Functional:
        """The ViT as pure functions."""
        return functional(lambda rngs: ViT(self.vit, rngs))

    @functools.cached_property
    def head(self) -> Functional:
        """The predictor as pure functions."""
        if self.predictor != "vit":
            return functional(lambda rngs: MlpPredictor(self.vit, self.mlp_width, rngs))
        sizes = self.predictor_width, self.predictor_depth, self.predictor_heads
        return functional(lambda rngs: ViTPredictor(self.vit, *sizes, rngs))

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns {'encoder', 'predictor'} and {'target'}: the target starts as the encoder."""
        key_encoder, key_head = jax.random.split(key)
        params = {"encoder": self.encoder.init(key_encoder), "predictor": self.head.init(key_head)}
        return params, {} if self.ema == "off" else {"target": params["encoder"]}

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
        masks = self.sampler(key, batch["index"])
        if self.predicts not in batch:
            raise InputError(
                "config.objective.predicts='next' needs config.data.kind='motion', 'reacher' or "
                "'frames'"
            )
        wanted = batch[self.predicts]
        loss, metrics = self.loss_on(params, aux, batch["image"], masks, reduce, wanted)
        return loss, (aux, metrics)

    def loss_on(
        self,
        params: Params,
        aux: Aux,
        images_BHWC: jax.Array,
        masks: Masks,
        reduce: Reduce,
        wanted_BHWC: jax.Array | None = None,
    ) -> tuple[jax.Array, Metrics]:
        """Computes the prediction error under given masks, and metrics that show collapse.

        A patch counts once for each target block that contains it.

        Args:
            params, aux, reduce: see `Objective.loss`.
            images_BHWC: images of the context.
            masks: of context and targets.
            wanted_BHWC: images of the targets; default: those of the context.
        """
        wanted_BHWC = images_BHWC if wanted_BHWC is None else wanted_BHWC
        teacher = jax.lax.stop_gradient(aux.get("target", params["encoder"]))

        def encode(images: jax.Array, weights: Params, *patches: jax.Array | None) -> Tokens:
            return self.encoder.apply(weights, images, *patches)[1]

        context = encode(images_BHWC, params["encoder"], masks.context_BK, masks.context_valid_BK)
        targets = functools.partial(encode, wanted_BHWC, teacher)
        terms = self.terms(params["predictor"], targets, context, masks)
        return self.prediction(terms, context, masks, reduce)

    def terms(self, head: Params, targets: Encode, context: Tokens, masks: Masks) -> Terms:
        """Returns predictions from the context, their targets and their weights, in float32."""
        terms = {"mlp_cls": self._blocks, "mlp_patch": self._patches, "vit": self._tokens}
        predicted, target, weight_BP = terms[self.predictor](head, targets, context, masks)
        return predicted.astype(jnp.float32), target.astype(jnp.float32), weight_BP

    def prediction(
        self, terms: Terms, context: Tokens, masks: Masks, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        """Returns the weighted error of the predictions, and metrics that show collapse."""
        predicted_BPD, target_BPD, weight_BP = terms
        if self.target_norm == "layernorm":
            target_BPD = normalize(target_BPD, 1e-5)
        error_BP = ERRORS[self.error](predicted_BPD - target_BPD).mean(-1)
        loss = reduce.mean((weight_BP * error_BP).sum(1)) / reduce.mean(weight_BP.sum(1))
        latent_B1D = context[self.latent].astype(jnp.float32)[:, None]
        metrics = {
            "mask_ratio": reduce.mean(masks.ratio_B),
            "prediction_variance": variance(predicted_BPD, weight_BP, reduce),
            "target_variance": variance(target_BPD, weight_BP, reduce),
            "latent_variance": variance(latent_B1D, jnp.ones_like(latent_B1D[..., 0]), reduce),
        }
        return loss, jax.lax.stop_gradient(metrics)

    def _blocks(self, head: Params, targets: Encode, context: Tokens, masks: Masks) -> Terms:
        """Terms of "mlp_cls": one prediction per image, one target latent per block."""

        def encode(keep_BS: jax.Array, valid_BS: jax.Array | None) -> jax.Array:
            return targets(keep_BS, valid_BS)[self.latent]

        valid = masks.targets_valid_BMS
        axes = (1, None if valid is None else 1)
        target_BMD = jax.vmap(encode, in_axes=axes, out_axes=1)(masks.targets_BMS, valid)
        predicted_B1D = self.head.apply(head, context[self.latent])[:, None]
        predicted_BMD = jnp.broadcast_to(predicted_B1D, target_BMD.shape)
        return predicted_BMD, target_BMD, jnp.ones(target_BMD.shape[:2])

    def _patches(self, head: Params, targets: Encode, context: Tokens, masks: Masks) -> Terms:
        """Terms of "mlp_patch": a prediction at every patch, weighted by its number of blocks.

        The loss is that of one prediction for each slot of each block, without gathers.
        """
        target_BND = targets()["tokens"]
        predicted_BND = self.head.apply(head, context[self.latent], method="at_patches")
        return predicted_BND, target_BND, masks.count_BN.astype(jnp.float32)

    def _tokens(self, head: Params, targets: Encode, context: Tokens, masks: Masks) -> Terms:
        """Terms of "vit": a prediction for every slot of every block."""
        B, M, S = masks.targets_BMS.shape
        slots_BP1 = masks.targets_BMS.reshape(B, M * S, 1)
        target_BND = targets()["tokens"]
        target_BPD = jnp.take_along_axis(target_BND, slots_BP1, axis=1)
        predicted_BMSD = self.head.apply(head, context["tokens"], context.get("cls"), masks)
        valid = masks.targets_valid_BMS
        weight_BP = jnp.ones((B, M * S)) if valid is None else valid.reshape(B, M * S)
        return predicted_BMSD.reshape(target_BPD.shape), target_BPD, weight_BP.astype(jnp.float32)

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Moves the target encoder towards the encoder; see `momentum`."""
        if self.ema == "off":
            return aux
        m = self.momentum(step, hparams["total_steps"])
        return {"target": optax.incremental_update(params["encoder"], aux["target"], 1.0 - m)}

    def momentum(self, step: jax.typing.ArrayLike, total: jax.typing.ArrayLike) -> jax.Array:
        """Returns the momentum after the optimiser's 0-based step `step` of `total`."""
        schedule = optim.linear if self.ema == "linear" else optim.cosine
        return schedule(self.ema_start, self.ema_end, total)(step)

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes whole images.

        Returns:
            f32[B, D] each: 'latent', and each possible choice of it, so that one run can compare
            them: 'context/mean', 'context/cls' (with a CLS token), 'target/mean' and 'target/cls'
            (with a target encoder).
        """
        out: dict[str, jax.Array] = {}
        for name, weights in {"context": params["encoder"], **aux}.items():
            latents, _ = encoders.apply(self.vit, weights, images)
            out |= {f"{name}/{kind}": latent for kind, latent in latents.items()}
        return {"latent": out[f"{self.latent_encoder}/{self.latent}"], **out}
