"""Figure 6 of Social-JEPA: matched states of both agents in a plane, before and after W.

Held-out objects; standardised latents. The plane before is that of the two leading principal
components of both agents' training states together, the plane after that of W x and y. The number
beside the picture is the mean distance of matched pairs over that of unmatched ones: 0 where W
sends every state to its partner, 1 where a partner is no nearer than another state. It is taken
in the plane and in all dimensions, for trained agents, untrained ones, and W that is fitted on
wrong pairs. The paper draws UMAP too; its picture keeps no distances, so it has no such number and
is left out.

Predictions, written before the run:

paper/closer: matched pairs move closer: the ratio in the plane falls by at least .3 for all four
methods.
before: without a map the ratio in the plane is between .8 and 1.2 for all four methods.
untrained: the picture does not show training: the ratio after W of untrained I-JEPA is within .1 of
that of trained.
wrong: after W of wrong pairs the ratio in the plane is above .9 for all four methods.
flatters: the ratio in the plane is at least .1 below that in all dimensions for all four methods.
rank: in all dimensions I-JEPA and MAE, whose rank is low, have lower ratios than SimCLR and LeJEPA.

Command: python -m experiments.reproduce --only=fig6_projection --out=runs/table1_paradigms
Cost at --scale=cpu: 15 seconds of one core after the training of table1_paradigms.
Expected at --scale=cpu: 5 of 6 claims agree. The ratio in the plane falls from .92 to .09 for
I-JEPA and to .14 for untrained agents; it stays at .99 for wrong pairs.

Shape key: N states, M training states, D features.
"""

import pathlib
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from experiments import figures, findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.rivals.geometry.spectrum import KINDS, fitted
from experiments.rivals.tables import measures, trained
from experiments.rivals.tables.reading import mean, row_of
from experiments.rivals.tables.trained import World, cross_pairs
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.records import RowName
from socialjepa_jax.report.tables import Column, Row, Table

FOLDER = "fig6_projection"
METHODS = {"smoke": ("ijepa",)}
NAMES = ("ijepa", "mae", "simclr", "lejepa")  # of the other scales
LOW, HIGH = NAMES[:2], NAMES[2:]  # by the rank of their latents
DRAWN = 80  # states
MEASURES = ("plane_before", "plane_after", "all_before", "all_after")

Points = tuple[np.ndarray, np.ndarray]  # of matched states of both agents


def run(scale: str, out: pathlib.Path) -> Finding:
    """Measures and draws the pairs of `trained` agents."""
    world = World(scale, out)
    names = METHODS.get(scale, NAMES)
    rows = world.measured(FOLDER, names, partial(of_method, world))
    return Finding(
        "Matched states before and after W",
        claims(rows) if names == NAMES else [],
        {"": plot(world, names)},
        rows,
        [table(rows)],
        {"steps": trained.STEPS[scale], "agents of a camera": trained.SEEDS},
    )


def of_method(world: World, name: str) -> Rows:
    """Measures trained agents, untrained agents, and wrong pairs of the trained."""

    def measured(row: str, z_AND: np.ndarray) -> findings.Rows:
        def measure(i: int, j: int) -> measures.Measured:
            return measures.exact(ratios(world.split, z_AND[i], z_AND[j], row))

        return [
            {"method": name, "row": row, **measures.grid(cross_pairs(), measure, trained.SEEDS)}
        ]

    return [row for kind, z in zip(KINDS, _spaces(world, name)) for row in measured(kind, z)]


def _spaces(world: World, name: str) -> tuple[np.ndarray, ...]:
    found = world.trained(name)
    return found.final, found.untrained, found.final  # of KINDS


def ratios(split: Split, x: np.ndarray, y: np.ndarray, row: str) -> dict[str, float]:
    """Returns `ratio` in the plane and in all dimensions, before and after W, on held-out states.

    Args:
        split: the states that W and the planes are fitted on, and those that are measured.
        x, y: latents [N, D] of both agents.
        row: of the experiment; MISMATCHED fits W on wrong pairs.
    """
    before, after = before_and_after(split, x, y, row)
    return {
        "plane_before": ratio(*plane(split, *before)),
        "plane_after": ratio(*plane(split, *after)),
        "all_before": ratio(*(z[split.test] for z in before)),
        "all_after": ratio(*(z[split.test] for z in after)),
    }


def before_and_after(split: Split, x: np.ndarray, y: np.ndarray, row: str) -> tuple[Points, Points]:
    """Returns standardised states [N, D] of both agents, and those of the first after W."""
    linear_map = fitted(split, x, y, row)
    x, y = linear_map.standardize(x, y)
    return (x, y), (linear_map.forward(x, standardized=True), y)


def plane(split: Split, x: np.ndarray, y: np.ndarray) -> Points:
    """Projects held-out states on the two leading components of both agents' training states.

    Args:
        split: the states.
        x, y: [N, D] in one space.

    Returns:
        [test states, 2] of both.
    """
    both = np.concatenate([x[split.train], y[split.train]])
    mean_D = both.mean(axis=0)
    _, axes_DD = np.linalg.eigh((both - mean_D).T @ (both - mean_D))
    axes_D2 = axes_DD[:, :-3:-1]
    first, second = ((z[split.test] - mean_D) @ axes_D2 for z in (x, y))
    return first, second


