"""MoCo v3: a query identifies its momentum key among the batch (Chen, Xie and He, 2021).

"An Empirical Study of Training Self-Supervised Vision Transformers" (arXiv:2104.02057).

Shape key: B images of this shard, N images of all shards, D features, V = 2 views,
P features of the projection.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp

from socialjepa_jax import optim
from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import check_one_of, check_positive
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.projection import Head, HeadStyle
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params, PyTree
from socialjepa_jax.objectives.shared.crops import byol_views
from socialjepa_jax.objectives.shared.crossentropy import HIGHEST, identify, own_part, unit_rows
from socialjepa_jax.objectives.shared.teacher import TaughtEmbedding
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


@dataclass(frozen=True)
class MoCoV3(TaughtEmbedding):
    """MoCo v3 on two views, which are encoded and normalised each on its own.

    The momentum encoder of step t averages the weights of steps 0 to t, before the optimiser's
    update of that step. Here the average is updated after the optimiser, as of other objectives,
    with the momentum of the next step, which gives the same encoder.

    The heads have no biases. A batch normalisation without scale and offset ends the projector
    and, of a ViT, the predictor, which the momentum branch does not have. The published code's ViT
    differs from `ViTConfig` in its initial weights, and its small one has 12 heads.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views, pack_views: see
            `JointEmbedding`. The published projector has 3 layers for ViT and 2 for ResNet.
        momentum_start, momentum_end, latent_encoder: see `TaughtEmbedding`.
        kind: names this objective in a configuration.
        predictor_width: features of the predictor's hidden layer.
        temperature: see `contrast`; `hparams['temperature']`, if present, takes precedence.
        freeze_patches: a ViT keeps its initial patch embedding, "to improve stability".
    """

    projector_width: int = 4096
    projector_dim: int = 256
    views: MultiCrop = byol_views((0.08, 1.0))
    momentum_start: float = 0.99
    kind: str = "moco"
    predictor_width: int = 4096
    temperature: float = 0.2
    freeze_patches: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.views.require_pair()
        check_one_of(("moco",), kind=self.kind)
        check_positive(predictor_width=self.predictor_width, temperature=self.temperature)

    @property
    def style(self) -> HeadStyle:
        """The projector ends with a normalisation without parameters."""
        return HeadStyle(last_norm="plain")

    @property
    def apart(self) -> bool:
        """The two views have batch statistics of their own."""
        return True

    @property
    def student_only(self) -> tuple[str, ...]:
        """The momentum branch has no predictor."""
        return ("predictor",)

    @cached_property
    def predictor(self) -> Functional:
        """The predictor as pure functions."""
        P, dtype = self.projection_dim, self.encoder.dtype
        is_vit = isinstance(self.encoder, ViTConfig)
        style = HeadStyle(last_norm="plain" if is_vit else "none")
        widths = (P, self.predictor_width, P)
        return functional(lambda rngs: Head(widths, style, dtype=dtype, rngs=rngs))

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Adds {'predictor'} to the parameters and the momentum encoder to `aux`."""
        params, aux = super().init(key)
        params = {**params, "predictor": self.predictor.init(jax.random.fold_in(key, 2))}
        return params, self.with_teacher(params, aux)

    def groups(self, params: Params) -> PyTree:
        """All parameters of a ViT decay; of a ResNet biases and scales do not."""
        is_vit = isinstance(self.encoder, ViTConfig)

        def group(path: optim.Path, _: jax.Array) -> optim.Group:
            scaled = optim.is_scaled(path)
            fixed = self.freeze_patches and is_vit and path[:2] == ("encoder", "patch")
            return optim.Group(
                decays=scaled or is_vit, trust_ratio=scaled, frozen_share=1.0 if fixed else 0.0
            )

        return optim.group_by(params, group)

    @staticmethod
    def optimizer(batch_size: int) -> optim.AdamW:
        """Returns the published optimiser of ViTs, for 300 epochs on ImageNet, without clipping."""
        return optim.AdamW(
            learning_rate=1.5e-4 * batch_size / 256,
            warmup_fraction=40 / 300,
            weight_decay=0.1,
            final_weight_decay=0.1,
            beta2=0.999,
            clip=1e6,
        )

    def momentum(self, step: jax.typing.ArrayLike, total: jax.typing.ArrayLike) -> jax.Array:
        """Returns the momentum of the step after the optimiser's 0-based step `step`."""
        return super().momentum(jnp.asarray(step) + 1, total)

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes both directions on views drawn from `key`; see `Objective.loss`."""
        views = self.views(batch, key)
        student, used = self.embed_views(params, views, reduce)
        teacher, by_teacher = self.embed_by_teacher(aux, views, reduce)
        q1, q2 = (self._predict(params, student.projection[:, v], reduce) for v in range(2))
        k_BVP = teacher.projection
        temperature = hparams.get("temperature", self.temperature)
        loss = contrast(q1, k_BVP[:, 1], temperature=temperature, reduce=reduce)
        loss += contrast(q2, k_BVP[:, 0], temperature=temperature, reduce=reduce)
        images = reduce.sum(jnp.ones(len(k_BVP)))
        metrics = {"chance": 4.0 * temperature * jnp.log(images)}
        metrics |= self.monitors(student, reduce)
        aux = self.update_statistics(aux, used, by_teacher)
        return loss, (aux, jax.lax.stop_gradient(metrics))

    def _predict(self, params: Params, z_BP: jax.Array, reduce: Reduce) -> jax.Array:
        q_BP, _ = self.predictor.apply(params["predictor"], z_BP, None, reduce.mean)
        return q_BP.astype(jnp.float32)
