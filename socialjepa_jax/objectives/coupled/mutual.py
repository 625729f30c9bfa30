"""Two models that learn at once from two cameras and pull each other (section 3.7, Algorithm 2).

    "both" (Method B):         L(a) + L(b) + gamma |z_b - W z_a|^2, gradients reach both models,
    "alternating" (Method A):  in turn a is pulled towards W' z_b and b towards W z_a, with W' the
                               reverse regression; what pulls is constant.

Shape key: B batch, D features.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax.errors import check_non_negative, check_one_of
from socialjepa_jax.objectives.base import Aux, Batch, HParams, Metrics, Objective, Params
from socialjepa_jax.objectives.coupled import link as links
from socialjepa_jax.objectives.coupled.link import Link
from socialjepa_jax.objectives.coupled.members import check_trained, width_of
from socialjepa_jax.objectives.coupled.pair import Pair, finite
from socialjepa_jax.sharding import Reduce

METHODS = ("both", "alternating")


@dataclass(frozen=True)
class Mutual(Pair):
    """Objective of two models; one agent, whose parameters are a pair.

    Attributes:
        kind: names this objective in a configuration.
        objective: of each member.
        method: "both" | "alternating".
        weight: gamma; `hparams['gamma']`, if present, takes precedence.
        link: the map W from a to b.
    """

    objective: Objective
    kind: str = "mutual"
    method: str = "both"
    weight: float = 1.0
    link: Link = Link()

    def __post_init__(self) -> None:
        check_one_of(("mutual",), kind=self.kind)
        check_one_of(METHODS, method=self.method)
        check_one_of(("closed", "shuffled", "identity", "random"), link__kind=self.link.kind)
        check_non_negative(weight=self.weight)
        check_trained(self.objective)
        self.link.check_widths(width_of(self.objective), width_of(self.objective))

    def start(self, key_a: jax.Array, key_b: jax.Array) -> tuple[Params, Aux]:
        """Draws {'a', 'b'} and {'a', 'b', 'link'}."""
        params, aux = super().start(key_a, key_b)
        width = width_of(self.objective)
        _, link = self.link.init(jax.random.fold_in(key_a, 2), width, width)
        return params, {**aux, "link": link}

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Computes the objective on batch['a'] and batch['b'].

        Metrics are those of both members under 'a/' and 'b/', 'coupling' and those of `link.fresh`.
        """
        total, new, metrics, latents = self.alone(params, aux, batch, key, hparams, reduce)
        link, state = self.link, aux["link"]
        x_BD, z_BD = map(finite, latents)
        y_BD = link.partners(z_BD, reduce)
        predicted = link.forward({}, state, x_BD)
        term = self._term(state, x_BD, y_BD, predicted, batch["step"], reduce)
        gamma = hparams.get("gamma", self.weight) * state["ready"]
        metrics |= {"coupling": jax.lax.stop_gradient(term)}
        metrics |= links.fresh(predicted, x_BD, y_BD, state, reduce)
        new["link"] = link.update(state, x_BD, y_BD, batch["step"], reduce)
        return total + gamma * term, (new, jax.lax.stop_gradient(metrics))

    def _term(
        self, state: links.State, x_BD: jax.Array, y_BD: jax.Array, predicted: jax.Array,
        step: jax.Array, reduce: Reduce,
    ) -> jax.Array:  # fmt: skip
        """Returns |z_b - W z_a|^2, or the pull on the member whose turn it is."""
        if self.method == "both":
            return links.squared_distance(predicted, y_BD, reduce)
        still = jax.lax.stop_gradient
        pull_b = links.squared_distance(still(predicted), y_BD, reduce)
        pull_a = links.squared_distance(x_BD, self.link.backward(state, still(y_BD)), reduce)
        return jnp.where((step // self.link.every) % 2 == 0, pull_a, pull_b)
