"""SimCLR: a view identifies its partner among both views of all images (Chen et al., 2020).

"A Simple Framework for Contrastive Learning of Visual Representations" (arXiv:2002.05709). The
published code is github.com/google-research/simclr.

Shape key: B images of this shard, N images of all shards, D features.
"""

import jax
import jax.numpy as jnp

from socialjepa_jax.objectives.shared.crossentropy import HIGHEST, identify, own_part, unit_rows
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
