"""Tables 1, 2 and 10 of Social-JEPA: every method on the same encoder, data, images and protocol.

Twelve methods and three references (`entrants`), each tuned on one toy world and measured on
another (`trained`): R2 of W, DSC and NOS@10 by the paper's protocol; without
a map; after the factors that both cameras share are regressed out; at equal ranks (`area`, the mean
of R2 of the first k whitened components for k = 1 to 48, and the number of canonical directions
above shuffled pairs); and probes of the category, a camera's own and carried. The latents' last
LayerNorm makes W singular, so its condition number is that of the part which W^-1 keeps. Beside
them stand
untrained agents, principal components of the pixels, and the published settings. The paper's data
are others and its printed numbers contradict each other, so only its order can be compared.

R2 of whole spaces rewards spaces of low rank and is ranked only where the paper ranks by it; our
own ranking is by area. Intervals are over held-out objects and over both agents of a pair
(`measures`). Equal images is the main table; equal work reads every method at its last checkpoint
that costs no more FLOPs than the cheapest method's whole run.

Predictions, written before the run:

paper/order: the paper's R2 of smallNORB, JEPA .891 > MAE .882 > SimCLR .678 > autoencoder .611,
is not found: the autoencoder lies above SimCLR, which spreads its latents most.
paper/moco: in the paper's table 2 MoCo v3 (.987) is above JEPA. Here I-JEPA is above MoCo v3.
rank: R2 of W falls with the rank: over methods, Spearman's correlation of R2 and RankMe is below
-.5.
area: by area SimCLR, MoCo v3, VICReg and LeJEPA are all above I-JEPA, MAE and the autoencoder.
gain: by area training adds to every method's untrained agents.
pixels: no method has more shared directions than principal components of the pixels.
beyond: without the shared factors, R2 of I-JEPA's agents is not above that of untrained ones.
carried: by W^-1, as in the paper, no method's carried probe recognises more than 45 %.
work: at equal work the order by area is nearly that at equal images: Spearman's above .8.
labels: the encoder trained with labels has the best own probe.
masks: VICReg on masks has a worse own probe than VICReg on crops.
tuning: with the published settings no method's area differs by more than .1.

Command: python -m experiments.reproduce --only=table1_paradigms --out=runs/table1_paradigms
Cost at --scale=cpu: 67 minutes on two quiet cores; finished methods are kept, and all other tables
of this folder read them.
Expected at --scale=cpu: 5 of 12 claims agree. By area SwAV is first (.376), by R2 of W I-JEPA
(.959, RankMe 4.8); training adds to the area of 8 methods. VICReg has .413 on masks, .225 on crops.
"""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from experiments import side_by_side
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.rivals import methods
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import measures, page, trained
from experiments.rivals.tables.entrants import ENTRANTS, REFERENCES, RIVALS
from experiments.rivals.tables.paradigms_claims import PUBLISHED, claims
from experiments.rivals.tables.reading import at_equal_work, gain, mean, row_of
from experiments.rivals.tables.trained import HOW, TUNED, Trained, World, cross_pairs
from socialjepa_jax import alignment, evaluation
from socialjepa_jax.alignment.threads import one_blas_thread
from socialjepa_jax.records import RowName
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table

FOLDER = "table1_paradigms"
LONGEST = ("dinov2", "ibot", "lejepa", "dino", "moco")  # by CPU time


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains and measures every method on toys, or reads what an earlier call left in `out`.

    Writes `table1_paradigms.html`, the methods as one sortable page.
    """
    rows = measured(scale, out)
    return finding(scale, out / f"{FOLDER}.html", "Toys", rows, claims(rows))


def finding(
    scale: str, path: pathlib.Path, images: str, rows: Rows, judged: Sequence[Claim]
) -> Finding:
    """Returns the result of rows on some images, and writes its page.

    Args:
        scale: of the run.
        path: of the page.
        images: their name.
        rows: of all methods.
        judged: the claims.
    """
    page.write(rows, path, images)
    return Finding(
        f"Learning paradigms under one protocol: {images}",
        list(judged),
        {"": bars(rows)},
        rows,
        [main_table(rows), controls_table(rows), work_table(rows)],
        {
            "steps": trained.STEPS[scale],
            "agents of a camera": trained.SEEDS,
            "trials": len(ENTRANTS["ijepa"].trials),
        },
    )


def measured(scale: str, out: pathlib.Path, eth80: str | None = None) -> Rows:
    """Returns the rows of all methods, which are trained and measured where they are missing.

    On CPUs one method a core is trained and measured at once (`side_by_side`). Elsewhere a method
    is measured, by one core, while the next one trains.
    """
    world = World(scale, out, eth80)
    missing = [name for name in (*ENTRANTS, PIXELS) if not world.rows_file(FOLDER, name).exists()]
    if len(cores := side_by_side.cores()) > 1 and len(missing) > 1:
        _ = dataclasses.replace(world).dataset  # rendered once for all; of a copy, for it is sent
        make = functools.partial(rows_of, world)
        side_by_side.run(make, longest_first(missing), cores, out / "cache" / "xla")
    with one_blas_thread(), ThreadPoolExecutor(1) as beside:
        found = [beside.submit(rows_of, world, PIXELS)]
        for name in ENTRANTS:
            if not world.rows_file(FOLDER, name).exists():
                world.trained(name)
            found.append(beside.submit(rows_of, world, name))
        return [row for rows in found for row in rows.result()]


def longest_first(names: Sequence[str]) -> list[str]:
    """Orders methods so that no core waits for one that was begun last."""
    known = [name for name in LONGEST if name in names]
    return known + [name for name in names if name not in known]


def rows_of(world: World, name: str) -> Rows:
    """Returns the rows of one method, or of the components of the pixels."""
    return world.kept(FOLDER, name, lambda: of_method(world, name))


def of_pixels(world: World) -> Rows:
    """Measures the principal components of both cameras' pixels, as many as latents have."""
    cells = measures.grid([(0, 1)], lambda i, j: _pair(world, *world.pixels[[i, j]]), 1)
    return [{"row": RowName.PIXEL_PCA, **cells}]


