"""Two models that learn at once from two cameras and pull each other (section 3.7, Algorithm 2).

    "both" (Method B):         L(a) + L(b) + gamma |z_b - W z_a|^2, gradients reach both models,
    "alternating" (Method A):  in turn a is pulled towards W' z_b and b towards W z_a, with W' the
                               reverse regression; what pulls is constant.

Member b sees the states that a sees, through its own camera. Its parameters, and the slices and
masks of its loss, come from a seed of its own.

Shape key: B batch, D features.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from socialjepa_jax import keys
from socialjepa_jax.errors import check_non_negative, check_one_of
from socialjepa_jax.keys import Stream, agent_key
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
from socialjepa_jax.objectives.coupled import link as links
from socialjepa_jax.objectives.coupled.link import Link
from socialjepa_jax.objectives.coupled.members import check_trained, width_of
from socialjepa_jax.sharding import Reduce

METHODS = ("both", "alternating")


@dataclass(frozen=True)
class Mutual:
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

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members in parameters and state; a bad update of one is skipped alone."""
        return ("a", "b")

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns {'a', 'b'} and {'a', 'b', 'link'}, both members drawn from one key."""
        return self._start(key, jax.random.fold_in(key, 1))

    def init_from(self, hparams: HParams) -> tuple[Params, Aux]:
        """Returns the same with members drawn from hparams['seed'] and hparams['partner_seed']."""
        seeds = hparams["seed"], hparams["partner_seed"]
        return self._start(*(agent_key(seed, Stream.INIT) for seed in seeds))

    def _start(self, key_a: jax.Array, key_b: jax.Array) -> tuple[Params, Aux]:
        (params_a, aux_a), (params_b, aux_b) = map(self.objective.init, (key_a, key_b))
        width = width_of(self.objective)
        _, link = self.link.init(jax.random.fold_in(key_a, 2), width, width)
        return {"a": params_a, "b": params_b}, {"a": aux_a, "b": aux_b, "link": link}

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
        key_b, _ = keys.step_keys(hparams["partner_seed"], batch["draw"])
        total, new, latents = jnp.zeros(()), {}, {}
        metrics: Metrics = {}
        for name, own_key in (("a", key), ("b", key_b)):
            part = {**batch[name], "step": batch["step"], "draw": batch["draw"]}
            alone, (new[name], found) = self.objective.loss(
                params[name], aux[name], part, own_key, hparams, reduce
            )
            total = total + alone
            metrics |= {f"{name}/{k}": v for k, v in {**found, "loss": alone}.items()}
            z = self.objective.encode(params[name], aux[name], part["image"])["latent"]
            # What is not finite in one member must not reach the gradient of the other.
            latents[name] = jnp.where(jnp.isfinite(z), z, 0.0).astype(jnp.float32)
        link, state = self.link, aux["link"]
        x_BD, y_BD = latents["a"], link.partners(latents["b"], reduce)
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

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns the carried state after each member's own rule."""
        found = {
            name: self.objective.after_update(params[name], aux[name], step, hparams)
            for name in self.members
        }
        return {**aux, **found}

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes images with member a."""
        return self.objective.encode(params["a"], aux["a"], images)

    def groups(self, params: Params) -> Params:
        """Returns the parameter groups of each member, None where it has none of its own."""
        return {name: groups_of(self.objective, params[name]) for name in self.members}

    def project(self, params: Params) -> Params:
        """Returns the parameters after each member's projection."""
        return {name: projected(self.objective, params[name]) for name in self.members}
