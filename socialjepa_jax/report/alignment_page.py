"""The report of the alignment tool: what a map between two files of embeddings can be used for."""

# ruff: noqa: RUF001 (a true minus is meant)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from socialjepa_jax.alignment import local, resampling
from socialjepa_jax.alignment.export import NUMPY_SNIPPET
from socialjepa_jax.alignment.inputs import Spaces
from socialjepa_jax.alignment.similarity import cka_matrix
from socialjepa_jax.alignment.study import Study
from socialjepa_jax.collaboration.scoring import Scores
from socialjepa_jax.report import alignment_figures, alignment_planes, figures, html, style, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.alignment_verdict import rounded, verdict

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
WORDS = {
    "R²": "1 − squared error / variance about the held-out mean, over all features together, each "
    "in units of its standard deviation. 1: exact; 0: no better than the mean; negative: worse.",
    "DSC": "Distance-structure consistency: Spearman rank correlation of the distances of all "
    "pairs of held-out items in the two spaces. 1: the same order, 0: unrelated.",
    "NOS@10": "1 − share of the 10 nearest neighbours that an item has in both spaces. 0: the "
    "same neighbours. Chance depends on the number of items, so it is also given over chance.",
    "CKA": "Centred kernel alignment of the two sets, corrected for chance. 1: the same up to a "
    "rotation and a scale, 0: unrelated.",
    "Interval": "95 %, from resampling whole groups of held-out items (single items where no "
    "groups were given) while the map stays as it is.",
    "Shuffled": "The same fit and measurement with the pairs shuffled among the training items "
    "and among the held-out ones.",
    "Condition number": "The largest singular value of W over the smallest: how much more W "
    "stretches one direction than another. Large: W⁻¹ magnifies noise.",
}
_UNITS = {
    "full": "Each feature is in units of its standard deviation (--standardize=center keeps its "
    "scale, which principal components want).",
    "center": "Features are centred and keep their scale.",
}
_LISTED = 8  # best and worst items
_GROUPS = 8  # lowest and highest
_LAYERS = 12


def write_alignment_report(
    path: Path, study: Study, spaces: Spaces, *, probes: Mapping[str, Scores], umap: bool = True
) -> Path:
    """Writes the page and its pictures.

    Args:
      path: of the HTML file.
      study: what was found.
      spaces: what was studied.
      probes: of `score_probes`, empty without labels.
      umap: draw UMAP pictures.

    Returns:
      `path`.
    """
    album = Album(path)
    names = (spaces.names[0], spaces.names[1])
    sections = {
        "numbers": ("How well it fits", _numbers(study)),
        "use": ("What it can be used for", _use(study, probes)),
        "planes": ("Before and after", _planes(study, spaces, names, album, umap)),
        "map": ("The map", html.pictures(_spectrum(study, album), _joint(study, album))),
        "pairs": ("How many pairs, how clean", _curves(study, album)),
        "layers": ("Layer by layer", _layers(study, spaces, names, album)),
        "items": ("Where it fails", _items(study, spaces.items, album)),
        "apply": ("Apply it", _apply(study)),
        "words": ("Words", html.definitions(WORDS)),
    }
    title = f"From {names[0]} to {names[1]}"
    page = html.page(
        title,
        _subtitle(study, spaces),
        html.join(verdict(study, names), _tiles(study)),
        {anchor: (head, body) for anchor, (head, body) in sections.items() if body},
    )
    path.write_text(page, encoding="utf-8")
    return path


def _subtitle(study: Study, spaces: Spaces) -> str:
    (x, y), linear_map = spaces.latents, study.linear_map
    measured = (
        ""
        if len(study.test_rows) == study.num_test
        else (f" ({len(study.test_rows):,} of them measured)")
    )
    grouped = "" if spaces.groups is None else f" in {len(np.unique(spaces.groups)):,} groups"
    ridge = f", lambda {linear_map.ridge:.3g}" if linear_map.ridge else ""
    return (
        f"x is {spaces.names[0]} ({x.shape[1]} features), y is {spaces.names[1]} "
        f"({y.shape[1]} features). {len(x):,} pairs{grouped}: {linear_map.n_train:,} fitted, "
        f"{study.num_test:,} held out{measured}. W by {linear_map.method}{ridge}."
    )


