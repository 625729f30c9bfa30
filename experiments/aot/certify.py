"""Programs compiled for TPUs and GPUs that are not there: their needs and their bounds.

Each preset's whole `Trainer.step`, at its published size, and the programs beside it (`parts`) are
lowered and compiled for each target from shapes alone. Nothing is run: times are bounds from the
data sheets (`targets`), compute by model FLOPs at the bfloat16 peak, memory by the bytes of the
compiled instructions (an upper bound), network by the bytes of the collectives. The predicted MFU
lies between all three one after another and all three at once; real steps may be slower than both.

What a compiler refuses is recorded with its message. Compiled programs are kept in --out, and the
same program is never compiled twice. With --budgets=DIR the entries are also compared with those
stored there, and a number that is worse fails the command.

Command: python -m experiments.certificates --out=DIR [--targets=v5e:2x2,h100x1] [--presets=...]
    [--parts=...] [--nocompile] [--largest] [--budgets=tests/certificates [--store]]
Needs pip install socialjepa_jax[aot-tpu] for TPUs and [aot-cuda] for GPUs, best in an environment
of its own; one process at a time can compile for TPUs.
Cost: one to four minutes of CPU time for a step and target, seconds with --nocompile.
"""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Callable
from typing import Any

import jax
from absl import flags, logging

from experiments.aot import abstract, budgets, compiling, facts, parts, table, targets
from experiments.aot.targets import Target
from socialjepa_jax import records
from socialjepa_jax.config import Experiment
from socialjepa_jax.errors import InputError, check_one_of
from socialjepa_jax.running.presets import PRESETS

TARGETS = ("v5e:2x2", "v5e:16x16", "h100x1", "h100x4", "h100x8")
REFUSALS = (InputError, ValueError, NotImplementedError, jax.errors.JaxRuntimeError)
FULL = 0.85  # share of a chip's memory that the largest batch must fill
COMPILATIONS = 6  # at most, in the search for it


def certify(
    experiment: Experiment,
    target: Target,
    folder: pathlib.Path | None = None,
    compiles: bool = True,
) -> dict[str, Any]:
    """Returns the certificate of a step; what is refused stands under "refused".

    Args:
        experiment: that the step is of.
        target: chips that it is compiled for.
        folder: of compiled programs, see `compiling.compile_for`.
        compiles: whether to compile, and not to lower alone.
    """
    found: dict[str, Any] = {}
    try:
        lowered = abstract.lower(experiment, target.devices())
        found |= facts.of_lowered(lowered, target)
        if not compiles:
            return found
        compiled = compiling.compile_for(lowered.program, target, folder, lowered.options)
    except REFUSALS as error:
        return found | {"refused": refusal(error)}
    found |= facts.of_compiled(compiled, found["steps_per_call"])
    return found | facts.bounds(found, target)


def certify_part(
    name: str, target: Target, folder: pathlib.Path | None = None, compiles: bool = True
) -> dict[str, Any]:
    """Returns the certificate of one of `parts.PARTS`; arguments as those of `certify`."""
    found: dict[str, Any] = {}
    try:
        part = parts.PARTS[name](target.devices())
        found |= facts.of_part(part, target)
        if not compiles:
            return found
        compiled = compiling.compile_for(part.program, target, folder)
    except REFUSALS as error:
        return found | {"refused": refusal(error)}
    found |= facts.of_compiled(compiled, part.calls)
    return found | facts.bounds(found, target)


