"""Sections of a run's page that show states and latents: views, W, planes, neighbours."""

# ruff: noqa: RUF001 (a true minus and a true times sign are meant)

from collections.abc import Sequence

import numpy as np

from socialjepa_jax.data.base import ViewDataset
from socialjepa_jax.report import figures, html, style, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.figures import Level, Line
from socialjepa_jax.report.image_grid import Tile, image_grid
from socialjepa_jax.report.looks import look
from socialjepa_jax.report.run import geometry
from socialjepa_jax.report.run.data import SPLITS, RunData
from socialjepa_jax.report.run.geometry import PairView
from socialjepa_jax.report.tables import Cell, Column, Row, Table

NO_PAIR = (
    "There are no finite latents of two agents for the same states, so nothing can be mapped: the "
    "run was stopped before its last step, or it trained one agent."
)
_IMAGE_DPI = 120  # images compress badly: keeps the page small
_SPECTRUM = (
    Column("pairs", "training pairs"),
    Column("rank", "rank"),
    Column("kappa", "κ(W)", 1, "", "largest over smallest singular value"),
    Column("kappa_effective", "κ eff.", 1, "", "largest over smallest kept singular value"),
    Column("orthogonality", "‖WᵀW − I‖/‖I‖", 2, "", "0 is a rotation (eq. 17)"),
)
_PAIRS = 60
_QUERIES = 6
_LABEL = 12  # letters that fit above an image
_NEIGHBOURS = 6
_LONG = 600  # letters of a text that is folded


def paired_views(dataset: ViewDataset, album: Album, count: int = 8) -> html.Html:
    """States seen by every camera, one row per camera."""
    rows = geometry.spread_over(dataset.labels, min(count, dataset.num_states), seed=1)
    grid = [[Tile(images[row]) for row in rows] for images in dataset.images]
    figure = image_grid(
        grid,
        row_labels=[f"camera {k}" for k in range(dataset.num_cameras)],
        column_labels=[dataset.label_names[dataset.labels[row]][:_LABEL] for row in rows],
    )
    overlap = (
        "No camera is given an image of another one (by its place, not its content)."
        if dataset.overlap == 0
        else f"{dataset.overlap:.0%} of the images also occur among another camera's."
    )
    caption = (
        f"Columns are states of {dataset.name}, drawn at random; rows are cameras. An agent sees "
        f"one row only, and never learns which images belong together. {overlap}"
    )
    alt = f"{len(rows)} states seen by {dataset.num_cameras} cameras"
    shown = album.add("views", figure, alt=alt, caption=caption, full=True, dpi=_IMAGE_DPI)
    return html.figure_grid(shown)


def known(dataset: ViewDataset) -> html.Html | None:
    """Lists the facts of the data and its dropped states; None if there are none."""
    terms: dict[str, str] = dict(dataset.facts)
    if dataset.num_dropped:
        terms["Dropped"] = (
            f"{dataset.num_dropped} of the states listed, since a camera has no image, or a broken "
            "one (broken_files.txt)."
        )
    if not terms:
        return None
    long = {name: text for name, text in terms.items() if len(text) > _LONG}
    short = {name: text for name, text in terms.items() if name not in long}
    folded = [html.folded(name, html.paragraph(text)) for name, text in long.items()]
    return html.join(html.definitions(short), *folded)


def spectrum(views: Sequence[PairView], album: Album) -> html.Html:
    """Singular values of W with condition numbers, rank and distance from a rotation."""
    if not views:
        return html.missing(NO_PAIR)
    curves, rows = [], []
    for i, view in enumerate(views):
        linear_map = view.linear_map
        values = linear_map.singular_values
        kept = np.where(np.arange(len(values)) < linear_map.rank, values, np.nan)
        label = f"W fitted for {SPLITS[view.split]}"
        marker = style.MARKERS[i] if len(values) <= 64 else ""
        index = np.arange(1, len(values) + 1)
        curves.append(Line(label, index, kept, style.PALETTE[i], marker=marker))
        cells: dict[str, Cell] = {
            "pairs": linear_map.n_train,
            "rank": f"{linear_map.rank} of {len(values)}",
            "kappa": linear_map.kappa,
            "kappa_effective": linear_map.kappa_effective,
            "orthogonality": linear_map.orthogonality,
        }
        rows.append(Row(label, cells))
    rotation = Level("1, a rotation", 1.0, 1.0, 1.0, look("chance").color, (0, (4, 3)))
    i, j = views[0].agents
    figure = figures.lines(
        curves, levels=[rotation], title=f"Spectrum of W, agent {i} → agent {j}", x_label="index",
        y_label="singular value", log_y=True,
    )  # fmt: skip
    caption = (
        "Singular values of W on standardised latents, largest first, without those counted as "
        "zero. Those of a rotation are all 1; values far below 1 are directions of one agent's "
        "space that the other's does not predict, or that regression shrinks."
    )
    shown = album.add("spectrum", figure, alt="Singular values of W", caption=caption)
    facts = tables.to_html(Table(_SPECTRUM, rows, "map"))
    return html.join(html.figure_grid(shown), facts)


