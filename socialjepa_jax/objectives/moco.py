"""MoCo v3: a query identifies its momentum key among the batch (Chen, Xie and He, 2021).

"An Empirical Study of Training Self-Supervised Vision Transformers" (arXiv:2104.02057).

Shape key: B images of this shard, N images of all shards, D features.
"""

import jax
import jax.numpy as jnp

from socialjepa_jax.objectives.shared.crossentropy import HIGHEST, identify, own_part, unit_rows
from socialjepa_jax.sharding import ONE_DEVICE, Reduce


def contrast(
    q_BD: jax.Array,
    k_BD: jax.Array,
    *,
    temperature: float | jax.Array,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns the contrastive loss of one direction times 2 tau (equation 1, algorithm 1).

    The candidates are the N keys of the other view, without gradient; queries are no candidates.
    The training loss is the sum (not the mean) of `contrast(q1, k2)` and `contrast(q2, k1)`. With
    the factor 2 tau the size of the gradient hardly depends on tau; this is the published scale.

    A loss of one direction that stays at 2 tau ln N is that of equal features. For the sum that is
    6.654 at tau 0.2 and N 4096. A short rise and fall is the instability that the paper studies; it
    shows in the gradient of the patch embedding first, which is frozen for that reason.

    Args:
        q_BD: predictions of the trained branch, of any float type and any length; they are
            normalised here. Zero vectors are allowed.
        k_BD: projections of the momentum branch for the other view of the same images.
        temperature: 0.2 for ViT, 1.0 for ResNet.
        reduce: reductions over the global batch.

    Returns:
        f32[].
    """
    keys_ND = reduce.gather(jax.lax.stop_gradient(unit_rows(k_BD)))
    logits_BN = jnp.matmul(unit_rows(q_BD), keys_ND.T, precision=HIGHEST) / temperature
    index_B = own_part(jnp.arange(len(keys_ND)), reduce)
    return 2.0 * temperature * reduce.mean(identify(logits_BN, index_B))
