"""What LeJEPA's accuracy depends on, one setting at a time (LeJEPA, tables 1 and 4).

Table 1: the integral's domain, knots and slices; global and local views; batch size; projection
dimension; registers. Table 4: predictor, averaged weights for the centres, projector layers.
Every setting is a program of its own, whose agents are the seeds; equal settings are run once.

Command: python -m experiments.reproduce --only=lejepa_ablations --out=DIR [--eth80=FILE]
Cost at --scale=cpu: about thirteen minutes on one core, half of it compilation (25 programs).
Expected: no setting collapses; one global view is worst. Differences of a few points, which most
of the paper's are, drown in the seeds at this scale.
"""

import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Picture, Rows
from experiments.lejepa import runs as runs_lib
from experiments.lejepa.runs import BUDGETS, Budget, Run
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.papers import lejepa as paper
from socialjepa_jax.report.papers.table import PaperTable
from socialjepa_jax.report.tables import Column, Row, Table
from socialjepa_jax.sigreg import Quadrature

PROBES = {"accuracy": "categories of new objects", "objects": "objects in new states"}
TABLES = {
    "1a": "integration domain, knots, slices",
    "1b": "views",
    "1c": "batch size",
    "1d": "projection",
    "1e": "registers",
    "4": "predictor, averaging, projector",
}


@dataclass(frozen=True)
class Variant:
    """A row of a table.

    Attributes:
        table: key of `TABLES`.
        label: what is set, as columns of the row.
        changes: fields of the objective, as functions of the budget and the number of channels.
        batch_factor: on the budget's batch size.
    """

    table: str
    label: Mapping[str, float | str]
    changes: Callable[[Budget, int], dict[str, Any]] = field(default=lambda budget, channels: {})
    batch_factor: float = 1.0


def _fixed(table: str, label: Mapping[str, float | str], **changes: Any) -> Variant:
    return Variant(table, label, lambda budget, channels: changes)


def _slices(factor: float) -> Variant:
    return Variant(
        "1a",
        {"t_max": 3.0, "knots": 17, "slices": factor},
        lambda budget, channels: {"sigreg_slices": int(factor * budget.slices)},
    )


def _views(large: int, count: int) -> Variant:
    return Variant(
        "1b",
        {"global views": large, "views": count},
        lambda budget, channels: {"views": runs_lib.views(budget, channels, large, count - large)},
    )


def _projection(factor: float) -> Variant:
    return Variant(
        "1d",
        {"dimension over width": factor},
        lambda budget, channels: {"projector_dim": int(factor * budget.width)},
    )


def _registers(count: int) -> Variant:
    def change(budget: Budget, channels: int) -> dict[str, Any]:
        encoder = runs_lib.learner(budget, channels).encoder
        return {"encoder": replace(encoder, registers=count)}

    return Variant("1e", {"registers": count}, change)


def _head(predictor: bool, swa: bool, layers: int) -> Variant:
    return _fixed(
        "4",
        {"predictor": predictor, "swa": swa, "projector layers": layers},
        predictor_layers=2 * predictor,
        centers="swa" if swa else "online",
        projector_layers=layers,
    )


def variants(scale: str) -> list[Variant]:
    """The rows of all tables."""
    if scale == "smoke":
        return [_fixed("1a", {"t_max": 3.0, "knots": 17, "slices": 1.0}), _head(True, True, 2)]
    full = scale != "cpu"
    found = [
        _fixed("1a", {"t_max": t, "knots": k, "slices": 1.0}, quadrature=Quadrature(t, k))
        for t in (1.0, 3.0, 5.0)
        for k in ((5, 17, 41) if full else (5, 17))
    ]
    found += [_slices(factor) for factor in (0.125, 4.0)]
    counts = ((1, 4), (2, 4), (1, 8), (2, 8), (4, 8))
    found += [_views(*pair) for pair in counts]
    found += [
        Variant("1c", {"batch over default": factor}, batch_factor=factor)
        for factor in (0.5, 1.0, 2.0)
    ]
    found += [_projection(factor) for factor in (0.25, 0.5, 2.0)]
    found += [_registers(count) for count in ((0, 1, 2, 4, 8) if full else (0, 1, 4))]
    found += [
        _head(predictor, swa, layers)
        for predictor in (False, True)
        for swa in (False, True)
        for layers in ((1, 2, 3) if full else (1, 3))
    ]
    return found


