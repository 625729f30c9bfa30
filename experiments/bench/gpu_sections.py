"""The sections of `gpu_suite`: each measures one part and gives its figures, one after another."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from experiments.bench import sigreg as sigreg_lib
from experiments.bench import steps as steps_lib
from experiments.bench import sweep as sweep_lib
from experiments.bench import vit as vit_lib
from experiments.bench.results import Result
from experiments.bench.steps import Effort, Step
from socialjepa_jax import alignment, sharding
from socialjepa_jax.alignment.moments import Moments
from socialjepa_jax.data.toys import ToysData
from socialjepa_jax.models import attention
from socialjepa_jax.models.functional import functional
from socialjepa_jax.models.transformer import Attention
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.performance import hardware
from socialjepa_jax.sigreg import epps_pulley


class MissingPart(Exception):
    """What a section measures does not exist here."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How large everything is.

    Attributes:
        vit: the encoder.
        local: pixels of LeJEPA's small views.
        projector: width of its projector.
        decoder: width, depth and heads of the masked autoencoder's decoder.
        ijepa, lejepa, mae: batch sizes of the steps.
        batch: of the paired comparisons.
        tokens: sequence lengths of the attention table.
        sigreg: (samples, features, slices).
        pictures, picture_size: to render.
        sweep: (runs, steps a call).
        distances, rows: latents of the alignment's distances and of its fit.
        features: of these latents.
        moment_features: of those whose moments are taken on the device, `rows` of them too.
        effort: how long to measure.
    """

    vit: ViTConfig = ViTConfig(dtype="bfloat16")
    local: int = 96
    projector: int = 2048
    decoder: tuple[int, int, int] = (512, 8, 16)
    ijepa: tuple[int, ...] = (512, 1024, 2048)
    lejepa: tuple[int, ...] = (128, 256)  # 512 would need 75 GB
    mae: tuple[int, ...] = (256, 512, 1024)  # and 2048 115 GB
    batch: int = 512
    tokens: tuple[int, ...] = (37, 79, 197)
    sigreg: tuple[tuple[int, int, int], ...] = sigreg_lib.SHAPES
    pictures: int = 4096
    picture_size: int = 96
    sweep: tuple[int, int] = (189, 200)
    distances: int = 50_000
    rows: int = 1_000_000
    features: int = 384
    moment_features: int = 1024
    effort: Effort = Effort()


GPU = Sizes()
REHEARSAL = Sizes(
    vit=ViTConfig(image_size=16, patch_size=4, width=16, depth=1, heads=1, dtype="bfloat16"),
    local=8,
    projector=16,
    decoder=(16, 1, 1),
    ijepa=(4, 8),
    lejepa=(4,),
    mae=(4, 8),
    batch=4,
    tokens=(5, 17),
    sigreg=((64, 8, 16),),
    pictures=4,
    picture_size=8,
    sweep=(2, 2),
    distances=60,
    rows=100,
    features=4,
    moment_features=4,
    effort=Effort(calls=1, windows=1),
)


def _lejepa(
    sizes: Sizes, kind: type[LeJepa] = LeJepa, *, plain: bool = False, packed: bool = False
) -> LeJepa:
    return steps_lib.lejepa(
        sizes.vit, sizes.local, kind, projector=sizes.projector, plain=plain, packed=packed
    )


def devices(sizes: Sizes) -> list[Result]:
    """The matmul peak and copy bandwidth that the rest is held against."""
    found = hardware.measured()
    return [
        Result("matmul peak, TFLOP/s", found.matmul_flops / 1e12, note=found.dtype),
        Result("copy bandwidth, GB/s", found.copy_bytes / 1e9),
    ]


def _rates(
    name: str, objective: object, batches: tuple[int, ...], sizes: Sizes, target: float
) -> Iterator[Result]:
    """Share of the peak at each batch size, and the best of them against the target."""
    peak, shares = hardware.measured().matmul_flops, {}  # before a step fills the memory
    makes = [functools.partial(steps_lib.make_step, objective, batch) for batch in batches]
    for batch, made in zip(batches, steps_lib.at_once(makes)):
        try:
            step = made.result()
            taken = steps_lib.seconds(step.advance, sizes.effort)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            yield Result(f"{name}, batch {batch}", float("nan"), note="out of memory")
            continue
        shares[batch] = step.flops / taken / peak
        yield Result(f"{name}, batch {batch}", shares[batch], note=_note(step, taken))
    if shares:
        best = max(shares, key=shares.__getitem__)
        note = f"share of the measured peak, batch {best}"
        yield Result(name, shares[best], target, True, target + 0.12, note)


def _note(step: Step, taken: float) -> str:
    bandwidth = step.accessed_bytes / taken / hardware.measured().copy_bytes
    share = f"{bandwidth:.0%} of the bandwidth, " if math.isfinite(bandwidth) else ""
    return (
        f"{step.batch_size / taken:.0f} images/s, {1e3 * taken:.2f} ms, "
        f"{step.flops / taken / 1e12:.3g} TFLOP/s, {share}"
        f"{step.compiled.temporary_bytes / 2**30:.2f} GiB, {step.compiled.seconds:.0f} s to compile"
    )


def ijepa(sizes: Sizes) -> Iterator[Result]:
    """I-JEPA steps over batch sizes."""
    return _rates("I-JEPA step", steps_lib.ijepa(sizes.vit), sizes.ijepa, sizes, 0.35)


def lejepa(sizes: Sizes) -> Iterator[Result]:
    """What packing the views changes at the smallest batch, and LeJEPA steps over batch sizes."""
    objective = functools.partial(_lejepa, sizes, plain=True)
    yield vit_lib.packing(lambda packed: objective(packed=packed), sizes.lejepa[0], sizes.effort)
    yield from _rates("LeJEPA step, 2 + 6 views", _lejepa(sizes), sizes.lejepa, sizes, 0.33)


def mae(sizes: Sizes) -> Iterator[Result]:
    """Masked autoencoder steps over batch sizes."""
    if "mae" not in OBJECTIVES:
        raise MissingPart("there is no objective 'mae'")
    width, depth, heads = sizes.decoder
    objective = OBJECTIVES["mae"](
        vit=sizes.vit, decoder_width=width, decoder_depth=depth, decoder_heads=heads
    )
    return _rates("MAE step", objective, sizes.mae, sizes, 0.33)


def dropping(sizes: Sizes) -> list[Result]:
    """What dropping masked tokens saves."""
    return [vit_lib.token_dropping(sizes.vit, sizes.batch, sizes.effort)]


def attention_choices(sizes: Sizes) -> Iterator[Result]:
    """Forward and backward of an attention layer by every choice, and the table made of it."""
    vit, table = sizes.vit, []
    for tokens in sizes.tokens:
        times: dict[str, float] = {}
        for choice in attention.CHOICES[1:]:
            name = f"attention, {tokens} tokens, {choice}, ms"
            try:
                times[choice] = steps_lib.seconds(
                    _attention_layer(sizes, tokens, choice), sizes.effort
                )
                yield Result(name, 1e3 * times[choice])
            except Exception as error:  # a kernel that fails must not hide the others' times
                if choice == "xla":
                    raise
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                yield Result(name, float("nan"), note=reason)
        best = min(times, key=times.__getitem__)
        table.append((tokens, best))
        chosen = attention.choose("auto", tokens, vit.width // vit.heads, vit.dtype)
        taken = times.get(chosen, math.nan)  # a kernel that fails here was the fastest elsewhere
        note = f"{best} is {times['xla'] / times[best]:.2f} times as fast as xla"
        name = f"attention, {tokens} tokens, auto / fastest"
        yield Result(name, taken / times[best], 1.0, False, note=note)
    entry = {jax.devices()[0].device_kind: tuple(table)}
    yield Result("attention lengths measured", len(table), note=f"FASTEST: {entry}")


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
        taken = steps_lib.seconds(lambda s=step, z=z, d=directions: s(z, d), sizes.effort)
        name = f"SIGReg of {shape[0]} x {shape[1]}, {shape[2]} slices, ms"
        yield Result(name, 1e3 * taken, limit, False)
    plain = functools.partial(_lejepa, sizes, plain=True)
    yield vit_lib.sigreg_share(plain, sizes.lejepa[0], sizes.effort)


def pipeline(sizes: Sizes) -> Iterator[Result]:
    """What drawing batches and augmenting them on the device costs."""
    for figure in (vit_lib.pipeline, vit_lib.augmentation):
        yield figure(sizes.vit, sizes.batch, sizes.effort)


def views(sizes: Sizes) -> list[Result]:
    """What LeJEPA's random crops, colours and blur cost."""
    steps = [
        steps_lib.make_step(_lejepa(sizes, plain=plain), sizes.lejepa[0]) for plain in (False, True)
    ]
    full, plain = steps_lib.times(steps, sizes.effort)
    note = f"{1e3 * full:.1f} ms with, {1e3 * plain:.1f} ms without"
    return [Result("views' share of a LeJEPA step", 1 - plain / full, 0.05, False, 0.02, note)]


