"""Encoder and projector of the objectives on several views of an image.

Shape key: B batch, V views, H height, W width, C channels, D features of the latent, P features of
the projection.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp

from socialjepa_jax.data.augment.views import MultiCrop
from socialjepa_jax.errors import (
    InputError,
    check_divides,
    check_in_range,
    check_one_of,
    check_positive,
    sides,
)
from socialjepa_jax.models import encoders
from socialjepa_jax.models.batchnorm import Mean, local_mean
from socialjepa_jax.models.encoders import EncoderConfig
from socialjepa_jax.models.functional import Functional, functional
from socialjepa_jax.models.mlp import Projector
from socialjepa_jax.models.projection import Head, HeadStyle
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.shared.losses import covariance
from socialjepa_jax.sharding import Reduce

STATISTICS_MOMENTUM = 0.1  # weight of a new batch in the running statistics

Statistics = dict[str, dict[str, tuple[jax.Array, jax.Array]]]  # network -> layer -> mean, variance


class Embedding(NamedTuple):
    """Outputs of encoder and projector.

    Attributes:
        latents: "mean" and, with a CLS token, "cls": f32[..., D].
        projection: f32[..., P]; without projector the latent itself.
    """

    latents: dict[str, jax.Array]
    projection: jax.Array


@dataclass(frozen=True)
class JointEmbedding:
    """Encoder and projector of an objective that compares views of an image.

    Attributes:
        encoder: a ViT or a ResNet.
        latent: output of the encoder that is the latent, "cls" | "mean"; a ResNet has "mean" only.
        projector_layers: 0 (the loss acts on the latent itself), 1 (linear), 2 or 3.
        projector_width: features of its hidden layers.
        projector_dim: features P of the projection.
        views: numbers and augmentations of the views.
        pack_views: encode views of all sizes by a ViT in one pass: matrix products take the tokens
            of all views, and only attention is computed for each size. The results agree up to
            rounding. The speed depends on the device: larger products, but additional copies.
    """

    encoder: EncoderConfig = ViTConfig()
    latent: str = "cls"
    projector_layers: int = 3
    projector_width: int = 2048
    projector_dim: int = 64
    views: MultiCrop = MultiCrop()
    pack_views: bool = False

    def __post_init__(self) -> None:
        check_one_of(encoders.latent_kinds(self.encoder), latent=self.latent)
        check_in_range(0, 3, projector_layers=self.projector_layers)
        check_positive(projector_width=self.projector_width, projector_dim=self.projector_dim)
        if isinstance(self.encoder, ViTConfig) and self.views.local_views:
            check_divides(self.encoder.patch_size, local_size=self.views.local_size)
        if self.pack_views and not isinstance(self.encoder, ViTConfig):
            raise InputError("pack_views=True needs a ViT as the encoder")

    @property
    def projection_dim(self) -> int:
        """Features P of the vectors that the loss acts on."""
        return self.projector_dim if self.projector_layers else self.encoder.width

    @cached_property
    def projector(self) -> Functional:
        """The projector as pure functions."""
        return self._mlp(self.encoder.width, self.projector_layers)

    @property
    def style(self) -> HeadStyle | None:
        """Normalisations and biases of the heads; None: those of `Projector`."""
        return None

    @property
    def joint_head(self) -> bool:
        """True: the projector's batch statistics are those of views of all sizes together."""
        return False

    @property
    def apart(self) -> bool:
        """True: batch statistics are those of each view, not of all views of a size."""
        return False

    def _mlp(self, inputs: int, layers: int) -> Functional:
        hidden, outputs, dtype = self.projector_width, self.projection_dim, self.encoder.dtype
        style = self.style
        if style is not None:
            widths = (inputs, *[hidden] * (layers - 1), outputs)
            return functional(lambda rngs: Head(widths, style, dtype=dtype, rngs=rngs))
        return functional(
            lambda rngs: Projector(inputs, hidden, outputs, layers, dtype=dtype, rngs=rngs)
        )

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns {'encoder', 'projector'} and {'statistics'}; absent parts have no entry."""
        key_encoder, key_projector = jax.random.split(key)
        params: Params = {"encoder": encoders.init(self.encoder, key_encoder)}
        if self.projector_layers:
            params["projector"] = self.projector.init(key_projector)
        fresh = self.fresh_statistics(params)
        return params, {"statistics": fresh} if fresh else {}

    def fresh_statistics(self, params: Params) -> Statistics:
        """Returns means of zero and variances of one for every batch normalisation."""
        shape = (1, *sides(self.encoder.image_size), self.encoder.channels)
        images = jax.ShapeDtypeStruct(shape, jnp.float32)
        used = jax.eval_shape(lambda images: self.embed(params, images)[1], images)
        return {
            network: {
                name: (jnp.zeros(mean.shape), jnp.ones(var.shape))
                for name, (mean, var) in layers.items()
            }
            for network, layers in used.items()
        }

    def embed(
        self,
        params: Params,
        images_BHWC: jax.Array,
        statistics: Statistics | None = None,
        mean: Mean = local_mean,
    ) -> tuple[Embedding, Statistics]:
        """Encodes and projects images f32[B, H, W, C] of one size.

        Args:
            params: {'encoder', 'projector'}.
            images_BHWC: f32[B, H, W, C].
            statistics: statistics to normalise with; None: those of the batch.
            mean: mean over the leading axis of the batch, see `ResNet`.

        Returns:
            The embedding and the statistics used.
        """
        given = statistics or {}
        latents, used = encoders.apply(
            self.encoder, params["encoder"], images_BHWC, given.get("encoder"), mean
        )
        embedding, projector = self._project(params, latents, given.get("projector"), mean)
        return embedding, {"encoder": used, **projector} if used else projector

    def _project(
        self,
        params: Params,
        latents: dict[str, jax.Array],
        statistics: dict[str, tuple[jax.Array, jax.Array]] | None,
        mean: Mean,
    ) -> tuple[Embedding, Statistics]:
        """Adds the projection to latents f32[B, D] of one size."""
        projection, used = latents[self.latent], {}
        if self.projector_layers:
            projection, used = self.projector.apply(
                params["projector"], projection, statistics, mean
            )
        embedding = Embedding(latents, projection.astype(jnp.float32))
        return embedding, {"projector": used} if used else {}

    def embed_views(
        self, params: Params, views: tuple[jax.Array, ...], reduce: Reduce
    ) -> tuple[Embedding, list[Statistics]]:
        """Encodes and projects all views, in one pass for each size or packed in one pass.

        Batch normalisation acts on each size separately in both cases; see `apart` and
        `joint_head` for the objectives that differ.

        Args:
            params: {'encoder', 'projector'}.
            views: f32[B, V, H, W, C] for each size, from `MultiCrop`.
            reduce: reductions over the global batch.

        Returns:
            The embeddings of all views, arrays [B, V, features], and the statistics of each pass.
        """
        if self.apart:
            views = tuple(x[:, v : v + 1] for x in views for v in range(x.shape[1]))
        flat = tuple(images.reshape(-1, *images.shape[2:]) for images in views)
        if self.joint_head:
            passes = self._joint(params, flat, reduce)
        elif self.pack_views:
            latents = self._packed(params, flat)
            passes = [self._project(params, each, None, reduce.mean) for each in latents]
        else:
            passes = [self.embed(params, images, None, reduce.mean) for images in flat]
        parts = [
            jax.tree.map(lambda x, lead=images.shape[:2]: x.reshape(*lead, -1), embedding)
            for images, (embedding, _) in zip(views, passes)
        ]
        statistics = [used for _, used in passes]
        return jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), *parts), statistics

    def _packed(self, params: Params, flat: tuple[jax.Array, ...]) -> list[dict[str, jax.Array]]:
        assert isinstance(self.encoder, ViTConfig)
        return encoders.apply_packed(self.encoder, params["encoder"], flat)

    def _joint(
        self, params: Params, flat: tuple[jax.Array, ...], reduce: Reduce
    ) -> list[tuple[Embedding, Statistics]]:
        """Embeds images of each size, with one pass of the projector for all of them."""
        if self.pack_views:
            latents = self._packed(params, flat)
            used: list[dict[str, tuple[jax.Array, jax.Array]]] = [{} for _ in flat]
        else:
            each = [
                encoders.apply(self.encoder, params["encoder"], images, None, reduce.mean)
                for images in flat
            ]
            latents, used = [out for out, _ in each], [of_pass for _, of_pass in each]
        together = jax.tree.map(lambda *x: jnp.concatenate(x), *latents)
        embedding, projector = self._project(params, together, None, reduce.mean)
        ends = [sum(map(len, flat[: i + 1])) for i in range(len(flat))]
        parts = [
            jax.tree.map(lambda x, a=a, b=b: x[a:b], embedding) for a, b in zip([0, *ends], ends)
        ]
        statistics: list[Statistics] = [{"encoder": of_pass} if of_pass else {} for of_pass in used]
        statistics[-1] = statistics[-1] | projector
        return list(zip(parts, statistics))

    def monitors(self, embedding: Embedding, reduce: Reduce) -> Metrics:
        """Returns metrics that show collapse, over all views of the global batch.

        'latent_variance' and 'projection_variance': variance, averaged over features. 'latent_rank'
        and 'projection_rank': (sum of the covariance's eigenvalues)^2 over their sum of squares,
        between 1 (a single direction) and the number of features (isotropic).
        """
        out: Metrics = {}
        vectors = {"latent": embedding.latents[self.latent], "projection": embedding.projection}
        for name, x_BVD in jax.lax.stop_gradient(vectors).items():
            covariance_DD = covariance(x_BVD, reduce)
            trace = jnp.trace(covariance_DD)
            out[f"{name}_variance"] = trace / len(covariance_DD)
            squares = jnp.square(covariance_DD).sum()
            out[f"{name}_rank"] = jnp.square(trace) / jnp.maximum(squares, 1e-30)
        return out

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns `aux`: `loss` has already updated the running statistics."""
        return aux

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes whole images with the running statistics.

        Returns:
            'latent' f32[B, D], 'projection' f32[B, P], and each possible choice of the latent, so
            that one run can compare them: 'mean', and 'cls' with a CLS token.
        """
        embedding, _ = self.embed(params, images, aux.get("statistics"))
        latent = embedding.latents[self.latent]
        return {"latent": latent, "projection": embedding.projection, **embedding.latents}


@dataclass(frozen=True)
class PairObjective(JointEmbedding):
    """Base of the objectives whose loss is a function of the projections of two global views."""

    views: MultiCrop = MultiCrop(local_views=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.views.require_pair()

    def loss_on(
        self, z_BVP: jax.Array, hparams: HParams, reduce: Reduce
    ) -> tuple[jax.Array, Metrics]:
        """Returns the loss of projections f32[B, 2, P] and its metrics."""
        raise NotImplementedError

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes `loss_on` for views drawn from `key`; see `Objective.loss`."""
        embedding, statistics = self.embed_views(params, self.views(batch, key), reduce)
        loss, metrics = self.loss_on(embedding.projection, hparams, reduce)
        metrics |= self.monitors(embedding, reduce)
        return loss, (update_running(aux, statistics), jax.lax.stop_gradient(metrics))


def update_running(aux: Aux, passes: list[Statistics], name: str = "statistics") -> Aux:
    """Returns `aux` with the moving average of statistics updated by each pass in turn.

    A pass may have used a part of the networks only; the others' averages stay.
    """
    if name not in aux:
        return aux
    average = aux[name]
    for used in passes:
        moved = jax.tree.map(
            lambda old, new: old + STATISTICS_MOMENTUM * (jax.lax.stop_gradient(new) - old),
            {network: average[network] for network in used},
            used,
        )
        average = {**average, **moved}
    return {**aux, name: average}
