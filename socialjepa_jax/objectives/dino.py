"""DINO: the student predicts the teacher's output for another crop (Caron et al., 2021).

"Emerging Properties in Self-Supervised Vision Transformers" (arXiv:2104.14294). The published code
is github.com/facebookresearch/dino.

Shape key: B images of this shard, G crops of the teacher, V crops of the student, K outputs.
"""

import jax
import jax.numpy as jnp

from socialjepa_jax.objectives.shared.crossentropy import between_crops
from socialjepa_jax.sharding import ONE_DEVICE, Reduce


def cross_view_loss(
    student_VBK: jax.Array,
    teacher_GBK: jax.Array,
    centre_K: jax.Array,
    *,
    teacher_temperature: float | jax.Array,
    student_temperature: float | jax.Array = 0.1,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns the mean cross-entropy over pairs of a teacher's and another crop (equation 3).

    The first G crops of the student are the teacher's, in the same order; pairs of a crop with
    itself are left out, and G (V - 1) pairs remain. The teacher has no gradient. `centre_K` is that
    of the steps before: call `update_centre` after the loss.

    A loss that stays at ln K (11.090 for 65536, 8.318 for 4096) is that of a uniform teacher: lower
    its temperature. Above 0.07 training is unstable. A loss near 0 is that of one output for all
    images: the centre is not updated, or too slowly. DINOv2 divides by one more pair than there are
    if there are no local crops, which is 2/3 of this value.

    Args:
        student_VBK: logits of all crops, of any float type.
        teacher_GBK: raw logits of the global crops; the centre is subtracted here.
        centre_K: f32[K], running mean of the teacher's logits.
        teacher_temperature: 0.04, or 0.04 to 0.07 over 30 epochs.
        student_temperature: 0.1.
        reduce: reductions over the global batch.

    Returns:
        f32[].

    Raises:
        InputError: if there are more crops of the teacher than of the student, or only one crop.
    """
    targets_GBK = teacher_targets(teacher_GBK, centre_K, teacher_temperature)
    logits_VBK = student_VBK.astype(jnp.float32) / student_temperature
    return between_crops(targets_GBK, logits_VBK, range(len(teacher_GBK)), reduce)


def teacher_targets(
    teacher: jax.Array, centre_K: jax.Array, temperature: float | jax.Array
) -> jax.Array:
    """Returns softmax((teacher - centre) / temperature) of [..., K], f32 without gradient."""
    centre = centre_K.astype(jnp.float32).reshape(*(1,) * (teacher.ndim - 1), -1)
    targets = jax.nn.softmax((teacher.astype(jnp.float32) - centre) / temperature)
    return jax.lax.stop_gradient(targets)


def update_centre(
    centre_K: jax.Array,
    teacher: jax.Array,
    *,
    momentum: float | jax.Array = 0.9,
    reduce: Reduce = ONE_DEVICE,
    mask: jax.Array | None = None,
) -> jax.Array:
    """Returns momentum x centre + (1 - momentum) x mean of the teacher's logits (equation 4).

    The mean is over the raw logits of all leading axes and all devices: crops and images, and with
    patches (iBOT) all patches, masked or not. It belongs to the carried state of a run.

    Args:
        centre_K: zeros at the start.
        teacher: [..., K], raw logits, of any float type.
        momentum: 0.9.
        reduce: reductions over the global batch.
        mask: bool[...]; the mean is over rows that are True only, as DINOv2 does for masked
            patches. Its published code averages the means of devices, which differs if they have
            unequal numbers. Without any such row the centre stays.

    Returns:
        f32[K], without gradient.
    """
    centre_K = centre_K.astype(jnp.float32)
    rows_SK = jax.lax.stop_gradient(teacher).astype(jnp.float32).reshape(-1, teacher.shape[-1])
    if mask is None:
        mean_K = reduce.mean(rows_SK)
    else:
        mask_S = mask.reshape(-1)
        count = reduce.sum(mask_S.astype(jnp.float32))
        total_K = reduce.sum(jnp.where(mask_S[:, None], rows_SK, 0.0))
        mean_K = jnp.where(count > 0.0, total_K / jnp.maximum(count, 1.0), centre_K)
    return jax.lax.stop_gradient(momentum * centre_K + (1.0 - momentum) * mean_K)
