"""Sections of the GPU suite that time parts: attention, SIGReg, rendering, sweeps, alignment."""

import functools
import math
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from experiments.bench import sigreg as sigreg_lib
from experiments.bench import steps as steps_lib
from experiments.bench import sweep as sweep_lib
from experiments.bench import vit as vit_lib
from experiments.bench.gpu import training
from experiments.bench.gpu.sizes import Sizes
from experiments.bench.results import Result
from experiments.bench.steps import Effort
from socialjepa_jax import alignment, sharding
from socialjepa_jax.alignment.moments import Moments
from socialjepa_jax.data.toys import ToysData
from socialjepa_jax.models import attention
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.transformer import Attention
from socialjepa_jax.performance import hardware
from socialjepa_jax.sigreg import epps_pulley


def devices(sizes: Sizes) -> list[Result]:
    """Matmul peak and copy bandwidth, to which the other sections' speeds are compared."""
    found = hardware.measured()
    return [
        Result("matmul peak, TFLOP/s", found.matmul_flops / 1e12, note=found.dtype),
        Result("copy bandwidth, GB/s", found.copy_bytes / 1e9),
    ]


def attention_choices(sizes: Sizes) -> Iterator[Result]:
    """Forward and backward pass of an attention layer by every kernel, and the fastest kernels."""
    fastest = []
    for tokens in sizes.tokens:
        times: dict[str, float] = {}
        for choice in attention.CHOICES[1:]:
            name = f"attention, {tokens} tokens, {choice}, ms"
            try:
                layer = _attention_layer(sizes, tokens, choice)
                times[choice] = steps_lib.seconds(layer, sizes.effort)
                yield Result(name, 1e3 * times[choice])
            except Exception as error:  # a kernel that fails must not hide the others' times
                if choice == "xla":
                    raise
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                yield Result(name, math.nan, note=reason)
        best = min(times, key=times.__getitem__)
        fastest.append((tokens, best))
        yield _auto_against_fastest(sizes, tokens, times, best)
    entry = {jax.devices()[0].device_kind: tuple(fastest)}
    yield Result("attention lengths measured", len(fastest), note=f"FASTEST: {entry}")


def _auto_against_fastest(sizes: Sizes, tokens: int, times: dict[str, float], best: str) -> Result:
    vit = sizes.vit
    chosen = attention.choose("auto", tokens, vit.width // vit.heads, vit.dtype)
    seconds = times.get(chosen, math.nan)  # `auto` may choose a kernel that fails here
    note = f"{best} is {times['xla'] / times[best]:.2f} times as fast as xla"
    name = f"attention, {tokens} tokens, auto / fastest"
    return Result(name, seconds / times[best], 1.0, False, note=note)


def _attention_layer(sizes: Sizes, tokens: int, choice: str) -> steps_lib.Advance:
    vit, std = sizes.vit, sizes.vit.init_std
    attention.check(choice, vit.width // vit.heads, vit.dtype)

    def make(rngs: nnx.Rngs) -> Attention:
        return Attention(vit.width, vit.heads, std=std, dtype=vit.dtype, choice=choice, rngs=rngs)

    layer = functional(make)
    params = jax.jit(layer.init)(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (sizes.batch, tokens, vit.width), vit.dtype)
    slopes = jax.jit(jax.grad(lambda p, x: jnp.square(layer.apply(p, x)).sum(), argnums=(0, 1)))
    return lambda: slopes(params, x)


def sigreg(sizes: Sizes) -> Iterator[Result]:
    """SIGReg alone, and its share of a LeJEPA step."""
    for shape, limit in zip(sizes.sigreg, (None, 0.1, 0.15)):
        z, directions = jax.device_put(sigreg_lib.problem(*shape))
        step = sigreg_lib.compile_jax(z, directions, epps_pulley)
        seconds = steps_lib.seconds(lambda s=step, z=z, d=directions: s(z, d), sizes.effort)
        name = f"SIGReg of {shape[0]} x {shape[1]}, {shape[2]} slices, ms"
        yield Result(name, 1e3 * seconds, limit, False)
    plain = functools.partial(training.lejepa_objective, sizes, plain=True)
    yield vit_lib.sigreg_share(plain, sizes.lejepa[0], sizes.effort)


def rendering(sizes: Sizes) -> list[Result]:
    """Images of the toy world, rendered and copied to the host."""
    world = ToysData(image_size=sizes.image_size)
    factors = world.observations()[: sizes.images]
    rate = len(factors) / _second_call(lambda: world.render(factors))
    note = f"{len(factors)} of {sizes.image_size} pixels, to the host"
    return [Result("toy pictures a second", rate, note=note)]


def _second_call(call: Callable[[], object]) -> float:
    """Seconds of a second call, for which nothing is compiled."""
    call()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def sweep(sizes: Sizes) -> list[Result]:
    """The identifiability paper's grid of 189 runs, extrapolated from a few of its steps."""
    runs, steps = sizes.sweep
    seconds = steps_lib.seconds(sweep_lib.jax_runs(runs, steps, "auto"), Effort(1, 1))
    note = f"{runs} runs of {sweep_lib.GRID_STEPS} steps, from {steps}"
    return [Result("sweep, s", seconds * sweep_lib.GRID_STEPS / steps, 180, False, 60, note)]


def alignments(sizes: Sizes) -> Iterator[Result]:
    """Moments, distances, neighbours and a ridge map of many latents."""
    yield from _moments(sizes)
    x, y = _latents(sizes.distances, sizes.features)
    note = f"{sizes.distances} x {sizes.features}, from the host"
    seconds = _second_call(lambda: alignment.dsc(x, y, exact=False))
    yield Result("DSC, s", seconds, 3.0, False, note=note)
    seconds = _second_call(lambda: alignment.compare(x, y, exact=False))
    yield Result("DSC + NOS@10, s", seconds, 5.0, False, note=note)
    x, y = _latents(sizes.rows, sizes.features)
    note = f"{sizes.rows} x {sizes.features}, all of it on the host"
    seconds = _second_call(lambda: alignment.fit(x, y))
    yield Result("ridge map, s", seconds, 5.0, False, note=note)


def _latents(count: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Two related sets of float32 latents [count, features], of 10,000 distinct ones."""
    rng = np.random.default_rng(0)
    distinct = rng.standard_normal((min(count, 10_000), features)).astype(np.float32)
    x = np.resize(distinct, (count, features))
    return x, x[:, ::-1] + 0.1 * np.roll(x, 1, axis=0)


def _moments(sizes: Sizes) -> Iterator[Result]:
    """Moments of latents that lie on the device, in float64, and their error on 20,000 of them."""
    mesh = sharding.make_mesh(1, 1, jax.devices()[:1])
    shape = (sizes.rows, sizes.moment_features)
    x, y = (jax.random.normal(key, shape) for key in jax.random.split(jax.random.key(0)))
    seconds = hardware.seconds(Moments.sharded, x, y, mesh, repeats=2)
    yield Result("float64 moments, s", seconds, 0.5, False, note=f"{shape[0]} x {shape[1]}")
    part = [np.asarray(z[:20_000]) for z in (x, y)]
    found, expected = Moments.sharded(*part, mesh), Moments.of(*part)
    error = np.abs(found.xy - expected.xy).max() / np.abs(expected.xy).max()
    yield Result("float64 moments, relative error", float(error), 1e-10, False)
