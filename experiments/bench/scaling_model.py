"""Step time and efficiency on many chips, predicted from one: data parallel over ('agent', 'data').

    python -m experiments.scaling_model [--suite=DIR/gpu_suite.json] [--batch=1024]

The step has one kind of communication that grows with the model: the sum of the gradients over an
agent's chips (`collectives` reads them off a compiled program; a test holds that there are no
others). Agents do not talk to each other, so that with as many agents as groups of chips nothing
is lost. A gradient of G bytes over m nodes of g chips is summed in three parts, inside the nodes
and, a g-th of it a chip, between them:

    t = 2 (g-1)/g G / node + 2 (m-1)/m (G/g) / network + latency (2 (g-1) + 2 (m-1)).

Without any overlap with the backward pass the efficiency is compute / (compute + t): a lower bound.
With perfect overlap of all but the first layer's share (1/depth), an upper one; what follows the
forward passes (`backward_share` of the FLOPs, far less than the usual two thirds where a target
encoder has no backward pass) can hide no more than its own time. A step's compute is
`fixed + batch * per_picture`, fitted to the suite's batch sizes where it was run; without it,
0.35 of 790 TFLOP/s and a fixed millisecond are assumed, and named so.
"""

import dataclasses
import json
import math
import pathlib
import re

import jax
import numpy as np
from absl import flags

from experiments.bench import steps
from socialjepa_jax.errors import InputError, check_positive
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.performance import flops
from socialjepa_jax.sharding import Reduce

CHIPS = (8, 64, 512)
ENOUGH = 0.9  # the efficiency below which it is said to break
_SIZES = {"f64": 8, "f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "pred": 1, "s8": 1, "u8": 1}
_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"


@dataclasses.dataclass(frozen=True)
class Links:
    """How chips are connected. The defaults are eight H100 with NVLink and a 400 Gbit/s card each.

    Attributes:
        chips_per_node: g.
        node_bytes: bytes/s a chip sends inside its node.
        network_bytes: bytes/s a chip sends to other nodes.
        latency: seconds a hop of a ring.
    """

    chips_per_node: int = 8
    node_bytes: float = 360e9
    network_bytes: float = 40e9
    latency: float = 5e-6


@dataclasses.dataclass(frozen=True)
class Chip:
    """A step's compute on one chip: `fixed + batch * per_picture` seconds; `origin` of the two."""

    fixed: float
    per_picture: float
    origin: str

    def seconds(self, batch: float) -> float:
        """Of a step of `batch` pictures."""
        return self.fixed + batch * self.per_picture


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a compiled program: its kind, the bytes it returns, chips of a group."""

    kind: str
    size: int
    group: int


def collectives(program_text: str) -> list[Collective]:
    """The collectives in an optimised program's text; those inside loops once."""
    pattern = re.compile(rf" = (.*?) ({_KINDS})(?:-start)?\(.*?\)(.*)")
    found = []
    for line in program_text.splitlines():
        match = pattern.search(line)
        if match:
            types = re.findall(r"(\w+)\[([\d,]*)\]", match[1])
            size = sum(
                _SIZES[t] * math.prod(map(int, filter(None, d.split(",")))) for t, d in types
            )
            found.append(Collective(match[2], size, _group_size(match[3])))
    return found


def _group_size(attributes: str) -> int:
    """Chips of a group, of any of the forms of an attribute `replica_groups`:

    {{0,1},{2,3}}, [2,2]<=[4], mesh['a'=2,'b'=2] {'b'}.
    """
    if match := re.search(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}", attributes):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", match[2]))
    if match := re.search(r"replica_groups=\[\d+,(\d+)\]", attributes):
        return int(match[1])
    match = re.search(r"replica_groups=\{\{([\d,]*)\}", attributes)
    return len(match[1].split(",")) if match else 0


def backward_share(objective: IJepa, batch: int = 8) -> float:
    """Of a step's model FLOPs, the share of its backward pass."""
    objective = flops.plain(objective)
    params, aux = jax.eval_shape(objective.init, jax.random.key(0))
    forward = flops.of(
        lambda p, a, b, key: objective.loss(p, a, b, key, {}, Reduce()),
        *(params, aux, flops.batch_shapes(objective, batch), jax.random.key(0)),
    )
    return 1 - forward / flops.step(objective, batch)


