"""Tables 7 and 8 of Social-JEPA: the spread over seeds, and NOS at several k.

The latents of `table1_paradigms`: three agents a camera, nine pairs. A run of the paper is a pair
whose agents both change from run to run, so its standard deviation is estimated from pairs that
share no agent; the spreads over the first and over the second agent alone stand beside it. Two
degrees of freedom make the 95 % interval of a standard deviation .52 to 6.3 times its value. DSC,
NOS and CKA are by W^-1 with the cut-off 100; NOS also by the reverse regression and without a map,
beside its chance level 1 - k / (N - 1). All states of held-out objects are the N test rows.

Predictions of table7_seeds, written before the run:

paper/size: the paper's standard deviation of R2, .004, is not inside I-JEPA's interval, which is
above it.
paper/predictive: predictive objectives are the more stable ones, says the paper (D.5). I-JEPA is
not among the three of twelve with the least spread of R2.
training: training lowers the spread of R2 of at least 8 of 12 methods.
level: methods of higher R2 have less spread: Spearman's of R2 and spread below -.3.

Predictions of table8_nos_k, written before the run:

paper/rises: the paper's NOS rises from k = 1 to 50 (.124 to .441). I-JEPA's by W^-1 falls.
all: the same without a map, trained and untrained, for every method and for the pixels.
chance: over its chance level, NOS of I-JEPA falls too.
map: by W^-1 NOS@10 of I-JEPA is higher, so worse, than without a map; by the reverse regression it
is lower.
least: no method's NOS@1 without a map is below .3; the paper's is .124.

Command: python -m experiments.reproduce --only=table7_seeds,table8_nos_k \\
    --out=runs/table1_paradigms
Cost at --scale=cpu: 3 CPU minutes where table1_paradigms has trained in the same folder.
Expected at --scale=cpu: 4 of 4 claims of table7_seeds and 2 of 5 claims of
table8_nos_k agree. I-JEPA's R2 is .959 with a deviation of .0035.
"""

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.rivals.methods import PIXELS
from experiments.rivals.stress import spaces
from experiments.rivals.stress.spaces import mean
from experiments.rivals.tables import measures, reading
from experiments.rivals.tables.entrants import COMPARED
from experiments.rivals.tables.reading import cell
from experiments.rivals.tables.trained import HOW, World
from socialjepa_jax import alignment, evaluation
from socialjepa_jax.records import RowName
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.papers.social_jepa import SMALLNORB, SOCIAL_JEPA
from socialjepa_jax.report.tables import Column, Row, Table

NAME = "table7_seeds"
SEEDS, NEIGHBORS = SOCIAL_JEPA[7], SOCIAL_JEPA[8]
KS = (1, 5, 10, 20, 50)
METRICS = {"mse": "MSE", "r2": "R²", "dsc": "DSC", "nos@10": "NOS@10", "cka": "CKA"}
BACKS = {"inverse": "", "regression": "_regression", "none": "_no_map"}  # end of a measure's name
OF_TWO = (0.521, 6.28)  # ends of the 95 % interval of a deviation of two degrees of freedom


def seeds(scale: str, out: pathlib.Path) -> Finding:
    """Table 7, from the rows of `measured`."""
    rows = measured(scale, out)
    return Finding(
        "Spread over seeds", seed_claims(rows), {}, rows, [seed_table(rows)], {"agents a camera": 3}
    )


def nos_k(scale: str, out: pathlib.Path) -> Finding:
    """Table 8, from the rows of `measured`."""
    rows = measured(scale, out)
    tested = findings.values(rows, "tested", method="ijepa")[0]
    return Finding(
        "NOS at several k", nos_claims(rows), {"": plot(rows)}, [], [nos_table(rows)],
        {"states": tested},
    )  # fmt: skip


def measured(scale: str, out: pathlib.Path) -> Rows:
    """Measures every method, or reads what an earlier call left in `out`."""
    world = World(scale, out)
    return world.measured(NAME, (*COMPARED[scale], PIXELS), partial(of_method, world))


def of_method(world: World, name: str) -> Rows:
    """Measures all pairs of agents, those of untrained ones without a map, or the pixels."""
    train, test = world.split.train, world.split.test

    def of_pair(x: np.ndarray, y: np.ndarray, backs: Mapping[str, str]) -> measures.Measured:
        linear_map = evaluation.fit_map(HOW, x, y, train)
        kept = METRICS if "inverse" in backs else ("r2",)
        found: dict[str, float] = {}
        for back, end in backs.items():
            scores = alignment.evaluate(linear_map, x[test], y[test], back=back, neighbors=KS)
            found |= {f"nos@{k}{end}": scores[f"nos@{k}"] for k in KS}
            found |= {key: scores[key] for key in kept if key not in found}
        return measures.exact(found)

    rows = []
    for space in spaces.spaces(world, name):
        backs = {"none": BACKS["none"]} if space.row == RowName.UNTRAINED else BACKS
        cells = space.grid(lambda x, y, rng: of_pair(x, y, backs))  # noqa: B023
        rows.append({"tested": len(test), **cells})
    return rows


