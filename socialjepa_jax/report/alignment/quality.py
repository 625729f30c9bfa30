"""Tables of the quality of the map: common spaces, other maps, and map-free similarities."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from socialjepa_jax.alignment import resampling
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.alignment.neighbourhoods import chance_corrected_nos
from socialjepa_jax.alignment.study.scores import NO_NEWS
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.report import html, tables

_METRICS = (
    tables.Column("r2", "R²", best="max", help="share of the variance of y explained, pooled"),
    tables.Column("r2_raw", "R², raw", best="max", help="the same in raw units of y"),
    tables.Column("dsc", "DSC", best="max", help="rank correlation of pairwise distances"),
    tables.Column("nos@10", "NOS@10", best="min", help="1 - share of common 10 neighbours"),
    tables.Column("nos_corrected", "… / chance", best="min", help="1 is chance"),
    tables.Column("cka_debiased", "CKA, debiased", best="max", help="0 is chance, 1 is alike"),
)
_OF_FORWARD = ("r2", "r2_raw")  # measures of the forward map alone
_BACKS = {
    "none": ("no map", "x against y, standardised: what W has to beat"),
    "forward": ("forward", "W x against y"),
    "regression": ("back by regression", "the reverse regression of y against x"),
    "inverse": ("back by the inverse", "W⁻¹ y against x, the paper's eq. (5)"),
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


def quality_section(study: Study) -> html.Html:
    """Returns the tables of all common spaces, of other maps, and of map-free similarities."""
    rows = [_space_row(study, back) for back in _BACKS]
    anchors, values, bounds = study.relative
    rows.append(
        tables.Row(
            "relative representations",
            _cells(values, bounds, study.num_resampled),
            note=f"cosines of each raw space to {anchors} common items, no map",
        )
    )
    if len(study.null):
        cells = _null_cells(study, "forward")
        rows.append(tables.Row("shuffled pairs", cells, ranked=False, note="forward, refitted"))
    bound = (
        f" DSC does not come from all distances; its error is below {study.dsc_bound:.1g}."
        if study.dsc_bound
        else ""
    )
    table = tables.Table(
        _METRICS,
        rows,
        caption="Small print: 95 % intervals over groups; for shuffled pairs, mean and range of "
        f"{len(study.null)} fits. {_UNITS[study.settings.standardize]} The words are explained "
        f"at the end of the page.{bound}",
    )
    shuffled = tables.Table(
        _METRICS[len(_OF_FORWARD) :],
        [tables.Row(_BACKS[back][0], _null_cells(study, back), ranked=False) for back in _BACKS],
        caption="Mean and range over permutations of the pairs.",
    )
    folded = html.folded("The same numbers with shuffled pairs", tables.to_html(shuffled))
    return html.join(
        tables.to_html(table),
        folded if len(study.null) else "",
        _references(study),
        _similarities(study),
    )


def _space_row(study: Study, back: str) -> tables.Row:
    label, note = _BACKS[back]
    cells = _cells(study.metrics[back], study.intervals[back], study.num_test)
    if back != "forward":
        cells = {key: cell for key, cell in cells.items() if key not in _OF_FORWARD}
    return tables.Row(label, cells, note=note)


def _cells(
    metrics: Mapping[str, float], bounds: Mapping[str, resampling.Interval], count: int
) -> dict[str, tables.Cell]:
    cells: dict[str, tables.Cell] = {
        column.key: interval_cell(metrics[column.key], bounds.get(column.key))
        for column in _METRICS
        if column.key in metrics
    }
    if "nos@10" in metrics:
        cells["nos_corrected"] = chance_corrected_nos(metrics["nos@10"], 10, count)
    return cells


def interval_cell(value: float, bounds: resampling.Interval | None) -> tables.Cell:
    """Returns a cell with a value and its interval, if there is one."""
    if bounds is None or not bounds.known:
        return value
    return tables.Interval(value, bounds.low, bounds.high)


def _mean_and_range(values: Float64) -> tables.Interval:
    return tables.Interval(float(np.mean(values)), float(np.min(values)), float(np.max(values)))


def _null_cells(study: Study, back: str) -> dict[str, tables.Cell]:
    """Summarises the null of a common space; NOS is scaled to the number of measured rows."""
    samples = study.null.samples
    names = {**{column.key: f"{back}/{column.key}" for column in _METRICS}, "r2": "r2"}
    shown = {key: samples[name] for key, name in names.items() if name in samples}
    if not len(study.null):
        return {}
    if "nos@10" in shown:
        corrected = chance_corrected_nos(1.0, 10, study.num_resampled) * shown["nos@10"]
        shown["nos_corrected"] = corrected
        shown["nos@10"] = corrected / chance_corrected_nos(1.0, 10, study.num_test)
    return {key: _mean_and_range(values) for key, values in shown.items()}


def _references(study: Study) -> html.Html:
    columns = (
        tables.Column("r2", "R²", best="max"),
        tables.Column("apart", "less this map", help="paired difference, 95 % interval"),
    )
    rows = []
    first = next(iter(study.references.values()))
    for name, reference in study.references.items():
        cells = {"r2": interval_cell(reference.r2, reference.interval)}
        if reference is not first:
            cells["apart"] = interval_cell(reference.r2 - first.r2, reference.difference)
        rows.append(tables.Row(name, cells))
    if study.ceiling > first.r2:  # a lower ceiling shows that groups are not repeats of one state
        note = "what differences within a group leave to be explained, if groups are repeats"
        rows.append(tables.Row("noise ceiling", {"r2": study.ceiling}, ranked=False, note=note))
    caption = f"Other ways to predict y from x, on {study.num_resampled:,} held-out pairs."
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
            cells: dict[str, tables.Cell] = {"value": study.similarity[key]}
            if len(study.null):
                cells["null"] = _mean_and_range(study.null.samples[key])
                cells["p"] = study.null.p_value(key)
            rows.append(tables.Row(label, cells, note=note))
    ranks = " and ".join(f"{value:.1f} of {name}" for name, value in study.ranks.items())
    caption = (
        f"Similarity without any map, on {study.num_resampled:,} held-out pairs. Few items or a "
        "low rank raise all of these, which is why the shuffled value stands beside; p is at least "
        f"{1 / (1 + len(study.null)):.3f} with {len(study.null)} shuffles. Effective rank: {ranks}."
        f"{_left_out(study)}"
    )
    return tables.to_html(tables.Table(columns, rows, caption=caption))


def _left_out(study: Study) -> str:
    """Says which measures of the page are not shown, and why."""
    named = [label for key, (label, _) in _SIMILARITIES.items() if key in study.without_news]
    if study.num_test > 10 and "nos@10" not in study.metrics["forward"]:
        named.append("NOS@10")
    if not named:
        return ""
    return (
        f" Not shown, since shuffled pairs come within {1 - NO_NEWS:.2f} of the best value with so "
        f"few items: {', '.join(named)}."
    )
