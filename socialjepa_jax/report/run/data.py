"""Results of a run, read from the files in its workdir.

Missing and unreadable files read as empty: a run may have been stopped early.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from absl import logging

from socialjepa_jax.errors import DAMAGED_ARCHIVE
from socialjepa_jax.npz import open_archive
from socialjepa_jax.records import CONTROLS, PARTIALLED, RowName, json_lines
from socialjepa_jax.report.tables import Interval

SPLITS = {"instance": "held-out objects", "state": "held-out states"}
ROW_ORDER = (RowName.TRAINED, RowName.SAME_CAMERA, *CONTROLS, *PARTIALLED.values())


@dataclass(frozen=True)
class Score:
    """One row of `alignment.json`; `via` names the second of three agents."""

    x: str
    y: str
    row: str
    split: str
    method: str = ""
    back: str = ""
    via: str = ""
    seed: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Latents:
    """One agent's latents `z` f32[N, D] of all states, with the states' ids and splits [N]."""

    z: np.ndarray
    state_ids: np.ndarray
    splits: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class RunData:
    """A run's results.

    Attributes:
        name: Of the experiment, or of the folder.
        config: `config.json`, the experiment.
        versions: `environment.json`: libraries and hardware.
        train: Training lines of `metrics.jsonl`, by step.
        evals: Evaluation lines of `metrics.jsonl`, by step.
        scores: Rows of `alignment.json`.
        latents: Agent -> its latents.
        performance: `performance.json`: hardware, FLOPs, memory.
    """

    name: str
    config: Mapping[str, Any]
    versions: Mapping[str, Any]
    train: Sequence[Mapping[str, Any]]
    evals: Sequence[Mapping[str, Any]]
    scores: Sequence[Score]
    latents: Mapping[int, Latents]
    performance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def agents(self) -> list[int]:
        """Agents that have metrics or latents, in order."""
        seen = {int(m[1]) for line in (*self.train, *self.evals) for m in map(_AGENT, line) if m}
        return sorted(seen | set(self.latents))

    @property
    def beside_paper(self) -> bool:
        """True if the paper's smallNORB numbers may stand beside the run's.

        They may for smallNORB itself and for the toys, which are rendered in its manner.
        """
        data = self.config.get("data")
        return isinstance(data, dict) and data.get("kind") in ("smallnorb", "toys")

    def camera(self, agent: int) -> int:
        """Camera of an agent; the agent's number if the config names none."""
        agents = self.config.get("agents")
        cameras = agents.get("cameras", ()) if isinstance(agents, dict) else ()
        return int(cameras[agent]) if agent < len(cameras) else agent


_AGENT = re.compile(r"agent_(\d+)/").match
_PAIR = re.compile(r"pair_(\d+)_(\d+)/(\w+)/r2$").match


def _read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object; {} if the file is missing or has other contents."""
    try:
        document = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return {}
    return document if isinstance(document, dict) else {}


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Reads JSON lines, sorted by step, without those that are damaged."""
    try:
        lines = [line for _, line in json_lines(path) if line]
    except OSError:
        return []
    return sorted(lines, key=lambda line: line["step"])


def _number(value: Any) -> float:
    """Returns a JSON value as a float; NaN for null and text."""
    return float(value) if isinstance(value, int | float) else math.nan


_NAMES = ("x", "y", "row", "split", "method", "back", "via")


def _scores(path: Path) -> list[Score]:
    rows = _read_json(path).get("rows", ())
    return [
        Score(
            **{key: str(row.get(key, "")) for key in _NAMES},
            seed=row.get("seed", 0),
            metrics={key: _number(value) for key, value in (row.get("metrics") or {}).items()},
        )
        for row in rows
    ]


