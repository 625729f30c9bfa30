"""LeJEPA: all views predict the centre of the global views, and SIGReg keeps them Gaussian.

Balestriero and LeCun (arXiv:2511.08544), section 5 and algorithm 2: one weight, without teacher,
stop-gradient or schedule.

Shape key: B batch, V views, G global views, P features of the projection.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import optax

from socialjepa_jax.errors import check_in_range, check_one_of
from socialjepa_jax.models.functional import Functional
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Params
from socialjepa_jax.objectives.shared.embedding import JointEmbedding, update_running
from socialjepa_jax.objectives.shared.sigreg_term import SigRegTerm
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class LeJepa(SigRegTerm, JointEmbedding):
    """LeJEPA's objective, with the variants of its section 6.1 and table 4.

    For a ResNet the paper takes the centre of all views: set `views.global_views` to their number
    and `views.local_views` to 0.

    Attributes:
        encoder, latent, projector_layers, projector_width, projector_dim, views: see
            `JointEmbedding`.
        sigreg_weight, ..., view_mode: see `SigRegTerm`.
        kind: names this objective in a configuration.
        predictor_layers: 0 (a view's projection is its prediction) to 3, of the projector's widths.
        centers: network of the centres: "online": the trained network | "swa": an average of its
            weights, without gradient.
        swa_decay: decay of the average of the weights. At step t the decay is at most
            (t + 1) / (t + 2), an equal average of all steps; 1.0 is an equal average throughout.
    """

    kind: str = "lejepa"
    predictor_layers: int = 0
    centers: str = "online"
    swa_decay: float = 0.996

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_sigreg()
        check_one_of(("lejepa",), kind=self.kind)
        check_in_range(0, 3, predictor_layers=self.predictor_layers)
        check_one_of(("online", "swa"), centers=self.centers)
        check_in_range(0.0, 1.0, swa_decay=self.swa_decay)

    @cached_property
    def predictor(self) -> Functional:
        """The predictor as pure functions."""
        return self._mlp(self.projection_dim, self.predictor_layers)

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Adds {'predictor'} to the parameters and, with "swa", the average {'swa'} to `aux`."""
        params, aux = super().init(key)
        if self.centers == "swa":
            aux = {**aux, "swa": params}
        if self.predictor_layers:
            head = self.predictor.init(jax.random.fold_in(key, 2))
            params = {**params, "predictor": head}
        return params, aux

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes algorithm 2 on views and slices drawn from `key`; see `Objective.loss`."""
        key_views, key_slices = jax.random.split(key)
        views = self.views(batch, key_views)
        embedding, statistics = self.embed_views(params, views, reduce)
        z_BVP = embedding.projection
        global_BGP = z_BVP[:, : self.views.global_views]
        if self.centers == "swa":
            average, _ = self.embed_views(aux["swa"], views[:1], reduce)
            global_BGP = jax.lax.stop_gradient(average.projection)
        prediction = prediction_loss(self._predict(params, z_BVP, reduce), global_BGP, reduce)
        sigreg = self.sigreg_loss(z_BVP, key_slices, hparams, reduce)
        metrics = {"prediction": prediction, "sigreg": sigreg}
        metrics |= self.sigreg_levels(sigreg, z_BVP, reduce) | self.monitors(embedding, reduce)
        loss = self.combine(prediction, sigreg, hparams)
        return loss, (update_running(aux, statistics), jax.lax.stop_gradient(metrics))

    def _predict(self, params: Params, z_BVP: jax.Array, reduce: Reduce) -> jax.Array:
        if not self.predictor_layers:
            return z_BVP
        flat = z_BVP.reshape(-1, z_BVP.shape[-1])
        predicted, _ = self.predictor.apply(params["predictor"], flat, None, reduce.mean)
        return predicted.astype(jnp.float32).reshape(z_BVP.shape)

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Moves the average towards the weights, with centers="swa"."""
        if self.centers == "online":
            return aux
        decay = jnp.minimum(self.swa_decay, (step + 1.0) / (step + 2.0))
        online = {name: params[name] for name in aux["swa"]}
        return {**aux, "swa": optax.incremental_update(online, aux["swa"], 1.0 - decay)}


def prediction_loss(predicted_BVP: jax.Array, global_BGP: jax.Array, reduce: Reduce) -> jax.Array:
    """Mean squared distance of all views to the mean of the global views (eq. 7).

    The mean is also over features, as in algorithm 2; the equation has the sum.
    """
    error_BVP = predicted_BVP - global_BGP.mean(1, keepdims=True)
    return reduce.mean(jnp.square(error_BVP).mean((1, 2)))
