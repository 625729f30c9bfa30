"""LeJEPA's accuracy, one setting at a time (LeJEPA, tables 1 and 4).

Table 1: the integral's domain, knots and slices; global and local views; batch size; projection
dimension; registers. Table 4: predictor, averaged weights for the centres, projector layers. Every
setting is compiled by itself, with the seeds as its agents; equal settings are run once.

Command: python -m experiments.reproduce --only=lejepa_ablations --out=DIR [--eth80=FILE]
Cost at --scale=cpu: 13 minutes on one core, half of it compilation (25 settings).
Expected at --scale=cpu: two global views beat one, [-3, 3] beats [-1, 1], more slices and 3
projector layers help. Averaged centres and small projections lower accuracy, and settings with 1
projector layer tell objects apart worse than untrained encoders (.25 to .28 against .40).
Differences of a few points, which most of the paper's are, drown in the seeds. On ETH-80 12 of 24
signs agree.
"""

import pathlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from experiments import findings
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.lejepa import PROBES
from experiments.lejepa import runs as runs_lib
from experiments.lejepa.ablations.contrasts import CONTRASTS, Contrast
from experiments.lejepa.ablations.variants import TABLES, Variant, variants
from experiments.lejepa.runs import BUDGETS, Budget, Run
from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.objectives.lejepa import LeJepa
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Row, Table


def run(scale: str, out: pathlib.Path, eth80: str | None = None) -> Finding:
    """Trains every distinct setting once and collects the rows of all tables."""
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
        {"": _plot(rows)},
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


def _claims(rows: Rows, probe: str) -> list[Claim]:
    claims = [_no_collapse(rows, probe)]
    for contrast in CONTRASTS:
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
    rank = min(row["latent_rank"] for row in rows)
    return Claim(
        f"{probe}/lowest of all settings",
        "none of the choices lead to a catastrophic collapse",
        worst[probe],
        worst[probe] > untrained and rank > 1.5,
        f"{PROBES[probe]}; table {worst['table']}; untrained {untrained:.3f}, "
        f"mean of all {findings.mean(rows, probe):.3f}, least rank of a latent {rank:.1f}.",
    )


def _contrast_claim(contrast: Contrast, better: Rows, worse: Rows, probe: str) -> Claim:
    gap = findings.mean(better, probe) - findings.mean(worse, probe)
    seeds = findings.distinct(better, "seed")
    by_seed = [
        findings.mean(better, probe, seed=s) - findings.mean(worse, probe, seed=s) for s in seeds
    ]
    noise = float(np.std(by_seed))
    unclear = ", within the spread of seeds" if abs(gap) < 2 * noise else ""
    return Claim(
        f"{probe}/{contrast.name}",
        contrast.paper,
        gap,
        (gap > 0) == (contrast.paper > 0),
        f"in sign{unclear}, {findings.mean(better, probe):.3f} against "
        f"{findings.mean(worse, probe):.3f}.",
        noise,
    )


def _settings_of(rows: Rows, table: str) -> list[dict[str, Any]]:
    """Distinct settings of a table: the columns that are neither the run's own nor metrics."""
    known = {"table", "lambda", "rate", "seed", *runs_lib.METRICS, *PROBES}
    settings: list[dict[str, Any]] = []
    for row in findings.select(rows, table=table):
        setting = {k: v for k, v in row.items() if k not in known and "untrained" not in k}
        if setting not in settings:
            settings.append(setting)
    return settings


def _words(setting: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{k} {'yes' if v is True else 'no' if v is False else f'{v:g}'}"
        for k, v in setting.items()
    )


def _plot(rows: Rows) -> Plot:
    curves = []
    for k, (probe, name) in enumerate(PROBES.items()):
        x, y = [], []
        for position, table in enumerate(findings.distinct(rows, "table")):
            for setting in _settings_of(rows, table):
                x.append(position)
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
    return Plot(figure, "Accuracy of every setting by table", "One point a setting.")


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
