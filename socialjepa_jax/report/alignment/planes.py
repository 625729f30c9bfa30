"""Scatter plots of both spaces in one plane, before and after the map, with pairs joined.

Shape suffixes: N pairs, D and E features.
"""

from __future__ import annotations

import warnings

import numpy as np
from matplotlib.figure import Figure

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.report import figures, html
from socialjepa_jax.report.album import Album

_DRAWN_PAIRS = 250
_EMBEDDED_PAIRS = 500  # by UMAP
_NEIGHBORS = 15  # of UMAP

Colors = tuple[np.ndarray, list[str]]  # group of every row [N], and names of the groups


def _colors_of(labels: np.ndarray | None, count: int) -> Colors:
    """Returns the labels as groups for colours; one group without labels."""
    if labels is None:
        return np.zeros(count, np.int64), [""] * (figures.MAX_GROUPS + 1)  # without a legend
    values, groups = np.unique(labels, return_inverse=True)
    return groups, [str(value) for value in values]


def planes(
    linear_map: LinearMap,
    x: np.ndarray,
    y: np.ndarray,
    labels: np.ndarray | None,
    names: tuple[str, str],
    album: Album,
    *,
    umap: bool,
    seed: int,
) -> html.Html:
    """Draws principal components and, if wanted, UMAP, each before and after the map.

    Args:
      linear_map: y ~ W x.
      x, y: raw latents of held-out pairs, [N, D] and [N, E].
      labels: [N] for colours, or None.
      names: of the spaces.
      album: takes the figures.
      umap: True to draw UMAP too; without umap-learn a line says how to install it.
      seed: of UMAP and of the choice of pairs.
    """
    order = np.random.default_rng(seed).permutation(len(x))[:_EMBEDDED_PAIRS]
    zx, zy = linear_map.standardize(x[order], y[order])
    mapped = zx @ linear_map.w.T
    colors = _colors_of(None if labels is None else labels[order], len(order))
    shown = html.join(
        html.paragraph(
            f"{min(len(order), _DRAWN_PAIRS)} held-out pairs, drawn at random. Filled dots are "
            f"items of {names[0]}, hollow squares the same items in {names[1]}; a line joins the "
            "two. Short lines mean that the map sends items where they belong."
        ),
        html.figure_grid(*_pca_figures(zx, zy, mapped, colors, names, album)),
    )
    if not umap:
        return shown
    return html.join(shown, _umap_figures(zx, zy, mapped, colors, names, album, seed))


def _pca_figures(
    zx: Float64, zy: Float64, mapped: Float64, colors: Colors, names: tuple[str, str], album: Album
) -> list[html.Html]:
    own_x, own_y = _leading_axes(zx), _leading_axes(zy)
    before = _figure((zx @ own_x, zy @ own_y), colors, names, "Before: each on its own axes")
    mapped_names = (f"W · {names[0]}", names[1])
    after = _figure((mapped @ own_y, zy @ own_y), colors, mapped_names, "After: on y's axes")
    captions = (
        "The two leading principal components of each space by itself, laid over one another.",
        f"Mapped items of {names[0]} on the two leading principal components of {names[1]}. "
        "Regression draws what it cannot predict towards the centre.",
    )
    return [
        album.add(f"pca_{name}", figure, alt=f"Principal components {name} the map", caption=text)
        for name, figure, text in zip(("before", "after"), (before, after), captions)
    ]


def _leading_axes(z: Float64) -> Float64:
    """Returns the two leading principal axes [D, 2]; the second is zero for one feature."""
    axes = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)[2][:2].T
    return np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))


def _figure(
    points: tuple[Float64, Float64],
    colors: Colors,
    names: tuple[str, str],
    title: str,
    axis_label: str = "principal component",
) -> Figure:
    first, second = (p[:_DRAWN_PAIRS] for p in points)
    return figures.matched_pairs(
        first,
        second,
        colors[0][:_DRAWN_PAIRS],
        colors[1],
        names=names,
        title=title,
        axis_label=axis_label,
        limits=figures.square_limits(first, second),
    )


def _umap_figures(
    zx: Float64,
    zy: Float64,
    mapped: Float64,
    colors: Colors,
    names: tuple[str, str],
    album: Album,
    seed: int,
) -> html.Html:
    if len(zx) <= _NEIGHBORS:
        return html.missing(f"UMAP needs more than {_NEIGHBORS} held-out pairs.")
    width = max(zx.shape[1], zy.shape[1])
    wide_x, wide_y = (np.pad(z, ((0, 0), (0, width - z.shape[1]))) for z in (zx, zy))
    try:
        before, after = _embed(wide_x, wide_y, seed), _embed(mapped, zy, seed)
    except ImportError:
        return html.missing("UMAP figures need umap-learn: pip install umap-learn.")
    captions = (
        "UMAP of all items of both spaces together, before the map"
        + ("." if zx.shape == zy.shape else " (the narrower space filled up with zeros)."),
        "The same after the map. UMAP keeps neighbours and distorts distances: read who is beside "
        "whom, not how far.",
    )
    drawn = []
    for name, points, text in zip(("before", "after"), (before, after), captions):
        labels = names if name == "before" else (f"W · {names[0]}", names[1])
        figure = _figure(points, colors, labels, f"UMAP {name} the map", "UMAP")
        alt = f"UMAP of both spaces {name} the map"
        drawn.append(album.add(f"umap_{name}", figure, alt=alt, caption=text))
    return html.figure_grid(*drawn)


def _embed(a: Float64, b: Float64, seed: int) -> tuple[Float64, Float64]:
    """Embeds the rows of a and b together by UMAP: two arrays [N, 2]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from numba, and that a fixed seed needs one thread
        import umap  # late: optional, and slow to import

        model = umap.UMAP(n_neighbors=_NEIGHBORS, random_state=seed, n_jobs=1, init="pca")
        points = model.fit_transform(np.concatenate([a, b]).astype(np.float32))
    first, second = np.split(np.asarray(points, np.float64), 2)
    return first, second
