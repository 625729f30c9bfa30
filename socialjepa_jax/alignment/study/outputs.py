"""Files of the alignment tool for other programs: alignment.json, items.csv and the maps."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from socialjepa_jax.alignment.fitting import fit
from socialjepa_jax.alignment.migration.ceilings import Ceilings
from socialjepa_jax.alignment.migration.decision import Decision, Probes
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.permutation import Null
from socialjepa_jax.alignment.study import export
from socialjepa_jax.alignment.study.inputs import Spaces
from socialjepa_jax.alignment.study.intervals import Bounds
from socialjepa_jax.alignment.study.novelty import save_novelty
from socialjepa_jax.alignment.study.settings import Settings
from socialjepa_jax.alignment.study.spaces import Comparison
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.records import RowName, write_json

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_pair(
    folder: Path, study: Study, spaces: Spaces, probes: Probes, decision: Decision
) -> None:
    """Writes the map of a study in every format, alignment.json and items.csv."""
    linear_map, settings = study.linear_map, study.settings
    if settings.all_pairs:
        linear_map = fit(*spaces.latents, **settings.refit(linear_map))
    linear_map.save(folder / "map.npz")
    save_novelty(study.novelty, folder / "novelty.npz")
    export.to_safetensors(linear_map, folder / "map.safetensors")
    export.to_onnx(linear_map, folder / "map.onnx")
    (folder / "apply_map.py").write_text(export.NUMPY_SNIPPET, encoding="utf-8")
    write_json(folder / "alignment.json", _pair_json(study, spaces, probes, decision))
    _write_pair_items(folder / "items.csv", study, spaces)


def error_name(similarity: str) -> str:
    """Returns the name of `Study.row_errors` in tables."""
    return "cosine_distance" if similarity == "cosine" else "raw_squared_error"


def write_spaces(
    folder: Path, comparison: Comparison, spaces: Spaces, settings: Settings, probes: Float64 | None
) -> None:
    """Writes alignment.json, items.csv, and the maps of every pair and of every space to the hub.

    Args:
        folder: to write to.
        comparison: results.
        spaces: the compared spaces.
        settings: of the comparison.
        probes: accuracies [K, K], or None without labels.
    """
    for (i, j), pair in comparison.pairs.items():
        pair.linear_map.save(folder / f"map_{i + 1}_{j + 1}.npz")
    for i, linear_map in enumerate(comparison.hub.maps):
        linear_map.save(folder / f"hub_{i + 1}.npz")
    document = _spaces_json(comparison, spaces, settings, probes)
    write_json(folder / "alignment.json", document)
    _write_spaces_items(folder / "items.csv", comparison, spaces)


def _pair_json(study: Study, spaces: Spaces, probes: Probes, decision: Decision) -> dict[str, Any]:
    names = spaces.names
    common = {"x": names[0], "y": names[1], "split": "state", "seed": study.settings.seed}
    common["method"] = study.linear_map.method
    rows = [
        {
            **common,
            "row": RowName.GIVEN,
            "back": back,
            "metrics": metrics,
            "intervals": _bounds(study.intervals[back]),
            "differences_to_none": _bounds(study.differences[back]),
        }
        for back, metrics in study.metrics.items()
    ]
    for back in study.metrics if len(study.null) else ():
        mean = {key: float(np.nanmean(study.null.samples[key])) for key in ("mse", "r2")}
        mean |= {key: entry["mean"] for key, entry in _null_json(study.null, f"{back}/").items()}
        rows.append({**common, "row": RowName.MISMATCHED, "back": back, "metrics": mean})
    return {
        "schema": 2,
        "verdict": asdict(decision),
        "rows": rows,
        "input_rows": [asdict(count) for count in spaces.counts],
        "settings": {**asdict(study.settings), "ridge": study.linear_map.ridge},
        "null": _null_json(study.null),
        "null_rows": study.num_resampled,
        "similarity": study.similarity,
        "without_news": study.without_news,
        "effective_rank": study.ranks,
        "references": {name: asdict(entry) for name, entry in study.references.items()},
        "relative": {"anchors": study.relative[0], **study.relative[1]},
        **_queries_json(study.ceilings),
        "predicted_retention": study.prediction and asdict(study.prediction),
        "retention_curve": [asdict(point) for point in study.curve],
        "self_retrieval": {
            name: {**search.scores, "intervals": _bounds(search.intervals)}
            for name, search in study.searches.items()
        },
        "overlap@10": {name: asdict(overlap) for name, overlap in study.overlap.items()},
        "storage": study.storage,
        "faint_features": {name: columns.tolist() for name, columns in study.faint.items()},
        "probes": probes,
        "pair_budget": study.budget,
        "pair_noise": study.noise,
        "group_r2": study.group_r2,
        "noise_ceiling": study.ceiling,
    }


def _queries_json(ceilings: Ceilings | None) -> dict[str, Any]:
    if ceilings is None:
        return {"retrieval": []}
    ways = [
        {
            "name": way.name,
            **way.scores,
            "retention": way.retention,
            "low": way.interval.low,
            "high": way.interval.high,
            "intervals": _bounds(way.intervals),
        }
        for way in ceilings.ways.values()
    ]
    gain = {"value": ceilings.gain, **asdict(ceilings.gain_interval)}
    counts = {"measured": ceilings.number, "left_out": ceilings.left_out}
    queries = {**counts, "documents": ceilings.documents, "gain_of_re_embedding": gain}
    return {"retrieval": ways, "queries": queries}


def _bounds(intervals: Bounds) -> dict[str, list[float]]:
    return {key: [bound.low, bound.high] for key, bound in intervals.items()}


def _null_json(null: Null, prefix: str = "") -> dict[str, dict[str, float]]:
    """Summarises every metric whose name starts with the prefix, under the rest of its name."""
    return {
        key.removeprefix(prefix): {
            "observed": null.observed[key],
            "mean": float(np.nanmean(values)),
            "low": float(np.nanmin(values)),
            "high": float(np.nanmax(values)),
        }
        for key, values in null.samples.items()
        if key.startswith(prefix) and len(values)
    }


def _spaces_json(
    comparison: Comparison, spaces: Spaces, settings: Settings, probes: Float64 | None
) -> dict[str, Any]:
    names = spaces.names
    rows = [
        {
            "x": names[i],
            "y": names[j],
            "row": RowName.GIVEN,
            "split": "state",
            "method": pair.linear_map.method,
            "back": "forward",
            "seed": settings.seed,
            "metrics": pair.metrics,
            "intervals": _bounds({"r2": pair.interval}),
            "null_r2_max": pair.null,
            "hub_r2": pair.hub_r2,
        }
        for (i, j), pair in comparison.pairs.items()
    ]
    return {
        "schema": 2,
        "rows": rows,
        "input_rows": [asdict(count) for count in spaces.counts],
        "names": names,
        "cka_debiased": comparison.cka,
        "hub_objective": comparison.hub.objective,
        "probes": probes,
    }


def _write_pair_items(path: Path, study: Study, spaces: Spaces) -> None:
    """Writes one line per measured row, in descending order of error in the units of the search."""
    columns = {
        error_name(study.settings.similarity): (study.row_errors, ".6g"),
        "squared_error": (study.squared_errors, ".6g"),
        "novelty_x": (study.novelty_scores["x"], ".4f"),
        "novelty_y": (study.novelty_scores["y"], ".4f"),
    }
    columns |= {f"rank: {name}": (s.ranks, "g") for name, s in study.searches.items()}
    lines = []
    for i in np.argsort(-study.row_errors, kind="stable"):
        row = study.split.test[i]
        values = (format(values[i], digits) for values, digits in columns.values())
        lines.append([_cell(spaces.items[row]), row, *values])
    _write_csv(path, ["item", "row", *columns], lines)


def _write_spaces_items(path: Path, comparison: Comparison, spaces: Spaces) -> None:
    """Writes one line per measured row, with its error under every map."""
    rows, names = comparison.split.test, spaces.names
    errors = {
        f"squared_error: {names[i]} -> {names[j]}": pair.linear_map.squared_errors(
            spaces.latents[i][rows], spaces.latents[j][rows]
        )
        / len(pair.linear_map.y_mean)
        for (i, j), pair in comparison.pairs.items()
    }
    lines = (
        [_cell(spaces.items[row]), row, *(f"{error[k]:.6g}" for error in errors.values())]
        for k, row in enumerate(rows)
    )
    _write_csv(path, ["item", "row", *errors], lines)


def _cell(item: Any) -> Any:
    """Returns the name of an item for a table; spreadsheets take text after a quote for text.

    Text that begins with one of these characters is a formula to them, and can run commands.
    """
    return f"'{item}" if str(item).startswith(_FORMULA) and isinstance(item, str) else item


def _write_csv(path: Path, head: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(lines)
