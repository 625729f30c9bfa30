"""Flax NNX modules as pairs of pure functions, by `nnx.split` and `nnx.merge`.

Outside this file parameters are plain nested dictionaries of arrays with string keys, which optax,
Orbax, `vmap` and `shard_map` accept directly.
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
        apply: `(params, *args, method=None, **kwargs)` -> result of calling the module, or its
            method of that name, with these parameters. Over the mesh axes that the arguments vary
            over, gradients are summed in the parameters' own type.
    """

    init: Callable[[jax.Array], Params]
    apply: Callable[..., Any]


def functional(make: Callable[[nnx.Rngs], nnx.Module]) -> Functional:
    """Returns the pure functions of the module that `make` builds, without allocating parameters.

    The module may hold `nnx.Param` variables only; other state belongs to the objective.
    """
    graph, abstract = nnx.split(nnx.eval_shape(lambda: make(nnx.Rngs(0))))

    def init(key: jax.Array) -> Params:
        return nnx.to_pure_dict(nnx.state(make(nnx.Rngs(key)), nnx.Param))

    def apply(params: Params, *args: Any, method: str | None = None, **kwargs: Any) -> Any:
        state = jax.tree.map(lambda leaf: leaf, abstract)
        nnx.replace_by_pure_dict(state, _varying_like((args, kwargs), params))
        module = nnx.merge(graph, state)
        return getattr(module, method or "__call__")(*args, **kwargs)

    return Functional(init, apply)


def _varying_like(inputs: Any, params: Params) -> Params:
    """Casts parameters to vary over the mesh axes that some input varies over.

    A gradient is summed over devices where its parameter begins to vary over them: left to itself,
    that is after the module's cast to bfloat16.
    """
    arrays = [x for x in jax.tree.leaves(inputs) if isinstance(x, jax.Array)]
    axes = frozenset().union(*map(_axes, arrays))

    def cast(param: jax.Array) -> jax.Array:
        missing = tuple(sorted(axes - _axes(param)))
        return jax.lax.pcast(param, missing, to="varying") if missing else param

    return jax.tree.map(cast, params)


def _axes(x: jax.Array) -> frozenset[str]:
    return jax.typeof(x).manual_axis_type.varying
