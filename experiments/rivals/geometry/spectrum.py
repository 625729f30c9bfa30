"""Figure 9 of Social-JEPA: the singular values of W for every method, and what they tell.

W is the ridge map of standardised latents between the two cameras (equation 4), fitted as in
`paradigms`: singular values, condition number, distance from orthogonality (equation 17), effective
rank, and R2 on held-out objects, also of the orthogonal map (Procrustes). Beside
trained agents stand untrained ones, principal components of the pixels, and W of the trained agents
fitted on wrong pairs (the training states of the second agent in another order).

A direction of x with little variance fixes no row of W: what is fitted there is the noise of y over
that variance. So the spectrum depends on the spectrum of x, whichever pairs are matched. The last
LayerNorm leaves latents 47 of 48 directions; the last singular value, which is rounding, is left
out of kappa, which would be 1e10 for every method.

Predictions, written before the run:

paper/kappa: the printed condition number of 1.68 is not found: that of I-JEPA is above 100.
paper/orthogonal: W is not near orthogonal: equation 17 is above 1 for I-JEPA, and 1 for W = 0.
paper/rigid: nor does the spectrum tell whether the spaces are rotations of each other: an
orthogonal map has at most .1 less R2 than W of I-JEPA.
paper/conditioning: the paper has W well conditioned where spaces match. Here Spearman's correlation
of kappa and R2 over methods is positive.
rank: Spearman's correlation of kappa and RankMe over methods is below -.5.
wrong: wrong pairs have a kappa within a factor of 3 of that of pairs in at least 9 of 12 methods.
spread: training lowers kappa for SimCLR, MoCo v3, VICReg and LeJEPA, which spread the latents.
directions: the effective rank of W is above RankMe of the latents for every method.

Command: python -m experiments.reproduce --only=fig9_spectrum --out=runs/table1_paradigms
Cost at --scale=cpu: 10 seconds of one core after the training of table1_paradigms.
Expected at --scale=cpu: 3 of 8 claims agree. Kappa is 1e3 to 2e5, the distance from orthogonal .96
to 689; yet an orthogonal map has only .061 less R2 for I-JEPA.
"""

import pathlib
from functools import partial
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.rivals.methods import PIXELS
from experiments.rivals.tables import measures, trained
from experiments.rivals.tables.entrants import COMPARED, RIVALS
from experiments.rivals.tables.paradigms_claims import ABOVE
from experiments.rivals.tables.reading import mean, row_of, spearman
from experiments.rivals.tables.trained import HOW, World, cross_pairs
from socialjepa_jax import alignment, evaluation
from socialjepa_jax.alignment import LinearMap
from socialjepa_jax.evaluation.splits import Split
from socialjepa_jax.records import RowName
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.papers.social_jepa import SOCIAL_JEPA
from socialjepa_jax.report.tables import Column, Row, Table

FOLDER = "fig9_spectrum"
KINDS = (RowName.TRAINED, RowName.UNTRAINED, RowName.MISMATCHED)
DRAWN = ("ijepa", "mae", "simclr", "lejepa")


def run(scale: str, out: pathlib.Path) -> Finding:
    """Fits W for every method of `trained` and its controls."""
    world = World(scale, out)
    names = COMPARED[scale]
    rows = world.measured(FOLDER, (PIXELS, *names), partial(of_method, world))
    return Finding(
        "The spectrum of W",
        claims(rows) if set(names) == set(RIVALS) else [],
        {"": plot(rows)},
        rows,
        [table(rows)],
        {"steps": trained.STEPS[scale], "agents of a camera": trained.SEEDS},
    )


def of_pixels(world: World) -> Rows:
    """Measures W between principal components of both cameras' pixels."""
    found = spectra(world.split, world.pixels, [(0, 1)], 1, RowName.PIXEL_PCA)
    return [{"method": PIXELS, "row": RowName.PIXEL_PCA, **found}]


