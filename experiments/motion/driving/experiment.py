"""What three cameras of a driving car share, beyond what needs no training.

Three agents, one behind each camera of a recording (the Udacity simulator's center, left and right
cameras: SYNTHETIC images, 4,053 moments of one drive of five minutes), never exchange anything.
I-JEPA predicts blocks of the frame 5 moments (.35 s) ahead from the visible rest of this one;
LeJEPA aligns the two. Blocks of 100 moments (7 s) are held out whole, with 10 moments on either
side left out. The state is what the driver did: steering, speed and "bend", the steering averaged
over a second. Each repetition has its own agents and its own held-out blocks.

Controls: untrained encoders, pixel components, pairs mismatched (anywhere, and within their block
of time, which saw the same stretch of road), readouts of all pixels by labels, agents trained on
strangers (pairs of unrelated moments), and the same agents where single moments are held out in the
place of blocks. The claims were written before the run, after one pilot on other seeds and blocks.
Without --frames=FILE|DIR a toy car is rendered in the place of the drive.

Command: python -m experiments.reproduce --only=driving --frames=FILE --out=runs/driving
Cost at --scale=cpu: 13 CPU minutes; finished runs stay in OUT/pieces.
Expected at --scale=cpu: 12 of 14 claims agree. R2 of W is 0.38 for LeJEPA
and 0.94 for I-JEPA, 0.95 for pixel components; steering is not read from held-out blocks.
"""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np

from experiments import findings
from experiments.findings import Finding, Plot, Rows
from experiments.motion import pairs
from experiments.motion.driving import claims, recordings
from experiments.motion.driving.claims import values
from socialjepa_jax import evaluation
from socialjepa_jax.config import Agents, Experiment, Run
from socialjepa_jax.data import FramesData
from socialjepa_jax.evaluation import moving
from socialjepa_jax.models.patch_net import PatchNetConfig
from socialjepa_jax.models.vit import ViTConfig
from socialjepa_jax.objectives.base import Objective
from socialjepa_jax.objectives.ijepa import IJepa
from socialjepa_jax.objectives.pairs.frames import FramePairs
from socialjepa_jax.optim import AdamW, Optimizer
from socialjepa_jax.records import RowName
from socialjepa_jax.report import figures, looks, style
from socialjepa_jax.report.tables import Column, Interval, Row, Table

IMAGE = (16, 32)
STEPS = {"smoke": 4, "cpu": 300, "gpu": 2000, "paper": 2000}
REPETITIONS = {"smoke": 1, "cpu": 3, "gpu": 10, "paper": 10}
FRAMES = {"smoke": 240, "cpu": 4000, "gpu": 4000, "paper": 4000}  # of a rendered recording
DELTA, BLOCK = 5, {"smoke": 20, "cpu": 100, "gpu": 100, "paper": 100}
FIRST_SEED = 700
RUNS: dict[str, tuple[str, dict[str, int | str]]] = {  # name -> objective, changes of the data
    "LeJEPA": ("lejepa", {}),
    "LeJEPA, strangers": ("lejepa", {"transition": "strangers"}),
    "LeJEPA, moments": ("lejepa", {"block": 1, "margin": 0}),
    "I-JEPA": ("ijepa", {}),
}
CONTROLLED = ("LeJEPA", "I-JEPA")
KEPT = (
    "r2", "state_r2", "state_r2_x", "readout_carried", "rankme", "few_pairs_r2", "direct_r2",
    "composed_r2", "cycle_r2", "n_train", "n_test",
)  # fmt: skip
SHOWN = (
    RowName.TRAINED, RowName.UNTRAINED, RowName.UNTRAINED_HIDDEN, RowName.PIXEL_PCA,
    RowName.PIXEL_PCA_WIDE, RowName.RANDOM_PROJECTION, RowName.MISMATCHED_CELL, RowName.MISMATCHED,
    RowName.ALL_PIXELS,
)  # fmt: skip
_BARS = {  # row -> its name below the bars
    RowName.TRAINED: "trained", RowName.UNTRAINED: "un-\ntrained",
    RowName.UNTRAINED_HIDDEN: "hidden\nlayer", RowName.PIXEL_PCA: "pixel\nPCA",
    RowName.PIXEL_PCA_WIDE: "wide\nPCA", RowName.RANDOM_PROJECTION: "ran-\ndom",
    RowName.MISMATCHED_CELL: "within\n7 s", RowName.MISMATCHED: "shuf-\nfled",
}  # fmt: skip


def _lejepa() -> tuple[Objective, Optimizer, int]:
    """Returns objective, optimiser and batch size of LeJEPA on pairs of frames."""
    encoder = PatchNetConfig(image_size=IMAGE, channels=3, patches=(4, 2), widths=(32, 64))
    optim = AdamW(learning_rate=6e-3, weight_decay=1e-4, final_weight_decay=1e-4, clip=1.0)
    return FramePairs(encoder=encoder, outputs=8, num_slices=64), optim, 128


def _ijepa() -> tuple[Objective, Optimizer, int]:
    """Returns objective, optimiser and batch size of I-JEPA from a frame to a later one."""
    vit = ViTConfig(image_size=IMAGE, patch_size=4, channels=3, width=48, depth=3, heads=3)
    objective = IJepa(
        vit=vit, predictor="mlp_patch", mlp_width=192, target_norm="layernorm",
        latent_encoder="target", predicts="next",
    )  # fmt: skip
    return objective, AdamW(learning_rate=1e-3), 64


