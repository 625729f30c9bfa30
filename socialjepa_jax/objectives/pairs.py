"""Objectives on positive pairs of vectors: alignment beside what keeps it from collapsing.

The learners of "When Does LeJEPA Learn a World Model?": SIGReg (LeJEPA), whitening (its VICReg),
hinge VICReg, InfoNCE, AnInfoNCE, and plain alignment, which collapses.

Shape key: B pairs, V = 2 views, D latent features, X observed features, M slices.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_one_of, check_positive
from socialjepa_jax.models.coupling import Coupling, CouplingConfig
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.mlp import MLP, MLPConfig
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.sharding import Reduce
from socialjepa_jax.sigreg import Quadrature, epps_pulley, sample_directions, sigreg

REGULARIZERS = ("sigreg", "whiten", "vicreg", "infonce", "aninfonce", "none")
CONTRASTIVE = ("infonce", "aninfonce")
HIGHEST = jax.lax.Precision.HIGHEST


@dataclass(frozen=True)
class Pairs:
    """lambda x regulariser + (1 - lambda) x alignment; the contrastive losses stand alone.

    hparams: `lambda` in [0, 1] and, for the contrastive losses, the kernel width `sigma`.

    Attributes:
        encoder: an MLP, or couplings used in the inverse direction (the encoder matched to a
            coupling mixing).
        regularizer: "sigreg" | "whiten" | "vicreg" | "infonce" | "aninfonce" | "none".
        convention: "paper" or "code", where the identifiability paper and its code differ:
            alignment mean ||h - h'||^2 or that over 4 D; whitening ||Cov - I||_F^2 or its mean
            over the D^2 entries; contrastive kernel exp(-d^2 / sigma^2) or exp(-d^2 / 2 sigma^2).
        flatten: SIGReg of both views' samples together (the code) rather than view by view.
        num_slices: SIGReg's random directions a step.
        quadrature: SIGReg's knots.
        kernel: "fixed": sigma as given; "scaled": sigma times sqrt(D / 2), so that the width
            grows with typical distances (the same at D = 2).
    """

    encoder: MLPConfig | CouplingConfig
    regularizer: str = "sigreg"
    convention: str = "code"
    flatten: bool = True
    num_slices: int = 256
    quadrature: Quadrature = Quadrature()
    kernel: str = "fixed"

    def __post_init__(self) -> None:
        check_one_of(REGULARIZERS, regularizer=self.regularizer)
        check_one_of(("paper", "code"), convention=self.convention)
        check_one_of(("fixed", "scaled"), kernel=self.kernel)
        check_positive(num_slices=self.num_slices)

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
        init, apply = functional(lambda rngs: Coupling(config, rngs))
        return Functional(init, partial(apply, method="inverse"))

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Fresh encoder weights, and AnInfoNCE's log-precisions where it is the loss."""
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
        """The objective on batch['views'] f32[B, 2, X]; `key` draws SIGReg's directions.

        Metrics: 'alignment' and 'regularizer' in the chosen convention.
        """
        views = batch["views"]
        h_BVD = self.network.apply(params["encoder"], views.reshape(-1, views.shape[-1]))
        h_BVD = h_BVD.reshape(*views.shape[:2], -1)
        align = alignment(h_BVD, self.convention, reduce)
        penalty = self._penalty(params, h_BVD, key, hparams, reduce)
        weight = hparams["lambda"]
        if self.regularizer in CONTRASTIVE:
            total = penalty
        else:
            total = weight * penalty + (1.0 - weight) * align
        return total, (aux, {"alignment": align, "regularizer": penalty})

    def _penalty(
        self, params: Params, h_BVD: jax.Array, key: jax.Array, hparams: HParams, reduce: Reduce
    ) -> jax.Array:
        if self.regularizer == "sigreg":
            return self._sigreg(h_BVD, key, reduce)
        if self.regularizer == "whiten":
            return whitening(h_BVD, self.convention, reduce)
        if self.regularizer == "vicreg":
            return hinge_vicreg(h_BVD, reduce)
        if self.regularizer == "none":
            return jnp.zeros(())
        return info_nce(h_BVD, self._precision(params, hparams), reduce)

    def _precision(self, params: Params, hparams: HParams) -> jax.Array:
        """f32[D]: 1 / sigma^2 or 1 / 2 sigma^2, as the kernel's options have it."""
        factor = 0.5 if self.convention == "code" else 1.0
        if self.kernel == "scaled":
            factor *= 2.0 / self.outputs
        precision_D = jnp.full(self.outputs, factor) / jnp.square(hparams["sigma"])
        if self.regularizer == "aninfonce":
            precision_D *= jnp.exp(params["log_precision"])
        return precision_D

    def _sigreg(self, h_BVD: jax.Array, key: jax.Array, reduce: Reduce) -> jax.Array:
        directions_DM = sample_directions(key, self.outputs, self.num_slices)
        statistic = partial(
            epps_pulley, t_max=self.quadrature.t_max, num_knots=self.quadrature.num_knots
        )
        z = h_BVD.reshape(-1, self.outputs) if self.flatten else jnp.moveaxis(h_BVD, 1, 0)
        return sigreg(z, directions_DM, statistic=statistic, axis_name=reduce.axis_name)

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Nothing is carried beside the parameters."""
        return aux

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Observations f32[B, X] -> {'latent': f32[B, D]}."""
        return {"latent": self.network.apply(params["encoder"], images)}


