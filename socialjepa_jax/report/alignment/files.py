"""What the alignment tool writes for programs: alignment.json, items.csv and the map itself."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.resampling import Interval, Null
from socialjepa_jax.alignment.study import export
from socialjepa_jax.alignment.study.inputs import Spaces
from socialjepa_jax.alignment.study.intervals import some, squared_errors
from socialjepa_jax.alignment.study.spaces import Comparison
from socialjepa_jax.alignment.study.study import TRAIN_ROWS, Settings, Study
from socialjepa_jax.collaboration.scoring import Scores, probe_matrix, score_probes
from socialjepa_jax.records import write_json

Probes = Mapping[str, Scores]


def probe_scores(study: Study, spaces: Spaces) -> dict[str, Scores]:
    """`score_probes` on the labels, by the rows that the study has fitted and measured."""
    if spaces.labels is None:
        return {}
    x, y = spaces.latents
    parts = [
        (np.asarray(x[rows], np.float64), np.asarray(y[rows], np.float64), spaces.labels[rows])
        for rows in (study.probe_rows, study.test_rows)
    ]
    groups = None if spaces.groups is None else spaces.groups[study.probe_rows]
    return score_probes(study.linear_map, *parts, groups=groups)


def write_pair(folder: Path, study: Study, spaces: Spaces, probes: Probes) -> None:
    """Writes the map in every format, and what was found of it as JSON and CSV."""
    linear_map = study.linear_map
    linear_map.save(folder / "map.npz")
    study.novelty.save(folder / "novelty.npz")
    export.to_safetensors(linear_map, folder / "map.safetensors")
    export.to_onnx(linear_map, folder / "map.onnx")
    (folder / "apply_map.py").write_text(export.NUMPY_SNIPPET, encoding="utf-8")
    write_json(folder / "alignment.json", _pair_json(study, spaces.names, probes))
    _write_items(folder / "items.csv", study, spaces)


def _pair_json(study: Study, names: tuple[str, ...], probes: Probes) -> dict[str, Any]:
    common = {"x": names[0], "y": names[1], "split": "state", "seed": study.settings.seed}
    common["method"] = study.linear_map.method
    rows = [
        {
            **common,
            "row": "given",
            "back": back,
            "metrics": metrics,
            "intervals": _bounds(study.intervals[back]),
            "differences_to_none": _bounds(study.differences[back]),
        }
        for back, metrics in study.metrics.items()
    ]
    for back in study.metrics:
        mean = {key: float(np.nanmean(study.null.samples[key])) for key in ("mse", "r2")}
        found = _null_of(study.null, f"{back}/")
        mean |= {key: entry["mean"] for key, entry in found.items()}
        rows.append({**common, "row": "mismatched", "back": back, "metrics": mean})
    return {
        "schema": 1,
        "rows": rows,
        "settings": {**asdict(study.settings), "ridge": study.linear_map.ridge},
        "null": _null_of(study.null, ""),
        "null_rows": study.few,
        "similarity": study.similarity,
        "effective_rank": study.ranks,
        "references": {name: asdict(found) for name, found in study.references.items()},
        "relative": {"anchors": study.relative[0], **study.relative[1]},
        "retrieval": {
            name: {**found.scores, "intervals": _bounds(found.intervals)}
            for name, found in study.searches.items()
        },
        "probes": probes,
        "pair_budget": study.budget,
        "pair_noise": study.noise,
        "group_r2": study.group_r2,
        "noise_ceiling": study.ceiling,
    }


def _bounds(intervals: Mapping[str, Interval]) -> dict[str, list[float]]:
    return {key: [bound.low, bound.high] for key, bound in intervals.items()}


def _null_of(null: Null, prefix: str) -> dict[str, dict[str, float]]:
    """Observed value, null mean and range of every metric whose name starts with the prefix."""
    return {
        key.removeprefix(prefix): {
            "observed": null.observed[key],
            "mean": float(np.nanmean(values)),
            "low": float(np.nanmin(values)),
            "high": float(np.nanmax(values)),
        }
        for key, values in null.samples.items()
        if key.startswith(prefix)
    }


def _write_items(path: Path, study: Study, spaces: Spaces) -> None:
    """One line a measured row, the worst aligned first."""
    ranks = {name: found.ranks for name, found in study.searches.items()}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        head = ["item", "row", "squared_error", "novelty", *(f"rank: {name}" for name in ranks)]
        writer.writerow(head)
        for i in np.argsort(-study.row_errors, kind="stable"):
            row = study.test_rows[i]
            writer.writerow(
                [
                    spaces.items[row],
                    row,
                    f"{study.row_errors[i]:.6g}",
                    f"{study.novelty_scores[i]:.4f}",
                    *(f"{values[i]:g}" for values in ranks.values()),
                ]
            )


def space_probes(found: Comparison, spaces: Spaces) -> Float64 | None:
    """`probe_matrix` on the labels, if there are any."""
    if spaces.labels is None:
        return None
    train = some(found.train, TRAIN_ROWS, 0)
    return probe_matrix(spaces.latents, found.maps, spaces.labels, train, found.test)


def write_spaces(
    folder: Path, found: Comparison, spaces: Spaces, settings: Settings, probes: Float64 | None
) -> None:
    """Writes alignment.json, items.csv, a map for every pair and for every space into the hub."""
    names = spaces.names
    rows = []
    for (i, j), metrics in found.metrics.items():
        rows.append(
            {
                "x": names[i],
                "y": names[j],
                "row": "given",
                "split": "state",
                "method": found.maps[i, j].method,
                "back": "forward",
                "seed": settings.seed,
                "metrics": metrics,
                "intervals": {"r2": [found.low[i, j], found.high[i, j]]},
                "null_r2_max": found.null[i, j],
                "hub_r2": found.hub_r2[i, j],
            }
        )
        found.maps[i, j].save(folder / f"map_{i + 1}_{j + 1}.npz")
    for i, linear_map in enumerate(found.hub.maps):
        linear_map.save(folder / f"hub_{i + 1}.npz")
    shared = {"names": names, "cka_debiased": found.cka, "hub_objective": found.hub.objective}
    shared["probes"] = probes
    errors = {
        f"{names[i]} -> {names[j]}": squared_errors(
            linear_map, (spaces.latents[i][found.test], spaces.latents[j][found.test])
        )
        / len(linear_map.y_mean)
        for (i, j), linear_map in found.maps.items()
    }
    with (folder / "items.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "row", *(f"squared_error: {name}" for name in errors)])
        for k, row in enumerate(found.test):
            values = (f"{error[k]:.6g}" for error in errors.values())
            writer.writerow([spaces.items[row], row, *values])
    write_json(folder / "alignment.json", {"schema": 1, "rows": rows, **shared})
