"""Step time and efficiency on many chips, predicted from one: data parallel over ('agent', 'data').

One kind of communication of a step grows with the model: the sum of the gradients over an agent's
chips (a test counts the collectives of a compiled step). Agents do not communicate, so that nothing
is lost with as many agents as groups of chips. A gradient of G bytes over m nodes of g chips is
summed in three parts, inside the nodes and, 1/g of it for each chip, between them:

    t = 2 (g-1)/g G / node + 2 (m-1)/m (G/g) / network + latency (2 (g-1) + 2 (m-1)).

Without any overlap with the backward pass the efficiency is compute / (compute + t): a lower bound.
The upper bound overlaps everything but the first layer's share (1/depth), and no more than the time
of the backward pass (`backward_share` of the FLOPs; far less than the usual two thirds where a
target encoder has no backward pass). A step's compute is `fixed + batch * per_image`, fitted to the
steps of the GPU suite. Without the suite, 0.35 of 790 TFLOP/s and a fixed millisecond are assumed,
and the report says so.

Below it stand the bounds of compiled steps (`experiments.aot.many_chips`), which assume nothing
but data sheets: on up to 512 H100 and a v5e-256.

Command: python -m experiments.scaling_model [--suite=DIR/gpu_suite.json] [--batch=1024]
    [--certificates=tests/certificates]
Cost: 3 seconds on one CPU core.
Expected, on the assumed chip: 77.9, 78.5 and 79.1 ms on 8, 64 and 512 chips of 1,024 images each,
99.9 to 99.8 % efficient with overlap; one batch of 8,192 is below 90 % from 128 chips on.
"""

import dataclasses
import json
import math
import pathlib
import re

import jax
import numpy as np
from absl import flags

from experiments.aot import many_chips
from experiments.bench import steps
from experiments.bench.links import Links, sum_seconds
from socialjepa_jax.errors import InputError, check_positive
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.performance import flops
from socialjepa_jax.sharding import Reduce

CHIPS = (8, 64, 512)
STORED = pathlib.Path(__file__).parents[2] / "tests" / "certificates"
ENOUGH = 0.9  # efficiency


@dataclasses.dataclass(frozen=True)
class Chip:
    """A step's compute on one chip.

    Attributes:
        fixed: seconds of a step without images.
        per_image: seconds that each image adds.
        origin: source of the two.
    """

    fixed: float
    per_image: float
    origin: str

    def seconds(self, batch: float) -> float:
        """Seconds of a step of `batch` images."""
        return self.fixed + batch * self.per_image


def backward_share(objective: IJepa, batch: int = 8) -> float:
    """Share of the backward pass in a step's model FLOPs."""
    objective = flops.plain(objective)
    params, aux = jax.eval_shape(objective.init, jax.random.key(0))
    forward = flops.of(
        lambda p, a, b, key: objective.loss(p, a, b, key, {}, Reduce()),
        *(params, aux, flops.batch_shapes(objective, batch), jax.random.key(0)),
    )
    return 1 - forward / flops.step(objective, batch)


def gradient_bytes(objective: IJepa) -> int:
    """Bytes of the float32 gradients that are summed in a step."""
    params, _ = jax.eval_shape(objective.init, jax.random.key(0))
    return sum(4 * math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A step on many chips.

    Attributes:
        seconds: of the step without overlap.
        worst, best: efficiency without and with overlap, against one chip at its full batch.
    """

    seconds: float
    worst: float
    best: float


@dataclasses.dataclass(frozen=True)
class Model:
    """The model that is trained.

    Attributes:
        size: bytes of the gradient.
        depth: layers; the gradient of the first comes last, and its sum overlaps with nothing.
        backward: share of the backward pass in the compute.
    """

    size: float
    depth: int
    backward: float


def predict(
    chip: Chip, model: Model, chips: int, batch: float, links: Links, full: float
) -> Prediction:
    """Predicts a step.

    Args:
        chip: compute of one chip.
        model: the model that is trained.
        chips: number of chips of one agent.
        batch: images of each chip.
        links: connections of the chips.
        full: images of a chip with efficiency 1.
    """
    compute, talk = chip.seconds(batch), sum_seconds(model.size, chips, links)
    shown = max(talk / model.depth, talk - compute * model.backward)
    ideal = batch * chip.seconds(full) / full
    return Prediction(compute + talk, ideal / (compute + talk), ideal / (compute + shown))


def breaks_at(chip: Chip, model: Model, links: Links, full: int, total: int | None) -> int | None:
    """Fewest chips (a power of two) at which even the best efficiency is below `ENOUGH`.

    Args:
        chip: compute of one chip.
        model: the model that is trained.
        links: connections of the chips.
        full: images of a chip with efficiency 1.
        total: global batch of all chips; None: each chip has `full` images.

    Returns:
        The number of chips; None if it is above 65,536.
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
    """Fits compute to the I-JEPA steps of a `gpu_suite.json`.

    Raises:
        InputError: the file is not the suite's, is a rehearsal's, has fewer than two steps, or
            larger batches take no longer in it.
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
    per_image = flops.step(objective, 256) / 256 / (0.35 * 790e12)
    return Chip(1e-3, per_image, "assumed: 0.35 of 790 TFLOP/s and 1 ms a step")


def report(chip: Chip, objective: IJepa, batch: int, links: Links) -> str:
    """Returns the predictions, and the numbers of chips at which efficiency is lost, as text."""
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
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_string("suite", None, "gpu_suite.json with the measured steps of one chip.")
    flags.DEFINE_integer("batch", 1024, "Images of a chip.")
    flags.DEFINE_string("certificates", str(STORED), "Folder of stored certificates.")


def main() -> None:
    """Prints the report."""
    given = flags.FLAGS
    check_positive(**{"--batch": given.batch})
    objective = steps.ijepa(ViTConfig())
    chip = measured_chip(pathlib.Path(given.suite)) if given.suite else assumed_chip(objective)
    print(report(chip, objective, given.batch, Links()))
    print("\n".join(many_chips.report(many_chips.stored(pathlib.Path(given.certificates)))))
