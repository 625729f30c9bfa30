"""DINOv2: what it adds to the losses of DINO and iBOT (Oquab et al., 2024).

"DINOv2: Learning Robust Visual Features without Supervision" (arXiv:2304.07193). The published code
is github.com/facebookresearch/dinov2. Its loss of the CLS token is `dino.cross_view_loss`, its
patch loss has the value of `ibot.patch_loss`, and its patch centre is `dino.update_centre` with the
mask.

Shape key: B images of this shard, D features, C crops, P patches, K outputs.
"""

import jax
import jax.numpy as jnp

from socialjepa_jax.objectives.shared.crossentropy import HIGHEST, unit_rows
from socialjepa_jax.objectives.swav import sinkhorn
from socialjepa_jax.sharding import ONE_DEVICE, Reduce

TINY = 1e-37  # a squared distance above which the square root has a finite gradient


def koleo(z_BD: jax.Array, *, eps: float = 1e-8, reduce: Reduce | None = None) -> jax.Array:
    """Returns -mean log(distance to the nearest neighbour + eps) of unit vectors.

    The Kozachenko-Leonenko estimator of entropy (Sablayrolles et al., 2019, "Spreading vectors for
    similarity search", section 3.2), which spreads vectors evenly over the sphere. Neighbours are
    those of the same device, as in the published code, so the term is stronger with more images on
    a device. Which vector is nearest has no gradient; both ends of the distance have. As published,
    `eps` is also added to every entry of the difference. DINOv2 applies this to the student's CLS
    token after the final norm, before the head, to each global crop on its own, and sums over crops
    with the weight 0.1.

    A value near -log(eps) is that of equal vectors: 17.4 for D = 3, 15.4 for D = 384. In half
    precision 1e-8 is 0 and the value infinite; here all is in float32.

    Args:
        z_BD: vectors of any float type and any length, at least two on a device; they are
            normalised here. Zero vectors are allowed.
        eps: see above.
        reduce: averages over devices; None leaves each its own value.

    Returns:
        f32[].
    """
    u_BD = unit_rows(z_BD)
    fixed_BD = jax.lax.stop_gradient(u_BD)
    cosine_BB = jnp.matmul(fixed_BD, fixed_BD.T, precision=HIGHEST)
    nearest_B = jnp.where(jnp.eye(len(u_BD), dtype=bool), -jnp.inf, cosine_BB).argmax(1)
    square_B = jnp.square(u_BD - u_BD[nearest_B] + eps).sum(-1)
    distance_B = jnp.sqrt(jnp.maximum(square_B, TINY))
    value = -jnp.log(distance_B + eps).mean()
    return value if reduce is None else reduce.mean(value[None])


def sinkhorn_targets(
    teacher_CBPK: jax.Array,
    mask_CBP: jax.Array,
    *,
    teacher_temperature: float | jax.Array,
    rounds: int = 3,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns targets at masked patches that use all outputs about equally, in place of a centre.

    `swav.sinkhorn` over the masked patches of all crops, images and devices, with the teacher's
    temperature as `eps` (the "sinkhorn_knopp" centring of the large published recipes). For the CLS
    token it is `swav.sinkhorn` on the rows of all global crops. `crossentropy.at_masked` and
    `crossentropy.between_crops` take them as targets.

    Args:
        teacher_CBPK: raw logits, of any float type.
        mask_CBP: bool[C, B, P], True for masked patches.
        teacher_temperature: 0.04 to 0.07.
        rounds: see `swav.sinkhorn`.
        reduce: reductions over the global batch.

    Returns:
        f32[C, B, P, K], without gradient. Patches that are not masked get targets, too, but do not
        change those of others.
    """
    rows_SK = teacher_CBPK.reshape(-1, teacher_CBPK.shape[-1])
    counts_S, eps = mask_CBP.reshape(-1), teacher_temperature
    targets_SK = sinkhorn(rows_SK, eps=eps, rounds=rounds, reduce=reduce, counts_B=counts_S)
    return targets_SK.reshape(teacher_CBPK.shape)