def run(scale: str, out: pathlib.Path, eth80: str | None = None) -> Finding:
    """Trains every setting once and reads the tables off."""
    budget = BUDGETS[scale]
    if scale == "cpu":
        budget = replace(budget, steps=200)
    dataset = runs_lib.world(budget, out, eth80)
    done: dict[tuple[LeJepa, int], Rows] = {}
    rows: Rows = []
    for variant in variants(scale):
        trained = _train(variant, dataset, budget, done)
        rows += [{"table": variant.table, **variant.label, **row} for row in trained]
    return Finding(
        "What LeJEPA's accuracy depends on",
        [claim for probe in PROBES for claim in _claims(rows, probe)],
        {"": _picture(rows)},
        rows,
        [_table(rows, name) for name in findings.distinct(rows, "table")],
        runs_lib.settings(budget, dataset, programs=len(done)),
    )


def _train(
    variant: Variant,
    dataset: ViewDataset,
    budget: Budget,
    done: dict[tuple[LeJepa, int], Rows],
) -> Rows:
    channels = dataset.image_shape[-1]
    objective = runs_lib.learner(budget, channels, **variant.changes(budget, channels))
    budget = replace(budget, batch_size=int(variant.batch_factor * budget.batch_size))
    key = (objective, budget.batch_size)
    if key not in done:
        runs = [Run(seed) for seed in range(budget.seeds)]
        done[key] = runs_lib.study(dataset, objective, runs, budget)
    return done[key]


@dataclass(frozen=True)
class Contrast:
    """A statement of a table: these rows are better than those.

    Attributes:
        name: of the claim.
        table: where.
        better, worse: columns that pick the rows.
        paper: the paper's difference, of accuracies.
    """

    name: str
    table: str
    better: Mapping[str, Any]
    worse: Mapping[str, Any]
    paper: float


def _mean(table: PaperTable, cells: Callable[[str, str], bool]) -> float:
    """Mean of some cells of a printed table, as a share."""
    found = [
        table.value(row, column)
        for row in table.rows
        for column in table.columns
        if cells(row, column) and table.row(row)[column] is not None
    ]
    return float(np.mean(found)) / 100


def contrasts() -> list[Contrast]:
    """What the paper's tables say, with their own differences."""

    def vit(row: str, column: str) -> bool:
        return column.startswith("vit")

    def apart(table: PaperTable, first: Callable, second: Callable) -> float:
        return _mean(table, first) - _mean(table, second)

    return [
        Contrast(
            "1a/domain [-3, 3] over [-1, 1]", "1a", {"t_max": 3.0, "slices": 1.0}, {"t_max": 1.0},
            apart(paper.QUADRATURE, lambda r, c: "3" in r[:3], lambda r, c: "1" in r[:3]),
        ),
        Contrast(
            "1a/17 knots over 5", "1a", {"knots": 17, "slices": 1.0}, {"knots": 5},
            apart(paper.QUADRATURE, lambda r, c: c == "17", lambda r, c: c == "5"),
        ),
        Contrast(
            "1a/most slices over fewest", "1a", {"slices": 4.0}, {"slices": 0.125},
            apart(paper.QUADRATURE, lambda r, c: "2048" in r, lambda r, c: "512" in r),
        ),
        Contrast(
            "1b/two global views over one", "1b", {"global views": 2}, {"global views": 1},
            apart(paper.VIEWS, lambda r, c: c == "2" and r in "48",
                  lambda r, c: c == "1" and r in "48"),
        ),
        Contrast(
            "1b/eight views over four", "1b", {"global views": 2, "views": 8},
            {"global views": 2, "views": 4},
            apart(paper.VIEWS, lambda r, c: (r, c) == ("8", "2"),
                  lambda r, c: (r, c) == ("4", "2")),
        ),
        Contrast(
            "1c/largest batch over smallest", "1c", {"batch over default": 2.0},
            {"batch over default": 0.5},
            apart(paper.BATCH_SIZE, lambda r, c: c == "512", lambda r, c: c == "128"),
        ),
        Contrast(
            "1d/small projection over large", "1d", {"dimension over width": 0.25},
            {"dimension over width": 2.0},
            apart(paper.PROJECTOR, lambda r, c: r == "64", lambda r, c: r == "1024"),
        ),
        Contrast(
            "1e/four registers over none", "1e", {"registers": 4}, {"registers": 0},
            apart(paper.REGISTERS, lambda r, c: c == "4", lambda r, c: c == "0"),
        ),
        Contrast(
            "4/averaged centres over online, no predictor", "4", {"swa": True, "predictor": False},
            {"swa": False, "predictor": False},
            apart(paper.HEADS, lambda r, c: vit(r, c) and r == "swa",
                  lambda r, c: vit(r, c) and r == "plain"),
        ),
        Contrast(
            "4/no predictor over one", "4", {"predictor": False}, {"predictor": True},
            apart(paper.HEADS, lambda r, c: vit(r, c) and r in ("plain", "swa"),
                  lambda r, c: vit(r, c) and r.startswith("predictor")),
        ),
        Contrast(
            "4/three projector layers over one", "4", {"projector layers": 3},
            {"projector layers": 1},
            apart(paper.HEADS, lambda r, c: vit(r, c) and c.endswith("3"),
                  lambda r, c: vit(r, c) and c.endswith("1")),
        ),
    ]  # fmt: skip


