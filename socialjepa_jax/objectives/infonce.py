"""InfoNCE with a Gaussian kernel: a view identifies its partner among the global batch.

The contrastive learner of "When Does LeJEPA Learn a World Model?", on images.

Shape key: B batch, V = 2 views, P features of the projection.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_one_of, check_positive
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.objectives.shared import losses
from socialjepa_jax.objectives.shared.embedding import PairObjective
from socialjepa_jax.sharding import Reduce

KERNELS = {"code": 0.5, "paper": 1.0}  # times d^2 / sigma^2


@dataclass(frozen=True)
class InfoNce(PairObjective):
    """Symmetric InfoNCE on two global views.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views: see
            `JointEmbedding`.
        kind: names this objective in a configuration.
        kernel: log-similarity at distance d: "code": -d^2 / (2 sigma^2) | "paper": -d^2 / sigma^2.
        sigma: width of the kernel; `hparams['sigma']`, if present, takes precedence.
    """

    kind: str = "infonce"
    kernel: str = "code"
    sigma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(("infonce",), kind=self.kind)
        check_one_of(tuple(KERNELS), kernel=self.kernel)
        check_positive(sigma=self.sigma)

    def loss_on(
        self, z_BVP: jax.Array, hparams: HParams, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        """Returns InfoNCE of projections f32[B, 2, P], with the metric 'alignment'."""
        precision = KERNELS[self.kernel] / jnp.square(hparams.get("sigma", self.sigma))
        loss = losses.info_nce(z_BVP, jnp.full(self.projection_dim, precision), reduce)
        return loss, {"alignment": losses.alignment(z_BVP, "paper", reduce)}
