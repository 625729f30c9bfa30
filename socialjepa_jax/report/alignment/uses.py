"""Tables of the uses of the map: search, stored copies, probes, and recognition of novel items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from socialjepa_jax.alignment.migration.ceilings import Ceilings
from socialjepa_jax.alignment.migration.difficulty import Prediction
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.collaboration.scoring import Scores
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.alignment.quality import interval_cell

_SEARCHES = {
    "x -> y, forward": ("x → y, forward", "items of x, mapped, searched in an index of y"),
    "y -> x, regression": (
        "y → x, regression",
        "items of y, mapped back, searched in an index of x",
    ),
    "y -> x, inverse": ("y → x, inverse", "the same by W⁻¹"),
}
_OVERLAPS = {
    "y_back_in_x": "items of y mapped back into x",
    "y_in_x_forward": "items of y among mapped items of x",
}
WAYS = {
    "x_in_x": ("x in x", "the old index with its own queries"),
    "y_in_y": ("y in y", "full re-embedding: the ceiling"),
    "naive": ("y in x, as it is", "no map: the floor"),
    "y_back_in_x": ("y mapped back, in x", "new queries in the old index, by the regression"),
    "x_forward_in_y": ("x mapped, in y", "old queries in the new index"),
    "y_in_x_forward": ("y in mapped x", "new queries among mapped documents"),
    "mixed": ("y in a mixed index", "a random half of y, the other half mapped, unit rows"),
    "y_back_in_x_csls": ("y mapped back, hubs rated lower", "the same by CSLS"),
    "chance": ("chance", "a random order"),
    "shuffled": ("shuffled pairs", "maps fitted on shuffled pairs"),
}
REFERENCES = ("x_in_x", "y_in_y", "naive", "chance", "shuffled")  # not ways to use the map
_PROBES = {
    "own": "x, its own probe (before)",
    "raw": "y, the probe of x as it is",
    "regression": "y, the probe of x carried by the reverse regression (after)",
    "inverse": "y, the probe of x carried by W⁻¹ (after)",
    "procrustes": "y, the probe of x carried by the rotation in W (after)",
    "oracle": "y, a probe trained on y (oracle)",
    "frequent": "always the most frequent class",
}


def uses_section(study: Study, probes: Mapping[str, Scores]) -> html.Html:
    """Returns the tables of searches, copies and probes, and the share of novel items."""
    parts = [] if study.ceilings is None else [_queries(study, study.ceilings)]
    parts += [_curve(study), _self_searches(study), _copies(study)]
    if probes:
        parts.append(_probes(probes))
    far = [f"{np.mean(study.novelty_scores[name] >= 0.99):.1%} of {name}" for name in "xy"]
    parts.append(
        html.paragraph(
            f"Unfamiliar items: {far[0]} and {far[1]} held out lie farther from the training "
            "items' mean (by Mahalanobis distance) than 99 % of these do; 1 % is expected. "
            "novelty_x and novelty_y of apply_map.py score new vectors; items.csv holds the scores "
            "of these."
        )
    )
    return html.join(*parts)


def _queries(study: Study, ceilings: Ceilings) -> html.Html:
    """Returns the table of all ways to search the queries."""
    columns = [
        tables.Column("recall@1", "recall@1", best="max", help="an answer is first"),
        tables.Column("recall@10", "recall@10", best="max", help="an answer is among the first 10"),
        tables.Column("mrr", "MRR", best="max", help="mean of 1 / rank of the first answer"),
        tables.Column("ndcg@10", "nDCG@10", best="max", help="discounted gain of all answers"),
        tables.Column("retention", "retention", help="recall@1 over that of full re-embedding"),
    ]
    rows = []
    for name, way in ceilings.ways.items():
        cells = {key: interval_cell(v, way.intervals.get(key)) for key, v in way.scores.items()}
        if np.isfinite(way.retention):
            cells["retention"] = interval_cell(way.retention, way.interval)
        label, note = WAYS[name]
        rows.append(tables.Row(label, cells, ranked=name not in REFERENCES, note=note))
    left_out = ""
    if ceilings.left_out:
        left_out = (
            f" ({ceilings.left_out:,} more were left out: no answer of theirs is paired, or they "
            "would leave too few documents to fit)"
        )
    caption = (
        f"Search by {study.settings.similarity}, raw units: {ceilings.number:,} queries{left_out} "
        f"in an index of {ceilings.documents:,} documents. None of their answers was fitted. "
        f"Intervals are over queries, drawn alike for all rows.{_predicted(study.prediction)}"
    )
    return tables.to_html(tables.Table(columns, rows, corner="queries", caption=caption))


def _predicted(prediction: Prediction | None) -> str:
    if prediction is None:
        return ""
    return (
        f" Retention predicted for more queries like these {prediction.queries:,}, whose offsets "
        f"from their answers were carried to other documents: {prediction.value:.2f} (90 % "
        f"interval {prediction.low:.2f} to {prediction.high:.2f})."
    )


def _curve(study: Study) -> html.Html:
    """Returns the table of retention against difficulty."""
    columns = (
        tables.Column("recall", "y in y", help="recall@1 of full re-embedding"),
        tables.Column("retention", "retention", help="share kept by y mapped back, in x"),
    )
    rows = [
        tables.Row(f"{point.scale:g}", {"recall": point.recall, "retention": point.retention})
        for point in study.curve
    ]
    caption = (
        "Queries made from held-out documents, moved by differences between random documents, "
        "times the number on the left, in the old index after the reverse regression."
    )
    table = tables.Table(columns, rows, corner="made queries", caption=caption)
    return html.folded("Retention predicted without queries", tables.to_html(table))


def _copies(study: Study) -> html.Html:
    columns = (
        tables.Column("recall@1", "recall@1", help="items of x, mapped, find themselves in y"),
        tables.Column("r2_raw", "R², raw"),
    )
    rows = [tables.Row(f"x {name}", dict(found)) for name, found in study.storage.items()]
    caption = (
        f"What a stored copy of x loses, on {study.num_resampled:,} held-out items: float16, and "
        "int8 with 255 steps over the range of each feature."
    )
    return tables.to_html(tables.Table(columns, rows, corner="storage", caption=caption))


def _self_searches(study: Study) -> html.Html:
    columns = [
        tables.Column("recall@1", "recall@1", best="max", help="found first"),
        tables.Column("recall@10", "recall@10", best="max", help="found among the first ten"),
        tables.Column("mrr", "MRR", best="max", help="mean of 1 / rank"),
        tables.Column("median_rank", "median rank", digits=1, best="min"),
    ]
    rows = []
    for name, search in study.searches.items():
        bounds = search.intervals
        cells = {key: interval_cell(v, bounds.get(key)) for key, v in search.scores.items()}
        label, note = _SEARCHES[name]
        rows.append(tables.Row(label, cells, note=note))
    m = study.num_test
    mrr = float(np.mean(1 / np.arange(1, m + 1)))
    chance = {"recall@1": 1 / m, "recall@10": min(1.0, 10 / m), "median_rank": (m + 1) / 2}
    rows.append(tables.Row("chance", {**chance, "mrr": mrr}, ranked=False))
    shared = ", ".join(
        f"{interval.value:.2f} ({_OVERLAPS[name]})" for name, interval in study.overlap.items()
    )
    near = f" Share of the 10 nearest items in common with y itself: {shared}." if shared else ""
    caption = (
        f"Held-out items find themselves among the {m:,} held-out items of the other space, by "
        f"{study.settings.similarity} in raw units. They are no queries: real ones are harder."
        f"{near}"
    )
    return tables.to_html(tables.Table(columns, rows, corner="documents", caption=caption))


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