def of_method(world: World, name: str) -> Rows:
    """Measures W between a method's agents before and after training, and of wrong pairs."""
    if name == PIXELS:
        return of_pixels(world)
    found = world.trained(name)
    return [
        {"method": name, "row": row, **spectra(world.split, z, cross_pairs(), trained.SEEDS, row)}
        for row, z in zip(KINDS, (found.final, found.untrained, found.final))
    ]


def fitted(split: Split, x: np.ndarray, y: np.ndarray, row: str = RowName.TRAINED) -> LinearMap:
    """Fits W on the training states, or on wrong pairs of them for the row MISMATCHED."""
    if row == RowName.MISMATCHED:
        y = y[measures.wrong_partners(split, len(y))]
    return evaluation.fit_map(HOW, x, y, split.train)


def spectra(
    split: Split,
    z_AND: np.ndarray,
    pairs: list[tuple[int, int]],
    columns: int,
    row: str = RowName.TRAINED,
) -> dict[str, Any]:
    """Measures W for a grid of pairs of agents.

    Args:
        split: the states that W is fitted and tested on.
        z_AND: latents of all agents.
        pairs: of the grid, row by row.
        columns: of the grid.
        row: MISMATCHED fits on wrong pairs and tests on right ones; PIXEL_PCA has no LayerNorm.

    Returns:
        Cells as in `measures.grid`, and "singular_values", their geometric mean over pairs,
        largest first.
    """
    no_norm = row == RowName.PIXEL_PCA
    maps = {(i, j): fitted(split, z_AND[i], z_AND[j], row) for i, j in pairs}

    def measure(i: int, j: int) -> measures.Measured:
        linear_map, x, y = maps[i, j], z_AND[i], z_AND[j]
        rotation = alignment.fit(x[split.train], y[split.train], method="procrustes")
        values = {
            "kappa": linear_map.kappa if no_norm else measures.kappa(linear_map),
            "orthogonality": linear_map.orthogonality,
            "effective_rank": linear_map.effective_rank,
            "rankme": alignment.effective_rank(y[split.test]),
            "r2": alignment.r2(linear_map, x[split.test], y[split.test]),
            "r2_orthogonal": alignment.r2(rotation, x[split.test], y[split.test]),
        }
        return measures.exact(values)

    logs = [np.log(each.singular_values) for each in maps.values()]
    mean_s = np.exp(np.mean(logs, axis=0))
    return {**measures.grid(pairs, measure, columns), "singular_values": mean_s.tolist()}


