"""Sums over the batch that do not depend on the number of devices, to the last bit.

Floating-point sums depend on their order, and a collective adds in the order of its devices: the
same run on 1, 2 and 4 devices has three results. Here the batch has a fixed number of shards, as if
each had its own device. A loop computes shard by shard, on any number of devices;
collectives gather the parts of all shards and add them in order.

A traced function is a list of operations, and the collectives in it cut it into phases:

    phase 0: operations equal on all shards; operations of each shard; collectives
    phase 1: ...

The price: collectives carry the parts of all shards, gradients too, instead of their sum.

Shape key: V shards, L shards of this device.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax._src.core import extend_axis_env_nd  # private API: an axis without a mesh

PyTree = Any

# The algebraic simplifier changes values (a / b becomes a * (1 / b)), and the number of its runs
# depends on the number of devices.
COMPILER_OPTIONS: dict[str, bool | str] = {"xla_disable_hlo_passes": "algsimp"}


def over_shards(
    function: Callable[[PyTree, PyTree], PyTree], shards: int, axis_name: str
) -> Callable[[PyTree, PyTree], PyTree]:
    """Lifts a function of one shard to all shards, with one result on any number of devices.

    Args:
        function: (shared, part) -> values equal on all shards; `part` is a shard's own. It uses
            `axis_name` as inside `shard_map` over V devices with `check_vma=False`, for the index,
            the size, sums and gathers; so a gradient by `shared` is the mean of the shards'.
        shards: V, a multiple of the number of devices on the axis.
        axis_name: the mesh axis over whose devices the shards are distributed.

    Returns:
        (shared, parts with leaves [L, ...]) -> the result of `function`; to be called inside
        `shard_map` with `check_vma=False`.

    Raises:
        ValueError: when called, if `function` returns values that differ between shards, or has
            other collectives than sums and gathers, or collectives inside a loop or a condition.
    """

    def lifted(shared: PyTree, parts_L: PyTree) -> PyTree:
        part = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), parts_L)
        with extend_axis_env_nd([(axis_name, shards)]):
            program, form = _trace(function, shared, part, axis_name)
        local = shards // jax.lax.axis_size(axis_name)
        devices = _Devices(axis_name, local, jax.lax.axis_index(axis_name) * local)
        index_L = devices.first + jnp.arange(local)
        own_L = [_two_rows(x) for x in (index_L, *jax.tree.leaves(parts_L))]
        return jax.tree.unflatten(form, _run(program, jax.tree.leaves(shared), own_L, devices))

    return lifted


def scan(
    body: Callable[[PyTree, PyTree, jax.Array], tuple[PyTree, PyTree]],
    carry: PyTree,
    constants: PyTree,
    length: int,
) -> tuple[PyTree, PyTree]:
    """Scans over 0 ... length - 1 like `jax.lax.scan`, with a body that rounds alike at any length.

    XLA compiles the body of a loop separately. Code outside of loops is fused with its
    surroundings, which depend on the number of devices, and may round differently. XLA also
    unrolls loops of one round and hoists loop-invariant code; barriers and a hidden length prevent
    both.

    Args:
        body: (carry, constants, i32[]) -> (carry, y).
        carry: of the first round.
        constants: everything else that `body` reads.
        length: rounds, at least one.

    Returns:
        The last carry, and the stacked results of the rounds.
    """
    carry, stacks = _scan(body, carry, constants, length)
    return carry, jax.tree.map(lambda x: x[:length], stacks)


def _scan(body: Any, carry: PyTree, constants: PyTree, length: int) -> tuple[PyTree, PyTree]:
    """Scans with at least two rows, since XLA compiles arrays of one row differently."""
    barrier = jax.lax.optimization_barrier

    def add(i: jax.Array, both: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        before, stacks = both
        after, y = barrier(body(*barrier((before, constants, i))))
        put = functools.partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
        return after, jax.tree.map(put, stacks, y)

    _, y = jax.eval_shape(body, carry, constants, jax.ShapeDtypeStruct((), jnp.int32))
    stacks = jax.tree.map(lambda x: _empty((max(2, length), *x.shape), x.dtype), y)
    return jax.lax.fori_loop(0, barrier(jnp.int32(length)), add, (carry, stacks))


def map(function: Callable[[PyTree], PyTree], stacked: PyTree) -> PyTree:
    """Maps over the leading axis of all leaves like `jax.lax.map`, by `scan` above."""

    def body(_: None, stacked: PyTree, i: jax.Array) -> tuple[None, PyTree]:
        return None, function(jax.tree.map(lambda x: x[i], stacked))

    return scan(body, None, stacked, len(jax.tree.leaves(stacked)[0]))[1]


def _empty(shape: tuple[int, ...], dtype: Any) -> jax.Array:
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), shape)
    return jnp.zeros(shape, dtype)


def _two_rows(x: jax.Array) -> jax.Array:
    return x if len(x) > 1 else jnp.concatenate([x, x])


def _trace(
    function: Callable[[PyTree, PyTree], PyTree], shared: PyTree, part: PyTree, axis_name: str
) -> tuple[jex.ClosedJaxpr, Any]:
    """Traces (shared, a shard's index, its part); returns the jaxpr and its result's structure."""
    nested, out = jax.make_jaxpr(function, return_shape=True)(shared, part)
    flat = jax.make_jaxpr(lambda s, index, p: _inline(nested, [*s, *p], index, axis_name))
    index = jax.ShapeDtypeStruct((), jnp.int32)
    program = flat(jax.tree.leaves(shared), index, jax.tree.leaves(part))
    return program, jax.tree.structure(out)


def _inline(
    program: jex.ClosedJaxpr, arguments: Sequence[Any], index: Any, axis_name: str
) -> list[Any]:
    """Inlines nested jaxprs that hold collectives, on the shard with this index."""
    values = _Values.of(program, arguments)
    for equation in program.jaxpr.eqns:
        inputs, inner = values.read(equation.invars), list(_inner(equation))
        if not inner and _is_about_shards(equation):
            _check_axis(equation, axis_name)
        if equation.primitive.name == "axis_index":
            results = [index]
        elif not inner or not _is_about_shards(equation):
            results = _bind(equation, inputs)
        elif len(inner) == 1 and equation.primitive.name != "scan":
            results = _inline(inner[0], inputs, index, axis_name)
        else:
            raise ValueError(
                f"a collective or the shard index is used in a {equation.primitive.name}"
            )
        values.update(zip(equation.outvars, results))
    return values.read(program.jaxpr.outvars)


def _inner(equation: jex.JaxprEqn) -> Iterator[jex.ClosedJaxpr]:
    """Yields the jaxprs inside an operation."""
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else [value]:
            if isinstance(each, jex.ClosedJaxpr):
                yield each
            elif isinstance(each, jex.Jaxpr):
                yield jex.ClosedJaxpr(each, ())


def _is_about_shards(equation: jex.JaxprEqn) -> bool:
    named = any(hasattr(effect, "name") for effect in equation.effects)  # an axis is used inside
    return named or "axis_name" in equation.params


def _check_axis(equation: jex.JaxprEqn, axis_name: str) -> None:
    params = equation.params
    axes = params.get("axes", params.get("axis_name"))
    axes = axes if isinstance(axes, tuple) else (axes,)
    if axes != (axis_name,) or params.get("axis_index_groups") is not None:
        raise ValueError(f"a {equation.primitive.name} is over more or less than {axis_name!r}")


def _bind(equation: jex.JaxprEqn, inputs: Sequence[Any]) -> list[Any]:
    primitive = equation.primitive
    results = primitive.bind(*inputs, **primitive.get_bind_params(equation.params))
    return list(results) if primitive.multiple_results else [results]


class _Values(dict[jex.Var, Any]):
    """Variable -> array."""

    @classmethod
    def of(cls, program: jex.ClosedJaxpr, arguments: Sequence[Any]) -> "_Values":
        inputs = zip(program.jaxpr.invars, arguments, strict=True)
        return cls([*inputs, *zip(program.jaxpr.constvars, program.consts)])

    def read(self, atoms: Iterable[Any]) -> list[Any]:
        return [a.val if isinstance(a, jex.Literal) else self[a] for a in atoms]

    def evaluate(self, equations: Iterable[jex.JaxprEqn]) -> None:
        for equation in equations:
            self.update(zip(equation.outvars, _bind(equation, self.read(equation.invars))))


def _variables(atoms: Iterable[Any]) -> list[jex.Var]:
    return [a for a in atoms if not isinstance(a, jex.Literal)]


@dataclass(frozen=True)
class _Phase:
    """Operations up to a collective: on shared values, on each shard's own, and the collectives."""

    shared: list[jex.JaxprEqn] = field(default_factory=list)
    each: list[jex.JaxprEqn] = field(default_factory=list)
    meet: list[jex.JaxprEqn] = field(default_factory=list)


def _schedule(program: jex.Jaxpr, own: set[jex.Var]) -> list[_Phase]:
    """Every operation in the earliest phase it can be in; adds to `own` what is a shard's own."""
    known_in = dict[jex.Var, int]()
    phases: dict[int, _Phase] = defaultdict(_Phase)
    for equation in program.eqns:
        read = _variables(equation.invars)
        number = max((known_in.get(v, 0) for v in read), default=0)
        phase, meets = phases[number], _is_about_shards(equation)
        is_own = equation.primitive.name == "reduce_scatter" if meets else not own.isdisjoint(read)
        (phase.meet if meets else phase.each if is_own else phase.shared).append(equation)
        known_in |= dict.fromkeys(equation.outvars, number + meets)
        own |= set(equation.outvars) if is_own else set()
    return [phases[number] for number in sorted(phases)]


@dataclass(frozen=True)
class _Devices:
    """Distribution of the shards over the devices of an axis: L each, here from `first` on."""

    axis_name: str
    local: int
    first: jax.Array


def _run(
    program: jex.ClosedJaxpr, shared: list[Any], own_L: list[Any], devices: _Devices
) -> list[Any]:
    """Evaluates a program that has its collectives on top."""
    jaxpr, own = program.jaxpr, set(program.jaxpr.invars[len(shared) :])
    values = _Values.of(program, [*shared, *own_L])
    for phase in _schedule(jaxpr, own):
        for equations, rounds in ((phase.shared, 1), (phase.each, devices.local)):
            asked = _asked(equations, jaxpr)
            found = _loop(equations, asked, values, own, rounds)
            values.update((v, x if v in own else x[0]) for v, x in zip(asked, found))
        for equation in phase.meet:
            inputs = zip(equation.invars, values.read(equation.invars))
            parts_V = [_all(x, v in own, devices) for v, x in inputs]
            values.update(zip(equation.outvars, _meet(equation, parts_V, devices)))
    if not own.isdisjoint(_variables(jaxpr.outvars)):
        raise ValueError("a result differs between shards: it is no sum or mean over the batch")
    return values.read(jaxpr.outvars)


def _asked(equations: list[jex.JaxprEqn], program: jex.Jaxpr) -> list[jex.Var]:
    """Returns the results of these operations that other operations read."""
    inside = {id(e) for e in equations}
    others = [e.invars for e in program.eqns if id(e) not in inside]
    read = {v for atoms in [*others, program.outvars] for v in _variables(atoms)}
    return [v for e in equations for v in e.outvars if v in read]


def _loop(
    equations: list[jex.JaxprEqn],
    asked: list[jex.Var],
    values: _Values,
    own: set[jex.Var],
    rounds: int,
) -> list[jax.Array]:
    """Evaluates these operations once for each shard; returns the results asked for, stacked."""
    names = {v: None for e in equations for v in _variables(e.invars) if v in values}

    def compute(_: None, read: list[Any], i: jax.Array) -> tuple[None, list[Any]]:
        here = _Values((v, x[i] if v in own else x) for v, x in zip(names, read))
        here.evaluate(equations)
        return None, here.read(asked)

    return _scan(compute, None, values.read(names), rounds)[1]


def _all(x: jax.Array, is_own: bool, devices: _Devices) -> list[jax.Array]:
    """Gathers the parts of all shards, in order."""
    if is_own:
        return list(jax.lax.all_gather(x[: devices.local], devices.axis_name, tiled=True))
    return [x] * (devices.local * jax.lax.axis_size(devices.axis_name))


def _meet(
    equation: jex.JaxprEqn, parts_V: list[list[jax.Array]], devices: _Devices
) -> list[jax.Array]:
    """Evaluates a collective on the parts of all shards."""
    name, params = equation.primitive.name, equation.params
    if name == "psum":
        return [functools.reduce(jnp.add, x_V) for x_V in parts_V]
    (x_V,) = parts_V
    if name == "all_gather":
        join = jnp.concatenate if params["tiled"] else jnp.stack
        return [join(x_V, axis=params["all_gather_dimension"])]
    if name == "reduce_scatter":
        total, axis = functools.reduce(jnp.add, x_V), params["scatter_dimension"]
        split = jnp.split(total, len(x_V), axis)
        split_V = jnp.stack(split if params["tiled"] else [x.squeeze(axis) for x in split])
        return [_two_rows(jax.lax.dynamic_slice_in_dim(split_V, devices.first, devices.local))]
    raise ValueError(f"the collective {name} is not supported")
