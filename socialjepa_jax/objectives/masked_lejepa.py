"""Masked LeJEPA: I-JEPA's prediction of masked blocks, with SIGReg instead of the EMA teacher.

Context and targets come from one encoder and gradients pass through both. Nothing in such a
prediction keeps the targets apart, and SIGReg on one pooled latent does not either: tokens can
still become the same for all images. So SIGReg acts on what is predicted, over the images of the
batch and at each position by itself. (Over images and positions together, tokens that tell the
position and nothing else would pass for Gaussian.)

Shape key: B batch, V vectors of an image, D features.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_one_of
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.ijepa import IJepa, Tokens
from socialjepa_jax.objectives.sigreg_term import SigRegTerm
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class MaskedLeJepa(SigRegTerm, IJepa):
    """I-JEPA's objective under SIGReg.

    Attributes:
        vit, predictor, ..., latent_encoder: see `IJepa`; `ema` is "off" unless asked for.
        sigreg_weight, ..., loss_form: see `SigRegTerm`; `view_mode` is "per_view", where a view is
            a position of the grid.
        kind: names this objective in a configuration.
        stop_gradient: whether the prediction's targets are constants for the gradient, as they are
            with an EMA; SIGReg's gradient passes in any case.
        regularize: what SIGReg sees: "targets": every token of the whole image ("mlp_cls": the
            latent of every target block) | "latents": the latents of the context and of the whole
            image, which does not keep tokens from collapsing | "both": the mean of the two.
    """

    kind: str = "masked_lejepa"
    ema: str = "off"
    stop_gradient: bool = False
    regularize: str = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_sigreg()
        check_one_of(("per_view",), view_mode=self.view_mode)
        # Block latents of an average of the weights have no gradient to regularise.
        averaged = self.predictor == "mlp_cls" and self.ema != "off"
        options = ("latents",) if averaged else ("targets", "latents", "both")
        check_one_of(options, regularize=self.regularize)

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Prediction and SIGReg under masks and slices drawn from `key`; see `Objective.loss`."""
        key_masks, key_slices = jax.random.split(key)
        key_slices = self.slices_key(key_slices, hparams)
        masks = self.sampler(key_masks, batch["index"])

        def encode(weights: Params, *patches: jax.Array | None) -> Tokens:
            return self.encoder.apply(weights, batch["image"], *patches)[1]

        context = encode(params["encoder"], masks.context_BK, masks.context_valid_BK)
        whole = encode(params["encoder"])

        def targets(*patches: jax.Array | None) -> Tokens:
            if self.ema != "off":
                return encode(aux["target"], *patches)
            return encode(params["encoder"], *patches) if patches else whole

        predicted, target, weight = self.terms(params["predictor"], targets, context, masks)
        constant = jax.lax.stop_gradient(target) if self.stop_gradient else target
        terms = predicted, constant, weight
        prediction, metrics = self.prediction(terms, context, masks, reduce)
        seen = {
            "latents": jnp.stack([context[self.latent], whole[self.latent]], axis=1),
            "targets": target if self.predictor == "mlp_cls" else whole["tokens"],
        }
        penalties = {
            f"sigreg_{name}": self.regularizer(z_BVD, key_slices, reduce)
            for name, z_BVD in seen.items()
            if self.regularize in (name, "both")
        }
        penalty = jnp.stack(list(penalties.values())).mean()
        levels = self.levels(penalty, batch["image"], reduce)
        metrics |= {"prediction": prediction, "sigreg": penalty, **penalties, **levels}
        loss = self.combine(prediction, penalty, hparams)
        return loss, (aux, jax.lax.stop_gradient(metrics))
