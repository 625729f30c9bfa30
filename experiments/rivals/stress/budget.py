"""Figure 5 of Social-JEPA: how many pairs W needs.

The latents of `table1_paradigms`. W is fitted on some of the training pairs, drawn at random from
all states or as whole objects (54 states each), one draw for each of the nine pairs of agents, and
tested on all held-out objects. `needed` is the number of pairs at which the mean R2 reaches 95 % of
that of all pairs, between sizes by interpolation in the logarithm. NOS@10 is by W^-1 with the
cut-off 100; kappa is s1 over the last singular value above 1e-8 s1. White latents with as many
features and the R2 of each method are the control.

The error of least squares from N independent pairs of D features is D / (N - D - 1) of the
unexplained variance, whatever the spectrum, so pairs drawn at random should be as good as white
ones. States of one object are not independent.

Predictions, written before the run:

paper/r2, paper/nos: with more pairs I-JEPA's R2 rises and its NOS@10 falls, from 54 pairs on, by
objects.
paper/kappa: the paper expects W to be ill-conditioned at few pairs. kappa of I-JEPA at 25 random
pairs, of the 24 directions that they span, is not above that of all pairs.
peak: R2 of I-JEPA at 54 random pairs, about as many as features, is below that at 25.
white: pairs needed at random are between a third and three times those of white latents, for every
method.
objects: I-JEPA needs more than three times as many pairs if they are whole objects.
rank: over methods, the pairs needed by objects rise with RankMe: Spearman's above .5.
few: every method needs fewer than 40 objects (2,160 pairs).

Command: python -m experiments.reproduce --only=fig5_pair_budget --out=runs/table1_paradigms
Cost at --scale=cpu: 4 CPU minutes where table1_paradigms has trained in the same folder.
Expected at --scale=cpu: 3 of 8 claims agree. I-JEPA needs 89 pairs at random
and 231 by whole objects.
"""

import pathlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.rivals.methods import PIXELS
from experiments.rivals.stress import spaces
from experiments.rivals.stress.spaces import WHITE, Pairs, mean
from experiments.rivals.tables import measures, reading
from experiments.rivals.tables.entrants import COMPARED
from experiments.rivals.tables.reading import cell
from experiments.rivals.tables.trained import HOW, TUNED, World
from socialjepa_jax import alignment
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table

NAME = "fig5_pair_budget"
FEW = 25  # fewer than features, at random
OBJECTS = (1, 2, 4, 8, 20, 40, 80)  # those that a world has
ENOUGH = 0.95  # of the R2 of all pairs
RANDOM, WHOLE = "random", "objects"
WHITE_DRAWS = 3
RANKME = "rankme"
TITLES = {"r2": "R² of W", "nos@10": "NOS@10", "kappa": "κ(W)"}


def run(scale: str, out: pathlib.Path) -> Finding:
    """Measures every method, or reads what an earlier call left in `out`."""
    world = World(scale, out)
    rows = world.measured(NAME, (*COMPARED[scale], PIXELS), partial(of_method, world))
    return Finding(
        "Pairs that W needs", claims(rows), {"": plot(rows)}, rows, [table(rows)],
        {"pairs of agents": 9, "draws of a pair": 1},
    )  # fmt: skip


def of_method(world: World, name: str) -> Rows:
    """Measures W of trained agents, or of pixels, at every number of pairs, and white latents."""
    space, train, test = spaces.spaces(world, name)[0], world.split.train, world.split.test
    objects = world.dataset.instance_ids[train]
    each = len(train) // len(np.unique(objects))
    whole = [each * count for count in OBJECTS if each * count <= len(train)]

    def fitted(x: np.ndarray, y: np.ndarray, rng: np.random.Generator, *, draw: str, size: int):
        chosen = train[drawn(objects, draw == WHOLE, rng)[:size]]
        found = score((x[chosen], y[chosen]), (x[test], y[test]), geometry=draw == WHOLE)
        return measures.exact(found)

    rows: Rows = [
        {"draw": draw, "size": size, **space.grid(partial(fitted, draw=draw, size=size))}
        for draw, sizes in ((RANDOM, [FEW, *whole]), (WHOLE, whole))
        for size in sizes
    ]
    ranks = [float(alignment.effective_rank(z[test])) for z in space.latents[:TUNED]]
    rows.append({"row": RANKME, "rankme": float(np.mean(ranks))})
    full, dim = float(np.mean(rows[len(whole)]["r2"]["pairs"])), space.latents.shape[-1]
    return rows + [of_white(size, len(test), dim, full) for size in (FEW, *whole)]