def alignment(h_BVD: jax.Array, convention: str, reduce: Reduce) -> jax.Array:
    """Mean squared distance of the two views of f32[B, 2, D].

    "paper": mean over pairs of ||h - h'||^2; "code": mean over pairs, views and features of the
    squared distance to the pair's mean, 4 D times less.
    """
    distance = reduce.mean(jnp.square(h_BVD[:, 0] - h_BVD[:, 1]).sum(-1))
    return distance / (4 * h_BVD.shape[-1]) if convention == "code" else distance


def covariance(h_BVD: jax.Array, reduce: Reduce) -> jax.Array:
    """Unbiased covariance f32[D, D] over all views of the global batch."""
    num = reduce.sum(jnp.ones(h_BVD.shape[0])) * h_BVD.shape[1]
    mean_D = reduce.mean(h_BVD.mean(1))
    centred = h_BVD - mean_D[None, None]
    flat = centred.reshape(-1, h_BVD.shape[-1])
    return reduce.sum(jnp.matmul(flat.T, flat, precision=HIGHEST)[None]) / (num - 1.0)


def whitening(h_BVD: jax.Array, convention: str, reduce: Reduce) -> jax.Array:
    """||Cov(h) - I||_F^2 ("paper"), or its mean over the D^2 entries ("code")."""
    deviation = covariance(h_BVD, reduce) - jnp.eye(h_BVD.shape[-1])
    return (jnp.square(deviation).mean if convention == "code" else jnp.square(deviation).sum)()


def hinge_vicreg(h_BVD: jax.Array, reduce: Reduce) -> jax.Array:
    """VICReg's variance hinge and covariance term at their weights 25 : 1 (Bardes et al., 2022).

    mean_d max(0, 1 - std_d) + (1 / 25) sum_{d != e} Cov_de^2 / D, over both views together.
    """
    covariance_DD = covariance(h_BVD, reduce)
    return variance_hinge(covariance_DD) + off_diagonal(covariance_DD) / 25.0


def variance_hinge(covariance_DD: jax.Array) -> jax.Array:
    """mean_d max(0, 1 - std_d), with std_d^2 = Cov_dd + 1e-4."""
    return jax.nn.relu(1.0 - jnp.sqrt(jnp.diagonal(covariance_DD) + 1e-4)).mean()


def off_diagonal(covariance_DD: jax.Array) -> jax.Array:
    """sum_{d != e} Cov_de^2 / D."""
    variance_D = jnp.diagonal(covariance_DD)
    return (jnp.square(covariance_DD).sum() - jnp.square(variance_D).sum()) / len(variance_D)


def info_nce(h_BVD: jax.Array, precision_D: jax.Array, reduce: Reduce) -> jax.Array:
    """Symmetric InfoNCE with the kernel exp(-sum_d p_d (u_d - v_d)^2), all B pairs as candidates.

    Isotropic precisions give the Gaussian kernel; learnt ones are AnInfoNCE (Rusak et al., 2024).
    """
    u_BD, v_BD = h_BVD[:, 0], h_BVD[:, 1]
    all_u, all_v = reduce.gather(u_BD), reduce.gather(v_BD)
    positive_B = -(precision_D[None] * jnp.square(u_BD - v_BD)).sum(-1)

    def log_candidates(x_BD: jax.Array, all_CD: jax.Array) -> jax.Array:
        """log of the summed kernels to all candidates: f32[B]."""
        scaled = x_BD * precision_D[None]
        cross = jnp.matmul(scaled, all_CD.T, precision=HIGHEST)
        own = (scaled * x_BD).sum(-1)[:, None]
        other = (precision_D[None] * jnp.square(all_CD)).sum(-1)[None]
        return jax.nn.logsumexp(2.0 * cross - own - other, axis=1)

    both_B = log_candidates(u_BD, all_v) + log_candidates(v_BD, all_u)
    return reduce.mean(0.5 * both_B - positive_B)
