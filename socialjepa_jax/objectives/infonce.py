"""InfoNCE with a Gaussian kernel: a view finds its partner among the whole batch.

The contrastive learner of "When Does LeJEPA Learn a World Model?", on pictures.

Shape key: P features of the projection.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import check_one_of, check_positive
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.embedding import JointEmbedding, running
from socialjepa_jax.objectives.pairs import alignment, info_nce
from socialjepa_jax.sharding import Reduce

KERNELS = {"code": 0.5, "paper": 1.0}  # times d^2 / sigma^2


@dataclass(frozen=True)
class InfoNce(JointEmbedding):
    """Symmetric InfoNCE on two global views.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views: see
            `JointEmbedding`.
        kind: names this objective in a configuration.
        kernel: log-similarity at distance d: "code": -d^2 / (2 sigma^2) | "paper": -d^2 / sigma^2.
        sigma: width of the kernel; `hparams['sigma']`, where an agent has it, comes before it.
    """

    views: MultiCrop = MultiCrop(local_views=0)
    kind: str = "infonce"
    kernel: str = "code"
    sigma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(("infonce",), kind=self.kind)
        check_one_of(tuple(KERNELS), kernel=self.kernel)
        check_positive(sigma=self.sigma)
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
        """InfoNCE on views drawn from `key`; see `Objective.loss`."""
        embedding, statistics = self.embed_views(params, self.views(batch, key), reduce)
        z_BVP = embedding.projection
        precision = KERNELS[self.kernel] / jnp.square(hparams.get("sigma", self.sigma))
        loss = info_nce(z_BVP, jnp.full(self.projection_dim, precision), reduce)
        metrics = {"alignment": alignment(z_BVP, "paper", reduce)}
        metrics |= self.monitors(embedding, reduce)
        return loss, (running(aux, statistics), jax.lax.stop_gradient(metrics))
