"""Training steps lowered from shapes alone, for devices that are not there.

`lejepa_vits` is LeJEPA with 2 + 6 views on the data of the preset toys_ijepa_vits;
`ijepa_vits_cudnn` and `ijepa_vits_pallas` are that preset with kernels for attention. For files
that are not there, ETH-80's number of states is assumed.
"""

import dataclasses
import math
import runpy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from experiments.aot import targets
from experiments.bench import steps
from socialjepa_jax import build, sharding
from socialjepa_jax.agents import Trainer
from socialjepa_jax.config import Experiment, from_config_dict
from socialjepa_jax.data import MotionData, ToysData
from socialjepa_jax.data.augment import Augment
from socialjepa_jax.data.base import ObservationTable
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.data.records.views import TwoViews, ViewSource
from socialjepa_jax.data.resident import ResidentImages, row_shape
from socialjepa_jax.data.streaming import StreamedWindow
from socialjepa_jax.data.toys import world
from socialjepa_jax.data.toys.moving import MotionPool, MotionStream
from socialjepa_jax.errors import check_one_of
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.performance import flops
from socialjepa_jax.running.presets import PRESETS


def _with_attention(choice: str) -> Callable[[IJepa], Objective]:
    def changed(objective: IJepa) -> Objective:
        vit = dataclasses.replace(objective.vit, attention=choice)
        return dataclasses.replace(objective, vit=vit)

    return changed


# Further steps on the data of the preset toys_ijepa_vits, from its objective.
EXTRAS: dict[str, Callable[[IJepa], Objective]] = {
    "lejepa_vits": lambda objective: steps.lejepa(objective.vit, local=96),
    "ijepa_vits_cudnn": _with_attention("cudnn"),
    "ijepa_vits_pallas": _with_attention("pallas"),
}
ETH80 = (1600, 1024)  # states and training states, assumed


def experiment_of(name: str) -> Experiment:
    """Returns the experiment of a preset, or of one of `EXTRAS`."""
    check_one_of((*PRESETS, *EXTRAS), **{"--presets": name})
    path = PRESETS["toys_ijepa_vits" if name in EXTRAS else name]
    found = from_config_dict(runpy.run_path(str(path))["get_config"]())
    objective: Any = found.objective
    if name in EXTRAS:
        objective = EXTRAS[name](objective)
    return dataclasses.replace(found, objective=objective)


def states_of(experiment: Experiment) -> tuple[int, int]:
    """Returns the numbers of states and of states that are trained on; nothing is rendered."""
    data: Any = experiment.data
    if data.kind == "smallnorb":  # the same grid of factors
        data = ToysData(instances=10, protocol=data.protocol, splits=data.splits)
    if data.kind != "toys":
        return ETH80
    factors = data.observations()
    blank = np.zeros((len(factors), 1, 1, 1), np.uint8)
    table = ObservationTable(blank, factors, world.FACTOR_NAMES, world.CATEGORIES)
    dataset = pair_views(table, data.protocol, data.splits, data.kind)
    trained = dataset.num_states if experiment.pretrain_on == "all" else len(dataset.train_rows)
    return dataset.num_states, trained


def abstract_source(experiment: Experiment) -> Any:
    """Returns the source of an experiment's batches with shapes and dtypes in place of arrays.

    For a batch of more images than there are training states, as many states are assumed.
    """
    views = getattr(experiment.data, "views", TwoViews())
    if not views.on:
        return _images(experiment)
    camera = jax.ShapeDtypeStruct((len(experiment.agents.seeds),), jnp.int32)
    pictures = _images(dataclasses.replace(experiment, augment=Augment()))
    return ViewSource(pictures, camera, (views.a, views.b), experiment.augment)


def _images(experiment: Experiment) -> Any:
    """Returns the source of the images of an experiment, as they are before two views of them."""
    data: Any = experiment.data
    run, agents, size = experiment.run, len(experiment.agents.seeds), data.image_size
    shape = (size, size, data.channels)

    def array(dtype: Any, *sides: int) -> Any:
        return jax.ShapeDtypeStruct((agents, *sides), dtype)

    mean = std = array(jnp.float32, data.channels)
    if isinstance(data, MotionData):
        if not data.pool:
            return MotionStream(mean, std, data, array(jnp.int32))
        pixels = array(jnp.uint8, data.pool, *row_shape(math.prod(data.pair_shape)))
        return MotionPool(mean, std, data, pixels)
    if getattr(data, "read", "") == "stream":
        batch = (run.steps_per_call, run.batch_size)
        images, rows = array(jnp.uint8, *batch, *shape), array(jnp.int32, *batch)
        return StreamedWindow(images, rows, array(jnp.int32), mean, std, experiment.augment)
    states, trained = (max(n, run.batch_size) for n in states_of(experiment))
    pixels = array(jnp.uint8, states, *row_shape(math.prod(shape)))
    return ResidentImages(pixels, array(jnp.int32, trained), mean, std, shape, experiment.augment)


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A step that is lowered for a target.

    Attributes:
        program: as jax lowers it.
        state: shapes, dtypes and shardings of the state.
        trainer: of the step.
        experiment: that it is of.
        flops: model FLOPs of a step on one chip.
        options: of the compiler, that the trainer asks for on these devices.
    """

    program: jax.stages.Lowered
    state: Any
    trainer: Trainer
    experiment: Experiment
    flops: float
    options: dict[str, Any] | None


def lower(experiment: Experiment, devices: list[jax.Device]) -> Lowered:
    """Lowers the step of an experiment for devices, from shapes alone.

    Raises:
        InputError: the devices cannot do what the experiment asks for.
    """
    with targets.traced_for(devices):
        return _lower(experiment, devices)


def _lower(experiment: Experiment, devices: list[jax.Device]) -> Lowered:
    run, seeds = experiment.run, experiment.agents.seeds
    trainer = build.make_trainer(experiment, devices=devices)
    place = sharding.by_agent(trainer.mesh)

    def placed(leaf: Any, spec: Any = place.spec) -> jax.ShapeDtypeStruct:
        where = NamedSharding(trainer.mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where)

    scalars = {"seed": jnp.uint32, "total_steps": jnp.int32, "learning_rate": jnp.float32}
    hparams = {
        name: placed(jax.ShapeDtypeStruct((len(seeds),), kind)) for name, kind in scalars.items()
    }
    state = jax.tree.map(placed, jax.eval_shape(trainer.init, hparams))
    source = abstract_source(experiment)
    source = jax.tree.map(placed, source, source.specs())
    size, data = experiment.data.image_size, experiment.data
    each = flops.step(experiment.objective, run.batch_size, (size, size, data.channels))
    share = each * len(seeds) / len(devices)
    step: Any = trainer.step
    program, options = step.lower(state, source, hparams), trainer.compiler_options
    return Lowered(program, state, trainer, experiment, share, options)
