"""Every objective on the toy world: what its loss and its ranks say, and the map between cameras.

Six agents of a method train as one program, three on each of two cameras, 160 degrees apart; agents
k and 3 + k make pair k. `methods` has the settings: the objectives' defaults but for their size,
with steps, crops and initial kernels for which it gives the reasons. Beside the trained agents
stand the same agents before training and the principal components of the pixels. Intervals of 95 %
are over objects and seeds. Methods differ in images forwarded, work and steps: this is no
comparison at equal budgets.

Claims: RankMe of every agent is at least 4, the loss is more than 5 % away from that of a uniform
answer and from 0, and training adds to the R2 of W between cameras.

Command: python -m experiments.reproduce --only=rivals_toys --out=runs/rivals_toys
Cost at --scale=cpu: 1 to 10 CPU minutes a method, 14 methods. Finished methods are kept.
Expected at --scale=cpu: RankMe is at least 4 and the loss far enough from that of a uniform answer
for all; training adds to R2 for mae, autoencoder, swav and ibot and lowers it for lejepa,
masked_lejepa and dinov2.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from experiments import findings
from experiments.alignability import honest_rows
from experiments.alignability.honest_rows import Measured
from experiments.alignability.jackknife import Estimate
from experiments.findings import Claim, Finding, Plot, Rows
from experiments.rivals import methods
from experiments.rivals.methods import METHODS
from socialjepa_jax import alignment, build, evaluation, loop
from socialjepa_jax.agents import AgentState
from socialjepa_jax.config import Experiment
from socialjepa_jax.data.base import Splits, ViewDataset
from socialjepa_jax.data.cache import cached_array
from socialjepa_jax.evaluation import controls
from socialjepa_jax.records import RowName
from socialjepa_jax.report import figures, style
from socialjepa_jax.report.tables import Column, Interval, Row, Table
from socialjepa_jax.running.hooks import Progress

STEPS = {"smoke": 25, "cpu": 200, "gpu": 2000, "paper": 2000}
SEEDS = {"smoke": 2, "cpu": 3, "gpu": 3, "paper": 3}
LEAST_RANK, LEAST_GAP = 4.0, 0.05
SMOKE = {"instances": 4, "splits": Splits(test_instances=2)}  # of the toy world
MARKERS = ("o", "s", "^")
SHOWN = ("r2", "shared_dims", "nos@10", "rankme")  # of `jackknife.METRICS`, with intervals


def run(scale: str, out: pathlib.Path) -> Finding:
    """Trains and measures every method, or reads what an earlier call left in `out`."""
    rows = [row for name in METHODS for row in _kept(scale, name, out)]
    return Finding(
        "Every objective on the toy world",
        [claim for name in METHODS for claim in claims(rows, name)],
        {"": _plot(rows)},
        rows,
        [metrics_table(rows), losses_table(rows)],
        {"steps": STEPS[scale], "seeds": SEEDS[scale]},
    )


def _kept(scale: str, name: str, out: pathlib.Path) -> Rows:
    data = SMOKE if scale == "smoke" else {}
    steps = STEPS[scale] * METHODS[name].times
    chosen = methods.experiment(name, steps, SEEDS[scale], **data)
    path = out / "rivals_toys" / f"{scale}_{name}.json"
    return findings.kept(path, lambda: measure(chosen, out / "cache"))


def measure(chosen: Experiment, cache: pathlib.Path) -> Rows:
    """Trains the agents of `methods.experiment` and measures them beside their controls.

    Args:
        chosen: what to train.
        cache: folder of the rendered pictures.

    Returns:
        One row "agents" with the losses and ranks of all agents, one for trained, untrained and
        pixels each with the metrics of the pairs and their intervals, and the "gain" in R2.
    """
    name = chosen.objective.kind
    dataset = chosen.data.load(cache)
    parts = build.build(chosen)
    feed = build.open_feed(chosen, dataset, parts, cache, cache)

    def encode(state: AgentState) -> np.ndarray:
        return evaluation.encode_states(parts.trainer.encode, state, feed)

    progress = Progress(parts.fresh_state(), 0, chosen.run.steps)
    untrained, calls = encode(progress.state), []

    def keep(progress: Progress) -> None:
        if progress.step:
            calls.append(jax.device_get(progress.metrics))

    loop.run(parts.trainer.step, feed, parts.hparams, progress, chosen.run.steps_per_call, (keep,))
    trained = encode(progress.state)
    agents = {
        "method": name,
        "row": "agents",
        "rankme": [float(alignment.effective_rank(z)) for z in trained],
        **_losses_of(name, calls),
    }
    return [agents, *pair_rows(chosen, dataset, trained, untrained, cache)]


def _losses_of(name: str, calls: Sequence[dict[str, np.ndarray]]) -> dict[str, Any]:
    """First and last loss of every agent, and its gap to chance, of each part with a chance."""
    first, last = calls[0], calls[-1]
    parts = {}
    for key, chance in METHODS[name].chance.items():
        ours = last[key].mean(-1)
        level = last[chance].mean(-1) if isinstance(chance, str) else chance
        parts[key] = {"chance": np.broadcast_to(level, ours.shape), "last": ours}
    parts = jax.tree.map(lambda x: np.asarray(x, float).tolist(), parts)
    return {
        "first_loss": np.asarray(first["loss"][:, 0], float).tolist(),
        "last_loss": np.asarray(last["loss"].mean(-1), float).tolist(),
        "parts": parts,
    }


def pair_rows(
    chosen: Experiment,
    dataset: ViewDataset,
    trained: np.ndarray,
    untrained: np.ndarray,
    cache: pathlib.Path,
) -> Rows:
    """Returns the metrics of the pairs (k, seeds + k) on held-out objects, averaged over pairs.

    Args:
        chosen: of `methods.experiment`.
        dataset: that it was trained on.
        trained: latents of all agents, [A, N, D].
        untrained: the same before training.
        cache: folder of the pixels' components, which all methods share.
    """
    split, half = evaluation.splits(dataset)[0], len(trained) // methods.CAMERAS
    pixels = _pixel_spaces(dataset, split.train, trained.shape[-1], cache)

    def measured(row: RowName, k: int, x: np.ndarray, y: np.ndarray) -> Measured:
        subject = evaluation.Subject(row, split, (k, half + k), x, y)
        return honest_rows.of_subject(chosen.alignment, dataset, subject, SHOWN)

    of_pixels = measured(RowName.PIXEL_PCA, 0, *pixels)  # the same for every pair
    spaces = {RowName.TRAINED: trained, RowName.UNTRAINED: untrained}
    runs = [
        {(row, split.name): measured(row, k, z[k], z[half + k]) for row, z in spaces.items()}
        | {(RowName.PIXEL_PCA, split.name): of_pixels}
        for k in range(half)
    ]
    found = {row: each for (row, _), each in honest_rows.average(runs).items()}
    name = chosen.objective.kind
    rows: Rows = [
        {"method": name, "row": str(row), "pairs": each.metrics["r2"].repeats.tolist()}
        | {key: _interval(each.metrics[key]) for key in SHOWN}
        | each.probes
        for row, each in found.items()
    ]
    r2 = {row: each.metrics["r2"] for row, each in found.items()}
    gained = r2[RowName.TRAINED].minus(r2[RowName.UNTRAINED])
    return [*rows, {"method": name, "row": "gain", "r2": _interval(gained)}]


def _pixel_spaces(
    dataset: ViewDataset, train_rows: np.ndarray, dim: int, cache: pathlib.Path
) -> np.ndarray:
    """The principal components of both cameras' pixels: [2, N, dim]."""
    digest = hashlib.sha256(train_rows.tobytes())
    for images in dataset.images:
        digest.update(np.ascontiguousarray(images))

    def make() -> np.ndarray:
        return np.stack([controls.pixel_pca(x, train_rows, dim) for x in dataset.images])

    return cached_array(cache / f"pixels-{dim}-{digest.hexdigest()[:20]}.npy", make)


