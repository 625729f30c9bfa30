"""The honest table: does training add alignability, or was it there before?

    python -m experiments.honest_table --seeds=3 --out=runs/honest [--eth80=eth80_96.npz]

Trains the agents of `configs/toys_*.py` (on other toys than those the settings were chosen on) and
of `configs/eth80_*.py`, once a seed and objective, and sets R2, shared dimensions, DSC, NOS@10,
debiased CKA, RankMe and probe accuracies beside every control: on both splits, for every encoder an
objective has (I-JEPA: the trained one and its moving average). Differences to a control are paired
object by object; intervals hold both objects and seeds to be drawn.

Cost: on two CPU cores about five minutes a seed and world with I-JEPA and twelve with LeJEPA. A run
that is there already is reused.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np
from absl import flags

from configs import eth80_ijepa, eth80_lejepa, smoke, toys_ijepa, toys_lejepa
from experiments.alignability import jackknife
from experiments.alignability.jackknife import Estimate
from socialjepa_jax import build, evaluation, loop
from socialjepa_jax import config as config_lib
from socialjepa_jax.config import Experiment
from socialjepa_jax.errors import InputError, check_one_of
from socialjepa_jax.performance import compilation
from socialjepa_jax.records import PARTIALLED, RowName, write_json
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.papers.social_jepa import SOCIAL_JEPA

MISMATCHED = (RowName.MISMATCHED, RowName.MISMATCHED_CELL)
CONTROLS = (RowName.UNTRAINED, RowName.UNTRAINED_SAME_INIT, RowName.PIXEL_PCA, *MISMATCHED)
ROWS = (RowName.TRAINED, RowName.SAME_CAMERA, *CONTROLS, *PARTIALLED.values())
# Control -> the row it is compared with, which is partialled if the control is.
REFERENCE: dict[str, RowName] = {
    **dict.fromkeys(CONTROLS, RowName.TRAINED),
    RowName.UNTRAINED_PARTIALLED: RowName.PARTIALLED,
    RowName.PIXEL_PCA_PARTIALLED: RowName.PARTIALLED,
}
RIVALS = tuple(row for row in REFERENCE if row not in MISMATCHED)  # controls without training
CONFIGS = {
    "ijepa": {"toys": toys_ijepa.get_config, "eth80": eth80_ijepa.get_config},
    "lejepa": {"toys": toys_lejepa.get_config, "eth80": eth80_lejepa.get_config},
}
LATENTS = {
    "ijepa": {
        "context/cls": "CLS of the trained encoder",
        "target/cls": "CLS of its moving average",
    },
    "lejepa": {"cls": "CLS of the encoder"},
}  # by the objective's kind


def arms(
    objectives: list[str], eth80: str | None, scale: str, steps: int | None = None
) -> dict[str, Experiment]:
    """The experiments of the table by name, world by world."""
    if eth80 is not None and not pathlib.Path(eth80).exists():
        raise InputError(f"--eth80={eth80} does not exist")
    found = {}
    for world in ("toys", "eth80") if eth80 else ("toys",):
        for objective in objectives:
            check_one_of(tuple(CONFIGS), objectives=objective)
            config = CONFIGS[objective][world]()
            if world == "eth80":
                config.data.path = eth80
            if steps is not None:
                config.run.steps = steps
            if scale == "smoke":
                config = smoke.shrink(config)
            found[f"{world}_{objective}"] = config_lib.from_config_dict(config)
    return found


@dataclasses.dataclass(frozen=True)
class Measured:
    """One row on one split: its metrics with intervals, and its probes' accuracies.

    Attributes:
        metrics: by the names in `jackknife.METRICS`, averaged over seeds.
        probes: accuracies averaged over seeds.
    """

    metrics: dict[str, Estimate]
    probes: dict[str, float]


Rows = dict[tuple[str, str], Measured]  # (row, split) -> what was measured


def run(experiment: Experiment, workdir: pathlib.Path) -> dict[str, dict[tuple[str, str], Any]]:
    """Trains (or reads) one run and measures the first pair of agents and its controls.

    Returns:
        Latent -> (row, split) -> (jackknife estimates, probe accuracies).
    """
    result = loop.fit(experiment, workdir)
    trainer = loop.make_trainer(experiment)
    data = build.place(experiment, result.dataset, trainer)
    everything = build.encode_states(
        trainer, result.state, data, result.dataset.num_states, experiment, everything=True
    )
    # At step 0 the moving average is the encoder itself, so both have the same untrained controls.
    latents = LATENTS[experiment.objective.kind]
    return {name: _measure(experiment, result, everything[name]) for name in latents}


def _measure(
    experiment: Experiment, result: loop.Result, latents_AND: np.ndarray
) -> dict[tuple[str, str], Any]:
    found = {}
    for subject in evaluation.subjects(experiment, result.dataset, latents_AND, result.untrained):
        if subject.agents not in ((0, 1), (0, 2)):
            continue
        split = subject.split
        linear_map = evaluation.fit_map(experiment, subject.x, subject.y, split.train)
        probes = evaluation.probe_accuracies(experiment, result.dataset, subject, linear_map)
        estimates = jackknife.estimates(
            linear_map, subject.x, subject.y, split, result.dataset.instance_ids
        )
        found[subject.row, split.name] = estimates, probes
    return found


def average(runs: list[dict[tuple[str, str], Any]]) -> Rows:
    """Averages the repetitions, which share their test objects."""
    return {
        key: Measured(
            {m: Estimate.mean([r[key][0][m] for r in runs]) for m in runs[0][key][0]},
            {p: float(np.mean([r[key][1][p] for r in runs])) for p in runs[0][key][1]},
        )
        for key in runs[0]
    }


def gap(table: Rows, row: str, split: str, metric: str) -> Estimate:
    """By how much the trained agents exceed a control, paired object by object."""
    return table[REFERENCE[row], split].metrics[metric].minus(table[row, split].metrics[metric])


def verdict(table: Rows, split: str, reference: str, metric: str) -> str:
    """One sentence: by how much training differs from the strongest control."""
    rivals = [c for c in RIVALS if REFERENCE[c] == reference]
    best = max(rivals, key=lambda c: table[c, split].metrics[metric].value)
    difference = gap(table, best, split, metric)
    low, high = difference.interval()
    word = "more" if low > 0 else "less" if high < 0 else "neither more nor less"
    name = {"r2": "R²", "shared_dims": "shared dimensions"}[metric]
    what = f"{name} beyond the shared factors" if reference == RowName.PARTIALLED else name
    ours, theirs = (table[row, split].metrics[metric].value for row in (reference, best))
    return (
        f"{split} split: training leaves {word} {what} than the best control "
        f"({ours:.3f} against {theirs:.3f} of {best.replace('_', ' ')}; "
        f"difference {difference.value:+.3f} [{low:+.3f}, {high:+.3f}])."
    )


COLUMNS = (
    tables.Column("r2", "R²", best="max"),
    tables.Column("difference", "trained minus row", help="difference in R², paired by object"),
    tables.Column("shared_dims", "shared dims", digits=1, best="max", help="directions carried"),
    tables.Column("dims_difference", "trained minus row", digits=1, help="in shared dims, paired"),
    tables.Column("dsc", "DSC", best="max", help="eq. 5: through the inverse of W"),
    tables.Column("dsc_no_map", "DSC, no map", best="max"),
    tables.Column("nos@10", "NOS@10", best="min", help="eq. 8, through the inverse of W"),
    tables.Column("nos@10_no_map", "NOS@10, no map", best="min"),
    tables.Column("cka_debiased", "CKA, debiased", best="max"),
    tables.Column("rankme", "RankMe", digits=1),
    tables.Column("probe_own", "own probe", best="max"),
    tables.Column("probe_transferred", "probe by W⁻¹", best="max"),
    tables.Column("probe_regression", "probe by regression", best="max"),
    tables.Column("probe_raw", "probe, no W", best="max"),
)


def to_table(measured: Rows, split: str) -> tables.Table:
    """One world's table for one split."""
    rows = []
    for name in ROWS:
        if (name, split) not in measured:
            continue
        row = measured[name, split]
        cells: dict[str, tables.Cell] = {k: e.value for k, e in row.metrics.items()}
        cells |= row.probes
        cells["r2"] = tables.Interval(row.metrics["r2"].value, *row.metrics["r2"].interval())
        if name in CONTROLS:
            difference = gap(measured, name, split, "r2")
            cells["difference"] = tables.Interval(difference.value, *difference.interval())
        rows.append(
            tables.Row(name.replace("_", " "), cells, ranked=name in (RowName.TRAINED, *CONTROLS))
        )
    objects = len(measured[RowName.TRAINED, split].metrics["r2"].without)
    return tables.Table(
        COLUMNS,
        rows,
        corner=f"{split} split",
        caption=f"95 % intervals over {objects} test objects and the repetitions.",
    )


