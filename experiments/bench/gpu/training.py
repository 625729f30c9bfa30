"""Sections of the GPU suite that time whole training steps."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import jax

from experiments.bench import steps as steps_lib
from experiments.bench import vit as vit_lib
from experiments.bench.gpu.sizes import MissingPart, Sizes
from experiments.bench.results import Result
from experiments.bench.steps import Step
from socialjepa_jax.objectives import OBJECTIVES
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.performance import hardware


def ijepa(sizes: Sizes) -> Iterator[Result]:
    """I-JEPA steps over batch sizes."""
    return _rates("I-JEPA step", steps_lib.ijepa(sizes.vit), sizes.ijepa, sizes, 0.35)


def lejepa(sizes: Sizes) -> Iterator[Result]:
    """LeJEPA steps over batch sizes, and packed against separate views at the smallest."""
    objective = functools.partial(lejepa_objective, sizes, plain=True)
    yield vit_lib.packing(lambda packed: objective(packed=packed), sizes.lejepa[0], sizes.effort)
    name = "LeJEPA step, 2 + 6 views"
    yield from _rates(name, lejepa_objective(sizes), sizes.lejepa, sizes, 0.33)


def mae(sizes: Sizes) -> Iterator[Result]:
    """Masked autoencoder steps over batch sizes."""
    if "mae" not in OBJECTIVES:
        raise MissingPart("there is no objective 'mae'")
    width, depth, heads = sizes.decoder
    objective = OBJECTIVES["mae"](
        vit=sizes.vit, decoder_width=width, decoder_depth=depth, decoder_heads=heads
    )
    return _rates("MAE step", objective, sizes.mae, sizes, 0.33)


def _rates(
    name: str, objective: Any, batches: tuple[int, ...], sizes: Sizes, target: float
) -> Iterator[Result]:
    """Shares of the matmul peak at each batch size, then the best of them against the target."""
    peak, shares = hardware.measured().matmul_flops, {}  # before a step fills the memory
    makes = [functools.partial(steps_lib.make_step, objective, batch) for batch in batches]
    for batch, made in zip(batches, steps_lib.at_once(makes)):
        try:
            step = made.result()
            seconds = steps_lib.seconds(step.advance, sizes.effort)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            yield Result(f"{name}, batch {batch}", math.nan, note="out of memory")
            continue
        shares[batch] = step.flops / seconds / peak
        yield Result(f"{name}, batch {batch}", shares[batch], note=_note(step, seconds))
    if shares:
        best = max(shares, key=shares.__getitem__)
        note = f"share of the measured peak, batch {best}"
        yield Result(name, shares[best], target, True, target + 0.12, note)


def _note(step: Step, seconds: float) -> str:
    bandwidth = step.accessed_bytes / seconds / hardware.measured().copy_bytes
    share = f"{bandwidth:.0%} of the bandwidth, " if math.isfinite(bandwidth) else ""
    return (
        f"{step.batch_size / seconds:.0f} images/s, {1e3 * seconds:.2f} ms, "
        f"{step.flops / seconds / 1e12:.3g} TFLOP/s, {share}"
        f"{step.compiled.temporary_bytes / 2**30:.2f} GiB, {step.compiled.seconds:.0f} s to compile"
    )


def lejepa_objective(
    sizes: Sizes, kind: type[LeJepa] = LeJepa, *, plain: bool = False, packed: bool = False
) -> LeJepa:
    """Returns `steps.lejepa` of these sizes."""
    return steps_lib.lejepa(
        sizes.vit, sizes.local, kind, projector=sizes.projector, plain=plain, packed=packed
    )


def dropping(sizes: Sizes) -> list[Result]:
    """I-JEPA with masked tokens dropped, against all tokens computed."""
    return [vit_lib.token_dropping(sizes.vit, sizes.batch, sizes.effort)]


def pipeline(sizes: Sizes) -> Iterator[Result]:
    """Batches drawn and augmented on the device, against a constant batch."""
    for figure in (vit_lib.pipeline, vit_lib.augmentation):
        yield figure(sizes.vit, sizes.batch, sizes.effort)


def views(sizes: Sizes) -> list[Result]:
    """LeJEPA with random crops, colours and blur, against plain views."""
    steps = [
        steps_lib.make_step(lejepa_objective(sizes, plain=plain), sizes.lejepa[0])
        for plain in (False, True)
    ]
    full, plain = steps_lib.times(steps, sizes.effort)
    note = f"{1e3 * full:.1f} ms with, {1e3 * plain:.1f} ms without"
    return [Result("views' share of a LeJEPA step", 1 - plain / full, 0.05, False, 0.02, note)]


def pytorch(sizes: Sizes) -> Iterator[Result]:
    """A plain PyTorch step of the same ViT, against ours."""
    batch = max(1, sizes.batch // 2)  # PyTorch has only the memory that jax left
    found = vit_lib.against_torch(sizes.vit, batch, sizes.effort)
    first = next(found, None)
    if first is None:
        raise MissingPart("there is no PyTorch for this device")
    yield first
    yield from found
