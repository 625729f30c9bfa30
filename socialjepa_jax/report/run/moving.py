"""The page of a run in a world in motion: the state that agents recover, and the maps between them.

Shape key: K cameras, T frames, H height, W width, C channels, L state dimensions.
"""

# ruff: noqa: RUF001 (a true minus and a true times sign are meant)

import io
import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from socialjepa_jax.data.base import Film, ViewDataset
from socialjepa_jax.records import CYCLES, RowName
from socialjepa_jax.report import figures, html, looks, style, tables
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.figures import Line
from socialjepa_jax.report.image_grid import Tile, image_grid
from socialjepa_jax.report.run import collapse, data, geometry, motion_table, theory
from socialjepa_jax.report.run.data import RunData, Score, mean, pick, value
from socialjepa_jax.report.tables import Cell, Column, Row, Table, format_number

SPLIT = "state"
CONTROLS = (
    RowName.UNTRAINED, RowName.UNTRAINED_HIDDEN, RowName.PIXEL_PCA, RowName.PIXEL_PCA_WIDE,
    RowName.RANDOM_PROJECTION, RowName.MISMATCHED, RowName.MISMATCHED_CELL,
)  # fmt: skip
MAPS = {
    RowName.TRAINED: "ridge regression, all pairs",
    RowName.ORTHOGONAL: "orthogonal (Procrustes), all pairs",
    RowName.ACTIONS: "from actions, no pair at all",
}
_FRAMES, _PAIRS = 10, 60


def headline(run: RunData, dataset: ViewDataset) -> list[html.Html]:
    """The result of the run: what each agent knows of the world, and whether they agree."""
    scores = pick(run, RowName.TRAINED, SPLIT)
    if not scores:
        return [html.paragraph("The run has no alignment.json yet.", class_="lede")]
    both = [s.metrics.get(key, math.nan) for s in scores for key in ("state_r2_x", "state_r2")]
    low = min(both) if all(map(math.isfinite, both)) else math.nan
    r2, actions = value(mean(scores, "r2")), _of(run, RowName.ACTIONS, "r2")
    few = value(mean(scores, "few_pairs_r2"))
    names = ", ".join(dataset.state_names)
    lede = (
        f"No agent was told the state of the world ({names}) and no two agents saw one image in "
        f"common. A linear readout finds {_share(low, 'at least ')} of the state in every agent's "
        f"latents (R² {format_number(low)}), and one matrix W between two agents explains "
        f"{_share(r2)} of the other's latents (R² {format_number(r2)})."
    )
    if collapsed := collapse.collapsed(run):
        named = ", ".join(f"agent {agent}" for agent in collapsed)
        lede += f" But {named} collapsed, and R² with collapsed latents is void."
    controls = [(row, _of(run, row, "r2"), _of(run, row, "state_r2")) for row in CONTROLS]
    known = [c for c in controls if math.isfinite(c[1])]
    parts = [html.paragraph(lede, class_="lede")]
    if math.isfinite(actions):
        parts.append(html.paragraph(
            f"W made from shared actions alone, without one pair of observations, reaches R² "
            f"{format_number(actions)}. This is not economy: five pairs already give "
            f"{format_number(few)}. The point is that no common observation is needed.",
            class_="lede",
        ))  # fmt: skip
    tiles = [
        (format_number(low), "R² of the state, the weakest agent"),
        (format_number(r2), "R² of W between two cameras"),
    ]
    if math.isfinite(actions):
        tiles.append((format_number(actions), "R² of W from actions, no pair"))
    if known:
        best = max(known, key=lambda c: c[1])
        tiles.append(
            (format_number(best[1]), f"best control, R² of W: {looks.look(best[0]).label}")
        )
    return [*parts, html.tiles(*tiles)]


def sections(
    run: RunData, dataset: ViewDataset, film: Film | None, album: Album
) -> dict[str, tuple[str, html.Html]]:
    """Returns the sections of the page that a world in motion adds."""
    composed = cycles(run)
    return {
        "world": ("The world, and what each camera sees of it", world(dataset, film, album)),
        "state": ("What every agent knows of the state", state(run, dataset)),
        "planes": ("Two spaces, before and after W", planes(run, dataset, album)),
        "maps": ("W from all pairs, from five, and from none", maps(run)),
        "readout": ("One agent's readout, used by the other", readouts(run)),
        **({"cycles": ("Three cameras, and maps composed", composed)} if composed else {}),
        "theory": ("What the theory says", theory.section(run)),
        "repeated": ("Ten pairs of agents, two worlds", motion_table.section()),
        "learning": ("The state, while it is learnt", learning(run, album)),
    }


