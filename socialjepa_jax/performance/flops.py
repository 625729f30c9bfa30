"""Model FLOPs, counted in jaxprs: matrix products and convolutions, two FLOPs per multiply-add.

Model FLOPs do not depend on how a model is executed: rematerialisation, scanned layers, attention
kernels and on-device augmentation do not change them (see `plain` and `count`). Elementwise
operations, softmax and normalisation are not counted, as is usual for model FLOPs utilisation
(MFU; Chowdhery et al. 2022, PaLM, appendix B).

XLA's `cost_analysis` is not used: it counts elementwise operations and recomputation, and the body
of a loop only once.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from socialjepa_jax.data.augment.geometry import SCOPE as AUGMENTATION
from socialjepa_jax.errors import sides
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.coupled import Classes, MutualClasses, Taught
from socialjepa_jax.objectives.coupled.members import width_of
from socialjepa_jax.sharding import Reduce

PyTree = Any
_OPAQUE = ("pallas_call", "dot_product_attention")  # kernels without products in the jaxpr


def of(function: Callable[..., Any], *arguments: PyTree) -> float:
    """Returns the FLOPs of `function(*arguments)`; arguments may be `jax.ShapeDtypeStruct`s.

    The function is traced, and neither compiled nor run.

    Raises:
        ValueError: a product is inside a loop of unknown length or inside an opaque kernel.
    """
    return count(jax.make_jaxpr(function)(*arguments))


def step(
    objective: Objective,
    batch_size: int,
    shape: tuple[int, ...] | None = None,
    **hparams: jax.ShapeDtypeStruct,
) -> float:
    """Returns the FLOPs of one update of one agent: loss and gradient of a batch of images.

    Args:
        objective: objective on images.
        batch_size: images per update.
        shape: (height, width, channels) of an image; by default, the encoder's.
        **hparams: shapes of what the objective reads besides the settings of all runs.

    Raises:
        ValueError: see `of`.
    """
    return _step(plain(objective), batch_size, shape, tuple(hparams.items()))


@functools.lru_cache
def _step(
    objective: Objective,
    batch_size: int,
    shape: tuple[int, ...] | None,
    more: tuple[tuple[str, jax.ShapeDtypeStruct], ...],
) -> float:
    params, aux = jax.eval_shape(objective.init, jax.random.key(0))
    hparams = {"seed": jnp.uint32(0), "total_steps": jnp.int32(1), "learning_rate": jnp.ones(())}
    hparams |= {"partner_seed": jnp.uint32(1)}
    given = dict(more)
    batch = batch_shapes(objective, batch_size, shape)
    read_too = given | _constants(objective, batch)

    def gradient(params: PyTree, aux: PyTree, batch: PyTree, read: PyTree) -> PyTree:
        arguments = (params, aux, batch, jax.random.key(0), hparams | read, Reduce())
        return jax.value_and_grad(objective.loss, has_aux=True)(*arguments)

    return of(gradient, params, aux, batch, read_too)


def _constants(objective: Objective, batch: dict[str, Any]) -> dict[str, Any]:
    """Returns the shapes of the teacher and of the labels that a coupled objective reads."""
    if isinstance(objective, MutualClasses):
        return {"labels": batch["a"]["index"]}
    if not isinstance(objective, Taught):
        return {}
    drawn = jax.eval_shape(objective.taught_by.init, jax.random.key(0))
    theirs = dict(zip(("params", "aux"), drawn))
    theirs |= {name: batch["b"][name] for name in ("mean", "std")}
    if not isinstance(link := objective.link, Classes):
        return {"teacher": theirs}
    init = functools.partial(link.init, x=width_of(objective.taught_by), y=0)
    theirs["head"] = jax.eval_shape(init, jax.random.key(0))[0]
    return {"teacher": theirs, "labels": batch["a"]["index"]}


def batch_shapes(
    objective: Any, batch_size: int, shape: tuple[int, ...] | None = None
) -> dict[str, Any]:
    """Returns the shapes and dtypes of a batch of images; pairs in time read 'next' too.

    Those of coupled objectives hold such a batch for each camera.

    Args:
        objective: objective on images.
        batch_size: images per batch.
        shape: (height, width, channels) of an image; by default, the encoder's.
    """
    counters = dict.fromkeys(("step", "draw"), jax.ShapeDtypeStruct((), jnp.int32))
    member = getattr(objective, "objective", None)  # of a coupled one
    if member is not None:
        return {"a": (one := batch_shapes(member, batch_size, shape)), "b": one, **counters}
    if shape is None:
        encoder = getattr(objective, "vit", None) or objective.encoder
        shape = (*sides(encoder.image_size), encoder.channels)
    channels = shape[-1]
    f32 = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    return {
        "image": f32((batch_size, *shape)),
        "next": f32((batch_size, *shape)),
        "index": jax.ShapeDtypeStruct((batch_size,), jnp.int32),
        "mean": f32((channels,)),
        "std": f32((channels,)),
        **counters,
    }


def plain(config: Any) -> Any:
    """Returns a configuration whose jaxpr shows every product of the model exactly once.

    Its ViTs use XLA's attention, no rematerialisation and no scanned layers.
    """
    if isinstance(config, ViTConfig):
        return dataclasses.replace(config, attention="xla", remat=False, scan_layers=False)
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return config
    fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.init}
    changed = {name: new for name, old in fields.items() if (new := plain(old)) != old}
    return dataclasses.replace(config, **changed) if changed else config


def count(jaxpr: core.ClosedJaxpr | core.Jaxpr) -> float:
    """Returns the FLOPs of a jaxpr and of its inner jaxprs.

    A `scan` counts all iterations, a `cond` its most expensive branch, a `shard_map` all devices,
    a convolution also its taps on padding but not those on the zeros between dilated inputs.
    Operations in the name scope of augmentation are skipped.

    Raises:
        ValueError: see `of`.
    """
    jaxpr = jaxpr.jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else jaxpr
    return sum(_of_equation(equation) for equation in jaxpr.eqns)


def _of_equation(equation: Any) -> float:
    name, params = equation.primitive.name, equation.params
    if AUGMENTATION in str(equation.source_info.name_stack):
        return 0.0
    if name == "dot_general":
        return _of_dot(equation)
    if name == "conv_general_dilated":
        return _of_convolution(equation)
    if any(opaque in name for opaque in _OPAQUE):
        raise ValueError(f"the products inside {name} cannot be counted")
    inner = [count(jaxpr) for jaxpr in _inner(params)]
    if name == "while" and any(inner):
        raise ValueError("a product is inside a loop of unknown length")
    match name:
        case "cond":
            return max(inner, default=0.0)
        case "scan":
            return sum(inner) * params["length"]
        case "shard_map":
            return sum(inner) * params["mesh"].size
    return sum(inner)


def _inner(params: dict[str, Any]) -> Iterator[core.ClosedJaxpr | core.Jaxpr]:
    for value in params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, core.ClosedJaxpr | core.Jaxpr):
                yield part


def _of_dot(equation: Any) -> float:
    contracted, _ = equation.params["dimension_numbers"][0]
    left, result = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    return 2.0 * math.prod(result) * math.prod(left[axis] for axis in contracted)


def _of_convolution(equation: Any) -> float:
    numbers, dilation = equation.params["dimension_numbers"], equation.params["lhs_dilation"]
    kernel, result = equation.invars[1].aval.shape, equation.outvars[0].aval.shape
    taps = math.prod(kernel) / kernel[numbers.rhs_spec[0]]
    return 2.0 * math.prod(result) * taps / math.prod(dilation)
