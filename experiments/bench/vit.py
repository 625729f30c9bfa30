"""Training steps of small ViTs on one CPU core, against targets and plain PyTorch.

Compares a ViT-Ti step (96 pixels, patches of 8, 4 blocks, batch 16) with the same in PyTorch
(`pip install socialjepa_jax[bench]`; optional); I-JEPA that drops masked tokens with one that
computes them all; the resident pipeline with a constant batch; LeJEPA with and without SIGReg, and
with the views of both sizes packed into one pass of the encoder or in one pass each. Times are
process CPU time on one thread, the least of the repeats, which alternate between the programs.

Command: taskset -c 0 python -m experiments.bench_vit [--repeats=7] [--out=FILE.json]
Cost: 4 minutes on one CPU core.
Expected: speed over PyTorch eager 0.89, compiled 0.87 (target 0.75); masking everything / dropping
tokens 1.61 to 1.69 (target 1.6); resident pipeline / constant batch 1.02 (target 1.02); SIGReg's
share 0.63 % (target 1 %); packed / separate views 0.93 to 1.04. Only ratios within a run mean much.
"""

from collections.abc import Callable, Iterator
from functools import partial

from absl import flags

from experiments.bench import results
from experiments.bench import steps as steps_lib
from experiments.bench.results import Result
from experiments.bench.steps import Effort
from socialjepa_jax.errors import check_positive
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.lejepa import LeJepa

TI = ViTConfig(image_size=96, patch_size=8, width=192, depth=4, heads=3)
TINY = ViTConfig(image_size=24, patch_size=8, width=16, depth=1, heads=2)


def against_torch(vit: ViTConfig, batch_size: int, effort: Effort) -> Iterator[Result]:
    """Speed of our ViT's step over PyTorch's, eager and compiled; no figure without torch."""
    ours = steps_lib.plain_step(vit, batch_size)
    for name, compiled in (("eager", False), ("compiled", True)):
        theirs = steps_lib.torch_step(vit, batch_size, compiled)
        if theirs is not None:
            mine, other = steps_lib.together([ours, theirs], effort)
            note = f"{1e3 * mine:.0f} ms, PyTorch {1e3 * other:.0f} ms"
            title = f"ViT step, speed over PyTorch {name}"
            yield Result(title, other / mine, 0.75, True, 1.0, note)


def token_dropping(vit: ViTConfig, batch_size: int, effort: Effort) -> Result:
    """Step time with every token computed, over the time with 0.6 of them dropped."""
    makes = [
        partial(steps_lib.make_step, steps_lib.ijepa(vit, kind), batch_size)
        for kind in (IJepa, steps_lib.MaskEverything)
    ]
    steps = steps_lib.both(*makes)
    dropped, everything = steps_lib.times(steps, effort)
    ratio = steps[1].flops / steps[0].flops
    note = f"{1e3 * dropped:.1f} ms; ratio of FLOPs {ratio:.2f}"
    return Result("mask everything / token dropping", everything / dropped, 1.6, True, 1.75, note)


def pipeline(vit: ViTConfig, batch_size: int, effort: Effort) -> Result:
    """Step time with batches drawn from resident images, over the time with a constant batch."""
    make = partial(steps_lib.make_step, steps_lib.ijepa(vit), batch_size)
    steps = steps_lib.both(make, partial(make, constant=True))
    drawn, constant = steps_lib.times(steps, effort)
    note = f"{1e3 * drawn:.1f} ms, gathered and normalised in the step"
    return Result("resident pipeline / constant batch", drawn / constant, 1.02, False, 1.005, note)


def augmentation(vit: ViTConfig, batch_size: int, effort: Effort) -> Result:
    """Share of a step that crops and flips take."""
    make = partial(steps_lib.make_step, steps_lib.ijepa(vit), batch_size)
    steps = steps_lib.both(partial(make, augmentation=steps_lib.CROPS), make)
    with_, without = steps_lib.times(steps, effort)
    note = f"{1e3 * with_:.1f} ms, random crop, resize and flip"
    return Result("on-device augmentation's share", 1 - without / with_, 0.05, False, 0.02, note)


def packing(objective: Callable[[bool], LeJepa], batch_size: int, effort: Effort) -> Result:
    """Time of a LeJEPA step with the views of both sizes in one pass, over one pass each.

    Args:
        objective: returns the objective, with packed views if its argument is True.
        batch_size: images of a step.
        effort: length of the measurement.
    """
    steps = [steps_lib.make_step(objective(packed), batch_size) for packed in (True, False)]
    packed, apart = steps_lib.times(steps, effort)
    compiling = [step.compiled.seconds for step in steps]
    note = f"{1e3 * packed:.1f} ms; compiled in {compiling[0]:.1f} s, apart in {compiling[1]:.1f} s"
    return Result(f"packed / separate views, batch {batch_size}", packed / apart, note=note)


def sigreg_share(
    objective: Callable[[type[LeJepa]], LeJepa], batch_size: int, effort: Effort
) -> Result:
    """Share of a LeJEPA step that SIGReg takes; `objective` makes one of a given class."""
    makes = [
        partial(steps_lib.make_step, objective(kind), batch_size)
        for kind in (LeJepa, steps_lib.WithoutSigReg)
    ]
    steps = steps_lib.both(*makes)
    with_, without = steps_lib.times(steps, effort)
    note = f"{1e3 * with_:.1f} ms"
    return Result("SIGReg's share of a LeJEPA step", 1 - without / with_, 0.01, False, 0.002, note)


def measure(vit: ViTConfig, batch_size: int, effort: Effort) -> list[Result]:
    """Returns all figures at one size."""
    small = vit.patch_size * max(1, vit.image_size * 3 // (7 * vit.patch_size))
    lejepa = partial(steps_lib.lejepa, vit, small, plain=True)
    quarter = max(1, batch_size // 4)  # eight views of each image
    return [
        *against_torch(vit, batch_size, effort),
        token_dropping(vit, batch_size, effort),
        pipeline(vit, batch_size, effort),
        augmentation(vit, batch_size, effort),
        packing(lambda packed: lejepa(packed=packed), quarter, effort),
        sigreg_share(lejepa, batch_size, effort),
    ]


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_integer("repeats", 7, "Repeats of each measurement, of which the least counts.")
    flags.DEFINE_integer("batch", 16, "Images of a step.")
    flags.DEFINE_bool("rehearse", False, "Tiny sizes: everything runs, no figure means anything.")
    flags.DEFINE_string("out", None, "JSON file.")


def main() -> None:
    """Prints the table and writes the figures."""
    steps_lib.use_one_thread()
    given = flags.FLAGS
    check_positive(**{"--repeats": given.repeats, "--batch": given.batch})
    out = results.out_file(given.out)
    vit = TINY if given.rehearse else TI
    found = measure(vit, given.batch, Effort(windows=given.repeats))
    results.publish(found, out)
