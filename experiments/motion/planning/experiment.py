"""Plans that are carried through W: a goal that one agent has seen is reached by another.

Ten pairs of agents of `motion_lejepa` (600 steps, lambda = .01, flicker, D = 3), and the linear
model z' = A z + B a that each fits to 3,000 transitions of its own walk with three known actions.
The agent acts in a quiet world (the noise of the walk is off, every image still flickers), sees it
through its own camera, and is to come within half a standard deviation of the goal in 20 steps with
actions of at most 3. The partner has seen the goal through the other camera. The map between them
is fitted on 2,000 pairs of observations, or from actions alone, without one pair. `goals` names the
planners and goals. Claims and bounds were written before the run.

Paper: "When Does LeJEPA Learn a World Model?", theorem 4 and its planning experiment, whose plans
are one encoder's own.
Command: python -m experiments.reproduce --only=motion_planning --out=runs/motion_planning
Cost at --scale=cpu: 13 CPU minutes of one core.
Expected at --scale=cpu: 17 of 20 claims agree. With feedback .956 of own goals are reached, .920 of
those that W from pairs carries, .912 by W from actions, .06 without a map.
"""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from experiments.findings import Finding, Plot, Rows
from experiments.motion import pairs
from experiments.motion.planning import episodes, goals
from experiments.motion.planning.claims import claims, values
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.image_grid import Tile, image_grid
from socialjepa_jax.report.tables import Column, Interval, Row, Table

