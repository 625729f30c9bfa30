"""How few pairs of observations W needs, and how far two agents come without one.

Ten pairs of agents in each of two worlds of x, y and heading: "equal" has rho = .9 for all three
and flicker, "distinct" has .9, .86 and .82 and none. The agents are those of `motion_lejepa` with
600 steps and lambda = .01. Each walks apart: 12,000 steps without known actions, 10,000 with three
known actions and 10,000 with a single one. By pairs: Procrustes, with and without the handedness of
the map, against ridge. By actions: `alignment.actions`. By rates alone:
`identifiability.separation`. Rivals: untrained codes, pixel components and, in the flicker world,
inverse models that are trained end to end on 3,000 and 10,000 transitions. The claims and their
bounds were written before the run, after a prototype on other seeds.

Command: python -m experiments.reproduce --only=motion_unpaired --out=runs/motion_unpaired
Cost at --scale=cpu: 25 CPU minutes; trained agents stay in OUT/agents, so a second run needs 2.
Expected at --scale=cpu: 32 of 36 claims agree. R2 of W at 3,000 transitions is .979 and .981 by
three actions (all pairs: .981, .983) and .975 by one with distinct rates; the state is read without
a label at .966 and .970, by inverse models at .79.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments import findings
from experiments.findings import Finding, Plot, Rows
from experiments.motion import pairs
from experiments.motion.unpaired import acting, carrying, rates, walkers
from experiments.motion.unpaired.claims import claims
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Interval, Row, Table

WORLDS: dict[str, dict[str, Any]] = {
    "equal": {"data__rho": (0.9,), "data__flicker": 0.25},
    "distinct": {"data__rho": (0.9, 0.86, 0.82), "data__flicker": 0.0},
}
COUNTS = (1, 2, 3, 5, 10, 50)
STEPS = {"smoke": (40, 80)} | dict.fromkeys(("cpu", "gpu", "paper"), (100, 300, 1000, 3000, 10_000))
PAIRS = {"smoke": 1, "cpu": 10, "gpu": 10, "paper": 10}
TRAINING = {"smoke": 4, "cpu": 600, "gpu": 1000, "paper": 1000}
INVERSE = {"smoke": (40, 80)} | dict.fromkeys(("cpu", "gpu", "paper"), (3000, 10_000))
AT_ONCE = 4  # agents of one program: bounds the memory of their images
FIRST_SEED, EVALUATION_SEED = 6_000, 7


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains pairs of agents in both worlds and measures what they can carry."""
    by_key: dict[tuple, list[float]] = {}
    seeds = range(FIRST_SEED, FIRST_SEED + 2 * PAIRS[scale])
    for world in WORLDS:
        agents = walkers.walkers(plan(scale, world), seeds, AT_ONCE, out / "agents" / world)
        for first in range(0, len(seeds), 2):
            for row in measured(scale, world, agents[first : first + 2]):
                key = (world, row["method"], row["steps"], row["measure"])
                by_key.setdefault(key, []).append(row["value"])
    names = ("world", "method", "steps", "measure")
    rows: Rows = [
        {**dict(zip(names, key)), "value": float(np.mean(values)), "values": values}
        for key, values in by_key.items()
    ]
    return Finding(
        "How few pairs, and none",
        claims(rows),
        {"": _plot(rows), "pairs": _pairs_plot(rows)},
        rows,
        [_table(rows)],
        {"steps": TRAINING[scale], "pairs of agents": PAIRS[scale]},
    )


def plan(scale: str, world: str) -> walkers.Plan:
    """Returns what is trained in a world."""
    steps, longest = TRAINING[scale], STEPS[scale][-1]
    changes: dict[str, Any] = {
        "data__walk": 0,
        "data__seed": EVALUATION_SEED,
        "objective__weight": 0.01,
    }
    changes |= {"objective__weight_rule": "fixed", **pairs.lasting(steps), **WORLDS[world]}
    if scale == "smoke":
        changes |= {"data__pool": 64, "data__states": 120, "run__batch_size": 16}
    inverse = INVERSE[scale] if world == "equal" else ()
    passive = longest if scale == "smoke" else 12_000
    return walkers.Plan(changes, passive, longest, inverse, steps)