def spread(pairs_IJ: Sequence[Sequence[float]]) -> float:
    """Returns the standard deviation of runs that share no agent.

    The variance of a draw is half the mean squared difference of two independent draws: here of
    pairs whose agents both differ.
    """
    values = np.array(pairs_IJ)
    cells = itertools.combinations(np.ndindex(*values.shape), 2)
    squares = [(values[a] - values[b]) ** 2 for a, b in cells if a[0] != b[0] and a[1] != b[1]]
    return float(np.sqrt(np.mean(squares) / 2))


def spread_of(rows: Rows, name: str, measure: str = "r2", row: str = RowName.TRAINED) -> float:
    """Returns `spread` of a measure."""
    return spread(cell(rows, measure, method=name, row=row)["pairs"])


def seed_claims(rows: Rows) -> list[Claim]:
    """The paper's spread and the predictions of the head."""
    names = spaces.names(rows)
    of = {name: spread_of(rows, name) for name in names}
    untrained = {name: spread_of(rows, name, row=RowName.UNTRAINED) for name in names}
    printed = SEEDS.value(SMALLNORB, "r2_std")
    low, high = (of["ijepa"] * end for end in OF_TWO)
    place = 1 + sum(of[name] < of["ijepa"] for name in names)
    calmer = sum(of[name] < untrained[name] for name in names)
    least = min(of, key=of.__getitem__)
    return [
        Claim("paper/size", printed, of["ijepa"], low <= printed <= high,
              f"of R2 of I-JEPA, 95 % interval {low:.4f} to {high:.4f}.",
              because="objects, pairs and agents are fewer than the paper's"),
        Claim("paper/predictive", "predictive objectives are more stable", float(place), place <= 3,
              f"I-JEPA's place of {len(names)} by spread of R2; the least is {least}'s, "
              f"{of[least]:.4f}."),
        Claim("training", "training lowers two thirds of the spreads", float(calmer),
              calmer * 3 >= 2 * len(names), f"of {len(names)} methods."),
        *_level(rows, of),
    ]  # fmt: skip


def _level(rows: Rows, of: dict[str, float]) -> list[Claim]:
    if len(of) < 3:
        return []
    means = {name: mean(rows, "r2", method=name, row=RowName.TRAINED) for name in of}
    found = reading.spearman(means, of)
    note = f"R2 and its spread over {len(of)} methods."
    return [Claim("level", "Spearman's below -.3", found, found < -0.3, note)]


def seed_table(rows: Rows) -> Table:
    """Mean and standard deviation of every metric, and the spread of R2 by agent."""
    columns = [Column(key, title) for key, title in METRICS.items()]
    columns += [
        Column("first", "R², spread over the first agent", 4),
        Column("second", "over the second", 4),
        Column("untrained", "over both, untrained", 4),
    ]
    lines = []
    for name in sorted(spaces.names(rows), key=lambda name: spread_of(rows, name)):
        where = {"method": name, "row": RowName.TRAINED}
        cells = {
            key: f"{mean(rows, key, **where):.3f} ± {spread_of(rows, name, key):.4f}"
            for key in METRICS
        }
        r2 = np.array(cell(rows, "r2", **where)["pairs"])
        agents = {"first": r2.mean(1), "second": r2.mean(0)}
        lines.append(
            Row(
                name,
                {
                    **cells,
                    **{key: float(np.std(found, ddof=1)) for key, found in agents.items()},
                    "untrained": spread_of(rows, name, row=RowName.UNTRAINED),
                },
                ranked=False,
            )
        )
    theirs = {
        key: f"{SEEDS.value(SMALLNORB, key):.3f} ± {SEEDS.value(SMALLNORB, f'{key}_std'):.3f}"
        for key in METRICS if key != "cka"
    }  # fmt: skip
    lines.append(spaces.printed(theirs))
    caption = "Held-out objects; mean ± standard deviation of runs that share no agent."
    return Table(columns, lines, corner="seeds", caption=caption)


def nos(rows: Rows, name: str, end: str = "", row: str = RowName.TRAINED) -> np.ndarray:
    """Returns the mean of NOS at every k."""
    return np.array([mean(rows, f"nos@{k}{end}", method=name, row=row) for k in KS])


def chance(rows: Rows) -> np.ndarray:
    """Returns the NOS of unrelated spaces at every k."""
    return np.array([1 - k / (findings.values(rows, "tested")[0] - 1) for k in KS])