def gradient_bytes(objective: IJepa) -> int:
    """Of the float32 gradients that are summed in a step."""
    params, _ = jax.eval_shape(objective.init, jax.random.key(0))
    return sum(4 * math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def sum_seconds(size: float, chips: int, links: Links) -> float:
    """Of summing `size` bytes over all chips, see the head of this file."""
    inside = min(chips, links.chips_per_node)
    nodes = math.ceil(chips / links.chips_per_node)
    hops = 2 * (inside - 1) + 2 * (nodes - 1)
    near = 2 * (inside - 1) / inside * size / links.node_bytes
    far = 2 * (nodes - 1) / nodes * size / inside / links.network_bytes
    return near + far + hops * links.latency


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A step on many chips.

    Attributes:
        chips: of one agent.
        batch: pictures a chip.
        seconds: of the step without overlap.
        worst, best: efficiency without and with overlap, against one chip at its own best batch.
    """

    chips: int
    batch: float
    seconds: float
    worst: float
    best: float


@dataclasses.dataclass(frozen=True)
class Model:
    """What is trained.

    Attributes:
        size: bytes of the gradient.
        depth: layers; the gradient of the first, which comes last, cannot be hidden.
        backward: the backward pass's share of the compute.
    """

    size: float
    depth: int
    backward: float


def predict(
    chip: Chip, model: Model, chips: int, batch: float, links: Links, full: float
) -> Prediction:
    """A step of `batch` pictures a chip.

    Args:
        chip: compute of one.
        model: what is trained.
        chips: of one agent.
        batch: pictures a chip.
        links: between chips.
        full: pictures a chip that efficiency is held against.
    """
    compute, talk = chip.seconds(batch), sum_seconds(model.size, chips, links)
    shown = max(talk / model.depth, talk - compute * model.backward)
    ideal = batch * chip.seconds(full) / full
    return Prediction(
        chips, batch, compute + talk, ideal / (compute + talk), ideal / (compute + shown)
    )


def breaks_at(chip: Chip, model: Model, links: Links, full: int, total: int | None) -> int | None:
    """Fewest chips (a power of two) at which even the best efficiency is below `ENOUGH`.

    `total` is the global batch of all chips; None: each chip keeps `full` pictures.
    """
    for exponent in range(1, 17):
        chips = 2**exponent
        batch = full if total is None else total / chips
        if batch < 1:
            return chips
        if predict(chip, model, chips, batch, links, full).best < ENOUGH:
            return chips
    return None


def measured_chip(path: pathlib.Path) -> Chip:
    """Fits the I-JEPA steps of `gpu_suite.json`.

    Raises:
        InputError: it holds fewer than two of them, is a rehearsal's, or says that larger batches
            take no longer.
    """
    try:
        document = json.loads(path.read_text())
        rows = document["sections"].get("ijepa", {"rows": []})["rows"]
        rehearsal = document["rehearsal"]
        texts = [(re.search(r"batch (\d+)$", row["name"]), row["note"]) for row in rows]
        points = [
            (int(name[1]), float(time[1]) / 1e3)
            for name, note in texts
            if name and (time := re.search(r"([\d.]+) ms", note))
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"--suite={path} is not a file of experiments.gpu_suite") from None
    if rehearsal:
        raise InputError(f"--suite={path} is of a rehearsal, whose times mean nothing")
    if len(points) < 2:
        raise InputError(f"--suite={path} needs I-JEPA steps of two batch sizes, has {len(points)}")
    batches, seconds = np.array(points).T
    slope, fixed = np.polyfit(batches, seconds, 1)
    if slope <= 0:
        raise InputError(f"--suite={path} says that larger batches take no longer")
    return Chip(max(float(fixed), 0.0), float(slope), f"measured on {document['device']}")


def assumed_chip(objective: IJepa) -> Chip:
    """An H100 at the suite's target."""
    per_picture = flops.step(objective, 256) / 256 / (0.35 * 790e12)
    return Chip(1e-3, per_picture, "assumed: 0.35 of 790 TFLOP/s and 1 ms a step")


def report(chip: Chip, objective: IJepa, batch: int, links: Links) -> str:
    """The predictions, and where they break, as text."""
    model = Model(gradient_bytes(objective), objective.vit.depth, backward_share(objective))
    lines = [
        f"compute of {batch} pictures on a chip: {1e3 * chip.seconds(batch):.1f} ms "
        f"({chip.origin}); gradients {model.size / 1e6:.0f} MB, backward pass "
        f"{model.backward:.0%} of the compute",
        "chips  pictures a chip  step ms  images/s  efficiency without ... with overlap",
    ]
    total = batch * CHIPS[0]
    for name, global_batch in (("growing", None), (f"one of {total}", total)):
        lines.append(f"global batch {name}:")
        for chips in CHIPS:
            local = batch if global_batch is None else global_batch / chips
            p = predict(chip, model, chips, local, links, batch)
            rate = chips * local / p.seconds
            lines.append(
                f"{chips:5d}  {local:15g}  {1e3 * p.seconds:7.2f}  {rate:8.0f}  "
                f"{p.worst:.1%} ... {p.best:.1%}"
            )
        limit = breaks_at(chip, model, links, batch, global_batch)
        where = f"from {limit} chips on" if limit else "not up to 65536 chips"
        lines.append(f"below {ENOUGH:.0%} even with overlap: {where}")
    return "\n".join(lines)


def define_flags() -> None:
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_string("suite", None, "gpu_suite.json with the measured steps of one chip.")
    flags.DEFINE_integer("batch", 1024, "Pictures a chip.")


def main() -> None:
    """Command line."""
    given = flags.FLAGS
    check_positive(**{"--batch": given.batch})
    objective = steps.ijepa(ViTConfig())
    chip = measured_chip(pathlib.Path(given.suite)) if given.suite else assumed_chip(objective)
    print(report(chip, objective, given.batch, Links()))
