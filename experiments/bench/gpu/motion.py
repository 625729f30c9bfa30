"""The GPU suite's section of worlds in motion: steps on pairs from a pool and on fresh pairs."""

import functools
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from experiments.bench import steps as steps_lib
from experiments.bench.gpu.sizes import Sizes
from experiments.bench.results import Result
from experiments.bench.steps import Effort, Step
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.resident import flat_rows
from socialjepa_jax.data.toys.moving import MotionPool, MotionStream


def motion(sizes: Sizes) -> Iterator[Result]:
    """Pairs a second of one agent of every experiment, and rendering's share of a fresh step."""
    for name, experiment in sizes.motion:
        yield from fresh_against_pool(name, experiment, sizes.effort)


def fresh_against_pool(name: str, experiment: Experiment, effort: Effort) -> Iterator[Result]:
    """Times the step of an experiment on pairs from a pool, and on pairs rendered in the step.

    Args:
        name: of the experiment.
        experiment: in a world in motion.
        effort: length of the measurement.
    """
    makes = [functools.partial(step, experiment, fresh=fresh) for fresh in (False, True)]
    steps = steps_lib.both(*makes)
    seconds = steps_lib.times(steps, effort)
    batch = experiment.run.batch_size
    for kind, made, spent in zip(("pool", "fresh pairs"), steps, seconds):
        note = f"{1e3 * spent:.2f} ms, {made.flops / spent / 1e12:.3g} TFLOP/s without rendering"
        yield Result(f"{name}, {kind}, pairs/s", batch / spent, note=note)
    pooled, fresh = seconds
    note = f"{2 * batch / (fresh - pooled):.0f} images/s rendered" if fresh > pooled else ""
    yield Result(f"{name}, rendering's share of a step", 1 - pooled / fresh, note=note)


def step(experiment: Experiment, *, fresh: bool) -> Step:
    """Compiles the step of one agent.

    Args:
        experiment: in a world in motion.
        fresh: pairs are drawn and rendered in the step; otherwise drawn from two batches of noise.
    """
    data, batch = experiment.data, experiment.run.batch_size
    half = jnp.full((1, data.channels), 0.5)
    if fresh:
        source: MotionStream | MotionPool = MotionStream(half, half, data, jnp.zeros(1, jnp.int32))
    else:
        shape = (1, 2 * batch, *data.pair_shape)
        frames = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        source = MotionPool(half, half, data, flat_rows(frames))
    return steps_lib.compile_step(experiment.objective, batch, source)
