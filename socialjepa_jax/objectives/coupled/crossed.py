"""One model that sees the same states through two cameras: the pairs of a migration, no teacher.

    own L(a) + beta |f(b) - f(a)|^2,

where a and b are images of one state. It tells what pairs are worth without anybody who knows.

Shape key: B batch, D features.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_non_negative, check_one_of
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Objective, Params, Wrapper
from socialjepa_jax.objectives.coupled.link import squared_distance
from socialjepa_jax.objectives.coupled.members import check_trained, image_of
from socialjepa_jax.sharding import Reduce


@dataclass(frozen=True)
class Crossed(Wrapper):
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

    @property
    def wrapped(self) -> Objective:
        """The model's objective."""
        return self.objective

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