PAIRS = {"smoke": 1, "cpu": 10, "gpu": 10, "paper": 10}
TRAINING = {"smoke": 4, "cpu": 600, "gpu": 1000, "paper": 1000}
EPISODES = {"smoke": 4, "cpu": 100, "gpu": 100, "paper": 100}
STEPS = 20
AT_ONCE = 4  # agents of one program: bounds the memory of their images
FIRST_SEED, EVALUATION_SEED = 7_000, 8
SHOWN = (0, 1, 2, 4, 8, 20)  # steps of an episode in the picture
CARRIED = ("own", "pairs", "actions")
RIVALS = ("untrained", "pixels")


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains pairs of agents and lets each reach for what its partner has seen."""
    rows: Rows = []
    picture = None
    for first in range(0, 2 * PAIRS[scale], AT_ONCE):
        count = min(AT_ONCE, 2 * PAIRS[scale] - first)
        seeds = range(FIRST_SEED + first, FIRST_SEED + first + count)
        world, encoders = episodes.train(pairs.experiment(seeds, **changes(scale)))
        task = goals.task(world, EPISODES[scale], STEPS)
        spaces = {
            name: episodes.space(world, encode, name in RIVALS, goals.EFFORT)
            for name, encode in encoders.items()
        }
        of = {name: goals.Measured(world, space, task, name) for name, space in spaces.items()}
        rows += [{**row, "pair": row["pair"] + first // 2} for row in _measured(of)]
        picture = picture or _episode(of["trained"])
    assert picture is not None
    return Finding(
        "Plans carried through W",
        claims(rows),
        {"": picture, "distance": _distance_plot(rows)},
        rows,
        [_table(rows)],
        {"steps": TRAINING[scale], "pairs of agents": PAIRS[scale],
         "episodes of an agent": EPISODES[scale]},
    )  # fmt: skip


def changes(scale: str) -> dict[str, Any]:
    """Returns the settings of the preset that the experiment changes."""
    found = {
        "data__seed": EVALUATION_SEED,
        "objective__weight_rule": "fixed",
        "objective__weight": 0.01,
        **pairs.lasting(TRAINING[scale]),
    }
    if scale == "smoke":
        found |= {"data__pool": 64, "data__states": 120, "data__walk": 60, "run__batch_size": 16}
    return found


def _measured(of: dict[str, goals.Measured]) -> Iterator[dict[str, Any]]:
    """Yields the rows of one group of agents."""
    yield from of["trained"].oracle()
    for source in (*CARRIED, "unmapped", "turned"):
        yield from of["trained"].act("lqr", source)[1]
        yield from of["trained"].lines(source)
    for source in CARRIED:
        yield from of["trained"].act("shooting", source)[1]
    for source in CARRIED[1:]:
        yield from of["trained"].act("track", source)[1]
    for name in RIVALS:
        for source in ("own", "pairs"):
            yield from of[name].act("lqr", source)[1]
            yield from of[name].lines(source)


def _episode(measured: goals.Measured, count: int = 3) -> Plot:
    """Draws the longest ways: the goal as the partner saw it, and what the agent saw on its way."""
    paths, _ = measured.act("lqr", "actions")
    world, task = measured.world, measured.task
    agent, partner = 1, 0
    calm = dataclasses.replace(world.data, flicker=0.0, image_size=64, samples_per_pixel_side=2)

    def look(camera: int, states: np.ndarray) -> np.ndarray:
        return calm.photograph(states, camera, jax.random.key(0), block=16)

    ways = np.linalg.norm(world.states[task.goals] - world.states[task.starts], axis=1)
    shown = np.argsort(-ways)[:count]
    ends = world.states[task.goals[shown]]
    aims, truth = look(partner, ends), look(agent, ends)
    rows = []
    for episode, aim, goal in zip(shown, aims, truth):
        seen = look(agent, paths[agent, episode, list(SHOWN)])
        rows.append([Tile(image) for image in (aim, *seen, goal)])
    columns = ["goal, seen\nby agent 1", *(f"agent 2,\nstep {t}" for t in SHOWN),
               "goal from\nthis camera"]  # fmt: skip
    figure = image_grid(
        rows, row_labels=[f"episode {i + 1}" for i in range(len(rows))], column_labels=columns
    )
    caption = (
        "The episodes whose goals are farthest, drawn larger and without flicker. W is from "
        "actions: the agents share no observation. Agent 2 never sees the last column."
    )
    return Plot(figure, "Agent 2 reaches goals that agent 1 has seen", caption)


def _distance_plot(rows: Rows) -> Plot:
    """Draws the mean distance from the goal over the steps of the feedback planner."""
    shown = {
        "told the state": ("trained", "oracle"),
        "own image of the goal": ("trained", "own"),
        "partner's image, W from pairs": ("trained", "pairs"),
        "partner's image, W from actions": ("trained", "actions"),
        "partner's image, no map": ("trained", "unmapped"),
        "untrained, own image": ("untrained", "own"),
        "pixel components, own image": ("pixels", "own"),
    }
    dashes: tuple[style.Dash, ...] = ("-", (0, (4, 1)), (0, (1, 1)), "-", (0, (4, 1)), "-", "-")
    curves = []
    for index, (label, (space, goal)) in enumerate(shown.items()):
        mean_T = np.mean(values(rows, space, "lqr", goal, "distance"), axis=0)
        line = figures.Line(label, list(range(len(mean_T))), mean_T.tolist(),
                            style.agent_color(index), dashes[index])  # fmt: skip
        curves.append(line)
    figure = figures.lines(
        curves,
        title="Distance from a goal that another agent has seen",
        x_label="step",
        y_label="distance, standard deviations",
        levels=[figures.Level("tolerance", *[goals.TOLERANCE] * 3, "#8A929C")],
        log_y=True,
        y_floor=0.1,
        height=3.6,
    )
    caption = "Feedback in the agent's own latents; means over pairs of agents and episodes."
    return Plot(figure, "Distance from the goal over steps, by what the goal is told by", caption)


def _table(rows: Rows) -> Table:
    """Success, final distance and detour of every planner and goal; lines have their own columns.

    Means over pairs of agents with 95 % t-intervals.
    """
    keys = dict.fromkeys((r["space"], r["planner"], r["goal"]) for r in rows)
    shown = {"success": "success", "end": "distance at the end", "detour": "detour",
             "length ratio": "length ratio", "deviation": "deviation"}  # fmt: skip
    lines = []
    for space, planner, goal in keys:
        cells: dict[str, Interval | None] = {}
        for name in shown:
            measure = "distance" if name == "end" else name
            last = [np.atleast_1d(v)[-1] for v in values(rows, space, planner, goal, measure)]
            cells[name] = pairs.cell(last) if last else None
        lines.append(Row(f"{space}, {planner}, {goal}", cells))
    columns = [Column(name, label, digits=3) for name, label in shown.items()]
    return Table(columns, lines, corner="space, planner, goal",
                 caption="Means over pairs of agents with 95 % t-intervals.")  # fmt: skip
