"""Deep mutual learning: two models, two heads, labels, and each other's predictions.

    own L(a) + own L(b) + gamma sum over both of CE(p, label) + KL(p of the peer || p)

(Zhang et al. 2018, eq. 4 to 6, where own = 0 and gamma = 1; the temperature is 1.) No gradient
reaches a peer. Zhang et al. update the models one after the other, the second against the updated
first; here both take the same step.

Shape key: B batch, D features, C classes.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_non_negative, check_one_of
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Objective, Params
from socialjepa_jax.objectives.coupled import divergences
from socialjepa_jax.objectives.coupled.classes import check_classes, cross_entropy, labels_of
from socialjepa_jax.objectives.coupled.link import linear, linear_head
from socialjepa_jax.objectives.coupled.members import check_trained, width_of
from socialjepa_jax.objectives.coupled.pair import MODELS, Pair, finite
from socialjepa_jax.sharding import Reduce

HEADS = ("head_a", "head_b")


@dataclass(frozen=True)
class MutualClasses(Pair):
    """Objective of two models with a linear head each; one agent. See `Pair`.

    Attributes:
        kind: names this objective in a configuration.
        objective: of each model.
        num_classes: C.
        weight: gamma; `hparams['gamma']`, if present, takes precedence.
        own: factor of the models' own losses; `hparams['own']`, if present, takes precedence.
    """

    objective: Objective
    kind: str = "mutual_classes"
    num_classes: int = 2
    weight: float = 1.0
    own: float = 1.0

    def __post_init__(self) -> None:
        check_one_of(("mutual_classes",), kind=self.kind)
        check_classes(self.num_classes)
        check_non_negative(weight=self.weight, own=self.own)
        check_trained(self.objective)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of models and heads: each is clipped and, if its update is bad, skipped alone."""
        return (*MODELS, *HEADS)

    def start(self, key_a: jax.Array, key_b: jax.Array) -> tuple[Params, Aux]:
        """Draws {'a', 'b', 'head_a', 'head_b'} and {'a', 'b'}."""
        params, aux = super().start(key_a, key_b)
        width = width_of(self.objective)
        keys = (jax.random.fold_in(key, 2) for key in (key_a, key_b))
        heads = (linear_head(key, width, self.num_classes) for key in keys)
        return {**params, **dict(zip(HEADS, heads))}, aux

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the objective on batch['a'] and batch['b'] with `hparams['labels']` [N].

        Metrics are those of both models under 'a/' and 'b/', with 'hard', the cross-entropy, and
        'soft', the divergence from the peer; and 'coupling', the unweighted sum of both.

        Raises:
            InputError: there are no labels.
        """
        total, new, metrics, latents = self.alone(params, aux, batch, key, hparams, reduce)
        labels_B = labels_of(hparams, batch["a"]["index"])
        both = [linear(params[head], z) for head, z in zip(HEADS, latents)]
        coupling = jnp.zeros(())
        for name, own_BC, peer_BC in zip(MODELS, both, reversed(both)):
            hard = reduce.mean(cross_entropy(own_BC, labels_B))
            soft = reduce.mean(divergences.mutual(own_BC, finite(peer_BC)))
            coupling = coupling + hard + soft
            metrics |= {f"{name}/hard": hard, f"{name}/soft": soft}
        metrics["coupling"] = coupling
        own, gamma = hparams.get("own", self.own), hparams.get("gamma", self.weight)
        return own * total + gamma * coupling, (new, jax.lax.stop_gradient(metrics))
