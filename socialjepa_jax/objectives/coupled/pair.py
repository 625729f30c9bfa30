"""Two models in one agent: what objectives of members a and b share.

Member b sees the states that a sees, through its own camera. Its parameters, and the slices and
masks of its loss, come from a seed of its own.

Shape key: B batch, D features.
"""

import jax
import jax.numpy as jnp

from socialjepa_jax import keys
from socialjepa_jax.keys import Stream, agent_key
from socialjepa_jax.objectives.base import (
    Aux,
    Batch,
    HParams,
    Metrics,
    Objective,
    Params,
    PyTree,
    groups_of,
    projected,
)
from socialjepa_jax.sharding import Reduce

MODELS = ("a", "b")


def finite(z: jax.Array) -> jax.Array:
    """Returns z with 0 for what is not finite in one model, which must not reach the other."""
    return jnp.where(jnp.isfinite(z), z, 0.0)


class Pair:
    """All of an objective of two models but their coupling; a base of frozen dataclasses.

    Attributes:
        objective: of each member.
    """

    objective: Objective

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members in parameters and state; a bad update of one is skipped alone."""
        return MODELS

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns the parameters and the state, both models drawn from one key."""
        return self.start(key, jax.random.fold_in(key, 1))

    def init_from(self, hparams: HParams) -> tuple[Params, Aux]:
        """Returns the same with models drawn from hparams['seed'] and hparams['partner_seed']."""
        seeds = hparams["seed"], hparams["partner_seed"]
        return self.start(*(agent_key(seed, Stream.INIT) for seed in seeds))

    def start(self, key_a: jax.Array, key_b: jax.Array) -> tuple[Params, Aux]:
        """Draws both models, {'a', 'b'} and {'a', 'b'}; others add what couples them."""
        (params_a, aux_a), (params_b, aux_b) = map(self.objective.init, (key_a, key_b))
        return {"a": params_a, "b": params_b}, {"a": aux_a, "b": aux_b}

    def alone(
        self, params: Params, aux: Aux, batch: Batch, key: jax.Array, hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, Aux, Metrics, list[jax.Array]]:  # fmt: skip
        """Computes the models' own losses on batch['a'] and batch['b'].

        Returns:
            The sum of both, {'a', 'b'} of their states, their metrics under 'a/' and 'b/', and
            the latents f32[B, D] of both.
        """
        key_b, _ = keys.step_keys(hparams["partner_seed"], batch["draw"])
        total, new, latents = jnp.zeros(()), {}, []
        metrics: Metrics = {}
        for name, own_key in (("a", key), ("b", key_b)):
            part = {**batch[name], "step": batch["step"], "draw": batch["draw"]}
            alone, (new[name], found) = self.objective.loss(
                params[name], aux[name], part, own_key, hparams, reduce
            )
            total = total + alone
            metrics |= {f"{name}/{k}": v for k, v in {**found, "loss": alone}.items()}
            z = self.objective.encode(params[name], aux[name], part["image"])["latent"]
            latents.append(z.astype(jnp.float32))
        return total, new, metrics, latents

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns the carried state after each model's own rule."""
        found = {
            name: self.objective.after_update(params[name], aux[name], step, hparams)
            for name in MODELS
        }
        return {**aux, **found}

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes images with model a."""
        return self.objective.encode(params["a"], aux["a"], images)

    def groups(self, params: Params) -> PyTree:
        """Returns the parameter groups of each member, None where it has none of its own."""
        found = {name: groups_of(self.objective, params[name]) for name in MODELS}
        return {**dict.fromkeys(params), **found}

    def project(self, params: Params) -> Params:
        """Returns the parameters after each model's projection."""
        found = {name: projected(self.objective, params[name]) for name in MODELS}
        return {**params, **found}