def measured(scale: str, world: str, agents: list[carrying.Codes]) -> Rows:
    """Measures one pair of agents."""
    steps, inverse = STEPS[scale], INVERSE[scale]
    pair = carrying.Pair(agents, "trained")
    rows = carrying.paired(pair) + carrying.from_pairs(pair, COUNTS)
    rows += acting.from_actions(pair, steps) + acting.wrong_actions(pair, inverse[0])
    rows += acting.from_one_action(pair, steps[1:]) + rates.without_actions(pair)
    rows += rates.dictionary(pair, steps[-2:]) + carrying.motor(pair, steps)
    trained = [f"inverse_{count}" for count in inverse] if world == "equal" else []
    for space in ("untrained", "pixels", *trained):
        rival = carrying.Pair(agents, space, white=True)
        rows += carrying.paired(rival) + carrying.motor(rival, steps)
        if space != "pixels":  # these have more features than actions
            found = acting.from_actions(rival, steps)
            rows += [
                {**r, "method": f"{space}, actions"}
                for r in found if (r["method"], r["measure"]) == ("actions", "W")
            ]  # fmt: skip
    return rows


def interval(rows: Rows, **where: Any) -> Interval | None:
    """Mean and 95 % t-interval over pairs of agents of the selected row; None without one."""
    chosen = findings.select(rows, **where)
    return pairs.cell(chosen[0]["values"]) if chosen else None


def _lost(rows: Rows, label: str, index: int, dash: style.Dash = "-", **where: Any) -> figures.Line:
    """The curve of 1 - R2 over `steps`, with the interval over pairs of agents."""
    chosen = sorted(findings.select(rows, measure="W", **where), key=lambda row: row["steps"])
    steps = [row["steps"] for row in chosen]
    cells = [interval([row]) for row in chosen]
    ends = [(1 - cell.high, 1 - cell.low) for cell in cells if cell]
    low = [max(end[0], 1e-3) for end in ends]
    band = (low, [end[1] for end in ends])
    values = [1 - row["value"] for row in chosen]
    return figures.Line(label, steps, values, style.agent_color(index), dash, "o", band=band)


def _figure(curves: Sequence[figures.Line], title: str, x_label: str, **more: Any) -> Figure:
    """Draws the loss of W on logarithmic axes, with a tick at every point of the first curve."""
    return figures.lines(
        curves,
        title=title,
        x_label=x_label,
        y_label="1 − R² of W",  # noqa: RUF001
        log_x=True,
        log_y=True,
        x_ticks=curves[0].x,
        **more,
    )


def _plot(rows: Rows) -> Plot:
    """Draws the loss of W against transitions of each agent, without one pair."""
    curves = [
        _lost(rows, f"three actions, {world} rates", index, world=world, method="actions")
        for index, world in enumerate(WORLDS)
    ] + [
        _lost(rows, f"one action, distinct rates, {kind}", 2 + index, (0, (4, 1)),
              world="distinct", method=f"one action, {kind}")
        for index, kind in enumerate(("axes", "joint"))
    ]  # fmt: skip
    curves.append(
        _lost(rows, "one action, equal rates, joint", 4, (0, (1, 1)), world="equal",
              method="one action, joint")
    )  # fmt: skip
    levels = []
    for index, world in enumerate(WORLDS):
        lost = 1 - findings.mean(rows, "value", world=world, method="trained, paired")
        levels.append(
            figures.Level(f"all pairs, {world} rates", lost, lost, lost, style.agent_color(index))
        )
    title = "What W loses without a pair"
    figure = _figure(curves, title, "transitions of each agent", levels=levels)
    return Plot(figure, "Loss of R2 of W against transitions for three actions and for one",
                "Means and 95 % intervals over pairs of agents; chance is 2.")  # fmt: skip


def _pairs_plot(rows: Rows) -> Plot:
    """Draws the loss of W against the number of pairs of observations."""
    names = {"procrustes": "Procrustes", "rotation": "Procrustes, handedness told",
             "ridge": "ridge, best strength"}  # fmt: skip
    curves = [
        _lost(rows, label, index, ("-", (0, (4, 1)), (0, (1, 1)))[index], world="distinct",
              method=method)
        for index, (method, label) in enumerate(names.items())
    ]  # fmt: skip
    figure = _figure(curves, "What W from few pairs loses", "pairs of observations")
    return Plot(figure, "Loss of R2 of W against pairs for Procrustes and ridge",
                "Distinct rates; means and 95 % intervals over pairs of agents.")  # fmt: skip


def _table(rows: Rows) -> Table:
    """Every measure with its interval, a column for each world."""
    keys = dict.fromkeys((r["method"], r["steps"], r["measure"]) for r in rows)
    lines = [
        Row(
            ", ".join(str(part) for part in (method, measure, steps) if part is not None),
            {world: interval(rows, world=world, method=method, steps=steps, measure=measure)
             for world in WORLDS},
        )
        for method, steps, measure in keys
    ]  # fmt: skip
    columns = [Column(world, f"{world} rates", digits=3) for world in WORLDS]
    return Table(columns, lines, corner="method, measure, pairs or transitions",
                 caption="Means over pairs of agents with 95 % t-intervals.")  # fmt: skip
