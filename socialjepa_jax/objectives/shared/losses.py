"""Losses and statistics of embeddings, as pure functions of arrays; `Reduce` makes them global.

Shape key: B batch, V views, D features, P predictions of an image, C candidates.
"""

from functools import partial

import jax
import jax.numpy as jnp

from socialjepa_jax import sigreg
from socialjepa_jax.sharding import Reduce

HIGHEST = jax.lax.Precision.HIGHEST


def sigreg_of_views(
    z_BVD: jax.Array,
    key: jax.Array,
    num_slices: int,
    quadrature: sigreg.Quadrature,
    reduce: Reduce,
    *,
    flatten: bool,
    sampler: str = "gaussian",
    debiased: bool = False,
) -> jax.Array:
    """Returns SIGReg of views, with directions drawn from `key` (LeJEPA, algorithms 1 and 2).

    Args:
        z_BVD: f32[B, V, D].
        key: key of the directions; the same on all shards.
        num_slices: number of directions.
        quadrature: knots of the Epps-Pulley statistic.
        reduce: reductions over the global batch.
        flatten: True: SIGReg of the samples of all views together; False: the mean over views.
        sampler: sampler of the directions, see `sigreg.sample_directions`.
        debiased: subtract the statistic's level under the target, see `sigreg.epps_pulley`.
    """
    directions_DM = sigreg.sample_directions(key, z_BVD.shape[-1], num_slices, sampler=sampler)
    t_max, num_knots = quadrature.t_max, quadrature.num_knots
    statistic = partial(sigreg.epps_pulley, t_max=t_max, num_knots=num_knots, debiased=debiased)
    z = z_BVD.reshape(-1, z_BVD.shape[-1]) if flatten else z_BVD.swapaxes(0, 1)
    return sigreg.sigreg(z, directions_DM, statistic=statistic, axis_name=reduce.axis_name)


def alignment(h_BVD: jax.Array, convention: str, reduce: Reduce) -> jax.Array:
    """Returns the mean squared distance of the two views of f32[B, 2, D].

    "paper": mean over pairs of ||h - h'||^2. "code": mean over pairs, views and features of the
    squared distance to the mean of the pair, which is 4 D times less.
    """
    distance = reduce.mean(jnp.square(h_BVD[:, 0] - h_BVD[:, 1]).sum(-1))
    return distance / (4 * h_BVD.shape[-1]) if convention == "code" else distance


def covariance(h_BVD: jax.Array, reduce: Reduce) -> jax.Array:
    """Returns the unbiased covariance f32[D, D] over all views of the global batch."""
    num = reduce.sum(jnp.ones(h_BVD.shape[0])) * h_BVD.shape[1]
    mean_D = reduce.mean(h_BVD.mean(1))
    centred = h_BVD - mean_D[None, None]
    flat = centred.reshape(-1, h_BVD.shape[-1])
    return reduce.sum(jnp.matmul(flat.T, flat, precision=HIGHEST)[None]) / (num - 1.0)


def whitening(h_BVD: jax.Array, convention: str, reduce: Reduce) -> jax.Array:
    """Returns ||Cov(h) - I||_F^2 ("paper") or its mean over the D^2 entries ("code")."""
    squares_DD = jnp.square(covariance(h_BVD, reduce) - jnp.eye(h_BVD.shape[-1]))
    return squares_DD.mean() if convention == "code" else squares_DD.sum()


def hinge_vicreg(h_BVD: jax.Array, reduce: Reduce) -> jax.Array:
    """Returns VICReg's variance and covariance terms with weights 25 : 1 (Bardes et al., 2022).

    mean_d max(0, 1 - std_d) + (1 / 25) sum_{d != e} Cov_de^2 / D, over both views together.
    """
    covariance_DD = covariance(h_BVD, reduce)
    return variance_hinge(covariance_DD) + off_diagonal(covariance_DD) / 25.0


def variance_hinge(covariance_DD: jax.Array) -> jax.Array:
    """Returns mean_d max(0, 1 - std_d), with std_d^2 = Cov_dd + 1e-4."""
    return jax.nn.relu(1.0 - jnp.sqrt(jnp.diagonal(covariance_DD) + 1e-4)).mean()


def off_diagonal(covariance_DD: jax.Array) -> jax.Array:
    """Returns sum_{d != e} Cov_de^2 / D."""
    variance_D = jnp.diagonal(covariance_DD)
    return (jnp.square(covariance_DD).sum() - jnp.square(variance_D).sum()) / len(variance_D)


def info_nce(h_BVD: jax.Array, precision_D: jax.Array, reduce: Reduce) -> jax.Array:
    """Returns symmetric InfoNCE with the kernel exp(-sum_d p_d (u_d - v_d)^2) and B candidates.

    Isotropic precisions give the Gaussian kernel; learnt ones give AnInfoNCE (Rusak et al., 2024).
    """
    u_BD, v_BD = h_BVD[:, 0], h_BVD[:, 1]
    all_u, all_v = reduce.gather(u_BD), reduce.gather(v_BD)
    positive_B = -(precision_D[None] * jnp.square(u_BD - v_BD)).sum(-1)

    def log_candidates(x_BD: jax.Array, all_CD: jax.Array) -> jax.Array:
        """Returns the log of the summed kernels to all candidates: f32[B]."""
        scaled = x_BD * precision_D[None]
        cross = jnp.matmul(scaled, all_CD.T, precision=HIGHEST)
        own = (scaled * x_BD).sum(-1)[:, None]
        other = (precision_D[None] * jnp.square(all_CD)).sum(-1)[None]
        return jax.nn.logsumexp(2.0 * cross - own - other, axis=1)

    both_B = log_candidates(u_BD, all_v) + log_candidates(v_BD, all_u)
    return reduce.mean(0.5 * both_B - positive_B)


def variance(x_BPD: jax.Array, weight_BP: jax.Array, reduce: Reduce) -> jax.Array:
    """Returns the weighted variance over images and predictions, averaged over features.

    Args:
        x_BPD: f32[B, P, D].
        weight_BP: f32[B, P], weight of each prediction.
        reduce: reductions over the global batch.
    """
    total = reduce.mean(weight_BP.sum(1))
    mean_D = reduce.mean(jnp.einsum("bp,bpd->bd", weight_BP, x_BPD)) / total
    square_BP = jnp.square(x_BPD - mean_D[None, None]).mean(-1)
    return reduce.mean((weight_BP * square_BP).sum(1)) / total
