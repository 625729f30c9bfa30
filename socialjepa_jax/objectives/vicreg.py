"""VICReg: two views agree, features vary and do not correlate (Bardes et al., 2022).

Shape key: B batch, V = 2 views, P features of the projection.
"""

from dataclasses import dataclass

import jax

from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import check_in_range, check_non_negative, check_one_of
from socialjepa_jax.objectives import pairs
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.embedding import JointEmbedding, running
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class VicReg(JointEmbedding):
    """VICReg on two global views.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views: see
            `JointEmbedding`. The published expander is 3 layers of 8192.
        kind: names this objective in a configuration.
        form: "hinge", the published one: invariance x mean squared distance of the views
            + variance x hinge of the standard deviations, averaged over views
            + covariance x squared off-diagonal covariances, summed over views |
            "whiten", the identifiability paper's: (1 - lambda) E||z - z'||^2
            + lambda ||Cov - I||_F^2, over both views together.
        invariance, variance, covariance: weights of "hinge".
        weight: lambda of "whiten"; `hparams['lambda']`, where an agent has it, comes before it.
    """

    views: MultiCrop = MultiCrop(local_views=0)
    kind: str = "vicreg"
    form: str = "hinge"
    invariance: float = 25.0
    variance: float = 25.0
    covariance: float = 1.0
    weight: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(("vicreg",), kind=self.kind)
        check_one_of(("hinge", "whiten"), form=self.form)
        weights = ("invariance", "variance", "covariance")
        check_non_negative(**{name: getattr(self, name) for name in weights})
        check_in_range(0.0, 1.0, weight=self.weight)
        self.views.require_pair()

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """VICReg on views drawn from `key`; see `Objective.loss`."""
        embedding, statistics = self.embed_views(params, self.views(batch, key), reduce)
        terms = self._hinge if self.form == "hinge" else self._whiten
        loss, metrics = terms(embedding.projection, hparams, reduce)
        metrics |= self.monitors(embedding, reduce)
        return loss, (running(aux, statistics), jax.lax.stop_gradient(metrics))

    def _hinge(
        self, z_BVP: jax.Array, hparams: HParams, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        invariance = pairs.alignment(z_BVP, "paper", reduce) / z_BVP.shape[-1]
        first, second = (pairs.covariance(z_BVP[:, v : v + 1], reduce) for v in range(2))
        variance = (pairs.variance_hinge(first) + pairs.variance_hinge(second)) / 2
        covariance = pairs.off_diagonal(first) + pairs.off_diagonal(second)
        loss = (
            self.invariance * invariance + self.variance * variance + self.covariance * covariance
        )
        return loss, {"invariance": invariance, "variance": variance, "covariance": covariance}

    def _whiten(
        self, z_BVP: jax.Array, hparams: HParams, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        weight = hparams.get("lambda", self.weight)
        metrics = {
            "invariance": pairs.alignment(z_BVP, "paper", reduce),
            "whitening": pairs.whitening(z_BVP, "paper", reduce),
        }
        return (1.0 - weight) * metrics["invariance"] + weight * metrics["whitening"], metrics