def _tiles(study: Study) -> html.Html:
    forward, plain = study.metrics["forward"], study.metrics["none"]
    recall = study.searches["x -> y, forward"].scores["recall@1"]
    return html.tiles(
        (rounded(forward["r2"]), "R² on unseen pairs"),
        (f"{100 * recall:.0f} %", "found first by search, x in y"),
        (rounded(forward["dsc"]), "DSC through W (distances, 1: alike)"),
        (rounded(plain["dsc"]), "DSC without any map"),
        (tables.format_number(study.linear_map.kappa_effective, 1), "condition number of W"),
    )


def _numbers(study: Study) -> html.Html:
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
        cells["nos_corrected"] = local.chance_corrected_nos(metrics["nos@10"], 10, count)
    return cells


def _null_cells(study: Study, back: str) -> dict[str, tables.Cell]:
    """Mean and range under shuffling, NOS brought to the number of measured rows."""
    samples = study.null.samples
    names = {"r2": "r2", **{c.key: f"{back}/{c.key}" for c in _METRICS[1:]}}
    found = {key: samples[name] for key, name in names.items() if name in samples}
    if "nos@10" in found:
        corrected = local.chance_corrected_nos(1.0, 10, study.few) * found["nos@10"]
        found["nos_corrected"] = corrected
        found["nos@10"] = corrected / local.chance_corrected_nos(1.0, 10, len(study.test_rows))
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


def _use(study: Study, probes: Mapping[str, Scores]) -> html.Html:
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


def _planes(
    study: Study, spaces: Spaces, names: tuple[str, str], album: Album, umap: bool
) -> html.Html:
    rows = study.test_rows
    x, y = (z[rows] for z in spaces.latents)
    labels = None if spaces.labels is None else spaces.labels[rows]
    return alignment_planes.planes(
        study.linear_map, x, y, labels, names, album, umap=umap, seed=study.settings.seed
    )


def _spectrum(study: Study, album: Album) -> html.Html:
    linear_map = study.linear_map
    s = linear_map.singular_values
    positive = s[s > s[0] * 1e-12]
    line = figures.Line("", np.arange(1, len(positive) + 1), positive, style.PALETTE[0])
    one = figures.Level("a rotation", 1.0, 1.0, 1.0, style.PALETTE[7])
    figure = figures.lines(
        [line],
        title="Singular values of W",
        x_label="index",
        y_label="singular value",
        levels=[one],
        log_y=True,
    )
    caption = (
        "How much W stretches each direction; a rotation stretches none. Condition number "
        f"{tables.format_number(linear_map.kappa, 1)} "
        f"({tables.format_number(linear_map.kappa_effective, 1)} over the {linear_map.rank} "
        f"directions kept by W⁻¹), effective rank {linear_map.effective_rank:.1f} of {len(s)}, "
        f"distance from orthogonal (eq. 17) {linear_map.orthogonality:.2f}."
    )
    return album.add("spectrum", figure, alt="Singular values of the map", caption=caption)


def _joint(study: Study, album: Album) -> html.Html:
    figure = alignment_figures.joint_figure(study.joint)
    caption = (
        "All pairs of held-out items, by the rank of their distance in W x and in y. A dark "
        "diagonal means that what is far stays far and what is near stays near."
    )
    return album.add("distances", figure, alt="Joint histogram of distances", caption=caption)


def _curves(study: Study, album: Album) -> html.Html:
    looks = (
        (study.budget, "pairs", "Pairs fitted", True, "How much the map gains from more pairs"),
        (study.noise, "epsilon", "Share of pairs mismatched", False, "What wrong pairs do"),
    )
    pictures, folded = [], []
    for rows, key, label, log, meaning in looks:
        means = _means(rows, key)
        values = [row[key] for row in means]
        curves = [
            figures.Line(name, values, [row[m] for row in means], color, marker="o")
            for (m, name), color in zip(_CURVES.items(), style.PALETTE)
            if m in means[0]
        ]
        figure = figures.lines(curves, title=label, x_label=label.lower(), log_x=log, y_floor=-0.5)
        caption = f"{meaning}: measured on the same {study.few:,} held-out pairs, W x against y."
        pictures.append(album.add(key, figure, alt=label, caption=caption))
        columns = [tables.Column(m, name) for m, name in {**_CURVES, **_KAPPAS}.items()]
        body = [tables.Row(f"{row[key]:,g}", {m: row[m] for m in row if m != key}) for row in means]
        folded.append(tables.to_html(tables.Table(columns, body, label)))
    return html.join(html.pictures(*pictures), html.folded("The curves in numbers", *folded))


