"""Training steps compiled for TPUs and GPUs that are not there: their needs and their bounds.

Each preset's whole `Trainer.step`, at its published size, is lowered and compiled for each target
from shapes alone. Nothing is run: times are bounds from the data sheets (`targets`), compute by
model FLOPs at the bfloat16 peak, memory by the bytes of the compiled instructions (an upper bound),
network by the bytes of the collectives. The predicted MFU lies between all three one after another
and all three at once; real steps may be slower than both.

Every pair of preset and target is a file of --out, kept as soon as it is done and not done again
by the same versions. What a compiler refuses is recorded with its message. `lejepa_vits` is LeJEPA
with 2 + 6 views on the data of toys_ijepa_vits. For files that are not there, ETH-80's number of
states is assumed.

Command: python -m experiments.certificates --out=DIR [--targets=v5e:2x2,h100x1] [--presets=...]
    [--nocompile] [--largest]
Needs pip install socialjepa_jax[aot-tpu] for TPUs and [aot-cuda] for GPUs, best in an environment
of its own; one process at a time can compile for TPUs.
Cost: about two minutes of CPU time for a ViT-S/16 and target, seconds with --nocompile.
"""

import collections
import dataclasses
import itertools
import json
import math
import pathlib
import re
import runpy
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags, logging
from jax.sharding import NamedSharding

from experiments.bench import programs, results, steps, targets
from experiments.bench.programs import Collective
from experiments.bench.targets import Target
from socialjepa_jax import build, records, sharding
from socialjepa_jax.agents import Trainer
from socialjepa_jax.config import Experiment, from_config_dict
from socialjepa_jax.data import MotionData, ToysData
from socialjepa_jax.data.base import ObservationTable
from socialjepa_jax.data.pairing import pair_views
from socialjepa_jax.data.resident import ResidentImages
from socialjepa_jax.data.streaming import StreamedWindow
from socialjepa_jax.data.toys import world
from socialjepa_jax.data.toys.moving import MotionPool, MotionStream
from socialjepa_jax.errors import InputError, check_one_of
from socialjepa_jax.performance import flops
from socialjepa_jax.running.presets import PRESETS

TARGETS = ("v5e:2x2", "v5e:16x16", "h100x1", "h100x4", "h100x8")
EXTRA = "lejepa_vits"
# Files whose float32 products are meant: statistics, losses, pixels, norms of gradients.
FLOAT32 = ("sigreg/", "objectives/", "alignment/", "data/", "optim.py", "agents.py")
SHARE = 0.01  # of the traffic, from which on copies are listed
ETH80 = (1600, 1024)  # states and training states, assumed