def _share(r2: float, bound: str = "") -> str:
    """Says an R2 in words."""
    if not math.isfinite(r2):
        return "a share that could not be measured of the variance"
    return f"{bound}{r2:.0%} of the variance" if r2 >= 0 else "none of the variance"


def _of(run: RunData, row: str, key: str) -> float:
    return value(mean(pick(run, row, SPLIT), key))


def world(dataset: ViewDataset, film: Film | None, album: Album) -> html.Html:
    """A strip of successive moments, and an animation, of all cameras beside the state."""
    if film is None:
        return html.missing("The data set cannot show its world in motion.")
    count = film.images.shape[1]
    moments = np.linspace(0, count - 1, min(_FRAMES, count)).astype(int)
    figure = image_grid(
        [[Tile(images[t]) for t in moments] for images in film.images],
        row_labels=[f"camera {k}" for k in range(len(film.images))],
        column_labels=[f"t = {t}" for t in moments],
    )
    caption = "Moments of one trajectory, as each camera takes them."
    if changing := not np.array_equal(film.images, film.calm):
        caption += (
            " Exposure and colour change from image to image and camera to camera, and say nothing "
            "about the state."
        )
    strip = album.add("strip", figure, alt="Successive moments seen by every camera",
                      caption=caption, full=True, dpi=120)  # fmt: skip
    moving = animation(
        [_side_by_side(film.calm[:, t]) for t in range(count)],
        alt="The same trajectory as an animation, cameras side by side",
        caption=f"The same trajectory{' with steady light' * changing}: the cameras side by side.",
    )
    curves = [
        Line(name, np.arange(count), film.states[:, i], style.PALETTE[i % len(style.PALETTE)])
        for i, name in enumerate(dataset.state_names)
    ]
    plot = figures.lines(curves, title="The state", x_label="time step", y_label="state")
    told = "What no agent is told: the state of the world."
    shown = album.add("states", plot, alt="The state's latents against time", caption=told)
    return html.figure_grid(strip, moving, shown)


def animation(frames: Sequence[np.ndarray], alt: str, caption: str) -> html.Html:
    """Returns an inlined GIF of 8 images a second, which loops, from uint8 [H, W, 3] each."""
    return html.figure(gif(frames), alt, caption, kind="gif")


def gif(frames: Sequence[np.ndarray], milliseconds: int = 125) -> bytes:
    """Returns an animation that loops.

    Args:
        frames: uint8 [H, W, 3] each.
        milliseconds: that each is shown.
    """
    first, *others = [Image.fromarray(np.ascontiguousarray(frame)) for frame in frames]
    buffer = io.BytesIO()
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
    return buffer.getvalue()


def _side_by_side(images_KHWC: np.ndarray, zoom: int = 6) -> np.ndarray:
    """Returns the cameras' images beside each other, enlarged: uint8 [H, W, 3]."""
    large = images_KHWC.repeat(zoom, axis=1).repeat(zoom, axis=2)
    large = np.pad(large, ((0, 0), (0, 0), (0, zoom), (0, 0)), constant_values=255)
    wide = np.concatenate(list(large), axis=1)[:, :-zoom]
    return np.broadcast_to(wide, (*wide.shape[:2], 3)) if wide.shape[-1] == 1 else wide[..., :3]