def score(train: Pairs, test: Pairs, geometry: bool) -> dict[str, float]:
    """Fits W on training pairs and scores it on test pairs."""
    found = alignment.fit(*train, method=HOW.method, ridge=HOW.ridge, kappa_max=HOW.kappa_max)
    return spaces.scores(found, *test, geometry)


def drawn(objects: np.ndarray, whole: bool, rng: np.random.Generator) -> np.ndarray:
    """Returns all rows in a random order; whole objects one after the other if `whole`."""
    order = rng.permutation(len(objects))
    if not whole:
        return order
    _, numbers = np.unique(objects, return_inverse=True)
    places = rng.permutation(numbers.max() + 1)
    return order[np.argsort(places[numbers[order]], kind="stable")]


def of_white(size: int, tests: int, dim: int, r2: float) -> dict[str, Any]:
    """Measures white latents of a number of pairs."""
    rng = np.random.default_rng(0)
    found = spaces.averaged(
        lambda: score(*(spaces.white(each, dim, r2, rng) for each in (size, tests)), False),
        WHITE_DRAWS,
    )
    return {"row": WHITE, "draw": RANDOM, "size": size, **measures.single(found)}


def curve(rows: Rows, name: str, measure: str, draw: str, row: str = "") -> dict[int, float]:
    """Returns the mean of a measure by number of pairs."""
    where = {"method": name, "draw": draw, "row": row or spaces.kind(name)}
    sizes = findings.values(rows, "size", **where)
    return {size: mean(rows, measure, size=size, **where) for size in sizes}


def needed(curve: Mapping[int, float]) -> float:
    """Returns the number of pairs from which on R2 is at least `ENOUGH` of that of all pairs."""
    sizes, values = list(curve), list(curve.values())
    enough = ENOUGH * values[-1]
    below = [k for k, value in enumerate(values) if value < enough]
    if not below:
        return float(sizes[0])
    k = below[-1]
    share = (enough - values[k]) / (values[k + 1] - values[k])
    return float(np.exp((1 - share) * np.log(sizes[k]) + share * np.log(sizes[k + 1])))


def pairs_needed(rows: Rows, name: str, draw: str, row: str = "") -> float:
    """Returns `needed` of a method's R2."""
    return needed(curve(rows, name, "r2", draw, row))


def claims(rows: Rows) -> list[Claim]:
    """The paper's statements and the predictions of the head."""
    names = spaces.names(rows)
    random, whole = (
        {name: pairs_needed(rows, name, draw) for name in names} for draw in (RANDOM, WHOLE)
    )
    ratios = {name: random[name] / pairs_needed(rows, name, RANDOM, WHITE) for name in names}
    furthest = max(names, key=lambda name: abs(np.log(ratios[name])))
    r2, nos = (list(curve(rows, "ijepa", key, WHOLE).values()) for key in ("r2", "nos@10"))
    kappa, at = (curve(rows, "ijepa", key, RANDOM) for key in ("kappa", "r2"))
    first, second, *_, last = kappa
    most = max(names, key=whole.__getitem__)
    times = whole["ijepa"] / random["ijepa"]
    return [
        Claim("paper/r2", "rises with the number of pairs", float(np.min(np.diff(r2))),
              bool(np.all(np.diff(r2) > 0)), f"the least step of R2 from {r2[0]:.3g} at {second} "
              f"pairs to {r2[-1]:.3f} at {last:,}."),
        Claim("paper/nos", "falls with the number of pairs", float(np.max(np.diff(nos))),
              bool(np.all(np.diff(nos) < 0)), f"the largest step of NOS@10 from {nos[0]:.3f} to "
              f"{nos[-1]:.3f}."),
        Claim("paper/kappa", "ill-conditioned at few pairs", kappa[first] / kappa[last],
              kappa[first] > kappa[last], f"kappa is {kappa[first]:.3g} at {first} pairs, "
              f"{kappa[second]:.3g} at {second} and {kappa[last]:.3g} at {last:,}.",
              because="kappa of correlated features is that of their faint directions, which all "
              "pairs show and few do not"),
        Claim("peak", f"R2 at {second} pairs below that at {first}", at[second] - at[first],
              at[second] < at[first], f"{at[first]:.3f} and {at[second]:.3g}, at random."),
        Claim("white", "a third to three times as many", ratios[furthest],
              1 / 3 <= ratios[furthest] <= 3, f"pairs at random over white ones, {furthest}'s."),
        Claim("objects", "more than three times as many", times, times > 3,
              f"{whole['ijepa']:,.0f} pairs of I-JEPA by objects, {random['ijepa']:,.0f} at "
              "random."),
        *_rank(rows, whole),
        Claim("few", "fewer than 2,160 pairs", whole[most], whole[most] < 2160,
              f"the most are {most}'s, {whole[most] / second:.1f} objects."),
    ]  # fmt: skip


