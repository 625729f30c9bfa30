"""The one place that knows Flax NNX's split and merge: a module as two pure functions.

Everywhere else parameters are plain nested dictionaries of arrays with string keys, which optax,
Orbax, `vmap` and `shard_map` take as they are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from flax import nnx

Params = dict[str, Any]


class Functional(NamedTuple):
    """A module without state.

    Attributes:
        init: typed PRNG key -> parameters, a nested dict of arrays.
        apply: `(params, *args, method=None, **kwargs)` -> what the module (or the method of that
            name) returns on these parameters.
    """

    init: Callable[[jax.Array], Params]
    apply: Callable[..., Any]


def functional(make: Callable[[nnx.Rngs], nnx.Module]) -> Functional:
    """Returns the pure functions of the module that `make` builds; nothing is allocated yet.

    The module may hold `nnx.Param` variables only: whatever else changes is the objective's.
    """
    graph, abstract = nnx.split(nnx.eval_shape(lambda: make(nnx.Rngs(0))))

    def init(key: jax.Array) -> Params:
        return nnx.to_pure_dict(nnx.state(make(nnx.Rngs(key)), nnx.Param))

    def apply(params: Params, *args: Any, method: str | None = None, **kwargs: Any) -> Any:
        state = jax.tree.map(lambda leaf: leaf, abstract)
        nnx.replace_by_pure_dict(state, params)
        module = nnx.merge(graph, state)
        return getattr(module, method or "__call__")(*args, **kwargs)

    return Functional(init, apply)
