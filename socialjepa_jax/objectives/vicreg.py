"""VICReg: two views agree, and features vary without correlation (Bardes et al., 2022).

Shape key: B batch, V = 2 views, P features of the projection.
"""

from dataclasses import dataclass

import jax

from socialjepa_jax.errors import check_in_range, check_non_negative, check_one_of
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.objectives.shared import losses
from socialjepa_jax.objectives.shared.embedding import PairObjective
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class VicReg(PairObjective):
    """VICReg on two global views.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views: see
            `JointEmbedding`. The published expander is 3 layers of 8192.
        kind: names this objective in a configuration.
        form: "hinge", the published loss (arXiv:2105.04906): invariance x mean squared distance of
            the views + variance x hinge of the standard deviations, averaged over views
            + covariance x squared off-diagonal covariances, summed over views |
            "whiten", as in "When Does LeJEPA Learn a World Model?": (1 - lambda) E||z - z'||^2
            + lambda ||Cov - I||_F^2, over both views together.
        invariance, variance, covariance: weights of "hinge"; `hparams['lambda']`, if present, takes
            the place of `covariance`.
        weight: lambda of "whiten"; `hparams['lambda']`, if present, takes precedence.
    """

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

    def loss_on(
        self, z_BVP: jax.Array, hparams: HParams, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        """Returns VICReg of projections f32[B, 2, P], with its terms as metrics."""
        invariance = losses.alignment(z_BVP, "paper", reduce)
        if self.form == "whiten":
            weight = hparams.get("lambda", self.weight)
            whitening = losses.whitening(z_BVP, "paper", reduce)
            loss = (1.0 - weight) * invariance + weight * whitening
            return loss, {"invariance": invariance, "whitening": whitening}
        invariance = invariance / z_BVP.shape[-1]
        first, second = (losses.covariance(z_BVP[:, v : v + 1], reduce) for v in range(2))
        variance = (losses.variance_hinge(first) + losses.variance_hinge(second)) / 2
        covariance = losses.off_diagonal(first) + losses.off_diagonal(second)
        weight = hparams.get("lambda", self.covariance)
        loss = self.invariance * invariance + self.variance * variance + weight * covariance
        return loss, {"invariance": invariance, "variance": variance, "covariance": covariance}