def _latents(path: Path) -> Latents | None:
    try:
        with open_archive(path) as archive:
            names = {s: f"split_{s}" for s in SPLITS}
            splits = {s: archive.read(n) for s, n in names.items() if n in archive.members}
            return Latents(archive.read("latents"), archive.read("state_ids"), splits)
    except (OSError, EOFError, ValueError, *DAMAGED_ARCHIVE) as error:
        logging.warning("%s is left out of the report: %s", path, error)
        return None


def read_run(workdir: Path) -> RunData:
    """Reads a workdir; missing and unreadable files read as empty."""
    config = _read_json(workdir / "config.json")
    lines = _read_lines(workdir / "metrics.jsonl")
    files = {
        int(p.stem[6:]): p for p in workdir.glob("latents/agent_*.npz") if p.stem[6:].isdigit()
    }
    latents = {agent: z for agent in sorted(files) if (z := _latents(files[agent]))}
    return RunData(
        name=str(config.get("name") or workdir.resolve().name),
        config=config,
        versions=_read_json(workdir / "environment.json"),
        train=[line for line in lines if line.get("kind") == "train"],
        evals=[line for line in lines if line.get("kind") == "eval"],
        scores=_scores(workdir / "alignment.json"),
        latents=latents,
        performance=_read_json(workdir / "performance.json"),
    )


def curve(lines: Sequence[Mapping[str, Any]], key: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns (steps, values) of one metric, without the lines that lack it."""
    points = [(line["step"], _number(line[key])) for line in lines if key in line]
    steps, values = np.array(points, np.float64).reshape(-1, 2).T
    return steps, values


def curve_pairs(run: RunData, split: str) -> list[tuple[int, int]]:
    """Returns the pairs of agents whose R2 was logged during training, on one split."""
    matches = {m for line in run.evals for m in map(_PAIR, line) if m}
    return sorted({(int(m[1]), int(m[2])) for m in matches if m[3] == split})


def pick(run: RunData, row: str, split: str, back: str = "") -> list[Score]:
    """Returns the scores of a row on a split, one for each pair (or triple), method and seed.

    Args:
        run: The run.
        row: Name of the row.
        split: "instance" or "state".
        back: The back map; "" takes the first in the file, which is that of equation (5). Metrics
            of the forward map are the same for all back maps.
    """
    chosen: dict[tuple[Any, ...], Score] = {}
    for score in run.scores:
        if score.row == row and score.split == split and (not back or score.back == back):
            chosen.setdefault((score.x, score.via, score.y, score.method, score.seed), score)
    return list(chosen.values())


def mean(scores: Sequence[Score], key: str) -> Interval | float | None:
    """Returns a metric of one score, or its mean over several with the lowest and highest.

    None if no score has the metric; NaN if a score is NaN.
    """
    values = [score.metrics[key] for score in scores if key in score.metrics]
    if not values:
        return None
    if len(values) == 1:
        return values[0]
    return Interval(math.fsum(values) / len(values), min(values), max(values))


def value(cell: Interval | float | None) -> float:
    """Returns the number in a cell that `mean` returned, NaN for None."""
    if isinstance(cell, Interval):
        return cell.value
    return math.nan if cell is None else cell


def best_control(run: RunData, split: str) -> tuple[str, float] | None:
    """Returns the control with the highest mean R2, and that mean; None without controls."""
    means = {row: value(mean(pick(run, row, split), "r2")) for row in CONTROLS}
    finite = {row: number for row, number in means.items() if math.isfinite(number)}
    return max(finite.items(), key=lambda item: item[1]) if finite else None


def main_pair(run: RunData) -> tuple[int, int] | None:
    """Returns the first trained pair that has latents, else the first two agents that have."""
    for score in run.scores:
        x, y = (re.fullmatch(r"agent_(\d+)", name) for name in (score.x, score.y))
        if score.row == RowName.TRAINED and x and y:
            pair = int(x[1]), int(y[1])
            if set(pair) <= set(run.latents):
                return pair
    agents = sorted(run.latents)
    return (agents[0], agents[1]) if len(agents) > 1 else None