def rendering(sizes: Sizes) -> list[Result]:
    """Pictures of the toy world a second."""
    world = ToysData(image_size=sizes.picture_size)
    factors = world.observations()[: sizes.pictures]
    world.render(factors)
    start = time.perf_counter()
    world.render(factors)
    rate = len(factors) / (time.perf_counter() - start)
    note = f"{len(factors)} of {sizes.picture_size} pixels, to the host"
    return [Result("toy pictures a second", rate, note=note)]


def sweep(sizes: Sizes) -> list[Result]:
    """The identifiability paper's grid of 189 runs, projected from some of its steps."""
    runs, steps = sizes.sweep
    taken = steps_lib.seconds(sweep_lib.jax_runs(runs, steps, "auto"), Effort(1, 1))
    taken *= sweep_lib.GRID_STEPS / steps
    note = f"{runs} runs of {sweep_lib.GRID_STEPS} steps, from {steps}"
    return [Result("sweep, s", taken, 180, False, 60, note)]


def alignments(sizes: Sizes) -> Iterator[Result]:
    """Distances, neighbours, moments and a fit at sizes that a laptop does not see."""
    yield from _moments(sizes)
    Run = Callable[[np.ndarray, np.ndarray], object]
    measures: list[tuple[str, int, float, str, Run]] = [
        ("DSC", sizes.distances, 3.0, "from", lambda x, y: alignment.dsc(x, y, exact=False)),
        ("DSC + NOS@10", sizes.distances, 5.0, "from",
         lambda x, y: alignment.compare(x, y, exact=False)),
        ("ridge map", sizes.rows, 5.0, "all of it on", lambda x, y: alignment.fit(x, y)),
    ]  # fmt: skip
    for name, count, limit, where, run in measures:
        rng = np.random.default_rng(0)
        base = rng.standard_normal((min(count, 10_000), sizes.features)).astype(np.float32)
        x = np.resize(base, (count, sizes.features))
        y = x[:, ::-1] + 0.1 * np.roll(x, 1, axis=0)
        run(x, y)
        start = time.perf_counter()
        run(x, y)
        taken = time.perf_counter() - start
        note = f"{count} x {sizes.features}, {where} the host"
        yield Result(f"{name}, s", taken, limit, False, note=note)