def _interval(estimate: Estimate) -> dict[str, float]:
    return dataclasses.asdict(Interval(estimate.value, *estimate.interval()))


def names(rows: Rows) -> list[str]:
    """Returns the methods that have rows, in their order."""
    return findings.distinct(rows, "method")


def _row(rows: Rows, name: str, row: str) -> dict[str, Any]:
    return findings.select(rows, method=name, row=row)[0]


def claims(rows: Rows, name: str) -> list[Claim]:
    """Ranks, losses and the map of one method."""
    agents, gain = _row(rows, name, "agents"), _row(rows, name, "gain")["r2"]
    rank = min(agents["rankme"])
    found = [
        Claim(
            f"{name}/rank",
            f"RankMe is at least {LEAST_RANK:g}",
            rank,
            rank >= LEAST_RANK,
            f"the least of {len(agents['rankme'])} agents; the mean is "
            f"{np.mean(agents['rankme']):.1f}.",
            float(np.std(agents["rankme"])),
        )
    ]
    for key, part in agents["parts"].items():
        share = np.divide(part["last"], part["chance"])
        gap = float(np.minimum(np.abs(1.0 - share), share).min())
        found.append(
            Claim(
                f"{name}/{key}",
                f"more than {LEAST_GAP:.0%} away from chance and from 0",
                gap,
                gap > LEAST_GAP,
                f"share of {np.mean(part['chance']):.3f}, where the mean is "
                f"{np.mean(part['last']):.3f}.",
            )
        )
    return [
        *found,
        Claim(
            f"{name}/r2",
            "training adds to R2 of W",
            gain["value"],
            gain["low"] > 0.0,
            f"trained less untrained, {gain['low']:.3f} to {gain['high']:.3f}.",
        ),
    ]


