"""Objectives on positive pairs of vectors: alignment with a regulariser, or a contrastive loss.

The learners of "When Does LeJEPA Learn a World Model?": SIGReg (LeJEPA), whitening (the paper's
VICReg), hinge VICReg, InfoNCE, AnInfoNCE, and alignment alone, which collapses.

Shape key: B pairs, V = 2 views, D latent features, X observed features.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError, check_one_of, check_positive
from socialjepa_jax.models.coupling import CouplingConfig, matched_encoder
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.mlp import MLP, MLPConfig
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.shared import losses
from socialjepa_jax.sharding import Reduce
from socialjepa_jax.sigreg import Quadrature

REGULARIZERS = ("sigreg", "whiten", "vicreg", "infonce", "aninfonce", "none")
CONTRASTIVE = ("infonce", "aninfonce")


@dataclass(frozen=True)
class PairTerms:
    """Settings and terms of a loss on pairs: an alignment and a regulariser, or a contrastive loss.

    Attributes:
        regularizer: "sigreg" | "whiten" | "vicreg" | "infonce" | "aninfonce" | "none".
        convention: "paper" or "code", whose formulas differ:
            alignment mean ||h - h'||^2 or that over 4 D; whitening ||Cov - I||_F^2 or its mean
            over the D^2 entries; contrastive kernel exp(-d^2 / sigma^2) or exp(-d^2 / 2 sigma^2).
        flatten: True: SIGReg of both views' samples together (the code); False: view by view.
        num_slices: number of SIGReg's random directions in a step.
        quadrature: SIGReg's knots.
        debiased: True: subtract the 1/N bias of SIGReg's statistic (LeJEPA, theorem 6).
        kernel: "fixed": sigma as given; "scaled": sigma times sqrt(D / 2), so that the width
            grows with typical distances (the same at D = 2).
    """

    regularizer: str = "sigreg"
    convention: str = "code"
    flatten: bool = True
    num_slices: int = 256
    quadrature: Quadrature = Quadrature()
    debiased: bool = False
    kernel: str = "fixed"

    def check_terms(self) -> None:
        """Raises `InputError` if one of these settings cannot work."""
        check_one_of(REGULARIZERS, regularizer=self.regularizer)
        check_one_of(("paper", "code"), convention=self.convention)
        check_one_of(("fixed", "scaled"), kernel=self.kernel)
        check_positive(num_slices=self.num_slices)
        if self.debiased and self.regularizer != "sigreg":
            raise InputError(f"debiased=True needs regularizer='sigreg', not {self.regularizer!r}")

    def penalty(
        self,
        params: Params,
        h_BVD: jax.Array,
        key: jax.Array,
        sigma: jax.Array | None,
        reduce: Reduce,
    ) -> jax.Array:
        """Returns the regulariser or the contrastive loss of f32[B, 2, D].

        Args:
            params: of the objective; AnInfoNCE reads 'log_precision'.
            h_BVD: both embeddings of every pair.
            key: of SIGReg's directions.
            sigma: kernel width of a contrastive loss; others need none.
            reduce: reductions over the global batch.
        """
        if self.regularizer == "sigreg":
            return losses.sigreg_of_views(
                h_BVD, key, self.num_slices, self.quadrature, reduce,
                flatten=self.flatten, debiased=self.debiased,
            )  # fmt: skip
        if self.regularizer == "whiten":
            return losses.whitening(h_BVD, self.convention, reduce)
        if self.regularizer == "vicreg":
            return losses.hinge_vicreg(h_BVD, reduce)
        if self.regularizer == "none":
            return jnp.zeros(())
        return losses.info_nce(h_BVD, self._precision(params, h_BVD.shape[-1], sigma), reduce)

    def _precision(self, params: Params, dim: int, sigma: jax.Array | None) -> jax.Array:
        """Returns the kernel's precisions, 1 / sigma^2 or 1 / 2 sigma^2 by convention: f32[D]."""
        factor = 0.5 if self.convention == "code" else 1.0
        if self.kernel == "scaled":
            factor *= 2.0 / dim
        precision_D = jnp.full(dim, factor) / jnp.square(jnp.asarray(sigma))
        if self.regularizer == "aninfonce":
            precision_D *= jnp.exp(params["log_precision"])
        return precision_D

    def combine(self, penalty: jax.Array, align: jax.Array, weight: jax.Array) -> jax.Array:
        """Returns weight x penalty + (1 - weight) x alignment; a contrastive loss stands alone."""
        if self.regularizer in CONTRASTIVE:
            return penalty
        return weight * penalty + (1.0 - weight) * align


@dataclass(frozen=True)
class _Encoded:
    """The field that comes first in `Pairs`."""

    encoder: MLPConfig | CouplingConfig


@dataclass(frozen=True)
class Pairs(PairTerms, _Encoded):
    """Objective lambda x regulariser + (1 - lambda) x alignment, or a contrastive loss alone.

    hparams: `lambda` in [0, 1] and, for the contrastive losses, the kernel width `sigma`.

    Attributes:
        encoder: an MLP, or couplings in the inverse direction (the encoder that matches a coupling
            mixing).
        regularizer, convention, flatten, num_slices, quadrature, debiased, kernel: see
            `PairTerms`.
    """

    def __post_init__(self) -> None:
        self.check_terms()

    @property
    def outputs(self) -> int:
        """Latent features D."""
        return self.encoder.outputs if isinstance(self.encoder, MLPConfig) else self.encoder.dim

    @cached_property
    def network(self) -> Functional:
        """The encoder as pure functions: f32[B, X] -> f32[B, D]."""
        config = self.encoder
        if isinstance(config, MLPConfig):
            return functional(lambda rngs: MLP(config, rngs))
        return matched_encoder(config)

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns {'encoder'}, with AnInfoNCE also its 'log_precision', and no other state."""
        params: Params = {"encoder": self.network.init(key)}
        if self.regularizer == "aninfonce":
            params["log_precision"] = jnp.zeros(self.outputs)
        return params, {}

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the objective on batch['views'] f32[B, 2, X]; see `Objective.loss`.

        `key` draws SIGReg's directions. Metrics: 'alignment' and 'regularizer' in the chosen
        convention.
        """
        views = batch["views"]
        h_BVD = self.network.apply(params["encoder"], views.reshape(-1, views.shape[-1]))
        h_BVD = h_BVD.reshape(*views.shape[:2], -1)
        align = losses.alignment(h_BVD, self.convention, reduce)
        penalty = self.penalty(params, h_BVD, key, hparams.get("sigma"), reduce)
        total = self.combine(penalty, align, hparams["lambda"])
        return total, (aux, {"alignment": align, "regularizer": penalty})

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns `aux`: no state is carried beside the parameters."""
        return aux

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes observations f32[B, X] as {'latent': f32[B, D]}."""
        return {"latent": self.network.apply(params["encoder"], images)}
