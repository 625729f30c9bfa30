"""Masked LeJEPA: I-JEPA's prediction of masked blocks, with SIGReg instead of the EMA teacher.

Context and targets come from one encoder, and gradients pass through both. The prediction error
alone does not prevent collapse, nor does SIGReg on one pooled latent, under which the tokens of all
images could still be equal. Therefore SIGReg acts on the targets of the prediction, over the images
of the batch and separately at each position. (Over images and positions together, tokens that
encode the position alone would pass as Gaussian.)

Shape key: B batch, V vectors of an image, D features.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_one_of
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.ijepa import IJepa, Tokens
from socialjepa_jax.objectives.shared.sigreg_term import SigRegTerm
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class MaskedLeJepa(SigRegTerm, IJepa):
    """I-JEPA's objective under SIGReg.

    Attributes:
        vit, predictor, ..., latent_encoder: see `IJepa`; `ema` is "off" unless asked for.
        sigreg_weight, ..., loss_form: see `SigRegTerm`; `view_mode` is "per_view", where a view is
            a position of the grid.
        kind: names this objective in a configuration.
        stop_gradient: treat the targets of the prediction as constants, as with an EMA; the
            gradient of SIGReg passes in both cases.
        regularize: vectors under SIGReg: "targets": every token of the whole image ("mlp_cls": the
            latent of every target block) | "latents": the latents of the context and of the whole
            image, which does not prevent collapse of the tokens | "both": the mean of the two.
    """

    kind: str = "masked_lejepa"
    ema: str = "off"
    stop_gradient: bool = False
    regularize: str = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_sigreg()
        check_one_of(("image",), predicts=self.predicts)
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
        """Computes the loss under masks and slices drawn from `key`; see `Objective.loss`."""
        key_masks, key_slices = jax.random.split(key)
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
        vectors = {
            "latents": jnp.stack([context[self.latent], whole[self.latent]], axis=1),
            "targets": target if self.predictor == "mlp_cls" else whole["tokens"],
        }
        penalties = {
            f"sigreg_{name}": self.sigreg_loss(z_BVD, key_slices, hparams, reduce)
            for name, z_BVD in vectors.items()
            if self.regularize in (name, "both")
        }
        sigreg = jnp.stack(list(penalties.values())).mean()
        metrics |= {"prediction": prediction, "sigreg": sigreg, **penalties}
        metrics |= self.sigreg_levels(sigreg, batch["image"], reduce)
        loss = self.combine(prediction, sigreg, hparams)
        return loss, (aux, jax.lax.stop_gradient(metrics))