OBJECTIVES: dict[str, Callable[[], tuple[Objective, Optimizer, int]]] = {
    "lejepa": _lejepa,
    "ijepa": _ijepa,
}


def experiment(name: str, data: FramesData, steps: int, seed: int) -> Experiment:
    """Returns the run of one repetition.

    Args:
        name: of the run, out of `RUNS`.
        data: the recording.
        steps: of training.
        seed: of agents and of held-out blocks.
    """
    objective, changes = RUNS[name]
    loss, optim, batch = OBJECTIVES[objective]()
    cameras = tuple(range(data.num_cameras))
    splits = dataclasses.replace(data.splits, seed=seed)
    data = dataclasses.replace(data, splits=splits, read="resident", delta=DELTA)
    return Experiment(
        name=f"{name} on {data.num_cameras} cameras",
        data=dataclasses.replace(data, **changes),  # type: ignore[arg-type]
        objective=loss,
        seed=seed,
        agents=Agents(cameras, cameras),
        optim=optim,
        run=Run(batch_size=batch, **dict.fromkeys(
            ("steps", "steps_per_call", "log_every", "eval_every", "save_every"), steps)),
    )  # fmt: skip


def run(scale: str, out: pathlib.Path, frames: str | None = None) -> Finding:
    """Trains three agents with each objective in every repetition.

    Args:
        scale: "smoke" | "cpu" | "gpu" | "paper".
        out: folder of the results, of finished runs and of unpacked frames.
        frames: the recording, see `recordings.recording`.
    """
    data = recordings.recording(frames, out / "frames", FRAMES[scale])
    data = dataclasses.replace(data, image_size=IMAGE, block=BLOCK[scale])
    rows: Rows = []
    for repetition in range(REPETITIONS[scale]):
        for name in RUNS:
            rows += piece(scale, out, data, name, repetition)
    name = pathlib.Path(frames).name if frames else "a rendered toy car"
    return Finding(
        "What three cameras of a drive share",
        claims.claims(rows, data.states),
        {"": _plot(rows)},
        rows,
        [_table(rows, name, data.states) for name in RUNS],
        {"steps": STEPS[scale], "repetitions": REPETITIONS[scale], "recording": name},
    )


def piece(scale: str, out: pathlib.Path, data: FramesData, name: str, repetition: int) -> Rows:
    """Measures one run of one repetition, or reads what an earlier call measured."""

    def make() -> Rows:
        given = experiment(name, data, STEPS[scale], FIRST_SEED + repetition)
        if scale == "smoke":
            given = dataclasses.replace(given, run=dataclasses.replace(given.run, batch_size=16))
        found = measured(given, name in CONTROLLED)
        return [{"run": name, "repetition": repetition, **row} for row in found]

    file = f"{name.replace(', ', '_')}_{STEPS[scale]}_{repetition}.json"
    return findings.kept(out / "pieces" / file, make)


def measured(given: Experiment, controlled: bool) -> Rows:
    """Trains the agents of a run: a row for every pair, map and control, and for their cycle.

    Args:
        given: the run.
        controlled: False: the maps between the trained agents alone.
    """
    encoded = pairs.train(given).encoded
    if controlled:
        found = moving.alignment_rows(encoded)
    else:
        found = [
            row
            for i, j, _ in evaluation.pairs(given.agents.cameras)
            for row in moving.pair_rows(encoded, (i, j), pixels=None, controls=False)
        ]
    return [
        {
            "row": str(row["row"]),
            "pair": f"{row['x'][-1]} to {row['y'][-1]}",
            **{key: row["metrics"][key] for key in sorted(row["metrics"]) if _is_kept(key)},
        }
        for row in found
        if row["back"] == "inverse" or row["row"] != RowName.TRAINED
    ]


def _is_kept(key: str) -> bool:
    return key.partition("/")[0] in KEPT


def interval(rows: Rows, measure: str, run: str, row: str) -> Interval | None:
    """Mean and 95 % t-interval over repetitions; None where it was not measured."""
    found = values(rows, measure, run, row)
    return pairs.cell(found.tolist()) if np.isfinite(found).all() else None


def _table(rows: Rows, run: str, states: tuple[str, ...]) -> Table:
    """R2 of W and of the states for the agents of a run and its controls."""
    measures = {"r2": "W"} | {f"state_r2/{s}": s for s in states}
    measures |= {f"readout_carried/{s}": f"{s}, carried" for s in states}
    lines = []
    for row in SHOWN:
        cells = {key: interval(rows, key, run, row) for key in measures}
        if any(cell is not None for cell in cells.values()):
            lines.append(Row(looks.look(row).label, cells))
    columns = [Column(key, label, digits=2) for key, label in measures.items()]
    caption = "Held-out R²; means over pairs of cameras, 95 % t-intervals over repetitions."
    return Table(columns, lines, corner=run, caption=caption)


def _plot(rows: Rows) -> Plot:
    """R2 of W of the trained agents beside its controls."""
    series = [
        figures.BarSeries(
            run,
            [float(values(rows, "r2", run, row).mean()) for row in _BARS],
            style.agent_color(k),
        )
        for k, run in enumerate(CONTROLLED)
    ]
    title, label = "W between the cameras of a drive", "held-out R² of W"
    figure = figures.bars(tuple(_BARS.values()), series, title=title, y_label=label)
    return Plot(figure, "R2 of W of trained agents and of controls for both objectives",
                "Means over three pairs of cameras and all repetitions.")  # fmt: skip