def _claims(rows: Rows, probe: str) -> list[Claim]:
    claims = [_no_collapse(rows, probe)]
    for contrast in contrasts():
        better, worse = (
            findings.select(rows, table=contrast.table, **where)
            for where in (contrast.better, contrast.worse)
        )
        if better and worse:
            claims.append(_contrast_claim(contrast, better, worse, probe))
    return claims


def _no_collapse(rows: Rows, probe: str) -> Claim:
    worst = min(rows, key=lambda row: row[probe])
    untrained = findings.mean(rows, f"{probe}_untrained")
    good = worst[probe] > untrained and min(row["latent_rank"] for row in rows) > 1.5
    return Claim(
        f"{probe}/lowest of all settings",
        "none of the choices lead to a catastrophic collapse",
        worst[probe],
        good,
        f"{PROBES[probe]}; table {worst['table']}; untrained {untrained:.3f}, "
        f"mean of all {findings.mean(rows, probe):.3f}, least rank of a latent "
        f"{min(row['latent_rank'] for row in rows):.1f}.",
    )


def _contrast_claim(contrast: Contrast, better: Rows, worse: Rows, probe: str) -> Claim:
    gap = findings.mean(better, probe) - findings.mean(worse, probe)
    seeds = findings.distinct(better, "seed")
    by_seed = [
        findings.mean(better, probe, seed=s) - findings.mean(worse, probe, seed=s) for s in seeds
    ]
    noise = float(np.std(by_seed))
    same = (gap > 0) == (contrast.paper > 0)
    unclear = abs(gap) < 2 * noise
    return Claim(
        f"{probe}/{contrast.name}",
        contrast.paper,
        gap,
        same,
        f"in sign{', within the spread of seeds' if unclear else ''}, "
        f"{findings.mean(better, probe):.3f} against {findings.mean(worse, probe):.3f}.",
        noise,
    )


def _settings_of(rows: Rows, table: str) -> list[dict[str, Any]]:
    """The distinct settings of a table: the columns that stand before the measured ones."""
    known = {"table", "lambda", "rate", "seed", *runs_lib.METRICS, *PROBES}
    found: list[dict[str, Any]] = []
    for row in findings.select(rows, table=table):
        setting = {k: v for k, v in row.items() if k not in known and "untrained" not in k}
        if setting not in found:
            found.append(setting)
    return found


def _words(setting: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{k} {'yes' if v is True else 'no' if v is False else f'{v:g}'}"
        for k, v in setting.items()
    )


def _picture(rows: Rows) -> Picture:
    curves = []
    for k, (probe, name) in enumerate(PROBES.items()):
        x, y = [], []
        for place, table in enumerate(findings.distinct(rows, "table")):
            for setting in _settings_of(rows, table):
                x.append(place)
                y.append(findings.mean(rows, probe, table=table, **setting))
        curves.append(figures.Line(name, x, y, style.agent_color(k), (0, (0, 1)), "o", 0.0))
    levels = [
        figures.Level(f"untrained, {probe}", u, u, u, style.agent_color(k))
        for k, probe in enumerate(PROBES)
        for u in [findings.mean(rows, f"{probe}_untrained")]
    ]
    figure = figures.lines(
        curves,
        title="Accuracy of every setting, table by table",
        x_label="table of the paper",
        y_label="linear probe",
        levels=levels,
    )
    names = findings.distinct(rows, "table")
    figure.axes[0].set_xticks(range(len(names)), names)
    return Picture(figure, "Accuracy of every setting by table", "One point a setting.")


def _table(rows: Rows, name: str) -> Table:
    columns = [Column(probe, what, 3, "max") for probe, what in PROBES.items()]
    columns += [Column("sigreg_null", "SIGReg / null", 2), Column("latent_rank", "rank", 1)]
    body = [
        Row(
            _words(setting),
            {c.key: findings.mean(rows, c.key, table=name, **setting) for c in columns},
        )
        for setting in _settings_of(rows, name)
    ]
    caption = f"Table {name}: {TABLES[name]}; mean over seeds."
    return Table(columns, body, corner="setting", caption=caption)