def of_method(world: World, name: str) -> Rows:
    """Measures a method's agents before and after training, and at every checkpoint."""
    if name == PIXELS:
        return of_pixels(world)
    found = world.trained(name)
    z = found.final
    trained_rows = {"row": RowName.TRAINED, **all_pairs(world, z)}
    published = measures.grid([(TUNED, TUNED + 1)], lambda i, j: _pair(world, z[i], z[j]), 1)
    before, first = untrained(world, found)
    later = [checkpoint(world, found, number) for number in range(1, len(found.steps))]
    rows = [before, trained_rows, {"row": PUBLISHED, **published}, first, *later]
    return [*found.rows, *rows]


def untrained(world: World, found: Trained) -> Rows:
    """Measures untrained agents and their checkpoint, once for all methods that begin with them."""
    z = found.untrained

    def make() -> Rows:
        return [{"row": RowName.UNTRAINED, **all_pairs(world, z)}, checkpoint(world, found, 0)]

    digest = hashlib.sha256(np.ascontiguousarray(z).tobytes()).hexdigest()
    rows = world.kept(FOLDER, f"untrained_{digest[:16]}", make)
    return [{key: value for key, value in row.items() if key != "method"} for row in rows]


def all_pairs(world: World, z_AND: np.ndarray) -> dict[str, Any]:
    """Measures all pairs of tuned agents of unlike cameras."""
    return measures.grid(
        cross_pairs(), lambda i, j: _pair(world, z_AND[i], z_AND[j]), trained.SEEDS
    )


def _pair(world: World, x: np.ndarray, y: np.ndarray) -> measures.Measured:
    return measures.of_pair(HOW, world.dataset, world.split, x, y)


def checkpoint(world: World, found: Trained, number: int) -> dict[str, Any]:
    """Measures the tuned agents of one checkpoint, without intervals over objects."""
    z_AND, split = found.latents[number], world.split
    maps = {
        (i, j): evaluation.fit_map(HOW, z_AND[i], z_AND[j], split.train) for i, j in cross_pairs()
    }
    scores = {
        (i, j): alignment.evaluate(each, z_AND[i][split.test], z_AND[j][split.test], back="inverse")
        for (i, j), each in maps.items()
    }
    train, test = z_AND[:, split.train], z_AND[:, split.test]
    area = [measures.areas(train[i], train[j], [(test[i], test[j])])[0] for i, j in cross_pairs()]
    return {
        "row": "checkpoint",
        "step": int(found.steps[number]),
        "loss": [None if np.isnan(x) else float(x) for x in found.losses[number, :TUNED]],
        "rankme": [float(alignment.effective_rank(z[split.test])) for z in z_AND[:TUNED]],
        "probe_own": [trained.accuracy(world, z) for z in z_AND[:TUNED]],
        "area": square(area),
    } | {
        name: square([scores[pair][name] for pair in cross_pairs()])
        for name in ("r2", "dsc", "nos@10", "kappa", "kappa_effective")
    }


def square(values: list[float]) -> list[list[float]]:
    """Returns the values of all pairs as a plain grid, a row for each agent of the first camera."""
    plain: list[list[float]] = np.reshape(values, (trained.SEEDS, -1)).astype(float).tolist()
    return plain


def _ranked(rows: Rows) -> list[str]:
    """Rivals by area, then references."""
    best = sorted(RIVALS, key=lambda name: -mean(rows, name, "area"))
    return [*best, *REFERENCES]