def claims(rows: Rows) -> list[Claim]:
    """The paper's statements and the predictions of the module's head."""
    of = {
        measure: {name: mean(rows, name, measure) for name in RIVALS}
        for measure in ("kappa", "orthogonality", "effective_rank", "rankme", "r2")
    }
    printed = SOCIAL_JEPA[4].value("0.0", "kappa")
    own, away = of["kappa"]["ijepa"], of["orthogonality"]["ijepa"]
    lost = measures.interval(row_of(rows, "ijepa")["r2"], row_of(rows, "ijepa")["r2_orthogonal"])
    signs = spearman(of["kappa"], of["r2"])
    rank = spearman(of["kappa"], of["rankme"])
    ratio = {n: mean(rows, n, "kappa", RowName.MISMATCHED) / of["kappa"][n] for n in RIVALS}
    near = sum(1 / 3 <= each <= 3 for each in ratio.values())
    furthest = max(ratio, key=lambda name: abs(np.log(ratio[name])))
    change = {n: of["kappa"][n] / mean(rows, n, "kappa", RowName.UNTRAINED) for n in ABOVE}
    most = max(change, key=change.__getitem__)
    more = {name: of["effective_rank"][name] - of["rankme"][name] for name in RIVALS}
    least = min(more, key=more.__getitem__)
    return [
        Claim("paper/kappa", printed, own, own <= 2 * printed,
              "I-JEPA; within a factor of 2 would agree.",
              because="W is not determined where x has little variance"),
        Claim("paper/orthogonal", "near orthogonal", away, away < 0.5,
              "equation 17 for I-JEPA; below .5 would agree, and W = 0 has 1.",
              because="the least singular values are near 0 and the largest above 1"),
        Claim("paper/rigid", "an orthogonal map has at most .1 less R2", lost.value,
              lost.value <= 0.1, f"R2 of W less that of Procrustes for I-JEPA, {lost.low:.3f} to "
              f"{lost.high:.3f}."),
        Claim("paper/conditioning", "well conditioned where spaces match", signs, signs < 0,
              f"Spearman's of kappa and R2 over {len(RIVALS)} methods; negative would agree.",
              because="both rise as the rank falls"),
        Claim("rank", "Spearman's of kappa and RankMe below -.5", rank, rank < -0.5,
              f"over {len(RIVALS)} methods.",
              because="kappa is decided by the weakest directions, which RankMe does not count"),
        Claim("wrong", "kappa of wrong pairs within a factor of 3 in 9 of 12", float(near),
              near >= 9, f"the furthest is {furthest}'s, {ratio[furthest]:.2g} times as high.",
              because="without signal the weak directions shrink more than the strong ones"),
        Claim("spread", "training lowers kappa", change[most], change[most] < 1,
              f"the largest ratio of trained to untrained of four methods is {most}'s."),
        Claim("directions", "the effective rank of W is above RankMe", more[least],
              more[least] > 0, f"the least difference is {least}'s.",
              because="W of latents that spread is led by the few directions that are shared"),
    ]  # fmt: skip


def table(rows: Rows) -> Table:
    """The spectrum's numbers for every method, beside those of the controls."""
    columns = [
        Column("kappa", "κ(W)", digits=0),
        Column("untrained", "κ, untrained", digits=0),
        Column("mismatched", "κ, wrong pairs", digits=0),
        Column("orthogonality", "distance from orthogonal", digits=2),
        Column("effective_rank", "effective rank of W", digits=1),
        Column("rankme", "RankMe", digits=1),
        Column("r2", "R² of W"),
        Column("r2_orthogonal", "R², orthogonal"),
    ]
    lines = []
    for name in findings.distinct(rows, "method"):
        own = findings.select(rows, method=name)[0]
        cells = {
            column.key: measures.interval(own[column.key]).value
            for column in columns
            if column.key in own
        }
        for row in KINDS[1:]:
            for found in findings.select(rows, method=name, row=row):
                cells[str(row)] = measures.interval(found["kappa"]).value
        lines.append(Row(name, cells, ranked=False))
    return Table(columns, lines, corner="method",
                 caption="Means over nine pairs of agents; R² on held-out objects. Equation 17 is "
                 "the distance from orthogonal.")  # fmt: skip


def plot(rows: Rows) -> Plot:
    """The singular values of W, largest first."""
    names = [name for name in (PIXELS, *DRAWN) if name in findings.distinct(rows, "method")]
    ends: dict[str, style.Dash] = {
        RowName.TRAINED: "-",
        RowName.PIXEL_PCA: "-",
        RowName.MISMATCHED: (0, (1, 2)),
    }
    lines = []
    for index, name in enumerate(names):
        for row, dash in ends.items():
            for found in findings.select(rows, method=name, row=row):
                s = found["singular_values"]
                end = ", wrong pairs" if row == RowName.MISMATCHED else ""
                lines.append(
                    figures.Line(
                        f"{name}{end}", np.arange(1, len(s) + 1), s, style.agent_color(index), dash
                    )
                )
    figure = figures.lines(
        lines, title="Singular values of W", x_label="number", y_label="singular value",
        log_y=True, y_floor=1e-4, height=4.2,
        levels=[figures.Level("orthogonal", 1.0, 1.0, 1.0, "#1d2430")],
    )  # fmt: skip
    return Plot(figure, "singular values of W of five spaces, of pairs and of wrong pairs",
                "Geometric means over nine pairs of trained agents.")  # fmt: skip