def nos_claims(rows: Rows) -> list[Claim]:
    """The paper's rise with k and the predictions of the head."""
    names = spaces.names(rows)
    ours = nos(rows, "ijepa")
    printed = NEIGHBORS.value(SMALLNORB, "nos@50") - NEIGHBORS.value(SMALLNORB, "nos@1")
    kinds = [(n, row) for n in names for row in (RowName.TRAINED, RowName.UNTRAINED)]
    kinds.append((PIXELS, RowName.PIXEL_PCA))
    rises = {kind: float(np.ptp(found[[0, -1]]) * np.sign(found[-1] - found[0]))
             for kind in kinds for found in [nos(rows, kind[0], "_no_map", kind[1])]}  # fmt: skip
    highest = max(rises, key=rises.__getitem__)
    relative = ours / chance(rows)
    at_10 = {end: nos(rows, "ijepa", end)[KS.index(10)] for end in BACKS.values()}
    first = {name: nos(rows, name, "_no_map")[0] for name in names}
    least = min(first, key=first.__getitem__)
    return [
        Claim("paper/rises", round(printed, 3), float(ours[-1] - ours[0]), bool(ours[-1] > ours[0]),
              f"NOS of I-JEPA by W^-1 at k = 1 is {ours[0]:.3f}, at 50 {ours[-1]:.3f}.",
              because="chance falls with k, and near states differ less than both agents do"),
        Claim("all", "falls without a map everywhere", rises[highest], rises[highest] < 0,
              f"the largest change from k = 1 to 50 is {highest[0]}'s, {highest[1]}."),
        Claim("chance", "falls over its chance level", float(relative[-1] - relative[0]),
              bool(relative[-1] < relative[0]), f"of I-JEPA, {relative[0]:.3f} at 1 and "
              f"{relative[-1]:.3f} at 50."),
        Claim("map", "W^-1 is worse than no map, regression better", at_10[""] - at_10["_no_map"],
              bool(at_10[""] > at_10["_no_map"] > at_10["_regression"]),
              f"NOS@10 of I-JEPA is {at_10['']:.3f} by W^-1, {at_10['_no_map']:.3f} without a map "
              f"and {at_10['_regression']:.3f} by regression."),
        Claim("least", "not below .3", float(first[least]), bool(first[least] >= 0.3),
              f"the least NOS@1 without a map is {least}'s; the paper's by W^-1 is "
              f"{NEIGHBORS.value(SMALLNORB, 'nos@1')}."),
    ]  # fmt: skip


def nos_table(rows: Rows) -> Table:
    """NOS by W^-1 and without a map at every k, and of controls."""
    columns = [Column(f"{k}{end}", f"k = {k}{title}") for end, title in
               (("", ", W⁻¹"), ("_no_map", ", no map")) for k in KS]  # fmt: skip
    columns += [
        Column("10_regression", "k = 10, regression"),
        Column("10_untrained", "k = 10, no map, untrained"),
    ]
    lines = []
    for name in (*spaces.names(rows), PIXELS):
        where = {"method": name, "row": spaces.kind(name)}
        cells = {
            f"{k}{end}": measures.interval(cell(rows, f"nos@{k}{end}", **where))
            for end in BACKS.values()
            for k in KS
        }
        if name != PIXELS:
            where["row"] = RowName.UNTRAINED
            cells["10_untrained"] = measures.interval(cell(rows, "nos@10_no_map", **where))
        lines.append(Row(name, cells, ranked=False))
    levels = dict(zip((f"{k}" for k in KS), map(float, chance(rows))))
    lines.append(
        Row("chance", levels | {f"{k}_no_map": v for k, v in levels.items()}, ranked=False)
    )
    theirs = {f"{k}": NEIGHBORS.value(SMALLNORB, f"nos@{k}") for k in KS}
    lines.append(spaces.printed(theirs))
    caption = "Held-out objects; means over nine pairs of agents, 95 % intervals over both agents."
    return Table(columns, lines, corner="NOS@k", caption=caption)


def plot(rows: Rows) -> Plot:
    """NOS against k, without a map, of all methods, chance and the paper."""
    lines = [
        figures.Line(name, KS, nos(rows, name, "_no_map"), style.agent_color(index), "-", "o")
        for index, name in enumerate(spaces.names(rows))
    ]
    pixels = nos(rows, PIXELS, "_no_map", RowName.PIXEL_PCA)
    lines.append(figures.Line(PIXELS, KS, pixels, "black", "-.", "o"))
    lines.append(figures.Line("chance", KS, chance(rows), "black", "--"))
    theirs = [NEIGHBORS.value(SMALLNORB, f"nos@{k}") for k in KS]
    lines.append(figures.Line("paper, W⁻¹", KS, theirs, "black", ":", "s"))
    figure = figures.lines(
        lines, title="NOS without a map", x_label="k", y_label="NOS@k", log_x=True, x_ticks=KS,
        height=4.2,
    )  # fmt: skip
    return Plot(figure, "NOS of every method against k, beside chance and the paper",
                "Means over nine pairs of agents.")  # fmt: skip
