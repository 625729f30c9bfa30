"""What an objective is: four pure methods on plain pytrees, with no mesh in sight.

Shape key: B batch, D features, H height, W width, C channels.
"""

from typing import Any, Protocol

import jax

from socialjepa_jax.sharding import Reduce

PyTree = Any
Params = PyTree
Aux = PyTree  # whatever is carried beside the parameters: EMA target, queues, centres, ...
Metrics = dict[str, jax.Array]
# 'image' f32[B, H, W, C] = (picture in [0, 1] - 'mean' f32[C]) / 'std' f32[C], 'index' i32[B] (ids)
Batch = dict[str, jax.Array]
HParams = dict[str, jax.Array]  # what may differ between agents, as scalars


class Objective(Protocol):
    """A self-supervised objective: a frozen dataclass whose methods are pure functions.

    Every method sees one agent. `socialjepa_jax.agents` maps them over agents and shards them.
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

        `key` is the same on all shards; what is random per sample folds in `batch['index']`.
        Every mean over the batch goes through `reduce`, inside the differentiated function.
        """
        ...

    def after_update(self, params: Params, aux: Aux, step: jax.Array, hparams: HParams) -> Aux:
        """Returns the carried state after the optimiser's step number `step` (0-based)."""
        ...

    def encode(self, params: Params, aux: Aux, images: jax.Array) -> dict[str, jax.Array]:
        """Returns 'latent' f32[B, D] and named intermediates of f32[B, H, W, C] images."""
        ...
