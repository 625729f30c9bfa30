"""Steps on any number of chips, bounded by what compiled programs of a few chips need.

A step's needs on a chip are lines in its number of images n: FLOPs f n and bytes of main memory
a + b n, fitted to the stored certificates of one chip at two batches or more. With N chips of an
agent the gradient of G bytes is summed as in `links.sum_seconds`, of which the compiled
schedule hides the share h beside other work:

    best  = max(f n / peak, (a + b n) / bandwidth, t(G, N))
    worst = f n / peak + (a + b n) / bandwidth + (1 - h) t(G, N).
"""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments.aot import budgets, targets
from experiments.bench.links import Links, sum_seconds
from socialjepa_jax.errors import InputError

Entry = dict[str, Any]

# Connections of a slice: the torus of a v5e is one node whose rings run in both directions.
LINKS = {
    "h100": Links(),
    "v5e": Links(chips_per_node=256, node_bytes=200e9, network_bytes=25e9, latency=1e-6),
}
CHIPS = {"h100": (8, 64, 512), "v5e": (4, 64, 256)}
PRESETS = ("toys_ijepa_vits", "lejepa_vits")
TARGETS = ("h100x4", "h100x8", "v5e:2x2", "v5e:16x16")
IMAGES = {"h100": 256, "v5e": 64}  # of a step on each chip


@dataclasses.dataclass(frozen=True)
class Needs:
    """Needs of a step of one agent on one chip.

    Attributes:
        flops: f, of an image.
        fixed, image: a and b, bytes of main memory.
        gradient: G, bytes that are summed over chips.
        hidden: h, share of that time that the schedule places beside other work.
        chip: its data sheet.
        links: connections of the chips.
    """

    flops: float
    fixed: float
    image: float
    gradient: float
    hidden: float
    chip: targets.Chip
    links: Links

    def bounds(self, images: float, chips: int) -> tuple[float, float]:
        """Returns the least and the most seconds of a step of `images` on each of `chips`."""
        compute = self.flops * images / self.chip.flops
        memory = (self.fixed + self.image * images) / self.chip.bandwidth
        network = sum_seconds(self.gradient, chips, self.links)
        shown = (1 - self.hidden) * network
        return max(compute, memory, network), compute + memory + shown


def images_of(entry: Entry) -> float:
    """Returns the images of a step on one chip, of all its agents."""
    mesh = entry["mesh"]
    return entry["batch_size"] * entry["agents"] / (mesh["agent"] * mesh["data"])


def fit(entries: list[Entry]) -> Needs:
    """Fits the needs to the certificates of one preset for slices of one kind of chip.

    Only entries with a single agent on a chip take part: others repeat the fixed bytes.

    Raises:
        InputError: fewer than two such entries of different batches.
    """
    alone = _alone(entries)
    images = np.array([images_of(entry) for entry in alone])
    if len(set(images)) < 2:
        raise InputError("certificates of two batches of an agent on a chip are needed")
    traffic = [entry["traffic_bytes"] for entry in alone]
    slope, fixed = np.polyfit(images, traffic, 1)
    target = targets.parse(alone[0]["target"])
    most = max(alone, key=lambda entry: entry["seconds"]["network"])
    return Needs(
        flops=most["flops_per_chip"] / images_of(most),
        fixed=max(float(fixed), 0.0),
        image=float(slope),
        gradient=gradient_bytes(most),
        hidden=most["hidden_seconds"] / most["seconds"]["network"],
        chip=target.chip,
        links=LINKS[kind_of(target.name)],
    )


def _alone(entries: list[Entry]) -> list[Entry]:
    return [e for e in entries if "fits" in e and e["agents"] == e["mesh"]["agent"]]


def gradient_bytes(entry: Entry) -> float:
    """Returns the bytes that an entry's program sums over its chips in a step."""
    found = [c for c in entry["collectives"] if c["group"] > 1]
    return sum(c["size"] * c["times"] for c in found) / entry["steps_per_call"]


def kind_of(target: str) -> str:
    """Returns the kind of a target's chips: "h100" | "v5e"."""
    return "h100" if target.startswith("h100") else "v5e"


def stored(folder: pathlib.Path) -> dict[str, list[Entry]]:
    """Returns the stored certificates of the two ViT-S steps, by preset."""
    read = [budgets.read(folder, target) for target in TARGETS]
    return {name: [part[name] for part in read if name in part] for name in PRESETS}


def report(entries: dict[str, list[Entry]], images: dict[str, int] = IMAGES) -> list[str]:
    """Returns the bounds of presets on many chips, as lines of a table.

    Args:
        entries: by preset.
        images: of a step on each chip, by kind of chip.
    """
    lines = ["chips  images a chip  ms a step  images/s  MFU: compiled and bounded, not run"]
    for preset, own in entries.items():
        for kind, counts in CHIPS.items():
            lines.append(f"{preset}, {kind}:")
            alone = _alone([entry for entry in own if kind_of(entry["target"]) == kind])
            if len(set(map(images_of, alone))) < 2:
                lines.append("       not certified at two batches")
                continue
            lines += _rows(fit(alone), images[kind], counts)
    return lines


def _rows(needs: Needs, images: int, counts: tuple[int, ...]) -> Iterator[str]:
    share = needs.flops * images / needs.chip.flops
    for chips in counts:
        best, worst = needs.bounds(images, chips)
        rates = " - ".join(f"{chips * images / t:,.0f}" for t in (worst, best))
        times = f"{1e3 * best:.1f} - {1e3 * worst:.1f}"
        yield f"{chips:5d}  {images:4d}  {times}  {rates}  {share / worst:.0%} - {share / best:.0%}"
