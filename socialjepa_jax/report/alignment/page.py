"""The report of the alignment tool: what a map between two files of embeddings can be used for."""

# ruff: noqa: RUF001 (a true minus is meant)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from socialjepa_jax.alignment.similarity import cka_matrix
from socialjepa_jax.alignment.study.export import NUMPY_SNIPPET
from socialjepa_jax.alignment.study.inputs import Spaces
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.collaboration.scoring import Scores
from socialjepa_jax.report import figures, html, style, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.alignment import figures as figures_lib
from socialjepa_jax.report.alignment import planes
from socialjepa_jax.report.alignment import tables as tables_lib
from socialjepa_jax.report.alignment.verdict import rounded, verdict

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
        "numbers": ("How well it fits", tables_lib.numbers(study)),
        "use": ("What it can be used for", tables_lib.uses(study, probes)),
        "planes": ("Before and after", _planes(study, spaces, names, album, umap)),
        "map": ("The map", html.figure_grid(_spectrum(study, album), _joint(study, album))),
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


def _planes(
    study: Study, spaces: Spaces, names: tuple[str, str], album: Album, umap: bool
) -> html.Html:
    rows = study.test_rows
    x, y = (z[rows] for z in spaces.latents)
    labels = None if spaces.labels is None else spaces.labels[rows]
    return planes.planes(
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
    figure = figures_lib.joint_figure(study.joint)
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
    return html.join(html.figure_grid(*pictures), html.folded("The curves in numbers", *folded))


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
    figure = figures_lib.matrix_figure(
        cka_matrix(xs, ys), *labels, title="CKA, debiased", x_label=names[1], y_label=names[0]
    )
    caption = (
        f"Every array of {names[0]} against every array of {names[1]}, without any map, on "
        f"{len(rows):,} held-out items."
    )
    return html.figure_grid(album.add("layers", figure, alt="CKA of every layer", caption=caption))


def _items(study: Study, items: np.ndarray, album: Album) -> html.Html:
    parts = []
    if study.group_r2:
        parts.append(html.figure_grid(_groups(study, album)))
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
    figure = figures_lib.group_figure(
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