def experiment_of(name: str) -> Experiment:
    """Returns the experiment of a preset, or of `lejepa_vits`."""
    check_one_of((*PRESETS, EXTRA), **{"--presets": name})
    path = PRESETS["toys_ijepa_vits" if name == EXTRA else name]
    found = from_config_dict(runpy.run_path(str(path))["get_config"]())
    if name == EXTRA:
        objective = steps.lejepa(found.objective.vit, local=96)  # type: ignore[attr-defined]
        found = dataclasses.replace(found, objective=objective)
    return found


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
    """Returns the source of an experiment's batches with shapes and dtypes in place of arrays."""
    data: Any = experiment.data
    run, agents, size = experiment.run, len(experiment.agents.seeds), data.image_size
    shape = (size, size, data.channels)

    def array(dtype: Any, *sides: int) -> Any:
        return jax.ShapeDtypeStruct((agents, *sides), dtype)

    mean = std = array(jnp.float32, data.channels)
    if isinstance(data, MotionData):
        if not data.pool:
            return MotionStream(mean, std, data, array(jnp.int32))
        return MotionPool(mean, std, data, array(jnp.uint8, data.pool, math.prod(data.pair_shape)))
    if getattr(data, "read", "") == "stream":
        batch = (run.steps_per_call, run.batch_size)
        images, rows = array(jnp.uint8, *batch, *shape), array(jnp.int32, *batch)
        return StreamedWindow(images, rows, array(jnp.int32), mean, std, experiment.augment)
    states, trained = states_of(experiment)
    pixels = array(jnp.uint8, states, math.prod(shape))
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
    """

    program: jax.stages.Lowered
    state: Any
    trainer: Trainer
    experiment: Experiment
    flops: float


def lower(experiment: Experiment, devices: list[jax.Device]) -> Lowered:
    """Lowers the step of an experiment for devices, from shapes alone.

    Raises:
        InputError: the devices cannot do what the experiment asks for.
    """
    run, seeds = experiment.run, experiment.agents.seeds
    if run.agent_map == "auto":  # which goes by the device of this machine
        run = dataclasses.replace(run, agent_map="vmap")
    trainer = build.make_trainer(dataclasses.replace(experiment, run=run), devices=devices)
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
    return Lowered(step.lower(state, source, hparams), state, trainer, experiment, share)


def lowered_facts(lowered: Lowered) -> dict[str, Any]:
    """Returns what the StableHLO of a step says; no compiler is needed."""
    text = lowered.program.as_text(debug_info=True)
    found = programs.products(text)
    kept = collections.Counter(f"{p.source} {p.name}" for p in found if p.kind == "f32")
    models = {getattr(v, "dtype", "") for v in vars(lowered.experiment.objective).values()}
    outside = [name for name in kept if not name.startswith(FLOAT32)]
    leaves = jax.tree.leaves(lowered.state)
    per_chip = lowered.trainer.mesh.shape["agent"]
    return {
        "agents": len(lowered.experiment.agents.seeds),
        "batch_size": lowered.trainer.batch_size,
        "steps_per_call": lowered.trainer.steps_per_call,
        "mesh": dict(lowered.trainer.mesh.shape),
        "dtype": "bfloat16" if "bfloat16" in models else "float32",
        "flops_per_chip": lowered.flops,
        "state_bytes": sum(x.size * x.dtype.itemsize for x in leaves) // per_chip,
        "state_leaves": len(leaves),
        "donated_leaves": len(re.findall(r"tf\.aliasing_output|jax\.buffer_donor", text)),
        "products": dict(collections.Counter(p.kind for p in found)),
        "float32_products": dict(kept),
        "float32_outside": outside if "bfloat16" in models else [],
    }


def compiled_facts(compiled: Any, calls: int) -> dict[str, Any]:
    """Returns what the compiled program says; bytes and collectives are of one of its `calls`.

    Args:
        compiled: as jax compiles it.
        calls: steps of a call.
    """
    memory, program = compiled.memory_analysis(), programs.parse(compiled.as_text())
    moved = programs.traffic(program)
    total = sum(moved.values())
    return {
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "aliased_bytes": memory.alias_size_in_bytes,
        "aliased_leaves": program.aliases,
        "host_transfers": programs.host_transfers(program),
        "collectives": [dataclasses.asdict(c) for c in programs.collectives(program)],
        "traffic_bytes": total / calls,
        "copies": {
            name: size / calls
            for name, size in sorted(moved.items(), key=lambda item: -item[1])
            if name.startswith("copy ") and size > SHARE * total
        },
    }


def network_bytes(found: Collective) -> float:
    """Returns the bytes that a chip sends for a collective, in a ring."""
    others = found.group - 1
    if not others:
        return 0.0
    share = {
        "all-reduce": 2 * others / found.group,
        "reduce-scatter": float(others),  # its result is a share of what is summed
        "collective-permute": 1.0,
        "collective-broadcast": 1.0,
    }.get(found.kind, others / found.group)
    return share * found.size * found.times


def bounds(facts: dict[str, Any], target: Target) -> dict[str, Any]:
    """Returns the seconds of a step by compute, memory and network, and the MFU between them."""
    chip, calls = target.chip, facts["steps_per_call"]
    sent = sum(network_bytes(Collective(**c)) for c in facts["collectives"]) / calls
    seconds = {
        "compute": facts["flops_per_chip"] / chip.flops,
        "memory": facts["traffic_bytes"] / chip.bandwidth,
        "network": sent / chip.sends(target.sides),
    }
    mfu = [seconds["compute"] / time for time in (sum(seconds.values()), max(seconds.values()))]
    needed = facts["argument_bytes"] + facts["temporary_bytes"]
    needed += facts["output_bytes"] - facts["aliased_bytes"]
    return {
        "seconds": seconds,
        "bound_by": max(seconds, key=lambda name: seconds[name]),
        "mfu": mfu,
        "needed_bytes": needed,
        "fits": needed <= chip.memory,
    }


def refusal(error: Exception) -> str:
    """Returns the message of a compiler on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def certify(experiment: Experiment, target: Target, compiles: bool = True) -> dict[str, Any]:
    """Returns the certificate of an experiment; what is refused stands under "refused"."""
    facts: dict[str, Any] = {}
    devices = target.devices()
    try:
        lowered = lower(experiment, devices)
        facts |= lowered_facts(lowered)
        if not compiles:
            return facts
        start = time.perf_counter()
        compiled = lowered.program.compile(compiler_options=target.compiler_options)
        facts["compile_seconds"] = time.perf_counter() - start
    except (InputError, ValueError, NotImplementedError, jax.errors.JaxRuntimeError) as error:
        return facts | {"refused": refusal(error)}
    facts |= compiled_facts(compiled, facts["steps_per_call"])
    return facts | bounds(facts, target)


