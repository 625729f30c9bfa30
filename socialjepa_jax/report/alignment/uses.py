"""Tables of the uses of the map: search, transfer of probes, and recognition of novel queries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.collaboration.scoring import Scores
from socialjepa_jax.report import html, tables
from socialjepa_jax.report.alignment.quality import interval_cell

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


def uses_section(study: Study, probes: Mapping[str, Scores]) -> html.Html:
    """Returns the tables of search and probes, and the share of novel queries."""
    parts = [_searches(study)]
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


def _searches(study: Study) -> html.Html:
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
    caption = (
        f"Search: every held-out item looked for among the {m:,} held-out items of the other "
        "space; its own partner is the right answer."
    )
    return tables.to_html(tables.Table(columns, rows, caption=caption))


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
