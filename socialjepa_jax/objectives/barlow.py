"""Barlow Twins: views agree feature by feature, without redundancy (Zbontar et al., 2021).

"Barlow Twins: Self-Supervised Learning via Redundancy Reduction" (arXiv:2103.03230). The published
code is github.com/facebookresearch/barlowtwins.

Shape key: B images of this shard, D features.
"""

import jax
import jax.numpy as jnp

from socialjepa_jax.objectives.shared.crossentropy import HIGHEST
from socialjepa_jax.sharding import ONE_DEVICE, Reduce


def cross_correlation(
    z1_BD: jax.Array,
    z2_BD: jax.Array,
    *,
    eps: float = 1e-5,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns the correlations f32[D, D] of the features of two views (equation 2).

    Features are standardised over the global batch with the biased variance plus `eps`, as by a
    batch normalisation without scale and offset. The matrix is not symmetric.
    """
    u1_BD, u2_BD = (_standardised(z_BD, eps, reduce) for z_BD in (z1_BD, z2_BD))
    local_DD = jnp.matmul(u1_BD.T, u2_BD, precision=HIGHEST) / len(u1_BD)
    return reduce.mean(local_DD[None])


def cross_correlation_loss(
    z1_BD: jax.Array,
    z2_BD: jax.Array,
    *,
    off_diagonal: float | jax.Array = 0.0051,
    eps: float = 1e-5,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns sum_i (C_ii - 1)^2 + off_diagonal sum_{i != j} C_ij^2 (equation 1).

    C is `cross_correlation` over the global batch, and the gradient is exact. The published code
    sums C over devices outside of differentiation, so its gradient is this one over the number of
    devices. The layer-wise rate of LARS hides that for matrices; rates of biases and of batch
    normalisation, which are not adapted, were tuned with it. There is no factor of 1 / D, so the
    loss grows with the projector.

    A loss of D is that of uncorrelated views, and constant features also give D: their C is zero.
    A diagonal term near 0 with an off-diagonal term near D (D - 1) off_diagonal is one feature
    repeated.

    Args:
        z1_BD: projections of the first views, of any float type; they are not normalised by row.
        z2_BD: projections of the second views.
        off_diagonal: lambda, the weight of the redundancy; tuned for D = 8192.
        eps: added to the variances; with 0 constant features give NaN.
        reduce: reductions over the global batch.

    Returns:
        f32[].
    """
    correlation_DD = cross_correlation(z1_BD, z2_BD, eps=eps, reduce=reduce)
    eye_DD = jnp.eye(len(correlation_DD))
    weight_DD = jnp.where(eye_DD == 1.0, 1.0, off_diagonal)
    return (weight_DD * jnp.square(correlation_DD - eye_DD)).sum()


def _standardised(z_BD: jax.Array, eps: float, reduce: Reduce) -> jax.Array:
    z_BD = z_BD.astype(jnp.float32)
    centred_BD = z_BD - reduce.mean(z_BD)[None]
    variance_D = reduce.mean(jnp.square(centred_BD))
    return centred_BD * jax.lax.rsqrt(variance_D + eps)[None]
