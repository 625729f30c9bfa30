"""One model that sees the same states through two cameras: the pairs of a migration, no teacher.

    own L(a) + beta |f(b) - f(a)|^2,

where a and b are images of one state. It tells what pairs are worth without anybody who knows.

Shape key: B batch, D features.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_non_negative, check_one_of
from socialjepa_jax.objectives.base import (
    Aux,
    Batch,
    HParams,
    Metrics,
    Objective,
    Params,
    groups_of,
    projected,
)
from socialjepa_jax.objectives.coupled.link import squared_distance
from socialjepa_jax.objectives.coupled.members import check_trained, image_of
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class Crossed:
    """Objective of one model on pairs of cameras; parameters and state are those of `objective`.

    Attributes:
        objective: of the model, on images of its own camera.
        kind: names this objective in a configuration.
        weight: beta; `hparams['beta']`, if present, takes precedence.
    """

    objective: Objective
    kind: str = "crossed"
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_one_of(("crossed",), kind=self.kind)
        check_non_negative(weight=self.weight)
        check_trained(self.objective)
        image_of(self.objective)

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns parameters and state of the model."""
        return self.objective.init(key)

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the objective on batch['a'] (its own camera) and batch['b'].

        Metrics are the model's own and 'coupling', the unweighted distance.
        """
        a = {**batch["a"], "step": batch["step"], "draw": batch["draw"]}
        alone, (moved, metrics) = self.objective.loss(params, aux, a, key, hparams, reduce)
        images = jnp.concatenate([a["image"], batch["b"]["image"]])
        z = self.objective.encode(params, aux, images)["latent"].astype(jnp.float32)
        z_a, z_b = jnp.split(z, 2)
        term = squared_distance(z_a, z_b, reduce)
        total = alone + hparams.get("beta", self.weight) * term
        return total, (moved, {**metrics, "coupling": jax.lax.stop_gradient(term)})

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns the carried state after the model's own rule."""
        return self.objective.after_update(params, aux, step, hparams)

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes images of either camera."""
        return self.objective.encode(params, aux, images)

    def groups(self, params: Params) -> Params:
        """Returns the parameter groups of the model, None where it has none of its own."""
        return groups_of(self.objective, params)

    def project(self, params: Params) -> Params:
        """Returns the parameters after the model's projection."""
        return projected(self.objective, params)
