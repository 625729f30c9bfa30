"""DINO: the student predicts the teacher's output for another crop (Caron et al., 2021).

"Emerging Properties in Self-Supervised Vision Transformers" (arXiv:2104.14294). The published code
is github.com/facebookresearch/dino.

Shape key: B images of this shard, G crops of the teacher, V crops of the student, K outputs,
P features of the bottleneck.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp

from socialjepa_jax import optim
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import check_in_range, check_one_of, check_positive
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.projection import HeadStyle, Prototypes
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params, PyTree
from socialjepa_jax.objectives.shared.crops import byol_views
from socialjepa_jax.objectives.shared.crossentropy import between_crops, usage
from socialjepa_jax.objectives.shared.teacher import TaughtEmbedding
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


@dataclass(frozen=True)
class Dino(TaughtEmbedding):
    """DINO with multi-crop: the teacher sees the global crops, the student all.

    The head is linear, GELU, linear, GELU, linear to a bottleneck of unit length, then the
    weight-normalised last layer (`Prototypes`); 'projection' is the bottleneck. There is no batch
    normalisation in it. Networks of the published code differ in learnt position embeddings and in
    drop path (0.1), which the encoders here do not have. Its teacher's temperature is constant
    during an epoch, here it moves every step.

    Gradients are clipped tensor by tensor (`AdamW.clip` is the largest norm of each). While the
    last layer is frozen its gradient is taken out after that, and the optimiser skips it.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views, pack_views: see
            `JointEmbedding`; `projector_dim` is the bottleneck.
        momentum_start, momentum_end, latent_encoder: see `TaughtEmbedding`. For batches of 256
            images a start of 0.9995 is advised.
        kind: names this objective in a configuration.
        outputs: K. Small data sets need fewer than 65536.
        magnitude: the last layer's magnitudes are trained; False keeps them at 1, as published for
            all but the small ViT.
        frozen: share of the run's steps before the last layer moves; one epoch of 100.
        student_temperature: of the student's softmax.
        teacher_temperature_start, teacher_temperature: of the teacher's, at the first step and
            after `temperature_warmup`. The stronger published recipe has 0.04 to 0.07.
        temperature_warmup: share of the run's steps between the two.
        centre_momentum: see `update_centre`.
    """

    projector_dim: int = 256
    views: MultiCrop = byol_views((0.4, 1.0), 8)
    kind: str = "dino"
    outputs: int = 65536
    magnitude: bool = False
    frozen: float = 0.01
    student_temperature: float = 0.1
    teacher_temperature_start: float = 0.04
    teacher_temperature: float = 0.04
    temperature_warmup: float = 0.3
    centre_momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of((type(self).kind,), kind=self.kind)
        names = ("outputs", "student_temperature", "teacher_temperature")
        check_positive(**{name: getattr(self, name) for name in names})
        check_positive(teacher_temperature_start=self.teacher_temperature_start)
        names = ("frozen", "temperature_warmup", "centre_momentum")
        check_in_range(0.0, 1.0, **{name: getattr(self, name) for name in names})
        check_in_range(1, 3, projector_layers=self.projector_layers)
        check_in_range(1, 2, **{"views.global_views": self.views.global_views})

    @property
    def style(self) -> HeadStyle:
        """GELU between the layers, no normalisation."""
        return HeadStyle(norm="none", bias=True, std=0.02)

    @cached_property
    def last(self) -> Functional:
        """The last layer as pure functions."""
        sizes = self.projection_dim, self.outputs
        magnitude, dtype = self.magnitude, self.encoder.dtype
        return functional(
            lambda rngs: Prototypes(*sizes, magnitude=magnitude, dtype=dtype, rngs=rngs)
        )

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Adds {'last'} to the parameters, and the teacher and {'centre'} to `aux`."""
        params, aux = super().init(key)
        params = {**params, "last": self.last.init(jax.random.fold_in(key, 2))}
        return params, {**self.with_teacher(params, aux), "centre": jnp.zeros(self.outputs)}

    def groups(self, params: Params) -> PyTree:
        """Every tensor is clipped alone; biases and scales do not decay; see `frozen`."""

        def group(path: optim.Path, _: jax.Array) -> optim.Group:
            scaled = optim.is_scaled(path)
            share = self.frozen if path[0] in ("last", "patch_last") else 0.0
            clip = "/".join(path)
            return optim.Group(decays=scaled, trust_ratio=scaled, clip=clip, frozen_share=share)

        return optim.group_by(params, group)

    @staticmethod
    def optimizer(batch_size: int) -> optim.AdamW:
        """Returns the published optimiser, for 100 epochs on ImageNet."""
        rate = 5e-4 * batch_size / 256
        return optim.AdamW(
            learning_rate=rate,
            final_fraction=min(1.0, 1e-6 / rate),
            warmup_fraction=0.1,
            weight_decay=0.04,
            final_weight_decay=0.4,
            schedule="dino",
            beta2=0.999,
            clip=3.0,
        )

    def temperature(self, batch: Batch, hparams: HParams) -> jax.Array:
        """Returns the teacher's temperature at this step: f32[]."""
        warmup = self.temperature_warmup * hparams["total_steps"]
        start, end = self.teacher_temperature_start, self.teacher_temperature
        return optim.linear(start, end, warmup)(batch["step"])

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes `cross_view_loss` on crops drawn from `key`; see `Objective.loss`.

        The loss takes the centre of the steps before, and this step's logits move it afterwards.
        """
        views = self.views(batch, key)
        student, used = self.embed_views(params, views, reduce)
        teacher, by_teacher = self.embed_by_teacher(aux, views[:1], reduce)
        student_VBK = self.last.apply(params["last"], student.projection.swapaxes(0, 1))
        teacher_GBK = self.last.apply(aux["teacher"]["last"], teacher.projection.swapaxes(0, 1))
        temperature = self.temperature(batch, hparams)
        loss = cross_view_loss(
            student_VBK,
            teacher_GBK,
            aux["centre"],
            teacher_temperature=temperature,
            student_temperature=self.student_temperature,
            reduce=reduce,
        )
        targets = teacher_targets(teacher_GBK, aux["centre"], temperature)
        metrics = usage(targets.swapaxes(0, 1), reduce) | self.monitors(student, reduce)
        momentum = self.centre_momentum
        centre = update_centre(aux["centre"], teacher_GBK, momentum=momentum, reduce=reduce)
        aux = self.update_statistics({**aux, "centre": centre}, used, by_teacher)
        return loss, (aux, jax.lax.stop_gradient(metrics))