def state(run: RunData, dataset: ViewDataset) -> html.Html:
    """R2 of the state in both spaces beside R2 of W, for the trained agents and every control."""
    if not run.scores:
        return html.missing("The run has no alignment.json yet.")
    columns = (
        Column("state_r2_x", "state, first agent", 3, "max", "held-out R² of a linear readout"),
        Column("state_r2", "state, second agent", 3, "max", "held-out R² of a linear readout"),
        Column("r2", "R² of W", 3, "max", "share of the second's latents that W explains"),
        *(Column(f"state_r2/{n}", n, 3, "", f"second agent: {n}") for n in dataset.state_names),
    )
    order = (RowName.TRAINED, RowName.SAME_CAMERA, *CONTROLS, RowName.ALL_PIXELS)
    rows = []
    for name in order:
        if scores := pick(run, name, SPLIT):
            cells: dict[str, Cell] = {c.key: mean(scores, c.key) for c in columns}
            if name in (RowName.MISMATCHED, RowName.MISMATCHED_CELL):
                del cells["state_r2_x"]  # of the trained agent itself
            ranked = name not in (RowName.SAME_CAMERA, RowName.ALL_PIXELS)
            kind = "headline" if name == RowName.TRAINED else ""
            rows.append(Row(looks.look(name).label, cells, ranked, kind))
    pairs = len(pick(run, RowName.TRAINED, SPLIT))
    test = _of(run, RowName.TRAINED, "n_test")
    caption = (
        f"Held-out states ({test:.0f}). Means over {pairs} pairs of agents on different cameras, "
        "with the lowest and highest. R² of W alone may mislead: two agents that lost the same "
        "latent can agree. All pixels: a readout by labels, which has no map."
    )
    glossary = {looks.look(n).label: looks.look(n).meaning for n in order if pick(run, n, SPLIT)}
    explained = html.folded("What the rows are", html.definitions(glossary))
    return html.join(tables.to_html(Table(columns, rows, "latents", caption)), explained)


def planes(run: RunData, dataset: ViewDataset, album: Album) -> html.Html:
    """Both latent spaces in one plane, before and after W, matched states joined."""
    pair = data.main_pair(run)
    view = geometry.pair_view(run, pair, SPLIT, dataset.state_ids) if pair else None
    if view is None or dataset.states is None:
        return html.missing("There are no latents of two agents, so nothing can be mapped.")
    if view.y_QD.shape[1] < 2:
        return html.missing("Latents of one dimension span no plane.")
    before, after, target = geometry.project(view)
    known = dataset.states[view.rows, -1]
    edges = np.quantile(known, (0.25, 0.5, 0.75))
    groups = np.searchsorted(edges, known)
    name = dataset.state_names[-1]
    labels = [f"{name}, quarter {q}" for q in (1, 2, 3, 4)]
    chosen = geometry.spread_over(groups, _PAIRS)
    limits = figures.square_limits(before[chosen], after[chosen], target[chosen])
    i, j = view.agents
    shown = []
    for key, points, title in (("before", before, "Before W"), ("after", after, "After W")):
        figure = figures.matched_pairs(
            points[chosen], target[chosen], groups[chosen], labels,
            names=(f"agent {i}" + (", mapped" if key == "after" else ""), f"agent {j}"),
            title=title, limits=limits,
        )  # fmt: skip
        alt = f"Latents of agents {i} and {j}, {title.lower()}, matched states joined"
        shown.append(album.add(f"plane_{key}", figure, alt=alt))
    gap = [np.linalg.norm(p - target, axis=1).mean() for p in (before, after)]
    caption = (
        f"{len(chosen)} of {len(known)} held-out states, drawn at random, on agent {j}'s two "
        "leading principal axes. A line joins the same state in both agents. Mean length over all "
        f"states: {gap[0]:.2f} before W, {gap[1]:.2f} after."
    )
    return html.join(html.paragraph(caption), html.figure_grid(*shown))


def maps(run: RunData) -> html.Html:
    """R2 of the maps between the trained agents, by what they were fitted from."""
    columns = (
        Column("r2", "R² of W", 3, "max"),
        Column("orthogonality", "‖WᵀW − I‖/‖I‖", 3, "", "0 is a rotation (eq. 17)"),
        Column("n_train", "fitted to", 0, "", "pairs of observations, or steps of a walk"),
    )
    rows = []
    for name, label in MAPS.items():
        if scores := pick(run, name, SPLIT):
            cells: dict[str, Cell] = {c.key: mean(scores, c.key) for c in columns}
            rows.append(Row(label, cells, kind="headline" if name == RowName.ACTIONS else ""))
    trained = pick(run, RowName.TRAINED, SPLIT)
    if not rows:
        return html.missing("The run has no alignment.json yet.")
    rows.insert(-1 if len(rows) > 2 else len(rows), Row(
        "orthogonal, five pairs", {"r2": mean(trained, "few_pairs_r2"), "n_train": 5.0}
    ))  # fmt: skip
    explanation = (
        "Each agent walks on its own and fits h' = A h + B a to the known actions a of its own "
        "walk; W is the orthogonal factor of B₂B₁ᵀ. The two walks share no moment and no image, "
        "only the meaning of the actions. A random rotation would score about −1."
    )
    return html.join(html.paragraph(explanation), tables.to_html(Table(columns, rows, "map")))


