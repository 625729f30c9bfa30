"""Hours of a whole run on some chips, by the scaling model: steps of all agents, no waiting.

Chips are assumed to reach the GPU suite's target, 0.35 of what large products reach: 790 TFLOP/s on
an H100, and as large a share of the data sheet (80 %) on an A100. Input, evaluations and
checkpoints are not counted.
"""

import dataclasses
import functools
import math

from experiments.bench import scaling_model
from experiments.bench.links import Links, sum_seconds
from socialjepa_jax.config import Experiment
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.performance import flops

SHARE = 0.35
STEP = 1e-3  # seconds of a step without images
HOUR = 3600.0


@dataclasses.dataclass(frozen=True)
class Node:
    """Chips of one node.

    Attributes:
        chips: their number.
        products: FLOP/s that large bfloat16 products reach on a chip.
        links: their connections.
    """

    chips: int
    products: float
    links: Links = Links()


ONE_H100 = Node(1, 790e12)
EIGHT_A100 = Node(8, 312e12 * 790 / 989, Links(node_bytes=240e9))  # NVLink of 600 GB/s, both ways


def images_per_second(objective: Objective, products: float) -> float:
    """Images that a chip trains on in a second, of a large batch."""
    return SHARE * products / _flops_of_an_image(objective)


@functools.cache  # a second of tracing
def _flops_of_an_image(objective: Objective) -> float:
    return flops.step(objective, 1)


def hours(experiment: Experiment, node: Node) -> float:
    """Returns the hours of a run's steps.

    Args:
        experiment: the run.
        node: the chips; as many groups of them as possible step an agent each, as the trainer does.
    """
    run, agents = experiment.run, len(experiment.agents.seeds)
    groups = math.gcd(agents, node.chips)
    chips = node.chips // groups
    rate = images_per_second(experiment.objective, node.products)
    compute = STEP + run.batch_size / chips / rate
    gradient = scaling_model.gradient_bytes(experiment.objective)
    talk = sum_seconds(gradient, chips, node.links)
    return run.steps * agents / groups * (compute + talk) / HOUR