def _plot(rows: Rows) -> Plot:
    """R2 of W against shared dimensions; the controls, which all methods share, as levels."""
    found = names(rows)
    points = []
    for index, name in enumerate(found):
        trained = _row(rows, name, RowName.TRAINED)
        x, y = trained["shared_dims"]["value"], trained["r2"]["value"]
        marker = MARKERS[index // len(style.PALETTE)]  # where the colours repeat
        points.append(figures.Line(name, [x], [y], style.agent_color(index), "none", marker))
    levels = []
    for row, color in ((RowName.UNTRAINED, "#8A929C"), (RowName.PIXEL_PCA, "#C3C8CF")):
        r2 = _row(rows, found[0], row)["r2"]
        label = str(row).replace("_", " ")
        levels.append(figures.Level(label, r2["value"], r2["low"], r2["high"], color))
    figure = figures.lines(
        points,
        levels=levels,
        title="R² of W on held-out objects",
        x_label="dimensions that both cameras share",
        y_label="R²",
        height=4.4,
    )
    return Plot(figure, "R2 of W against shared dimensions for every objective",
                "Means over pairs; bands are intervals of the controls.")  # fmt: skip


def metrics_table(rows: Rows) -> Table:
    """The metrics of trained agents with intervals, and R2 of the controls."""
    columns = [
        Column("r2", "R² of W"),
        Column("untrained", "untrained"),
        Column("gain", "trained less untrained"),
        Column("pixels", "pixel PCA"),
        Column("shared_dims", "shared dimensions", digits=1),
        Column("nos@10", "NOS@10"),
        Column("probe_own", "probe"),
        Column("probe_transferred", "probe carried by W"),
    ]
    lines = []
    for name in names(rows):
        trained = _row(rows, name, RowName.TRAINED)
        cells = {key: Interval(**trained[key]) for key in ("r2", "shared_dims", "nos@10")}
        others = {"untrained": RowName.UNTRAINED, "gain": "gain", "pixels": RowName.PIXEL_PCA}
        cells |= {key: Interval(**_row(rows, name, row)["r2"]) for key, row in others.items()}
        probes = {key: trained[key] for key in ("probe_own", "probe_transferred")}
        lines.append(Row(name, {**cells, **probes}))
    return Table(columns, lines, corner="objective",
                 caption="Held-out objects; 95 % intervals over objects and seeds.")  # fmt: skip


def losses_table(rows: Rows) -> Table:
    """Losses and ranks, the worst agent's where one number stands for all."""
    columns = [
        Column("first", "first loss"),
        Column("last", "last loss"),
        Column("chance", "of a uniform answer"),
        Column("rankme", "RankMe, least", digits=1),
    ]
    lines = []
    for name in names(rows):
        agents = _row(rows, name, "agents")
        levels = [float(np.mean(part["chance"])) for part in agents["parts"].values()]
        cells = {
            "first": float(np.mean(agents["first_loss"])),
            "last": float(np.mean(agents["last_loss"])),
            "chance": sum(levels) if levels else None,
            "rankme": min(agents["rankme"]),
        }
        lines.append(Row(name, cells))
    return Table(columns, lines, corner="objective", caption="Means over agents.")