def _rank(rows: Rows, whole: Mapping[str, float]) -> list[Claim]:
    if len(whole) < 3:
        return []
    ranks = {name: findings.values(rows, "rankme", method=name, row=RANKME)[0] for name in whole}
    found = reading.spearman(whole, ranks)
    note = f"pairs by objects and RankMe of {len(whole)} methods."
    return [Claim("rank", "Spearman's above .5", found, found > 0.5, note)]


def table(rows: Rows) -> Table:
    """Pairs needed, and R2, NOS@10 and kappa at several numbers of whole objects."""
    sizes = list(curve(rows, "ijepa", "r2", WHOLE))
    shown = [sizes[k] for k in sorted({*range(1, len(sizes), 2), len(sizes) - 1})]
    columns = [
        Column(RANDOM, "pairs for 95 %, at random", 0),
        Column(WHITE, "white latents", 0),
        Column(WHOLE, "whole objects", 0),
        *(Column(f"r2/{size}", f"R², {size:,} pairs") for size in shown),
        *(Column(f"nos@10/{size}", f"NOS@10, {size:,}") for size in (shown[0], shown[-1])),
        *(Column(f"kappa/{size}", f"κ(W), {size:,}", 0) for size in (shown[0], shown[-1])),
    ]
    lines = []
    for name in (*spaces.names(rows), PIXELS):
        cells: dict[str, Any] = {
            RANDOM: pairs_needed(rows, name, RANDOM),
            WHITE: pairs_needed(rows, name, RANDOM, WHITE),
            WHOLE: pairs_needed(rows, name, WHOLE),
        }
        for key in TITLES:
            found = curve(rows, name, key, WHOLE)
            cells |= {f"{key}/{size}": value for size, value in found.items()}
        where = {"method": name, "draw": WHOLE, "row": spaces.kind(name), "size": sizes[-1]}
        cells[f"r2/{sizes[-1]}"] = measures.interval(cell(rows, "r2", **where))
        lines.append(Row(name, cells, ranked=False))
    caption = (
        "R², NOS@10 and κ by whole objects; held-out objects, means over nine pairs of agents, "
        "95 % intervals over both agents."
    )
    return Table(columns, lines, corner="budget", caption=caption)


def plot(rows: Rows) -> Plot:
    """R2 by number of pairs: whole objects of every method, random pairs and white ones of one."""
    shown = [
        (name, name, WHOLE, "", style.agent_color(k), "-")
        for k, name in enumerate((*spaces.names(rows), PIXELS))
    ]
    shown.append(("ijepa, pairs at random", "ijepa", RANDOM, "", style.agent_color(0), "--"))
    shown.append(("white latents, R² of ijepa", "ijepa", RANDOM, WHITE, "black", ":"))
    lines = []
    for label, name, draw, row, color, dash in shown:
        found = curve(rows, name, "r2", draw, row)
        lines.append(figures.Line(label, list(found), list(found.values()), color, dash, "o"))
    figure = figures.lines(
        lines, title="R² of W by number of pairs", x_label="training pairs",
        y_label="R² on held-out objects", log_x=True, y_floor=0.0, height=4.2,
    )  # fmt: skip
    figure.axes[0].set_ylim(0.0, 1.0)
    return Plot(figure, "R2 of W against the number of training pairs for every method",
                "Whole objects where not stated; means over nine pairs of agents.")  # fmt: skip
