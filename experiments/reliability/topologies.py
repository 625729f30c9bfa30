"""The check that a run does not depend on how many processes and devices it has."""

import dataclasses

from experiments.reliability import groups, runs
from experiments.reliability.checks import Lab, Seen
from experiments.reliability.runs import Layout
from socialjepa_jax.config import Experiment

STEPS = 50
LAYOUTS = tuple(Layout(*shape) for shape in ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1)))


def topologies(lab: Lab) -> Seen:
    """50 steps in six layouts: with exact sums one hash, otherwise the same but for rounding."""
    exact = {finished(lab, layout, exact_shards=4) for layout in LAYOUTS}
    usual = {finished(lab, layout, exact_shards=0) for layout in LAYOUTS}
    first = lab.folder / name(LAYOUTS[0], 0)
    worst = max(
        groups.difference(experiment(lab, 0), first, lab.folder / name(layout, 0))
        for layout in LAYOUTS[1:]
    )
    seen = f"exact: {len(exact)} hash, otherwise {len(usual)} within {worst:.1e}"
    return f"{len(LAYOUTS)} layouts, {seen}", len(exact) == 1 and worst <= 1e-5


def experiment(lab: Lab, exact_shards: int) -> Experiment:
    """Three agents, so that each one's batch is spread over all devices."""
    small = groups.small(lab)
    times = {"steps": STEPS, "eval_every": STEPS, "save_every": STEPS}
    run = dataclasses.replace(small.run, exact_shards=exact_shards, **times)
    return dataclasses.replace(small, run=run)


def name(layout: Layout, exact_shards: int) -> str:
    """Of the run's folder."""
    return f"topology_{exact_shards}_{layout.processes}_by_{layout.devices}"


def finished(lab: Lab, layout: Layout, exact_shards: int) -> tuple[tuple[str, str], ...]:
    """Runs to the end; the digests of all that it is then."""
    workdir = lab.folder / name(layout, exact_shards)
    codes = lab.children.finish_group(experiment(lab, exact_shards), workdir, layout)
    if any(codes):
        raise RuntimeError(f"{workdir.name}: exit {codes}")
    return tuple(sorted(runs.digests(workdir, STEPS).items()))
