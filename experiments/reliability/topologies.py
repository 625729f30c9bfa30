"""The check that a run does not depend on how many processes and devices it has."""

import dataclasses

from experiments.reliability import hosts, runs
from experiments.reliability.fixture import Figures, Fixture
from experiments.reliability.runs import Layout
from socialjepa_jax.config import Experiment

STEPS = 50
LAYOUTS = tuple(Layout(*shape) for shape in ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1)))


def topologies(fixture: Fixture) -> Figures:
    """Runs 50 steps in six layouts: exact sums give one hash, usual sums differ by rounding."""
    exact = {finished(fixture, dataclasses.replace(layout, exact_shards=4)) for layout in LAYOUTS}
    usual = {finished(fixture, layout) for layout in LAYOUTS}
    first = fixture.folder / name(LAYOUTS[0])
    worst = max(
        hosts.difference(experiment(fixture), first, fixture.folder / name(layout))
        for layout in LAYOUTS[1:]
    )
    return Figures.of(
        layouts=(len(LAYOUTS), True),
        hashes_of_exact_sums=(len(exact), len(exact) == 1),
        hashes_of_usual_sums=(len(usual), True),
        difference=(worst, worst <= hosts.LIMIT),
    )


def experiment(fixture: Fixture) -> Experiment:
    """Returns the run of `hosts`, longer; each of its three agents is spread over all devices."""
    small = hosts.experiment(fixture)
    times = {"steps": STEPS, "eval_every": STEPS, "save_every": STEPS}
    run = dataclasses.replace(small.run, **times)
    return dataclasses.replace(small, run=run)


def name(layout: Layout) -> str:
    """Returns the name of the run's folder."""
    return f"topology_{layout.exact_shards}_{layout.processes}_by_{layout.devices}"


def finished(fixture: Fixture, layout: Layout) -> tuple[tuple[str, str], ...]:
    """Runs to the end and returns the digests of the last state."""
    workdir = fixture.folder / name(layout)
    run = experiment(fixture)
    codes = fixture.children.finish_group(run, workdir, layout)
    if any(codes):
        raise RuntimeError(f"{workdir.name}: exit {codes}")
    return tuple(sorted(runs.digests(workdir, STEPS).items()))
