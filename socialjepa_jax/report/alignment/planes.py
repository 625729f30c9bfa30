"""Scatter plots of both spaces in one plane, before and after the map, with pairs joined.

Shape suffixes: N pairs, D and E features.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.moments import Float64
from socialjepa_jax.report import figures, html
from socialjepa_jax.report.album import Album

_DRAWN_PAIRS = 250
_EMBEDDED_PAIRS = 500  # by UMAP
_NEIGHBORS = 15  # of UMAP


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Standardised held-out pairs to draw.

    Attributes:
        x, y: [N, D] and [N, E].
        mapped: W x, [N, E].
        groups, group_names: group of every pair for colours, and the names of the groups.
        names: of the spaces.
    """

    x: Float64
    y: Float64
    mapped: Float64
    groups: np.ndarray
    group_names: list[str]
    names: tuple[str, str]


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
    groups, group_names = np.zeros(len(order), np.int64), [""] * (figures.MAX_GROUPS + 1)
    if labels is not None:  # without labels there are too many groups for a legend
        values, groups = np.unique(labels[order], return_inverse=True)
        group_names = [str(value) for value in values]
    pairs = _Pairs(zx, zy, zx @ linear_map.w.T, groups, group_names, names)
    explanation = html.paragraph(
        f"{min(len(order), _DRAWN_PAIRS)} held-out pairs, drawn at random. Filled dots are "
        f"items of {names[0]}, hollow squares the same items in {names[1]}; a line joins the "
        "two. Short lines mean that the map sends items where they belong."
    )
    drawn = [explanation, _pca_figures(pairs, album)]
    return html.join(*drawn, _umap_figures(pairs, album, seed)) if umap else html.join(*drawn)


def _pca_figures(pairs: _Pairs, album: Album) -> html.Html:
    own_x, own_y = _leading_axes(pairs.x), _leading_axes(pairs.y)
    return _figures(
        pairs,
        album,
        "pca",
        "Principal components",
        "principal component",
        ((pairs.x @ own_x, pairs.y @ own_y), (pairs.mapped @ own_y, pairs.y @ own_y)),
        ("Before: each on its own axes", "After: on y's axes"),
        (
            "The two leading principal components of each space, laid over one another.",
            f"Mapped items of {pairs.names[0]} on the two leading principal components of "
            f"{pairs.names[1]}. Regression draws what it cannot predict towards the centre.",
        ),
    )


def _leading_axes(z: Float64) -> Float64:
    """Returns the two leading principal axes [D, 2]; the second is zero for one feature."""
    axes = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)[2][:2].T
    return np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))


def _umap_figures(pairs: _Pairs, album: Album, seed: int) -> html.Html:
    x, y = pairs.x, pairs.y
    if len(x) <= _NEIGHBORS:
        return html.missing(f"UMAP needs more than {_NEIGHBORS} held-out pairs.")
    width = max(x.shape[1], y.shape[1])
    wide_x, wide_y = (np.pad(z, ((0, 0), (0, width - z.shape[1]))) for z in (x, y))
    try:
        points = _embed(wide_x, wide_y, seed), _embed(pairs.mapped, y, seed)
    except ImportError:
        return html.missing("UMAP figures need umap-learn: pip install umap-learn.")
    padded = "" if x.shape == y.shape else " (the narrower space filled up with zeros)"
    return _figures(
        pairs,
        album,
        "umap",
        "UMAP of both spaces",
        "UMAP",
        points,
        ("UMAP before the map", "UMAP after the map"),
        (
            f"UMAP of all items of both spaces together, before the map{padded}.",
            "The same after the map. UMAP keeps neighbours and distorts distances: read who is "
            "beside whom, not how far.",
        ),
    )


def _embed(a: Float64, b: Float64, seed: int) -> tuple[Float64, Float64]:
    """Embeds the rows of a and b together by UMAP: two arrays [N, 2]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from numba, and that a fixed seed needs one thread
        import umap  # late: optional, and slow to import

        model = umap.UMAP(n_neighbors=_NEIGHBORS, random_state=seed, n_jobs=1, init="pca")
        points = model.fit_transform(np.concatenate([a, b]).astype(np.float32))
    first, second = np.split(np.asarray(points, np.float64), 2)
    return first, second


def _figures(
    pairs: _Pairs,
    album: Album,
    name: str,
    alt: str,
    axis_label: str,
    points: Sequence[tuple[Float64, Float64]],
    titles: Sequence[str],
    captions: Sequence[str],
) -> html.Html:
    """Draws the points [N, 2] of both spaces, before and after the map, in two figures."""
    drawn = []
    names = pairs.names, (f"W · {pairs.names[0]}", pairs.names[1])
    for i, moment in enumerate(("before", "after")):
        first, second = (p[:_DRAWN_PAIRS] for p in points[i])
        figure = figures.matched_pairs(
            first,
            second,
            pairs.groups[:_DRAWN_PAIRS],
            pairs.group_names,
            names=names[i],
            title=titles[i],
            axis_label=axis_label,
            limits=figures.square_limits(first, second),
        )
        text = f"{alt} {moment} the map"
        drawn.append(album.add(f"{name}_{moment}", figure, alt=text, caption=captions[i]))
    return html.figure_grid(*drawn)