def to_json(measured: Rows) -> list[dict[str, Any]]:
    """All numbers, with the seeds' own values and the paired differences."""
    rows = []
    for (name, split), row in measured.items():
        entry: dict[str, Any] = {"row": name, "split": split, "probes": row.probes, "metrics": {}}
        for metric, estimate in row.metrics.items():
            low, high = estimate.interval()
            entry["metrics"][metric] = {
                "value": estimate.value,
                "low": low,
                "high": high,
                "seeds": estimate.repeats.tolist(),
            }
            if name in REFERENCE:
                difference = gap(measured, name, split, metric)
                low, high = difference.interval()
                entry["metrics"][metric]["trained_minus_this"] = {
                    "value": difference.value,
                    "low": low,
                    "high": high,
                }
        rows.append(entry)
    return rows


def write(
    out: pathlib.Path, results: dict[str, dict[str, Rows]], experiments: dict[str, Experiment]
) -> pathlib.Path:
    """Writes honest_table.json, .md and .html from arm -> latent -> rows; returns the page."""
    claims, sections, markdown = [], {}, []
    paper = SOCIAL_JEPA[1].value("smallNORB (Viewpoint 0° vs 160°)", "r2")
    for arm, latents in results.items():
        parts: list[html.Html] = []
        names = LATENTS[experiments[arm].objective.kind]
        for latent, measured in latents.items():
            parts.append(html.tag("h3", names[latent]))
            for split in sorted({split for _, split in measured}):
                sentences = [
                    verdict(measured, split, reference, metric)
                    for metric in ("r2", "shared_dims")
                    for reference in (RowName.TRAINED, RowName.PARTIALLED)
                ]
                claims.append(_claim(f"{arm}/{latent}/{split}/r2", paper, measured, sentences))
                table = to_table(measured, split)
                parts += [*map(html.paragraph, sentences), tables.to_html(table)]
                markdown += [f"### {arm}, {names[latent]}, {split} split", ""]
                markdown += [f"- {line}" for line in sentences] + ["", tables.to_markdown(table)]
        sections[arm] = (experiments[arm].name, html.join(*parts))
    write_json(
        out / "honest_table.json",
        {
            "name": "honest_table",
            "scale": flags.FLAGS.scale,
            "environment": loop.versions(),
            "claims": claims,
            "rows": {
                arm: {latent: to_json(measured) for latent, measured in latents.items()}
                for arm, latents in results.items()
            },
            "configs": {arm: config_lib.to_plain(e) for arm, e in experiments.items()},
        },
    )
    (out / "honest_table.md").write_text("\n".join(markdown))
    page = out / "honest_table.html"
    lede = html.paragraph(
        f"The paper reports R² = {paper} for smallNORB at 0° against 160°. Below, the same "
        "measurement beside what aligns without any training."
    )
    subtitle = f"{flags.FLAGS.seeds} seeds, scale {flags.FLAGS.scale}"
    page.write_text(html.page("Does training add alignability?", subtitle, lede, sections))
    return page


