"""Cross-entropies that contrastive and self-distilling losses share, as pure functions of arrays.

All compute in float32 whatever comes in, and stay finite with logits of any finite size.

Shape key: B rows of this shard, N rows of all shards, D features, K outputs or prototypes,
G crops with targets, V crops of the student, C crops with patches, P patches.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import InputError
from socialjepa_jax.sharding import Reduce, own_rows

HIGHEST = jax.lax.Precision.HIGHEST


def unit_rows(z: jax.Array) -> jax.Array:
    """Divides vectors [..., D] by their Euclidean norms, in float32.

    Vectors are first divided by their largest entry, on which the result does not depend, so that
    squares neither overflow nor vanish. Zero vectors stay zero, with a finite gradient.
    """
    z = z.astype(jnp.float32)
    largest = jax.lax.stop_gradient(jnp.abs(z).max(-1, keepdims=True))
    scaled = z / jnp.where(largest == 0.0, 1.0, largest)
    square = jnp.square(scaled).sum(-1, keepdims=True)  # >= 1 but for zero vectors
    return scaled * jax.lax.rsqrt(jnp.maximum(square, 0.5))


def own_part(x: jax.Array, reduce: Reduce) -> jax.Array:
    """This shard's rows of an array [N, ...] that all shards hold, in the order of `gather`.

    Raises:
        InputError: if the rows cannot be split evenly.
    """
    if reduce.axis_name is None:
        return x
    shards = jax.lax.axis_size(reduce.axis_name)
    if len(x) % shards:
        raise InputError(f"{len(x)} rows cannot be split over {shards} devices")
    return own_rows(x, reduce.axis_name)


def whole(x: jax.Array, reduce: Reduce) -> jax.Array:
    """The rows of all shards in order, [B, ...] -> [N, ...], without gradient.

    Unlike those of `Reduce.gather` they are known to be equal on all shards, so that they can be
    carried beside the parameters.
    """
    x = jax.lax.stop_gradient(x)
    if reduce.axis_name is None:
        return x
    shards, index = jax.lax.axis_size(reduce.axis_name), jax.lax.axis_index(reduce.axis_name)
    own = (jnp.arange(shards) == index).reshape(-1, *(1,) * x.ndim)
    return jax.lax.psum(jnp.where(own, x[None], 0.0), reduce.axis_name).reshape(-1, *x.shape[1:])


def usage(p: jax.Array, reduce: Reduce) -> dict[str, jax.Array]:
    """Returns metrics of probabilities [rows, ..., K], rows first: how sharp and how varied.

    'target_entropy': mean entropy of a row, 0 to ln K. 'outputs_used': exp of the entropy of the
    mean row, 1 (always the same output) to K (all equally often).
    """
    p = jax.lax.stop_gradient(p)
    entropy = -(p * jnp.log(jnp.maximum(p, 1e-30))).sum(-1)
    axes = tuple(range(1, entropy.ndim))
    mean_K = reduce.mean(p.mean(axes))
    used = jnp.exp(-(mean_K * jnp.log(jnp.maximum(mean_K, 1e-30))).sum())
    return {"target_entropy": reduce.mean(entropy.mean(axes)), "outputs_used": used}


def identify(logits_BN: jax.Array, index_B: jax.Array) -> jax.Array:
    """Returns the cross-entropy f32[B] of picking candidate `index_B` of each row of logits."""
    log_p_BN = jax.nn.log_softmax(logits_BN.astype(jnp.float32))
    return -jnp.take_along_axis(log_p_BN, index_B[:, None], axis=1)[:, 0]


def between_crops(
    targets_GBK: jax.Array, logits_VBK: jax.Array, own: Sequence[int], reduce: Reduce
) -> jax.Array:
    """Returns the mean cross-entropy over all pairs of a target and another crop of the image.

    Args:
        targets_GBK: probabilities of the crops that have targets.
        logits_VBK: the student's logits of all crops, over its temperature.
        own: for each of the G targets, the crop of the student that it was made from.
        reduce: reductions over the global batch.

    Raises:
        InputError: if `own` does not name a crop for each target, or there is no other crop.
    """
    G, V = len(targets_GBK), len(logits_VBK)
    if len(own) != G or not all(0 <= crop < V for crop in own) or V < 2:
        raise InputError(
            f"own={tuple(own)} must name one of {V} >= 2 crops for each of {G} targets"
        )
    log_p_VBK = jax.nn.log_softmax(logits_VBK.astype(jnp.float32))
    cross_BGV = -jnp.einsum("gbk,vbk->bgv", targets_GBK, log_p_VBK, precision=HIGHEST)
    other_GV = jnp.arange(V)[None] != jnp.asarray(own)[:, None]
    return reduce.mean(jnp.where(other_GV[None], cross_BGV, 0.0).sum((1, 2))) / (G * (V - 1))


def at_masked(
    targets_CBPK: jax.Array, logits_CBPK: jax.Array, mask_CBP: jax.Array, reduce: Reduce
) -> jax.Array:
    """Returns the cross-entropy at masked patches, averaged per image, then over all images.

    An image's sum is divided by max(1, number of its masked patches). Images without a masked
    patch count in the mean, with 0.

    Args:
        targets_CBPK: the teacher's probabilities; those of patches that are not masked are unused.
        logits_CBPK: the student's logits, over its temperature.
        mask_CBP: bool[C, B, P], True for masked patches.
        reduce: reductions over the global batch.
    """
    log_p_CBPK = jax.nn.log_softmax(logits_CBPK.astype(jnp.float32))
    cross_CBP = jnp.where(mask_CBP, -(targets_CBPK * log_p_CBPK).sum(-1), 0.0)
    image_CB = cross_CBP.sum(-1) / jnp.maximum(1, mask_CBP.sum(-1))
    return reduce.mean(image_CB.mean(0))
