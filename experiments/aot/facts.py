"""Facts of a step: what its lowered and its compiled program say, and the bounds that follow."""

import collections
import dataclasses
import re
from collections.abc import Iterable
from typing import Any

import jax

from experiments.aot import hlo, programs, stablehlo
from experiments.aot.abstract import Lowered
from experiments.aot.compiling import Compiled
from experiments.aot.parts import Part
from experiments.aot.programs import Collective
from experiments.aot.targets import Target

# Files whose float32 products are meant: statistics, losses, pixels, norms of gradients; the
# predictor's positions, once a step; MLPs of latents.
FLOAT32 = (
    "sigreg/", "objectives/", "alignment/", "data/", "optim", "agents.py", "models/heads.py",
    "models/mlp.py",
)  # fmt: skip
SHARE = 0.01  # of the traffic, from which on copies are listed


def of_lowered(lowered: Lowered, target: Target) -> dict[str, Any]:
    """Returns what the StableHLO of a step says; no compiler is needed."""
    text = lowered.program.as_text(debug_info=True)
    models = {getattr(v, "dtype", "") for v in vars(lowered.experiment.objective).values()}
    dtype = "bfloat16" if "bfloat16" in models else "float32"
    leaves = jax.tree.leaves(lowered.state)
    per_chip = lowered.trainer.mesh.shape["agent"]
    return {
        "agents": len(lowered.experiment.agents.seeds),
        "batch_size": lowered.trainer.batch_size,
        "steps_per_call": lowered.trainer.steps_per_call,
        "mesh": dict(lowered.trainer.mesh.shape),
        "dtype": dtype,
        "flops_per_chip": lowered.flops,
        "state_bytes": sum(x.size * x.dtype.itemsize for x in leaves) // per_chip,
        "state_leaves": len(leaves),
        "donated_leaves": len(re.findall(r"tf\.aliasing_output|jax\.buffer_donor", text)),
        **of_products(stablehlo.products(text), dtype, target),
    }


def of_part(part: Part, target: Target) -> dict[str, Any]:
    """Returns what the StableHLO of a program beside the steps says."""
    found = stablehlo.products(part.program.as_text(debug_info=True))
    shares = {"flops_per_chip": part.flops / part.calls, "steps_per_call": part.calls}
    return shares | of_products(found, "float32", target)


def of_products(found: list[stablehlo.Product], dtype: str, target: Target) -> dict[str, Any]:
    """Returns the numbers of products by type and source, and the FLOPs that fill their tiles."""
    files = collections.Counter(p.source for p in found if p.kind == "f32")
    needed = sum(p.flops for p in found)
    return {
        "products": dict(collections.Counter(p.kind for p in found)),
        "float32_products": dict(sorted(files.items())),
        "float32_outside": outside(files, dtype),
        "flops_in_tiles": sum(p.padded_flops(target.chip.tile) for p in found) / (needed or 1),
    }


def outside(files: Iterable[str], dtype: str) -> list[str]:
    """Returns the files with float32 products that a model in bfloat16 should not have."""
    return sorted(f for f in files if dtype == "bfloat16" and not f.startswith(FLOAT32))


def of_compiled(compiled: Compiled, calls: int = 1) -> dict[str, Any]:
    """Returns what the compiled program says.

    Args:
        compiled: the program.
        calls: steps of a call; traffic and copies are of one of them.
    """
    program = hlo.parse(compiled.text)
    moved = programs.traffic(program)
    total = sum(moved.values())
    return {
        "argument_bytes": compiled.argument_bytes,
        "output_bytes": compiled.output_bytes,
        "temporary_bytes": compiled.temporary_bytes,
        "aliased_bytes": compiled.aliased_bytes,
        "aliased_leaves": program.aliases,
        "compile_seconds": compiled.seconds,
        "host_transfers": programs.host_transfers(program),
        "collectives": [dataclasses.asdict(c) for c in programs.collectives(program)],
        "traffic_bytes": total / calls,
        "padding": programs.padding(program),
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
    """Returns the seconds of a step by compute, memory and network, and the MFU between them.

    Network time counts as hidden where the schedule moves bytes of main memory beside it.
    """
    chip, calls = target.chip, facts["steps_per_call"]
    found = [Collective(**{**c, "types": tuple(c["types"])}) for c in facts["collectives"]]
    speed = chip.sends(target.sides)
    sent = [network_bytes(c) / speed for c in found]
    shown = [max(time - c.times * c.beside / chip.bandwidth, 0.0) for c, time in zip(found, sent)]
    seconds = {
        "compute": facts["flops_per_chip"] / chip.flops,
        "memory": facts["traffic_bytes"] / chip.bandwidth,
        "network": sum(sent) / calls,
    }
    hidden = (sum(sent) - sum(shown)) / calls
    slowest = sum(seconds.values()) - hidden
    needed = facts["argument_bytes"] + facts["temporary_bytes"]
    needed += facts["output_bytes"] - facts["aliased_bytes"]
    return {
        "seconds": seconds,
        "hidden_seconds": hidden,
        "bound_by": max(seconds, key=lambda name: seconds[name]),
        "mfu": [seconds["compute"] / time for time in (slowest, max(seconds.values()))],
        "needed_bytes": needed,
        "fits": needed <= chip.memory,
    }
