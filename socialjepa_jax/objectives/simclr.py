"""SimCLR: a view identifies its partner among both views of all images (Chen et al., 2020).

"A Simple Framework for Contrastive Learning of Visual Representations" (arXiv:2002.05709). The
published code is github.com/google-research/simclr.

Shape key: B images of this shard, N images of all shards, D features, P of the projection.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax import optim
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import check_one_of, check_positive
from socialjepa_jax.models.projection import HeadStyle
from socialjepa_jax.objectives.base import HParams, Metrics
from socialjepa_jax.objectives.shared.crops import simclr_views
from socialjepa_jax.objectives.shared.crossentropy import HIGHEST, identify, own_part, unit_rows
from socialjepa_jax.objectives.shared.embedding import PairObjective
from socialjepa_jax.sharding import ONE_DEVICE, Reduce


def nt_xent(
    z1_BD: jax.Array,
    z2_BD: jax.Array,
    *,
    temperature: float | jax.Array,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns NT-Xent (equation 1 and algorithm 1), the mean over 2 N anchors.

    An anchor's candidates are the 2 N - 1 other projections: its partner and both views of all
    other images, from all devices and with gradient. The published code returns the mean over N of
    the sum of both anchors, which is twice this value.

    A loss that stays at ln(2 N - 1) has learnt nothing: the projections are equal, or the
    candidates of other devices carry no gradient. Small batches need a lower temperature or a
    learning rate that grows with the square root of the batch.

    Args:
        z1_BD: projections of the first views, of any float type and any length; they are
            normalised here. Zero vectors are allowed.
        z2_BD: projections of the second views.
        temperature: 0.1 in the published code for ImageNet, 0.5 for CIFAR-10.
        reduce: reductions over the global batch.

    Returns:
        f32[].
    """
    u1_BD, u2_BD = unit_rows(z1_BD), unit_rows(z2_BD)
    u1_ND, u2_ND = reduce.gather(u1_BD), reduce.gather(u2_BD)
    num = len(u1_ND)
    index_B = own_part(jnp.arange(num), reduce)
    anchors = jnp.concatenate([u1_BD, u2_BD])
    candidates = jnp.concatenate([u1_ND, u2_ND])
    itself = jnp.concatenate([index_B, num + index_B])
    partner = jnp.concatenate([num + index_B, index_B])
    logits = jnp.matmul(anchors, candidates.T, precision=HIGHEST) / temperature
    logits = jnp.where(jnp.arange(2 * num)[None] == itself[:, None], -jnp.inf, logits)
    return reduce.mean(identify(logits, partner))


@dataclass(frozen=True)
class SimClr(PairObjective):
    """SimCLR on two views, with the projection head of its published code (version 2).

    Every linear layer of the head is followed by batch normalisation, the last one too, with a
    scale but no offset. The latent is the encoder's output. The published hidden width is that of
    the encoder, 2048 for ResNet-50.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views, pack_views: see
            `JointEmbedding`. Version 1 has 2 layers.
        kind: names this objective in a configuration.
        temperature: see `nt_xent`; `hparams['temperature']`, if present, takes precedence.
    """

    projector_dim: int = 128
    views: MultiCrop = simclr_views((0.08, 1.0))
    kind: str = "simclr"
    temperature: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(("simclr",), kind=self.kind)
        check_positive(temperature=self.temperature)

    @property
    def style(self) -> HeadStyle:
        """Batch normalisation after every layer, and small initial kernels."""
        return HeadStyle(last_norm="scale", std=0.01)

    @staticmethod
    def optimizer(batch_size: int) -> optim.Lars:
        """Returns the published optimiser, for 100 epochs on ImageNet."""
        return optim.Lars(
            form="inside",
            learning_rate=0.3 * batch_size / 256,
            weight_decay=1e-4,
            final_weight_decay=1e-4,
        )

    def loss_on(
        self, z_BVP: jax.Array, hparams: HParams, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        """Returns NT-Xent of projections f32[B, 2, P], with the metric 'chance', ln(2 N - 1)."""
        temperature = hparams.get("temperature", self.temperature)
        loss = nt_xent(z_BVP[:, 0], z_BVP[:, 1], temperature=temperature, reduce=reduce)
        images = reduce.sum(jnp.ones(len(z_BVP)))
        return loss, {"chance": jnp.log(2.0 * images - 1.0)}
