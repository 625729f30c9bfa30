"""The tables of the alignment tool's report."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from socialjepa_jax.alignment import neighbourhoods, resampling
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.collaboration.scoring import Scores
from socialjepa_jax.report import html, tables

_METRICS = (
    tables.Column("r2", "R²", best="max", help="share of the variance of y explained, pooled"),
    tables.Column("dsc", "DSC", best="max", help="rank correlation of pairwise distances"),
    tables.Column("nos@10", "NOS@10", best="min", help="1 - share of common 10 neighbours"),
    tables.Column("nos_corrected", "NOS@10 / chance", best="min", help="1 is chance"),
    tables.Column("cka_debiased", "CKA, debiased", best="max", help="0 is chance, 1 is alike"),
)
_BACKS = {
    "none": ("no map", "x against y, standardised: what W has to beat"),
    "forward": ("forward", "W x against y"),
    "regression": ("back by regression", "the reverse regression of y against x"),
    "inverse": ("back by the inverse", "W⁻¹ y against x, the paper's eq. (5)"),
}
_SEARCHES = {
    "x -> y, forward": ("x → y, forward", "items of x, mapped, searched in an index of y"),
    "y -> x, regression": (
        "y → x, regression",
        "new queries of y searched in an old index of x, without re-indexing",
    ),
    "y -> x, inverse": ("y → x, inverse", "the same by W⁻¹"),
}
_PROBES = {
    "own": "x, its own probe (before)",
    "raw": "y, the probe of x as it is",
    "regression": "y, the probe of x carried by the reverse regression (after)",
    "inverse": "y, the probe of x carried by W⁻¹ (after)",
    "procrustes": "y, the probe of x carried by the rotation in W (after)",
    "oracle": "y, a probe trained on y (oracle)",
    "frequent": "always the most frequent class",
}
_SIMILARITIES = {
    "r2_whitened": ("whitened R²", "mean squared canonical correlation"),
    "svcca": ("SVCCA", "mean canonical correlation of the components with 99 % of the variance"),
    "pwcca": ("PWCCA", "canonical correlations weighted by what they explain of x"),
    "shape_correlation": ("shape", "cosine of the two shapes after the best rotation (Bures)"),
    "mutual_knn@10": ("mutual 10-NN", "share of common 10 nearest neighbours by cosine"),
    "cknna@10": ("CKNNA@10", "CKA of common 10 nearest neighbours"),
}
_UNITS = {
    "full": "Each feature is in units of its standard deviation (--standardize=center keeps its "
    "scale, which principal components want).",
    "center": "Features are centred and keep their scale.",
}


def numbers(study: Study) -> html.Html:
    """How well the map fits: every common space, other maps, similarity without any."""
    rows = [tables.Row(*row[:2], note=row[2]) for row in _space_rows(study)]
    anchors, values, bounds = study.relative
    rows.append(
        tables.Row(
            "relative representations",
            _cells(values, bounds, study.few),
            note=f"cosines of each raw space to {anchors} common items, no map",
        )
    )
    rows.append(
        tables.Row(
            "shuffled pairs", _null_cells(study, "forward"), ranked=False, note="forward, refitted"
        )
    )
    exact = (
        ""
        if not study.dsc_bound
        else f" DSC comes from a histogram of distances; its error is below {study.dsc_bound:.1g}."
    )
    table = tables.Table(
        _METRICS,
        rows,
        caption="Small print: 95 % intervals over groups; for shuffled pairs, mean and range of "
        f"{len(study.null)} fits. {_UNITS[study.settings.standardize]} The words are explained "
        f"at the end of the page.{exact}",
    )
    shuffled = tables.Table(
        _METRICS[1:],
        [tables.Row(_BACKS[back][0], _null_cells(study, back), ranked=False) for back in _BACKS],
        caption="Mean and range over permutations of the pairs.",
    )
    return html.join(
        tables.to_html(table),
        html.folded("The same numbers with shuffled pairs", tables.to_html(shuffled)),
        _references(study),
        _similarities(study),
    )


def _space_rows(study: Study) -> list[tuple[str, dict[str, tables.Cell], str]]:
    rows = []
    for back, (label, note) in _BACKS.items():
        cells = _cells(study.metrics[back], study.intervals[back], len(study.test_rows))
        if back != "forward":
            cells.pop("r2", None)  # of the forward map alone
        rows.append((label, cells, note))
    return rows


def _cells(
    metrics: Mapping[str, float], bounds: Mapping[str, resampling.Interval], count: int
) -> dict[str, tables.Cell]:
    cells: dict[str, tables.Cell] = {}
    for key in (column.key for column in _METRICS if column.key in metrics):
        bound = bounds.get(key)
        value = metrics[key]
        cells[key] = tables.Interval(value, bound.low, bound.high) if bound else value
    if "nos@10" in metrics:
        cells["nos_corrected"] = neighbourhoods.chance_corrected_nos(metrics["nos@10"], 10, count)
    return cells


def _null_cells(study: Study, back: str) -> dict[str, tables.Cell]:
    """Mean and range under shuffling, NOS brought to the number of measured rows."""
    samples = study.null.samples
    names = {"r2": "r2", **{c.key: f"{back}/{c.key}" for c in _METRICS[1:]}}
    found = {key: samples[name] for key, name in names.items() if name in samples}
    if "nos@10" in found:
        corrected = neighbourhoods.chance_corrected_nos(1.0, 10, study.few) * found["nos@10"]
        found["nos_corrected"] = corrected
        found["nos@10"] = corrected / neighbourhoods.chance_corrected_nos(
            1.0, 10, len(study.test_rows)
        )
    return {
        key: tables.Interval(float(np.mean(v)), float(np.min(v)), float(np.max(v)))
        for key, v in found.items()
    }


def _references(study: Study) -> html.Html:
    columns = (
        tables.Column("r2", "R²", best="max"),
        tables.Column("apart", "less this map", help="paired difference, 95 % interval"),
    )
    rows = []
    first = next(iter(study.references.values()))
    for name, found in study.references.items():
        cells: dict[str, tables.Cell] = {
            "r2": tables.Interval(found.r2, found.interval.low, found.interval.high)
        }
        if found is not first:
            bound = found.difference
            cells["apart"] = tables.Interval(found.r2 - first.r2, bound.low, bound.high)
        rows.append(tables.Row(name, cells))
    if study.ceiling > first.r2:  # else the groups are no repeats of one state
        note = "what differences within a group leave to be explained, if groups are repeats"
        rows.append(tables.Row("noise ceiling", {"r2": study.ceiling}, ranked=False, note=note))
    caption = f"Other ways to predict y from x, on {study.few:,} held-out pairs."
    return tables.to_html(tables.Table(columns, rows, caption=caption))


def _similarities(study: Study) -> html.Html:
    columns = (
        tables.Column("value", "value"),
        tables.Column("null", "shuffled"),
        tables.Column("p", "p", help="chance of as large a value with shuffled pairs"),
    )
    rows = []
    for key, (label, note) in _SIMILARITIES.items():
        if key in study.similarity:
            v = study.null.samples[key]
            null = tables.Interval(float(np.mean(v)), float(np.min(v)), float(np.max(v)))
            cells: dict[str, tables.Cell] = {
                "value": study.similarity[key],
                "null": null,
                "p": study.null.p_value(key),
            }
            rows.append(tables.Row(label, cells, note=note))
    ranks = " and ".join(f"{value:.1f} of {name}" for name, value in study.ranks.items())
    caption = (
        f"Similarity without any map, on {study.few:,} held-out pairs. Few items or a low rank "
        f"raise all of these, which is why the shuffled value stands beside; p is at least "
        f"{1 / (1 + len(study.null)):.3f} with {len(study.null)} shuffles. Effective rank: {ranks}."
    )
    return tables.to_html(tables.Table(columns, rows, caption=caption))


def uses(study: Study, probes: Mapping[str, Scores]) -> html.Html:
    """What the map can be used for: search, probes, and a word on unfamiliar queries."""
    columns = [
        tables.Column("recall@1", "recall@1", best="max", help="found first"),
        tables.Column("recall@10", "recall@10", best="max", help="found among the first ten"),
        tables.Column("mrr", "MRR", best="max", help="mean of 1 / rank"),
        tables.Column("median_rank", "median rank", digits=1, best="min"),
    ]
    rows = []
    for name, found in study.searches.items():
        cells: dict[str, tables.Cell] = dict(found.scores)
        for key, bound in found.intervals.items():
            cells[key] = tables.Interval(found.scores[key], bound.low, bound.high)
        label, note = _SEARCHES[name]
        rows.append(tables.Row(label, cells, note=note))
    m = len(study.test_rows)
    mrr = float(np.mean(1 / np.arange(1, m + 1)))
    chance = {"recall@1": 1 / m, "recall@10": min(1.0, 10 / m), "median_rank": (m + 1) / 2}
    rows.append(tables.Row("chance", {**chance, "mrr": mrr}, ranked=False))
    caption = (
        f"Search: every held-out item looked for among the {m:,} held-out items of the other "
        "space; its own partner is the right answer."
    )
    parts = [tables.to_html(tables.Table(columns, rows, caption=caption))]
    if probes:
        parts.append(_probes(probes))
    far = float(np.mean(study.novelty_scores >= 0.99))
    parts.append(
        html.paragraph(
            f"Unfamiliar queries: {far:.1%} of the held-out items of x lie farther from the "
            "training items' mean (by Mahalanobis distance) than 99 % of these do; 1 % is "
            "expected. apply_map.py scores new queries; items.csv holds the scores of these."
        )
    )
    return html.join(*parts)


def _probes(probes: Mapping[str, Scores]) -> html.Html:
    columns = (
        tables.Column("logistic", "logistic", best="max", help="softmax regression"),
        tables.Column("ridge", "ridge", best="max", help="ridge regression of one-hot labels"),
    )
    rows = [
        tables.Row(_PROBES[name], dict(probes[name]), ranked=name not in ("own", "frequent"))
        for name in _PROBES
        if name in probes
    ]
    caption = (
        "Labels: accuracy on held-out items of a linear classifier trained on x, used on y "
        "without a label of y."
    )
    return tables.to_html(tables.Table(columns, rows, caption=caption))