def ratio(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the mean distance of matched rows over that of unmatched rows of x and y [N, D]."""
    distances_NN = cdist(x, y)
    matched, count = np.trace(distances_NN), len(x)
    return float(matched / (distances_NN.sum() - matched) * (count - 1))


def claims(rows: Rows) -> list[Claim]:
    """The paper's statement and the predictions of the module's head."""

    def of(measure: str, row: str = RowName.TRAINED) -> dict[str, float]:
        return {name: mean(rows, name, measure, row) for name in NAMES}

    before, after, whole = of("plane_before"), of("plane_after"), of("all_after")
    fall = {name: before[name] - after[name] for name in NAMES}
    less = min(fall, key=fall.__getitem__)
    odd = max(before, key=lambda name: abs(before[name] - 1))
    own = measures.interval(
        row_of(rows, "ijepa", RowName.UNTRAINED)["plane_after"],
        row_of(rows, "ijepa")["plane_after"],
    )
    wrong = of("plane_after", RowName.MISMATCHED)
    nearest = min(wrong, key=wrong.__getitem__)
    hidden = {name: whole[name] - after[name] for name in NAMES}
    honest = min(hidden, key=hidden.__getitem__)
    gap = min(whole[name] for name in HIGH) - max(whole[name] for name in LOW)
    return [
        Claim("paper/closer", "matched pairs move closer", fall[less], fall[less] >= 0.3,
              f"the least fall of four methods is {less}'s, from {before[less]:.2f} to "
              f"{after[less]:.2f}."),
        Claim("before", "between .8 and 1.2", before[odd], 0.8 <= before[odd] <= 1.2,
              f"{odd}'s is the furthest from 1."),
        Claim("untrained", "within .1 of trained", own.value, abs(own.value) <= 0.1,
              f"ratio after W of untrained I-JEPA less that of trained, {own.low:.3f} to "
              f"{own.high:.3f}."),
        Claim("wrong", "above .9 with wrong pairs", wrong[nearest], wrong[nearest] > 0.9,
              f"the least is {nearest}'s."),
        Claim("flatters", "the plane is .1 below all dimensions", hidden[honest],
              hidden[honest] >= 0.1, f"the least difference is {honest}'s.",
              because="two components hold most of what latents of low rank vary in"),
        Claim("rank", "I-JEPA and MAE below SimCLR and LeJEPA", gap, gap > 0,
              "in all dimensions: " + ", ".join(f"{n} {whole[n]:.2f}" for n in NAMES) + "."),
    ]  # fmt: skip


def table(rows: Rows) -> Table:
    """The ratios before and after W, with intervals over both agents."""
    titles = ("plane, before", "plane, after W", "all dimensions, before", "all, after W")
    columns = [Column(key, title, digits=2) for key, title in zip(MEASURES, titles)]
    ends = dict(zip(KINDS, ("", ", untrained", ", wrong pairs")))
    lines = [
        Row(
            f"{row['method']}{ends[row['row']]}",
            {key: measures.interval(row[key]) for key in MEASURES},
            ranked=False,
        )
        for row in rows
    ]
    return Table(columns, lines, corner="distance of matched over unmatched pairs",
                 caption="Means over nine pairs of agents with 95 % intervals over both agents; "
                 "held-out objects.")  # fmt: skip


def plot(world: World, names: Sequence[str]) -> Plot:
    """Matched states of the first pair of agents: before, after W, untrained, wrong pairs."""
    shown = np.random.default_rng(0).permutation(len(world.split.test))[:DRAWN]
    groups = world.dataset.labels[world.split.test][shown]
    i, j = cross_pairs()[0]
    panels = []
    for name in names:
        drawn = []
        for row, z in zip(KINDS, _spaces(world, name)):
            before, after = before_and_after(world.split, z[i], z[j], row)
            wanted = [("before", before)] if row == RowName.TRAINED else []
            for when, points in (*wanted, (_AFTER[row], after)):
                x, y = plane(world.split, *points)
                title = f"{name}, {when}: {ratio(x, y):.2f}"
                drawn.append(figures.Matched(title, x[shown], y[shown]))
        panels.append(drawn)
    labels = world.dataset.label_names
    figure = figures.matched_panels(panels, groups, labels, names=("camera 0", "camera 1"))
    return Plot(figure, "matched states of two agents in a plane, before and after W",
                f"{DRAWN} held-out states of one pair of agents; a line joins a state's two "
                "latents. Numbers: mean distance of matched over unmatched pairs.")  # fmt: skip


_AFTER = {
    RowName.TRAINED: "after W",
    RowName.UNTRAINED: "untrained, after W",
    RowName.MISMATCHED: "W of wrong pairs",
}