def main_table(rows: Rows) -> Table:
    """The metrics of trained agents at equal images, with intervals."""
    columns = [
        Column("area", "area"),
        Column("dimensions", "directions", digits=1),
        Column("r2", "R² of W"),
        Column("dsc", "DSC"),
        Column("nos@10", "NOS@10"),
        Column("kappa_effective", "κ(W), effective", digits=0),
        Column("rankme", "RankMe", digits=1),
        Column("r2_beyond", "R² beyond the shared factors"),
        Column("probe_own", "own probe"),
        Column("probe_transferred", "carried by W⁻¹"),
        Column("probe_regression", "carried by regression"),
    ]
    lines = [
        Row(
            name,
            {c.key: measures.interval(row_of(rows, name)[c.key]) for c in columns},
            ranked=name in RIVALS,
        )
        for name in _ranked(rows)
    ]
    pixels = row_of(rows, PIXELS, RowName.PIXEL_PCA)
    cells = {c.key: float(np.mean(pixels[c.key]["pairs"])) for c in columns}
    lines.append(Row(PIXELS, cells, ranked=False))
    caption = "Held-out objects; 95 % intervals over objects and both agents."
    return Table(columns, lines, corner="equal images", caption=caption)


def controls_table(rows: Rows) -> Table:
    """What training adds, the metrics without a map, and the published settings."""
    columns = [
        Column("area", "area, trained less untrained"),
        Column("r2", "R² of W, trained less untrained"),
        Column("r2_beyond", "R² beyond, trained less untrained"),
        Column("untrained", "R² of W, untrained"),
        Column("dsc_no_map", "DSC without a map"),
        Column("nos@10_no_map", "NOS@10 without a map"),
        Column("published", "area, published settings"),
        Column("trial", "chosen trial", digits=0),
    ]
    lines = []
    for name in _ranked(rows):
        own = row_of(rows, name)
        cells = {key: gain(rows, name, key) for key in ("area", "r2", "r2_beyond")}
        cells |= {key: measures.interval(own[key]) for key in ("dsc_no_map", "nos@10_no_map")}
        cells["untrained"] = measures.interval(row_of(rows, name, RowName.UNTRAINED)["r2"])
        plain = {
            "published": mean(rows, name, "area", PUBLISHED),
            "trial": float(row_of(rows, name, "cost")["chosen"]),
        }
        lines.append(Row(name, {**cells, **plain}, ranked=False))
    caption = "Differences are paired. Trial 0 is the published setting."
    return Table(columns, lines, corner="controls", caption=caption)


def work_table(rows: Rows) -> Table:
    """Every rival at the work of the cheapest, and what a step costs."""
    columns = [
        Column("area", "area"),
        Column("r2", "R² of W"),
        Column("probe_own", "own probe"),
        Column("step", "step", digits=0),
        Column("flops", "GFLOPs of a step", digits=2),
        Column("images_per_second", "images/s of one core", digits=0),
    ]
    lines = []
    for name in sorted(RIVALS, key=lambda name: -np.mean(at_equal_work(rows, name)["area"])):
        at, cost = at_equal_work(rows, name), row_of(rows, name, "cost")
        cells = {key: float(np.mean(at[key])) for key in ("area", "r2", "probe_own", "step")}
        cells |= {"flops": cost["flops"] / 1e9, "images_per_second": cost["images_per_second"]}
        lines.append(Row(name, cells))
    batch = methods.experiment("ijepa", 25).run.batch_size
    caption = (
        "The last checkpoint within the FLOPs of the cheapest method's whole run; its learning "
        f"rate has not fallen to the end. A step has {batch} images."
    )
    return Table(columns, lines, corner="equal work", caption=caption)


def bars(rows: Rows) -> Plot:
    """Figure 7: R2 of W and area of every method, with intervals."""
    names = _ranked(rows)
    places = np.arange(len(names))
    lines = [
        figures.Line(
            title, places + shift, [mean(rows, name, key) for name in names], style.agent_color(k),
            "none", "o",
        )
        for k, (key, title, shift) in enumerate((("area", "area", -0.1), ("r2", "R² of W", 0.1)))
    ]  # fmt: skip
    figure = figures.lines(lines, title="Methods by area", x_label="", y_label="", height=4.4)
    axes = figure.axes[0]
    axes.set_xticks(places, names, rotation=60, ha="right")
    for k, (key, shift) in enumerate((("area", -0.1), ("r2", 0.1))):
        cells = [measures.interval(row_of(rows, name)[key]) for name in names]
        axes.vlines(places + shift, [c.low for c in cells], [c.high for c in cells],
                    color=style.agent_color(k))  # fmt: skip
    return Plot(figure, "area under matched ranks and R2 of W for every method",
                "95 % intervals over objects and both agents.")  # fmt: skip
