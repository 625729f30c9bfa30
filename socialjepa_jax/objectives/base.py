"""The protocol of objectives: pure methods on plain pytrees, with no mesh in sight.

Shape key: B batch, D features, H height, W width, C channels.
"""

from typing import Any, Protocol

import jax

from socialjepa_jax.data.protocols import Batch
from socialjepa_jax.sharding import Reduce

__all__ = [
    "Aux", "Batch", "HParams", "Metrics", "Objective", "Params", "PyTree", "groups_of", "projected",
    "start",
]  # fmt: skip

PyTree = Any
Params = PyTree
Aux = PyTree  # carried beside the parameters: EMA target, queues, centres, ...
Metrics = dict[str, jax.Array]
HParams = dict[str, Any]  # settings that may differ between agents, scalars; and a teacher


class Objective(Protocol):
    """A self-supervised objective: a frozen dataclass whose methods are pure functions.

    It has a field `kind`, its name in configurations. Every method sees one agent, and
    `socialjepa_jax.agents` maps them over agents and shards them; the carried state must be equal
    on all shards.

    More methods are optional, and without them nothing is compiled in their place:
    `groups(params)` returns an `optim.Group` for every parameter; `project(params)` returns the
    parameters that an update leaves behind, such as prototypes with unit rows;
    `init_from(hparams)` takes the place of `init` where parameters come from several seeds; and
    `members` names the entries of parameters and state that are models of their own: each has an
    optimiser state, and an update that is not finite in one of them is skipped in that one alone.
    """

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns fresh trainable parameters and the state carried beside them."""
        ...

    def loss(
        self,
        params: Params,
        aux: Aux,
        batch: Batch,
        key: jax.Array,
        hparams: HParams,
        reduce: Reduce,
    ) -> tuple[jax.Array, tuple[Aux, Metrics]]:
        """Returns the loss of the global batch, and the new carried state with scalar metrics.

        `batch` is what the source made (`data.protocols.Source.batch`) with 'step' i32[], the
        number of updates so far, and 'draw' i32[], the number of the draw. `key` is the same on
        all shards; randomness per sample folds in `batch['index']`. Every mean over the batch goes
        through `reduce`, inside the differentiated function.
        """
        ...

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns the carried state after the optimiser's step number `step` (0-based)."""
        ...

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Returns 'latent' f32[B, D] and named intermediates of f32[B, H, W, C] images."""
        ...


class Wrapper:
    """All of an objective but the loss, passed on to the objective that it wraps.

    A base of frozen dataclasses; parameters and state are those of the wrapped objective.
    """

    @property
    def wrapped(self) -> Objective:
        """The objective."""
        raise NotImplementedError

    def init(self, key: jax.Array) -> tuple[Params, Aux]:
        """Returns the objective's fresh parameters and state."""
        return self.wrapped.init(key)

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns the carried state after the objective's own rule."""
        return self.wrapped.after_update(params, aux, step, hparams)

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Encodes images as the objective does."""
        return self.wrapped.encode(params, aux, images)

    def groups(self, params: Params) -> PyTree | None:
        """Returns the objective's parameter groups, None if it has none of its own."""
        return groups_of(self.wrapped, params)

    def project(self, params: Params) -> Params:
        """Returns the parameters after the objective's projection."""
        return projected(self.wrapped, params)


def groups_of(objective: Objective, params: Params) -> PyTree | None:
    """Returns the objective's parameter groups; None if it has none of its own."""
    groups = getattr(objective, "groups", None)
    return None if groups is None else groups(params)


def start(objective: Objective, key: jax.Array, hparams: HParams) -> tuple[Params, Aux]:
    """Returns the objective's fresh parameters and state."""
    init_from = getattr(objective, "init_from", None)
    return objective.init(key) if init_from is None else init_from(hparams)


def projected(objective: Objective, params: Params) -> Params:
    """Returns the parameters after the objective's projection, if it has one."""
    project = getattr(objective, "project", None)
    return params if project is None else project(params)