def _claim(name: str, paper: float, measured: Rows, sentences: list[str]) -> dict[str, Any]:
    """The paper's smallNORB R2 beside ours; on other data, so a comparison and not a test."""
    ours = measured[RowName.TRAINED, name.split("/")[-2]].metrics["r2"]
    return {
        "id": name,
        "paper": paper,
        "ours": ours.value,
        "std": float(np.std(ours.repeats, ddof=min(1, len(ours.repeats) - 1))),
        "agrees": abs(ours.value - paper) < 0.05,
        "note": " ".join(sentences),
    }


def define_flags() -> None:
    """Only a program defines flags; modules that import this one have their own."""
    flags.DEFINE_integer("seeds", 3, "Repetitions of every run.", lower_bound=1)
    flags.DEFINE_string("eth80", None, "The ETH-80 photographs (.npz); left out if not given.")
    flags.DEFINE_list("objectives", ["ijepa", "lejepa"], "What trains the agents.")
    flags.DEFINE_integer("steps", None, "Of training; each configuration's own without it.")
    flags.DEFINE_string("out", None, "Folder of the runs and the page.", required=True)
    flags.DEFINE_enum("scale", "cpu", ["smoke", "cpu"], "smoke: seconds, no meaning.")


def main() -> None:
    """Runs what is missing and writes the table."""
    out = pathlib.Path(flags.FLAGS.out).resolve()
    compilation.use_cache(out / "cache" / "xla", f"--out={out}")
    experiments = arms(
        flags.FLAGS.objectives, flags.FLAGS.eth80, flags.FLAGS.scale, flags.FLAGS.steps
    )
    results = {}
    for arm, experiment in experiments.items():
        runs = [
            run(dataclasses.replace(experiment, seed=seed), out / f"{arm}_seed{seed}")
            for seed in range(flags.FLAGS.seeds)
        ]
        results[arm] = {name: average([found[name] for found in runs]) for name in runs[0]}
    print(f"Report: {write(out, results, experiments)}")
