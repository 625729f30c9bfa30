"""SwAV: a crop predicts the cluster of another crop of its image (Caron et al., 2020).

"Unsupervised Learning of Visual Features by Contrasting Cluster Assignments" (arXiv:2006.09882).

Shape key: B images of this shard, V crops, D features, K prototypes, A crops with assignments,
Q rows of a queue, S samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax import optim
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import (
    InputError,
    check_in_range,
    check_non_negative,
    check_one_of,
    check_positive,
)
from socialjepa_jax.models.projection import HeadStyle
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params, PyTree
from socialjepa_jax.objectives.shared.crops import simclr_views
from socialjepa_jax.objectives.shared.crossentropy import (
    HIGHEST,
    between_crops,
    own_part,
    unit_rows,
    usage,
    whole,
)
from socialjepa_jax.objectives.shared.embedding import JointEmbedding, update_running
from socialjepa_jax.sharding import ONE_DEVICE, Reduce


def sinkhorn(
    scores_BK: jax.Array,
    *,
    eps: float | jax.Array,
    rounds: int = 3,
    reduce: Reduce = ONE_DEVICE,
    counts_B: jax.Array | None = None,
) -> jax.Array:
    """Returns soft assignments that use all prototypes about equally (section 3.1, equation 5).

    exp(scores / eps) is scaled in turn to equal sums over samples for every prototype, and to a sum
    of one over prototypes for every sample (Sinkhorn and Knopp; Cuturi, 2013). The second comes
    last, so a sample's assignment sums to 1 exactly and prototypes are equal only after many
    rounds. All is in logarithms: scores of any finite size give finite assignments, where exp in
    float32 overflows from scores of 88.7 eps on.

    Args:
        scores_BK: similarities of samples and prototypes, of any float type.
        eps: entropy of the assignments; 0.05. Lower is harder.
        rounds: number of times that both sums are scaled.
        reduce: sums over samples are over all devices.
        counts_B: bool[B]; samples that are False do not count in the sums, but are assigned, too.
            All count by default.

    Returns:
        f32[B, K], without gradient.
    """
    log_q_BK = jax.lax.stop_gradient(scores_BK).astype(jnp.float32) / eps
    counts_BK = jnp.ones((1, 1), bool) if counts_B is None else counts_B[:, None]

    def scale(_: int, log_q_BK: jax.Array) -> jax.Array:
        local_K = jax.nn.logsumexp(jnp.where(counts_BK, log_q_BK, -jnp.inf), axis=0)
        total_K = jax.nn.logsumexp(reduce.gather(local_K[None]), axis=0)
        total_K = jnp.where(total_K == -jnp.inf, 0.0, total_K)  # no sample counts
        return jax.nn.log_softmax(log_q_BK - total_K[None])

    return jnp.exp(jax.lax.fori_loop(0, rounds, scale, log_q_BK))


def swap_loss(
    z_VBD: jax.Array,
    prototypes_KD: jax.Array,
    *,
    assign: Sequence[int] = (0, 1),
    eps: float | jax.Array = 0.05,
    temperature: float | jax.Array = 0.1,
    queue_AQD: jax.Array | None = None,
    rounds: int = 3,
    reduce: Reduce = ONE_DEVICE,
) -> jax.Array:
    """Returns the swapped prediction loss (equations 1 and 2) with multi-crop.

    Each crop of `assign` is assigned to prototypes by `sinkhorn`, without gradient; all other crops
    predict the assignment, and the mean is over crops, assignments and images. The gradient reaches
    features and prototypes by the predictions. Prototypes must have unit rows: normalise them after
    every update. Unlike the published code this holds each queue whole on every device, and gives
    Sinkhorn a part of it on each; the assignments are the same.

    A loss that stays at ln K (8.006 for 3000, 6.238 for 512) is that of uniform assignments: lower
    `eps` to 0.03, start the queue later, shorten it. Prototypes that no sample takes show that
    there are many times more of them than samples: use fewer, or a queue.

    Args:
        z_VBD: features after the head, of any float type and any length; they are normalised here.
            Zero vectors are allowed.
        prototypes_KD: unit rows.
        assign: the crops that are assigned; the global ones.
        eps: see `sinkhorn`.
        temperature: of the predictions.
        queue_AQD: earlier features of each crop of `assign`, unit rows, newest first, equal on all
            devices. They stand before the batch in Sinkhorn, scored with today's prototypes, and
            count for nothing until the last row is not zero. Update it after the loss.
        rounds: see `sinkhorn`.
        reduce: reductions over the global batch.

    Returns:
        f32[].

    Raises:
        InputError: if `assign` names no crops, crops that are not there, or none but the only one;
            if there is not a queue for each of them; if queues cannot be split over the devices.
    """
    if queue_AQD is not None and len(queue_AQD) != len(assign):
        raise InputError(f"{len(queue_AQD)} queues for the {len(assign)} crops of assign={assign}")
    prototypes_KD = prototypes_KD.astype(jnp.float32)
    scores_VBK = _scores(unit_rows(z_VBD), prototypes_KD)

    def assigned(scores_BK: jax.Array, queue_QD: jax.Array | None) -> jax.Array:
        """Returns the assignments f32[B, K] of one crop."""
        rows_SK, counts_S = scores_BK, None
        if queue_QD is not None:
            queue_QD = queue_QD.astype(jnp.float32)
            earlier_SK = _scores(own_part(queue_QD, reduce), prototypes_KD)
            full_S = jnp.full(len(earlier_SK), jnp.any(queue_QD[-1] != 0.0))
            counts_S = jnp.concatenate([full_S, jnp.ones(len(rows_SK), bool)])
            rows_SK = jnp.concatenate([earlier_SK, rows_SK])
        q_SK = sinkhorn(rows_SK, eps=eps, rounds=rounds, reduce=reduce, counts_B=counts_S)
        return q_SK[-len(scores_BK) :]

    targets_ABK = jax.vmap(assigned)(scores_VBK[jnp.asarray(assign)], queue_AQD)
    return between_crops(targets_ABK, scores_VBK / temperature, assign, reduce)


def _scores(z: jax.Array, prototypes_KD: jax.Array) -> jax.Array:
    return jnp.matmul(z, prototypes_KD.T, precision=HIGHEST)


@dataclass(frozen=True)
class SwAV(JointEmbedding):
    """SwAV with multi-crop: both global crops are assigned, all other crops predict it.

    The head is linear, batch normalisation, ReLU, linear; its batch statistics are those of crops
    of all sizes together. Every update leaves prototypes of unit length.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views, pack_views: see
            `JointEmbedding`.
        kind: names this objective in a configuration.
        prototypes: K. Many times more than images in a batch leave some without any, without queue.
        eps, rounds, temperature: see `swap_loss`.
        queue: rows of the queue of each global crop, a multiple of the batch; 0: none. For batches
            of 256 images 3840 are published.
        queue_start: share of the run's steps before the queue begins to fill; 15 epochs of 400. It
            counts once it is full.
        frozen: share of the run's steps before the prototypes move; one epoch of 400.
    """

    projector_layers: int = 2
    projector_dim: int = 128
    views: MultiCrop = simclr_views((0.14, 1.0), 6)
    kind: str = "swav"
    prototypes: int = 3000
    eps: float = 0.05
    rounds: int = 3
    temperature: float = 0.1
    queue: int = 0
    queue_start: float = 0.0375
    frozen: float = 0.0025

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(("swav",), kind=self.kind)
        for name in ("prototypes", "eps", "rounds", "temperature"):
            check_positive(**{name: getattr(self, name)})
        check_non_negative(queue=self.queue)
        check_in_range(0.0, 1.0, queue_start=self.queue_start, frozen=self.frozen)
        if self.views.global_views != 2:
            raise InputError(f"views: global_views={self.views.global_views} must be 2")

    @property
    def style(self) -> HeadStyle:
        """Linear layers with biases."""
        return HeadStyle(bias=True)

    @property
    def joint_head(self) -> bool:
        """Crops of all sizes have common batch statistics in the head."""
        return True

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Adds {'prototypes'} f32[K, D] to the parameters and, with a queue, {'queue'} to `aux`."""
        params, aux = super().init(key)
        shape = (self.prototypes, self.projection_dim)
        prototypes = unit_rows(jax.random.normal(jax.random.fold_in(key, 2), shape))
        if self.queue:
            aux = {**aux, "queue": jnp.zeros((2, self.queue, self.projection_dim))}
        return {**params, "prototypes": prototypes}, aux

    def groups(self, params: Params) -> PyTree:
        """All parameters decay and have a trust ratio; prototypes are frozen first."""

        def group(path: optim.Path, _: jax.Array) -> optim.Group:
            return optim.Group(frozen_share=self.frozen if path[0] == "prototypes" else 0.0)

        return optim.group_by(params, group)

    def project(self, params: Params) -> Params:
        """Returns the parameters with prototypes of unit length."""
        return {**params, "prototypes": unit_rows(params["prototypes"])}

    @staticmethod
    def optimizer(batch_size: int) -> optim.Lars:
        """Returns the published optimiser, for 400 epochs on ImageNet."""
        return optim.Lars(
            form="larc",
            learning_rate=4.8 * batch_size / 4096,
            start_fraction=0.3 / 4.8,
            final_fraction=1e-3,
            warmup_fraction=10 / 400,
        )

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes `swap_loss` on crops drawn from `key`; see `Objective.loss`.

        The loss takes the queue of the steps before, and this step's features enter it afterwards.
        """
        embedding, statistics = self.embed_views(params, self.views(batch, key), reduce)
        z_VBD = embedding.projection.swapaxes(0, 1)
        queue, prototypes = aux.get("queue"), params["prototypes"]
        loss = swap_loss(
            z_VBD,
            prototypes,
            eps=self.eps,
            temperature=self.temperature,
            queue_AQD=queue,
            rounds=self.rounds,
            reduce=reduce,
        )
        if queue is not None:
            started = batch["step"] >= self.queue_start * hparams["total_steps"]
            newer = self._queued(queue, z_VBD, reduce)
            aux = {**aux, "queue": jnp.where(started, newer, queue)}
        scores_VBK = _scores(unit_rows(z_VBD), prototypes) / self.temperature
        metrics = usage(jax.nn.softmax(scores_VBK).swapaxes(0, 1), reduce)
        metrics |= self.monitors(embedding, reduce)
        return loss, (update_running(aux, statistics), jax.lax.stop_gradient(metrics))

    def _queued(self, queue_AQD: jax.Array, z_VBD: jax.Array, reduce: Reduce) -> jax.Array:
        """Puts the unit features of the global crops of all devices in front of the queues."""
        newest_NAD = whole(unit_rows(z_VBD[:2]).swapaxes(0, 1), reduce)
        if self.queue % len(newest_NAD):
            raise InputError(f"queue={self.queue} must be a multiple of {len(newest_NAD)} images")
        rows_AQD = jnp.concatenate([newest_NAD.swapaxes(0, 1), queue_AQD], axis=1)
        return rows_AQD[:, : self.queue]