def refusal(error: Exception) -> str:
    """Returns the message of a compiler on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def largest(needs: Callable[[int], float], limit: float, start: int, unit: int) -> int:
    """Returns the largest multiple of `unit` found to fit; 0 if none does.

    Memory grows almost linearly with the batch: the line through two batches names the next one,
    until one fits and fills `FULL` of the limit.

    Args:
        needs: bytes that a batch needs, infinite if it is refused.
        limit: bytes of a chip.
        start: first batch to try, a multiple of `unit`.
        unit: batches are multiples of it.
    """
    low, low_bytes = 0, 0.0  # fits
    high, high_bytes = 0, math.inf  # does not
    batch = start
    for _ in range(COMPILATIONS):
        found = needs(batch)
        if found <= limit:
            slope = (found - low_bytes) / (batch - low) if low else found / batch
            low, low_bytes = batch, found
        else:
            high, high_bytes = batch, found
            slope = (high_bytes - low_bytes) / (high - low)
        if low_bytes >= FULL * limit or (high and high - low <= unit):
            break
        guess = low + (limit - low_bytes) / slope if math.isfinite(slope) else (low + high) / 2
        batch = max(int(guess) // unit * unit, low + unit)
        batch = min(batch, high - unit) if high else batch
    return low


def largest_batch(
    experiment: Experiment, target: Target, folder: pathlib.Path | None = None
) -> int:
    """Returns the largest batch of an agent that fits, by a few compilations."""

    def needs(batch: int) -> float:
        run = dataclasses.replace(experiment.run, batch_size=batch)
        found = certify(dataclasses.replace(experiment, run=run), target, folder)
        return found.get("needed_bytes", math.inf)

    unit = math.lcm(8, target.size)
    start = -(-experiment.run.batch_size // unit) * unit
    return largest(needs, target.chip.memory, start, unit)


def out_folder(name: str | None) -> pathlib.Path:
    """Returns the folder of `--out`, made if missing.

    Raises:
        InputError: it is not given or cannot be made.
    """
    if not name:
        raise InputError("--out=DIR must be given")
    path = records.local_path("--out", name)
    try:
        (path / "programs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out={name} cannot be made: {error.strerror}") from None
    return path


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_list("targets", list(TARGETS), "Chips to compile for.")
    flags.DEFINE_list("presets", [*PRESETS, *abstract.EXTRAS], "Presets.")
    flags.DEFINE_list("parts", [], f"Programs beside the steps: {', '.join(parts.PARTS)}.")
    flags.DEFINE_string("out", None, "Folder of the certificates.")
    flags.DEFINE_bool("compile", True, "Whether to compile, and not to lower alone.")
    flags.DEFINE_bool("largest", False, "Whether to search for the largest batches: slow.")
    flags.DEFINE_string("budgets", None, "Folder of stored certificates to compare with.")
    flags.DEFINE_bool("store", False, "Whether to replace those of --budgets, once none is worse.")


def main() -> None:
    """Certifies all pairs of steps and targets, and of parts and targets."""
    given = flags.FLAGS
    jax.config.update("jax_platforms", "cpu")  # never the device of this machine
    chips = [targets.parse(name) for name in given.targets or [""]]
    experiments = {name: abstract.experiment_of(name) for name in given.presets}
    for name in given.parts:
        check_one_of(tuple(parts.PARTS), **{"--parts": name})
    if not (experiments or given.parts):
        raise InputError("--presets= and --parts= name nothing to certify")
    folder = out_folder(given.out)
    for target in chips:
        target.devices()
    entries = []
    for target, (name, experiment) in itertools.product(
        chips, [*experiments.items(), *((name, None) for name in given.parts)]
    ):
        entry = {"preset": name, "target": target.name, "versions": compiling.versions()}
        entry |= _certified(name, experiment, target, folder / "programs")
        logging.info("%s", table.summary(entry))
        entries.append(entry)
        records.write_json(folder / "certificates.json", entries)
    text = table.markdown(entries)
    records.write_atomically(folder / "certificates.md", text.encode())
    print(text, end="")
    if given.budgets:
        budgets.check(entries, pathlib.Path(given.budgets))
        if given.store:
            budgets.write(entries, pathlib.Path(given.budgets))


def _certified(
    name: str, experiment: Experiment | None, target: Target, kept: pathlib.Path
) -> dict[str, Any]:
    compiles = flags.FLAGS.compile
    if experiment is None:
        return certify_part(name, target, kept, compiles)
    entry = certify(experiment, target, kept, compiles)
    if flags.FLAGS.largest and "fits" in entry:
        entry["largest_batch"] = largest_batch(experiment, target, kept)
    return entry