def _moments(sizes: Sizes) -> Iterator[Result]:
    """Moments of latents that lie on the device, in float64, and their error on a part of them."""
    mesh = sharding.make_mesh(1, 1, jax.devices()[:1])
    shape = (sizes.rows, sizes.moment_features)
    x, y = (jax.random.normal(key, shape) for key in jax.random.split(jax.random.key(0)))
    taken = hardware.seconds(Moments.sharded, x, y, mesh, repeats=2)
    yield Result("float64 moments, s", taken, 0.5, False, note=f"{shape[0]} x {shape[1]}")
    part = [np.asarray(z[:20_000]) for z in (x, y)]
    found, expected = Moments.sharded(*part, mesh), Moments.of(*part)
    error = np.abs(found.xy - expected.xy).max() / np.abs(expected.xy).max()
    yield Result("float64 moments, relative error", float(error), 1e-10, False)


def pytorch(sizes: Sizes) -> Iterator[Result]:
    """A plain PyTorch step of the same ViT beside ours."""
    batch = max(1, sizes.batch // 2)  # it has only the memory that jax left
    found = vit_lib.against_torch(sizes.vit, batch, sizes.effort)
    first = next(found, None)
    if first is None:
        raise MissingPart("there is no PyTorch for this device")
    yield first
    yield from found


SECTIONS: dict[str, Callable[[Sizes], Iterable[Result]]] = {
    "hardware": devices,
    "ijepa": ijepa,
    "lejepa": lejepa,
    "mae": mae,
    "dropping": dropping,
    "attention": attention_choices,
    "sigreg": sigreg,
    "pipeline": pipeline,
    "views": views,
    "rendering": rendering,
    "sweep": sweep,
    "alignment": alignments,
    "pytorch": pytorch,
}