def cycles(run: RunData) -> html.Html | None:
    """Maps between three agents on three cameras, composed; None without three cameras."""
    columns = (
        Column("direct_r2", "R², 1 → 3", 3, "max", "the third agent's latents, directly"),
        Column("composed_r2", "R², 1 → 2 → 3", 3, "max", "the same by way of the second agent"),
        Column("cycle_r2", "R², 1 → 2 → 3 → 1", 3, "max", "the first agent's own latents"),
        Column("cycle_identity", "‖W₃₁W₂₃W₁₂ − I‖/√D", 3, "min", "Wᵢⱼ maps agent i to j"),
    )
    rows, triples = [], 0
    for name, label in {**MAPS, RowName.UNTRAINED: "untrained, ridge regression"}.items():
        if scores := pick(run, CYCLES[name], SPLIT):
            triples = len(scores)
            rows.append(Row(label, {c.key: mean(scores, c.key) for c in columns}))
    if not rows:
        return None
    explanation = (
        "If three agents hold the same state, two maps compose to the direct one, and a cycle ends "
        "where it began. Every map is fitted between two agents alone. A random rotation is √2 = "
        "1.414 away from I; maps by regression shrink, so that their cycle falls short of I even "
        "where the agents agree."
    )
    caption = f"Held-out states. Means over {triples} triples of agents on three cameras."
    if triples == 1:
        caption = "Held-out states of one triple of agents on three cameras."
    grid = tables.to_html(Table(columns, rows, "maps", caption))
    return html.join(html.paragraph(explanation), grid)


def readouts(run: RunData) -> html.Html:
    """R2 of the state by a carried readout beside readouts from few labels of one's own."""
    trained = pick(run, RowName.TRAINED, SPLIT)
    if not any("readout_carried" in s.metrics for s in trained):
        return html.missing("No readouts were measured in this run.")
    column = Column("r2", "R² of the state", 3, "max")
    rows = [Row("carried over by W", {"r2": mean(trained, "readout_carried")}, note="0 labels")]
    if actions := pick(run, RowName.ACTIONS, SPLIT):
        carried = {"r2": mean(actions, "readout_carried")}
        rows.append(Row("carried over by W from actions", carried, note="0 labels, 0 pairs"))
    for count in sorted(_label_counts(trained)):
        cells = {"r2": mean(trained, f"readout_own@{count}")}
        rows.append(Row("its own", cells, note=f"{count} labels, mean of 20 draws"))
    rows.append(Row("its own", {"r2": mean(trained, "state_r2")}, note="all labels"))
    explanation = (
        "A linear readout of the state is fitted to the first agent's latents and then read from "
        "the second's, mapped back. The second agent has no labels."
    )
    grid = tables.to_html(Table((column,), rows, "readout on the second agent"))
    return html.join(html.paragraph(explanation), grid)


def _label_counts(scores: list[Score]) -> set[int]:
    start = "readout_own@"
    return {int(k[len(start) :]) for s in scores for k in s.metrics if k.startswith(start)}


def learning(run: RunData, album: Album) -> html.Html:
    """R2 of the state of every agent against the training step."""
    curves = []
    for agent in run.agents:
        x, y = data.curve(run.evals, f"agent_{agent}/state_r2")
        if len(x):
            label = f"agent {agent} (camera {run.camera(agent)})"
            curves.append(Line(label, x, y, style.agent_color(agent), marker="o"))
    if not curves:
        return html.missing("metrics.jsonl holds no R² of the state.")
    figure: Figure = figures.lines(
        curves, title="State in the latents", x_label="training step",
        y_label="held-out R² of the state", height=3.8,
    )  # fmt: skip
    alt = f"R2 of the state of {len(curves)} agents against training step"
    return html.figure_grid(album.add("state_r2", figure, alt=alt))
