"""Model FLOPs: the multiplications and additions of a computation's matrix products and
convolutions, two for each multiply-add, counted in its jaxpr.

One count serves every model and objective, and cannot drift from what they compute. Model FLOPs
belong to the mathematics, not to how it is run: what rematerialisation repeats, the inside of
attention kernels and on-device augmentation make no difference (`plain`, `count`). Elementwise
work, softmax and normalisation are not counted, as is usual for a share of a matmul peak (MFU).
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
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.sharding import Reduce

PyTree = Any
_OPAQUE = ("pallas_call", "dot_product_attention")  # kernels whose products no jaxpr shows


def of(function: Callable[..., Any], *arguments: PyTree) -> float:
    """Model FLOPs of `function(*arguments)`; arguments may be `jax.ShapeDtypeStruct`s.

    Nothing is computed or compiled.

    Raises:
        ValueError: a product is inside a loop of unknown length or a kernel that cannot be seen.
    """
    return count(jax.make_jaxpr(function)(*arguments))


def step(objective: Objective, batch_size: int, shape: tuple[int, ...] | None = None) -> float:
    """Model FLOPs of one update of one agent: loss and gradient of a batch of pictures.

    The optimiser's and the target encoder's elementwise updates are not products.

    Args:
        objective: on pictures.
        batch_size: pictures of an update.
        shape: (height, width, channels) of a picture; default what the objective's encoder takes.
    """
    return _step(plain(objective), batch_size, shape)


@functools.lru_cache
def _step(objective: Objective, batch_size: int, shape: tuple[int, ...] | None) -> float:
    params, aux = jax.eval_shape(objective.init, jax.random.key(0))
    hparams = {"seed": jnp.uint32(0), "total_steps": jnp.int32(1), "learning_rate": jnp.ones(())}

    def gradient(params: PyTree, aux: PyTree, batch: PyTree, key: jax.Array) -> PyTree:
        arguments = (params, aux, batch, key, hparams, Reduce())
        return jax.value_and_grad(objective.loss, has_aux=True)(*arguments)

    batch = pictures(objective, batch_size, shape)
    return of(gradient, params, aux, batch, jax.random.key(0))


def encoding(objective: Objective, batch_size: int) -> float:
    """Model FLOPs of `objective.encode` on a batch of whole pictures, all that it returns."""
    objective = plain(objective)
    params, aux = jax.eval_shape(objective.init, jax.random.key(0))
    return of(objective.encode, params, aux, pictures(objective, batch_size)["image"])


def pictures(
    objective: Any, batch_size: int, shape: tuple[int, ...] | None = None
) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of the batch that an objective on pictures takes; see `objectives.base.Batch`."""
    if shape is None:
        encoder = getattr(objective, "vit", None) or objective.encoder
        shape = (encoder.image_size, encoder.image_size, encoder.channels)
    channels = shape[-1]
    f32 = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    return {
        "image": f32((batch_size, *shape)),
        "index": jax.ShapeDtypeStruct((batch_size,), jnp.int32),
        "mean": f32((channels,)),
        "std": f32((channels,)),
    }


def plain(config: Any) -> Any:
    """The same configuration with every product in sight, and none of them twice."""
    if isinstance(config, ViTConfig):
        return dataclasses.replace(config, attention="xla", remat=False, scan_layers=False)
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return config
    fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.init}
    changed = {name: new for name, old in fields.items() if (new := plain(old)) != old}
    return dataclasses.replace(config, **changed) if changed else config


def count(jaxpr: core.ClosedJaxpr | core.Jaxpr) -> float:
    """FLOPs of the products in a jaxpr, those of its inner ones as often as they run.

    The branch of a `cond` that costs most counts. Under `shard_map` all devices count. What is
    under the scope of augmentation does not. Convolutions count taps on padding, but not the zeros
    between dilated inputs.

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
    if name == "cond":
        return max(inner, default=0.0)
    times = {"scan": lambda: params["length"], "shard_map": lambda: params["mesh"].size}
    return sum(inner) * times.get(name, lambda: 1)()


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