def largest(fits: Callable[[int], bool], start: int, unit: int) -> int:
    """Returns the largest multiple of `unit` that fits, to an eighth; 0 if none does.

    Args:
        fits: whether a batch fits; if it does, all smaller ones do.
        start: first batch to try, a multiple of `unit`.
        unit: batches are multiples of it.
    """
    low, high = 0, start
    while fits(high):
        low, high = high, 2 * high
    while high - low > max(unit, low // 8 // unit * unit):
        middle = (low + high) // 2 // unit * unit
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_batch(experiment: Experiment, target: Target) -> int:
    """Returns the largest batch of an agent that fits; compiles about eight times."""

    def fits(batch: int) -> bool:
        run = dataclasses.replace(experiment.run, batch_size=batch)
        return certify(dataclasses.replace(experiment, run=run), target).get("fits", False)

    start = experiment.run.batch_size
    unit = np.lcm(8, target.size)
    return largest(fits, int(-(-start // unit) * unit), int(unit))


def row(entry: dict[str, Any]) -> list[str]:
    """Returns the cells of an entry's row."""
    cells = [entry["preset"], entry["target"]]
    if "refused" in entry:
        return [*cells, f"refused: {entry['refused']}", *[""] * (len(HEAD) - 3)]
    products = ", ".join(f"{n} {kind}" for kind, n in sorted(entry["products"].items()))
    cells += [str(entry["batch_size"]), f"{entry['flops_per_chip'] / 1e12:.3g}", products]
    cells.append(f"{entry['state_bytes'] / 1e6:.1f}")
    if "fits" not in entry:
        return [*cells, *["not compiled"], *[""] * (len(HEAD) - len(cells) - 1)]
    sums: dict[str, int] = collections.Counter()
    for c in entry["collectives"]:
        way = "" if c["asynchronous"] else " sync"
        sums[f"{c['kind']} {'+'.join(c['types'])}{way}"] += c["size"]
    low, high = entry["mfu"]
    return [
        *cells,
        f"{entry['aliased_bytes'] / 1e6:.1f}",
        f"{entry['temporary_bytes'] / 1e9:.2f}",
        f"{entry['needed_bytes'] / 1e9:.2f}{'' if entry['fits'] else ' (too much)'}",
        str(entry.get("largest_batch", "")),
        ", ".join(f"{kind}: {size / 1e6:.1f}" for kind, size in sorted(sums.items())) or "none",
        ", ".join(entry["host_transfers"]) or "none",
        " / ".join(f"{1e3 * t:.2f}" for t in entry["seconds"].values()),
        f"{low:.0%} - {high:.0%} ({entry['bound_by']})",
        f"{entry['compile_seconds']:.0f}",
    ]


HEAD = (
    "preset", "target", "batch of an agent", "TFLOP a chip and step", "products",
    "state MB a chip", "aliased MB", "temporaries GB", "needed GB", "largest batch",
    "collectives MB", "host transfers", "ms by compute / memory / network", "predicted MFU",
    "compile s",
)  # fmt: skip


def markdown(entries: list[dict[str, Any]]) -> str:
    """Returns the table of all entries: compiled and bounded, not run."""
    lines = [HEAD, ["---"] * len(HEAD), *map(row, entries)]
    return "".join(f"| {' | '.join(c.replace('|', '/') for c in cells)} |\n" for cells in lines)


def out_folder(name: str | None) -> pathlib.Path:
    """Returns the folder of `--out`, made if missing.

    Raises:
        InputError: it is not given or cannot be made.
    """
    if not name:
        raise InputError("--out=DIR must be given")
    path = records.local_path("--out", name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out={name} cannot be made: {error.strerror}") from None
    return path


def stored(path: pathlib.Path) -> dict[str, Any]:
    """Returns the entry of a file; an empty one if there is none or it is damaged."""
    try:
        entry = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return entry if isinstance(entry, dict) else {}


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_list("targets", list(TARGETS), "Chips to compile for.")
    flags.DEFINE_list("presets", [*PRESETS, EXTRA], "Presets.")
    flags.DEFINE_string("out", None, "Folder of the certificates.")
    flags.DEFINE_bool("compile", True, "Whether to compile, and not to lower alone.")
    flags.DEFINE_bool("largest", False, "Whether to search for the largest batches: slow.")


def main() -> None:
    """Certifies all pairs of presets and targets."""
    given = flags.FLAGS
    jax.config.update("jax_platforms", "cpu")  # never the device of this machine
    chips = [targets.parse(name) for name in given.targets or [""]]
    experiments = {name: experiment_of(name) for name in given.presets or [""]}
    folder = out_folder(given.out)
    for target in chips:
        target.devices()
    asked = {"compiled": given.compile, "largest": given.largest}
    entries = []
    for (name, experiment), target in itertools.product(experiments.items(), chips):
        path = folder / f"{name}@{target.name.replace(':', '_')}.json"
        versions = {**results.here(), "revision": records.versions()["revision"], **asked}
        entry = stored(path)
        if entry.get("versions") != versions:
            entry = {"preset": name, "target": target.name, "versions": versions}
            entry |= certify(experiment, target, given.compile)
            if given.largest and "fits" in entry:
                entry["largest_batch"] = largest_batch(experiment, target)
            records.write_json(path, entry)
            logging.info("%s", " | ".join(row(entry)))
        entries.append(entry)
    records.write_json(folder / "certificates.json", entries)
    records.write_atomically(folder / "certificates.md", markdown(entries).encode())
    print(markdown(entries), end="")