_CURVES = {"r2": "R²", "dsc": "DSC", "nos@10": "NOS@10"}
_KAPPAS = {"kappa": "condition number", "kappa_effective": "… of what W⁻¹ keeps"}


def _means(rows: Sequence[Mapping[str, float]], key: str) -> list[dict[str, float]]:
    """Means over repeats, by ascending value of the key."""
    return [
        {name: float(np.mean([r[name] for r in rows if r[key] == value])) for name in rows[0]}
        for value in sorted({row[key] for row in rows})
    ]


def _layers(study: Study, spaces: Spaces, names: tuple[str, str], album: Album) -> html.Html | None:
    first, second = (dict(list(layers.items())[:_LAYERS]) for layers in spaces.layers)
    if len(first) < 2 and len(second) < 2:
        return None
    rows = study.test_rows[: study.few]
    xs, ys = (
        [layer[rows] for layer in layers.values()] or [z[rows]]
        for layers, z in zip((first, second), spaces.latents)
    )
    labels = list(first) or [names[0]], list(second) or [names[1]]
    figure = alignment_figures.matrix_figure(
        cka_matrix(xs, ys), *labels, title="CKA, debiased", x_label=names[1], y_label=names[0]
    )
    caption = (
        f"Every array of {names[0]} against every array of {names[1]}, without any map, on "
        f"{len(rows):,} held-out items."
    )
    return html.pictures(album.add("layers", figure, alt="CKA of every layer", caption=caption))


def _items(study: Study, items: np.ndarray, album: Album) -> html.Html:
    parts = []
    if study.group_r2:
        parts.append(html.pictures(_groups(study, album)))
    order = np.argsort(study.row_errors, kind="stable")
    columns = (
        tables.Column("error", "squared error", help="per feature, in units of its variance"),
        tables.Column("rank", "rank when searched", digits=0),
        tables.Column("novelty", "novelty", digits=2, help="share of training items nearer"),
    )
    ranks = study.searches["x -> y, forward"].ranks
    for title, chosen in (("Worst", order[::-1][:_LISTED]), ("Best", order[:_LISTED])):
        rows = [
            tables.Row(
                str(items[study.test_rows[i]]),
                {
                    "error": float(study.row_errors[i]),
                    "rank": float(ranks[i]),
                    "novelty": float(study.novelty_scores[i]),
                },
            )
            for i in chosen
        ]
        parts.append(tables.to_html(tables.Table(columns, rows, f"{title} aligned items")))
    note = (
        "Squared error: of W x, a feature, in units of the variance of y (1: no better than the "
        "mean). Rank: place of the item's partner when it is searched in y. Novelty: share of "
        "training items nearer to their mean. All held-out items are in items.csv."
    )
    return html.join(*parts, html.paragraph(note, class_="dim"))


def _groups(study: Study, album: Album) -> html.Html:
    ranked = sorted(study.group_r2.items(), key=lambda pair: pair[1])
    all_shown = len(ranked) <= 2 * _GROUPS
    shown = ranked if all_shown else ranked[:_GROUPS] + ranked[-_GROUPS:]
    figure = alignment_figures.group_figure(
        [name for name, _ in shown],
        [value for _, value in shown],
        overall=study.metrics["forward"]["r2"],
    )
    some = "All" if all_shown else f"The {_GROUPS} lowest and {_GROUPS} highest of the"
    caption = f"{some} {len(ranked)} held-out groups, each about the mean of all held-out items."
    return album.add("groups", figure, alt="R2 by group", caption=caption)


def _apply(study: Study) -> html.Html:
    files = {
        "apply_map.py": "the lines below",
        "map.npz": "W, its reverse regression, means and scales; NumPy reads it without pickles",
        "map.safetensors": "weights and biases of both directions as of torch.nn.Linear",
        "map.onnx": "x to y as one product and one sum, float32",
        "novelty.npz": "how far training items lie from their mean",
        "items.csv": "error, rank and novelty of every measured item",
        "alignment.json": "all numbers of this page",
    }
    return html.join(html.definitions(files), html.tag("pre", NUMPY_SNIPPET))
