"""A momentum teacher beside the networks of a `JointEmbedding`.

Shape key: B batch, V views, D features of the latent.
"""

from dataclasses import dataclass

import jax
import optax

from socialjepa_jax import optim
from socialjepa_jax.errors import check_in_range, check_one_of
from socialjepa_jax.objectives.base import Aux, HParams, Params
from socialjepa_jax.objectives.shared.embedding import (
    Embedding,
    JointEmbedding,
    Statistics,
    update_running,
)
from socialjepa_jax.sharding import Reduce

NETWORKS = ("student", "teacher")


@dataclass(frozen=True)
class TaughtEmbedding(JointEmbedding):
    """Encoder and projector with a moving average of their weights, the teacher.

    The teacher starts as the student. Its weights are an average of the student's; it normalises
    batches by their own statistics, as the student does, and its running statistics, which
    `encode` uses, are those of its own batches.

    Attributes:
        encoder, ..., pack_views: see `JointEmbedding`.
        momentum_start: weight of the average in its first update.
        momentum_end: weight that half a cosine has reached at the end of the run.
        latent_encoder: network of the latent that `encode` returns, "student" | "teacher".
    """

    momentum_start: float = 0.996
    momentum_end: float = 1.0
    latent_encoder: str = "student"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_in_range(0.0, 1.0, momentum_start=self.momentum_start, momentum_end=self.momentum_end)
        check_one_of(NETWORKS, latent_encoder=self.latent_encoder)

    @property
    def student_only(self) -> tuple[str, ...]:
        """Names of the parameters that the teacher has not."""
        return ()

    def with_teacher(self, params: Params, aux: Aux) -> Aux:
        """Adds {'teacher'} and, with batch normalisation, {'teacher_statistics'} to `aux`."""
        teacher = {name: leaf for name, leaf in params.items() if name not in self.student_only}
        if "statistics" in aux:
            aux = {**aux, "teacher_statistics": aux["statistics"]}
        return {**aux, "teacher": teacher}

    def embed_by_teacher(
        self, aux: Aux, views: tuple[jax.Array, ...], reduce: Reduce
    ) -> tuple[Embedding, list[Statistics]]:
        """Embeds views by the teacher, without gradient; see `embed_views`."""
        return jax.lax.stop_gradient(self.embed_views(aux["teacher"], views, reduce))

    def update_statistics(
        self, aux: Aux, student: list[Statistics], teacher: list[Statistics]
    ) -> Aux:
        """Updates the running statistics of both networks."""
        return update_running(update_running(aux, student), teacher, "teacher_statistics")

    def momentum(self, step: jax.typing.ArrayLike, total: jax.typing.ArrayLike) -> jax.Array:
        """Returns the momentum after the optimiser's 0-based step `step` of `total`."""
        return optim.cosine(self.momentum_start, self.momentum_end, total)(step)

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Moves the teacher towards the student's new weights; see `momentum`."""
        m = self.momentum(step, hparams["total_steps"])
        online = {name: params[name] for name in aux["teacher"]}
        return {**aux, "teacher": optax.incremental_update(online, aux["teacher"], 1.0 - m)}

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes whole images with the running statistics.

        Returns:
            'latent' f32[B, D] and 'projection' of `latent_encoder`, and each possible choice of the
            latent: 'mean', and 'cls' with a CLS token; those of the other network as 'teacher/mean'
            or 'student/mean', and so on.
        """
        parts = {
            "student": (params, aux.get("statistics")),
            "teacher": (aux["teacher"], aux.get("teacher_statistics")),
        }
        weights, statistics = parts.pop(self.latent_encoder)
        chosen, _ = self.embed(weights, images, statistics)
        out = {"latent": chosen.latents[self.latent], "projection": chosen.projection}
        out |= chosen.latents
        for network, (weights, statistics) in parts.items():
            others, _ = self.embed(weights, images, statistics)
            out |= {f"{network}/{kind}": z for kind, z in others.latents.items()}
        return out
