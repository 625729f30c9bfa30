"""LeJEPA and its rivals on pairs of successive images, for any image encoder.

"When Does LeJEPA Learn a World Model?": an alignment of both embeddings and a regulariser of their
distribution recover the state of the world up to a rotation; here with images as observations.

Shape key: B pairs, H height, W width, C channels, D latent features.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import optax

from socialjepa_jax.errors import (
    InputError,
    check_in_range,
    check_one_of,
    check_positive,
    sides,
)
from socialjepa_jax.models import encoders
from socialjepa_jax.models.batchnorm import Mean, local_mean
from socialjepa_jax.models.encoders import EncoderConfig
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.mlp import Linear, Projector
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.pairs.vectors import CONTRASTIVE, PairTerms
from socialjepa_jax.objectives.shared import losses
from socialjepa_jax.objectives.shared.embedding import Statistics, update_running
from socialjepa_jax.sharding import Reduce

RHO_MOMENTUM = 0.02  # weight of a new batch in the running correlation


@dataclass(frozen=True)
class FramePairs(PairTerms):
    """Objective lambda x regulariser + (1 - lambda) x alignment of 'image' and 'next'.

    The alignment of a world with correlation rho cannot fall below a multiple of 1 - rho, so a
    fixed lambda fits one rho alone. With `weight_rule="dynamics"` lambda is c (1 - rho_hat), where
    rho_hat = 1 - E||h - h'||^2 / (2 tr Cov h) is measured on the model's own embeddings (a running
    mean, without gradient).

    Attributes:
        regularizer, convention, flatten, num_slices, quadrature, debiased, kernel: see `PairTerms`.
        kind: names this objective in a configuration.
        encoder: encoder of images.
        latent: its output that the linear head reads, "cls" | "mean".
        outputs: latent features D; a world of L latents needs D >= L.
        weight: lambda, or its factor c; `hparams['lambda']`, if present, takes precedence.
        weight_rule: "fixed" | "dynamics".
        sigma: kernel width of the contrastive losses.
        predictor_layers: 0: both images are embedded alike | 1 to 3: a predictor takes h to the
            embedding of the next image, and the alignment compares that (the predictive form).
        predictor_width: features of the predictor's hidden layers.
        target_decay: decay of the moving average of the encoder that embeds the next image,
            without gradient; 0: the encoder itself. Needs a predictor.
    """

    kind: str = "frame_pairs"
    encoder: EncoderConfig = PatchNetConfig()
    latent: str = "mean"
    outputs: int = 3
    weight: float = 0.1
    weight_rule: str = "dynamics"
    sigma: float = 1.0
    predictor_layers: int = 0
    predictor_width: int = 128
    target_decay: float = 0.0

    def __post_init__(self) -> None:
        self.check_terms()
        check_one_of(("frame_pairs",), kind=self.kind)
        check_one_of(encoders.latent_kinds(self.encoder), latent=self.latent)
        check_one_of(("fixed", "dynamics"), weight_rule=self.weight_rule)
        check_positive(outputs=self.outputs, sigma=self.sigma, predictor_width=self.predictor_width)
        check_in_range(0.0, 1.0, weight=self.weight, target_decay=self.target_decay)
        check_in_range(0, 3, predictor_layers=self.predictor_layers)
        if self.target_decay and not self.predictor_layers:
            raise InputError(f"target_decay={self.target_decay} needs predictor_layers >= 1")
        if self.predictor_layers and self.regularizer in CONTRASTIVE:
            raise InputError(
                f"predictor_layers={self.predictor_layers}: the loss of "
                f"regularizer={self.regularizer!r} has no alignment to predict for"
            )

    @cached_property
    def head(self) -> Functional:
        """The linear head as pure functions: f32[B, width] -> f32[B, D]."""
        return functional(partial(Linear, self.encoder.width, self.outputs))

    @cached_property
    def predictor(self) -> Functional:
        """The predictor as pure functions: f32[B, D] -> f32[B, D]."""
        sizes = self.outputs, self.predictor_width, self.outputs, self.predictor_layers
        return functional(lambda rngs: Projector(*sizes, dtype="float32", rngs=rngs))

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns {'encoder', 'head'} and {'rho', 'statistics'}; optional parts have entries too.

        These are 'predictor' and 'log_precision' of the parameters, and 'target' of the state.
        """
        keys = jax.random.split(key, 3)
        params: Params = {
            "encoder": encoders.init(self.encoder, keys[0]),
            "head": self.head.init(keys[1]),
        }
        shape = (1, *sides(self.encoder.image_size), self.encoder.channels)
        images = jax.ShapeDtypeStruct(shape, jnp.float32)
        used = jax.eval_shape(lambda images: self.embed(params, images)[2], images)
        aux: Aux = {"rho": jnp.zeros(())}
        if used:
            fresh = {name: (jnp.zeros(m.shape), jnp.ones(v.shape)) for name, (m, v) in used.items()}
            aux["statistics"] = {"encoder": fresh}
        if self.target_decay:
            aux["target"] = params
        if self.predictor_layers:
            params = {**params, "predictor": self.predictor.init(keys[2])}
        if self.regularizer == "aninfonce":
            params = {**params, "log_precision": jnp.zeros(self.outputs)}
        return params, aux

    def embed(
        self,
        params: Params,
        images_BHWC: jax.Array,
        statistics: Statistics | None = None,
        mean: Mean = local_mean,
    ) -> tuple[jax.Array, jax.Array, dict]:
        """Embeds images f32[B, H, W, C].

        Returns:
            The latent f32[B, D], the encoder's output f32[B, width], and the statistics used.
        """
        given = (statistics or {}).get("encoder")
        latents, used = encoders.apply(self.encoder, params["encoder"], images_BHWC, given, mean)
        hidden = latents[self.latent]
        return self.head.apply(params["head"], hidden), hidden, used

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the objective on batch['image'] and batch['next']; see `Objective.loss`.

        `key` draws SIGReg's directions. Metrics: 'alignment' and 'regularizer' in the chosen
        convention, 'rho_hat', 'lambda' and 'latent_variance'.
        """
        if "next" not in batch:
            raise InputError(
                "config.objective.kind='frame_pairs' needs config.data.kind='motion', 'reacher' or "
                "'frames'"
            )
        images = jnp.concatenate([batch["image"], batch["next"]])
        h, _, used = self.embed(params, images, mean=_of_pairs(reduce))
        h_BVD = jnp.stack(jnp.split(h, 2), axis=1)
        aux = update_running(aux, [{"encoder": used}]) if used else aux
        rho, variance = correlation(jax.lax.stop_gradient(h_BVD), reduce)
        aux = {**aux, "rho": aux["rho"] + RHO_MOMENTUM * (rho - aux["rho"])}
        align = losses.alignment(
            self._aligned(params, aux, h_BVD, batch, reduce), self.convention, reduce
        )
        sigma = hparams.get("sigma", jnp.float32(self.sigma))
        penalty = self.penalty(params, h_BVD, key, sigma, reduce)
        weight = jnp.asarray(hparams.get("lambda", self.weight), jnp.float32)
        if self.weight_rule == "dynamics":
            weight = weight * (1.0 - jnp.clip(aux["rho"], 0.0, 1.0))
        total = self.combine(penalty, align, weight)
        metrics = {"alignment": align, "regularizer": penalty, "lambda": weight}
        metrics |= {"rho_hat": aux["rho"], "latent_variance": variance}
        return total, (aux, jax.lax.stop_gradient(metrics))

    def _aligned(
        self, params: Params, aux: Aux, h_BVD: jax.Array, batch: Batch, reduce: Reduce
    ) -> jax.Array:
        """Returns both embeddings, or prediction and target: f32[B, 2, D]."""
        if not self.predictor_layers:
            return h_BVD
        predicted, _ = self.predictor.apply(params["predictor"], h_BVD[:, 0], None, reduce.mean)
        target = h_BVD[:, 1]
        if self.target_decay:
            target, _, _ = self.embed(aux["target"], batch["next"], mean=reduce.mean)
            target = jax.lax.stop_gradient(target)
        return jnp.stack([predicted.astype(jnp.float32), target], axis=1)

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Moves the target towards the parameters, if there is one."""
        if not self.target_decay:
            return aux
        online = {name: params[name] for name in aux["target"]}
        step_size = 1.0 - self.target_decay
        return {**aux, "target": optax.incremental_update(online, aux["target"], step_size)}

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes images with the running statistics: 'latent' f32[B, D] and 'hidden'."""
        latent, hidden, _ = self.embed(params, images, aux.get("statistics"))
        return {"latent": latent, "hidden": hidden}


def _of_pairs(reduce: Reduce) -> Mean:
    """Mean over a batch of first images followed by as many second ones."""
    return lambda x: reduce.mean(0.5 * (x[: len(x) // 2] + x[len(x) // 2 :]))


def correlation(h_BVD: jax.Array, reduce: Reduce) -> tuple[jax.Array, jax.Array]:
    """Returns rho_hat = 1 - E||h - h'||^2 / (2 tr Cov h) of f32[B, 2, D], and tr Cov h / D."""
    trace = jnp.trace(losses.covariance(h_BVD, reduce))
    distance = losses.alignment(h_BVD, "paper", reduce)
    return 1.0 - distance / jnp.maximum(2.0 * trace, 1e-12), trace / h_BVD.shape[-1]
