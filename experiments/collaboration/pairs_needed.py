"""How many pairs a student needs of its teacher, and how wrong they may be.

Students learn by themselves from all of their 12,000 successive images, as in `table9`, but share
only some states with the teacher, or pairs of which a share belongs to other states. Teachers,
seeds, world and costs are those of `table9`, with its weight of W; nothing is tuned here.

Predictions, written before the runs. 512 pairs help within 0.1 of all of them, since W has nine
numbers and the teacher's latents three; 128 pairs, seen 500 times, still save something. A quarter
of wrong pairs costs at most 0.1, half of them at most 0.3, and wrong pairs alone save nothing.

Command: python -m experiments.reproduce --only=pairs_needed --out=runs/table9
Cost at --scale=cpu: 7 settings of 2 CPU minutes after table9, whose agents are in OUT; finished
settings are kept.
Expected at --scale=cpu: 3 of 5 claims agree. The cost of arriving is 0.63 of that alone with 128
pairs, 0.48 with 512, 0.50 with all, 1.04 if half of them are wrong.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from experiments import findings
from experiments.collaboration import methods, runs, scenes, table9
from experiments.collaboration.runs import World
from experiments.figures import Panel, line_panels
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.motion import pairs
from socialjepa_jax import sharding
from socialjepa_jax.collaboration import costs
from socialjepa_jax.data.protocols import PairedSource
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Interval, Row, Table

COUNTS = {"smoke": (16, 64), "cpu": (128, 512, 2048, 12_000)}
COUNTS |= dict.fromkeys(("gpu", "paper"), COUNTS["cpu"])
WRONG = (0.25, 0.5, 1.0)  # shares of wrong pairs, among all pairs
NAME = "W"


def run(scale: str, out: pathlib.Path) -> Finding:
    """Measures every setting, or reads what an earlier call left in `out`."""
    alone = [
        row for name in (table9.ALONE, NAME) for row in runs.rows(name, scenes.MOTION, scale, out)
    ]
    settings = [(count, 0.0) for count in COUNTS[scale]]
    settings += [(COUNTS[scale][-1], wrong) for wrong in WRONG]
    rows = alone + [row for c, wrong in settings for row in _kept(c, wrong, scale, out)]
    return Finding(
        "Pairs that a student needs of its teacher",
        claims(rows),
        {"": plot(rows)},
        rows,
        [table(rows)],
        {"steps": scenes.MOTION.steps[scale], "seeds": runs.SEEDS[scale]},
    )


def _kept(count: int, wrong: float, scale: str, out: pathlib.Path) -> Rows:
    def make() -> Rows:
        (cost,) = findings.select(runs.rows(NAME, scenes.MOTION, scale, out), part="cost")
        world = runs.world(scenes.MOTION, scale, out)
        found = measure(count, wrong, cost["value"], world)
        return [{"pairs": count, "wrong": wrong, **row} for row in found]

    return findings.kept(out / scenes.MOTION.name / f"{scale}_pairs_{count}_{wrong:g}.json", make)


def measure(count: int, wrong: float, beta: float, world: World) -> Rows:
    """Trains the students of one setting; returns a row for each, as `runs` does."""
    seeds, scene = runs.students(world.scale), world.scene
    method = methods.methods(scene, world.scale)[NAME]
    chosen = methods.experiment(method, scene, world.scale, seeds)
    whole = runs.in_memory(chosen, world.teachers(method.teacher))
    run = dataclasses.replace(whole, feed=Shared(whole.feed, count, wrong))
    look = runs.Look(run, scene.score(run.dataset))
    run.train([look], beta=[beta] * len(seeds))
    return look.rows(seeds)


class Shared:
    """A feed of both cameras whose pairs are few, or some of which are wrong."""

    def __init__(self, feed: Any, count: int, wrong: float) -> None:
        """Takes the feed of all pairs.

        Args:
            feed: of both cameras, their images in pools.
            count: pairs that are shared.
            wrong: share of them whose second camera shows another state.
        """
        self._feed, own = feed, feed.a.at(0)
        few = [_first(source, count) for source in (own, feed.b.at(0))]
        few[1] = _shuffled(few[1], wrong)
        self._source = PairedSource(*few, own=own)

    def __getattr__(self, name: str) -> Any:
        """Returns what else the feed of all pairs has."""
        return getattr(self._feed, name)

    def at(self, step: int) -> PairedSource:
        """Returns the source of the call that begins with this step."""
        return self._source


def _pixels(source: Any, change: Any) -> Any:
    """Returns a pool whose rows are changed on the host."""
    rows = change(sharding.fetch(source.pixels))
    return dataclasses.replace(source, pixels=sharding.put(rows, source.pixels.sharding))


def _first(source: Any, count: int) -> Any:
    return _pixels(source, lambda rows: rows[:, :count])


def _shuffled(source: Any, share: float) -> Any:
    """Moves a share of the rows to the places of each other, none of which stays where it was."""
    total = source.pixels.shape[1]
    places = np.random.default_rng(0).permutation(total)[: round(share * total)]

    def change(rows: np.ndarray) -> np.ndarray:
        moved = rows.copy()
        moved[:, places] = rows[:, np.roll(places, 1)]
        return moved

    return _pixels(source, change) if len(places) > 1 else source


def curves(rows: Rows, count: int, wrong: float) -> table9.Curves:
    """Returns the curves of a setting over the cost of students of `table9`."""
    of = findings.select(rows, pairs=count, wrong=wrong)
    whole = table9.curves(rows, NAME)
    return dataclasses.replace(whole, scores=np.array([row["scores"] for row in of]))


def ratio(rows: Rows, count: int, wrong: float) -> costs.Spent:
    """Returns the cost of arriving over that of students alone."""
    return table9.over_alone(rows, curves(rows, count, wrong))


def settings(rows: Rows) -> list[tuple[int, float]]:
    """Returns the settings (pairs, share of wrong ones) in order."""
    return list(dict.fromkeys((row["pairs"], row["wrong"]) for row in rows if "pairs" in row))


def claims(rows: Rows) -> list[Claim]:
    """Judges the predictions of the head."""
    known = settings(rows)
    counts = sorted(count for count, wrong in known if wrong == 0)
    most = ratio(rows, counts[-1], 0.0)
    found = []
    for count, statement, agrees in (
        (counts[1], "within 0.1 of all pairs", lambda r: r.mean - most.mean <= 0.1),
        (counts[0], "less than alone", lambda r: r.high < 1.0),
    ):
        spent = ratio(rows, count, 0.0)
        text = f"{spent.mean:.2f} of the cost alone, {most.mean:.2f} with {counts[-1]} pairs."
        found.append(Claim(f"{count} pairs", statement, spent.mean, bool(agrees(spent)), text))
    for wrong, extra in ((0.25, 0.1), (0.5, 0.3)):
        spent = ratio(rows, counts[-1], wrong)
        text = f"{spent.mean:.2f} of the cost alone, {most.mean:.2f} with right pairs."
        found.append(
            Claim(f"{wrong:.0%} of the pairs wrong", f"costs at most {extra} more", spent.mean,
                  spent.mean - most.mean <= extra, text)
        )  # fmt: skip
    spent = ratio(rows, counts[-1], 1.0)
    text = f"{spent.mean:.2f} of the cost alone ({spent.low:.2f} to {spent.high:.2f})."
    return [*found, Claim("all pairs wrong", "saves nothing", spent.mean, spent.high >= 1.0, text)]


def table(rows: Rows) -> Table:
    """Cost and final score of every setting."""
    columns = [Column("ratio", "cost", digits=2, best="min"), Column("reached", "arrive", digits=2),
               Column("final", "R2 at the end"), Column("w", "R2 of W at the end")]  # fmt: skip
    lines = []
    for count, wrong in settings(rows):
        spent, of = ratio(rows, count, wrong), findings.select(rows, pairs=count, wrong=wrong)
        cells: dict[str, Any] = {
            "ratio": Interval(spent.mean, spent.low, spent.high),
            "reached": spent.reached,
            "final": pairs.cell([row["scores"][-1] for row in of]),
            "w": pairs.cell([row["link/r2"] for row in of]),
        }
        lines.append(Row(f"{count:,} pairs{f', {wrong:.0%} wrong' if wrong else ''}", cells))
    return Table(columns, lines, corner="shared", caption="Costs over those of students alone.")


def plot(rows: Rows) -> Plot:
    """The cost of arriving over the number of pairs, and over the share of wrong ones."""
    known = settings(rows)
    most = max(count for count, _ in known)
    panels = []
    for title, of, axis in (
        ("right pairs", [s for s in known if s[1] == 0], 0),
        ("all pairs, some wrong", [s for s in known if s[0] == most], 1),
    ):
        x = [setting[axis] if axis == 0 else 100 * setting[axis] for setting in of]
        spent = [ratio(rows, *setting) for setting in of]
        band = ([r.low for r in spent], [r.high for r in spent])
        means = [r.mean for r in spent]
        line = figures.Line("beside a teacher", x, means, style.agent_color(0), "-", "o", band=band)
        alone = figures.Line(
            "alone", [min(x), max(x)], [1.0, 1.0], style.agent_color(3), (0, (3, 2))
        )
        panels.append(Panel(title, [line, alone]))
    figure = line_panels(panels, x_label="pairs, or % of wrong ones", y_label="cost, alone = 1")
    return Plot(figure, "Cost of arriving over the number of pairs and the share of wrong ones",
                "Restricted means; bands resample seeds.")  # fmt: skip
