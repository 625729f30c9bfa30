"""Connections of chips, and the time that a sum over all of them takes."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Links:
    """Connections of chips. The defaults are eight H100 with NVLink and a 400 Gbit/s card each.

    Attributes:
        chips_per_node: g.
        node_bytes: bytes/s that a chip sends inside its node.
        network_bytes: bytes/s that a chip sends to other nodes.
        latency: seconds of a hop in a ring.
    """

    chips_per_node: int = 8
    node_bytes: float = 360e9
    network_bytes: float = 40e9
    latency: float = 5e-6


def sum_seconds(size: float, chips: int, links: Links) -> float:
    """Seconds of summing `size` bytes over all chips: see `experiments.bench.scaling_model`."""
    inside = min(chips, links.chips_per_node)
    nodes = math.ceil(chips / links.chips_per_node)
    hops = 2 * (inside - 1) + 2 * (nodes - 1)
    near = 2 * (inside - 1) / inside * size / links.node_bytes
    far = 2 * (nodes - 1) / nodes * size / inside / links.network_bytes
    return near + far + hops * links.latency