def planes(view: PairView | None, dataset: ViewDataset, album: Album) -> html.Html:
    """Two panels with both latent spaces in one plane, before and after W, matched pairs joined."""
    if view is None:
        return html.missing(NO_PAIR)
    before, after, target = geometry.project(view)
    labels = dataset.labels[view.rows]
    chosen = geometry.spread_over(labels, _PAIRS)
    i, j = view.agents
    shown = []
    limits = figures.square_limits(before[chosen], after[chosen], target[chosen])
    for name, points, title in (("before", before, "Before W"), ("after", after, "After W")):
        figure = figures.matched_pairs(
            points[chosen], target[chosen], labels[chosen], dataset.label_names,
            names=(f"agent {i}" + (", mapped" if name == "after" else ""), f"agent {j}"),
            title=title, limits=limits,
        )  # fmt: skip
        alt = f"Latents of agents {i} and {j} in a plane, {title.lower()}, matched pairs joined"
        shown.append(album.add(f"plane_{name}", figure, alt=alt))
    gap = [np.linalg.norm(p - target, axis=1).mean() for p in (before, after)]
    caption = (
        f"{len(chosen)} of {len(labels)} {SPLITS[view.split]}, drawn at random; both panels use "
        f"agent {j}'s two leading principal axes (standardised latents). A line joins the same "
        "state in both agents: the shorter the lines, the better W translates. Mean length in this "
        f"plane over all pairs: {gap[0]:.2f} before, {gap[1]:.2f} after. Regression pulls mapped "
        "points towards the centre where it is unsure. Two axes are not the whole space."
    )
    return html.join(html.paragraph(caption), html.figure_grid(*shown))


def neighbours(
    run: RunData, view: PairView | None, dataset: ViewDataset, album: Album
) -> html.Html:
    """Images of one camera, and the nearest states after W in the other agent's space."""
    if view is None:
        return html.missing(NO_PAIR)
    i, j = view.agents
    first, second = run.camera(i), run.camera(j)
    if max(first, second) >= dataset.num_cameras:
        return html.missing(f"The data set has no camera {max(first, second)}.")
    gaps = geometry.distances(view)
    ranks, labels = geometry.match_ranks(gaps), dataset.labels[view.rows]
    queries = geometry.spread_over(labels, min(_QUERIES, len(labels)), seed=2)
    count = min(_NEIGHBOURS, len(labels))
    grid = []
    for query in queries:
        row = view.rows[query]
        truth = Tile(dataset.images[second, row], note=f"rank {ranks[query] + 1}")
        nearest = [
            Tile(dataset.images[second, view.rows[n]], _frame(n, query, labels))
            for n in np.argsort(gaps[query], kind="stable")[:count]
        ]
        grid.append([Tile(dataset.images[first, row]), truth, *nearest])
    columns = [f"query\n(camera {first})", f"truth\n(camera {second})"]
    figure = image_grid(grid, column_labels=columns + [f"{k + 1}" for k in range(count)])
    caption = (
        f"Each row: an image of camera {first} (query), the image of that state by camera {second} "
        f"(truth, with its rank), then the {count} states whose latents of agent {j} are nearest "
        f"to W z of agent {i}, among {len(labels)} {SPLITS[view.split]}. Green frame: the true "
        "state; blue: the same category; grey: another category. Queries are drawn at random, not "
        f"chosen. {_recall(gaps, ranks, labels)}"
    )
    alt = f"{len(queries)} queries of camera {first} and their neighbours in camera {second}"
    shown = album.add("neighbours", figure, alt=alt, caption=caption, full=True, dpi=_IMAGE_DPI)
    return html.figure_grid(shown)


def _recall(gaps_QQ: np.ndarray, ranks_Q: np.ndarray, labels_Q: np.ndarray) -> str:
    """Sentence on how often the true state, and its category, are among the nearest."""
    recall = ", ".join(
        f"{np.mean(ranks_Q < k):.1%} at {k} (chance {min(1, k / len(ranks_Q)):.1%})"
        for k in (1, 5, 10)
    )
    category = np.mean(labels_Q[gaps_QQ.argmin(axis=1)] == labels_Q)
    return (
        f"Over all queries the true state is found {recall}; the nearest is of the right category "
        f"{category:.1%} of the time."
    )


def _frame(candidate: int, query: int, labels: np.ndarray) -> str:
    if candidate == query:
        return style.CORRECT
    return style.SAME_CATEGORY if labels[candidate] == labels[query] else style.OTHER_CATEGORY
