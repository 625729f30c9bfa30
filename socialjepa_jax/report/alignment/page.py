"""Page of a study: quality and possible uses of the map between two files of embeddings."""

# ruff: noqa: RUF001 (a true minus is meant)

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from socialjepa_jax.alignment.migration.ceilings import BRIDGE, CEILING, RECALL
from socialjepa_jax.alignment.migration.decision import Decision
from socialjepa_jax.alignment.study.export import NUMPY_SNIPPET
from socialjepa_jax.alignment.study.inputs import Spaces
from socialjepa_jax.alignment.study.study import Study
from socialjepa_jax.collaboration.scoring import Scores
from socialjepa_jax.report import html
from socialjepa_jax.report.album import Album
from socialjepa_jax.report.alignment import planes, sections, uses
from socialjepa_jax.report.alignment.quality import quality_section
from socialjepa_jax.report.alignment.verdict import distances, rounded, verdict

WORDS = {
    "x, y, W": "The old and the new space, and the map y ≈ W x between the two in standardised "
    "units, fitted on the pairs that are not held out.",
    "Mapped back": "From y to x by the reverse regression of x on y, fitted on the same pairs "
    "(backward in apply_map.py). W⁻¹, the paper's way, magnifies what x does not share.",
    "Retention": "Share of queries answered first, over that after full re-embedding.",
    "Probe, oracle": "A linear classifier of one space; the oracle is trained on y itself.",
    "CSLS": "Search in which documents that are near to many queries are rated lower.",
    "R²": "1 − squared error / variance about the held-out mean, over all features together, each "
    "in units of its standard deviation. 1: exact; 0: no better than the mean; negative: worse.",
    "R², raw": "The same in the units of the file: features that vary more weigh more, as they do "
    "in a search. It is far from R² where a few features hold most of the variance.",
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


def write_pair_page(
    path: Path,
    study: Study,
    spaces: Spaces,
    probes: Mapping[str, Scores],
    decision: Decision,
    *,
    umap: bool = True,
) -> None:
    """Writes the page and its figures.

    Args:
        path: of the HTML file.
        study: results.
        spaces: the two spaces.
        probes: of `probe_scores`; empty without labels.
        decision: what the study supports.
        umap: True to draw UMAP figures.
    """
    album, names = Album(path), (spaces.names[0], spaces.names[1])
    map_figures = sections.spectrum(study, album), sections.distances(study, album)
    parts = {
        "use": ("What it can be used for", uses.uses_section(study, probes)),
        "numbers": (
            "How well it fits",
            html.join(distances(study, decision), quality_section(study)),
        ),
        "planes": ("Before and after", _planes(study, spaces, names, album, umap)),
        "map": ("The map", html.figure_grid(*map_figures)),
        "pairs": ("How many pairs, how clean", sections.curves_section(study, album)),
        "layers": ("Layer by layer", sections.layers_section(study, spaces, names, album)),
        "items": ("Where it fails", sections.items_section(study, spaces.items, album)),
        "apply": ("Apply it", _apply(study)),
        "words": ("Words", html.definitions(WORDS)),
    }
    page = html.page(
        f"From {names[0]} to {names[1]}",
        _subtitle(study, spaces),
        html.join(verdict(study, names, decision, probes), _headline(study)),
        {anchor: (head, body) for anchor, (head, body) in parts.items() if body},
    )
    path.write_text(page, encoding="utf-8")


def _subtitle(study: Study, spaces: Spaces) -> str:
    (x, y), linear_map, held_out = spaces.latents, study.linear_map, study.split.num_held_out
    measured = "" if study.num_test == held_out else f" ({study.num_test:,} of them measured)"
    grouped = "" if spaces.groups is None else f" in {len(np.unique(spaces.groups)):,} groups"
    ridge = f", lambda {linear_map.ridge:.3g}" if linear_map.ridge else ""
    return (
        f"x is {spaces.names[0]} ({x.shape[1]} features), y is {spaces.names[1]} "
        f"({y.shape[1]} features). {len(x):,} pairs{grouped}: {linear_map.n_train:,} fitted, "
        f"{held_out:,} held out{measured}. W by {linear_map.method}{ridge}."
        f"{''.join(f' {line}.' for line in (*spaces.remarks(), *study.split.remarks))}"
    )


def _headline(study: Study) -> html.Html:
    forward = study.metrics["forward"]
    return html.tiles(
        *_search_tiles(study),
        (rounded(forward["r2"]), "R² on unseen pairs, features of equal weight"),
        (rounded(forward["r2_raw"]), "R² on unseen pairs, raw units"),
        (rounded(forward["dsc"]), "DSC through W (distances, 1: alike)"),
    )


def _search_tiles(study: Study) -> list[tuple[str, str]]:
    ceilings = study.ceilings
    if ceilings is not None and BRIDGE in ceilings.ways:
        recall = ceilings.ways[BRIDGE].scores[RECALL], ceilings.ways[CEILING].scores[RECALL]
        return [
            (f"{100 * recall[0]:.1f} %", "answered first by the old index, queries mapped back"),
            (f"{100 * recall[1]:.1f} %", "answered first after full re-embedding"),
        ]
    if BRIDGE not in study.overlap:
        return []
    share = study.overlap[BRIDGE].value
    return [(f"{100 * share:.0f} %", "of the 10 nearest as after full re-embedding")]


def _planes(
    study: Study, spaces: Spaces, names: tuple[str, str], album: Album, umap: bool
) -> html.Html:
    rows = study.split.test
    x, y = (z[rows] for z in spaces.latents)
    labels = None if spaces.labels is None else spaces.labels[rows]
    return planes.planes(
        study.linear_map, x, y, labels, names, album, umap=umap, seed=study.settings.seed
    )


def _apply(study: Study) -> html.Html:
    pairs = "all pairs, the held-out ones too" if study.settings.all_pairs else "the fitted pairs"
    files = {
        "apply_map.py": "the lines below",
        "map.npz": f"W, its reverse regression, means and scales, of {pairs}; NumPy reads it "
        "without pickles, and socialjepa-align apply maps files of any size by it",
        "map.safetensors": "weights and biases of both directions as of torch.nn.Linear",
        "map.onnx": "x to y as one product and one sum, float32; y_unit has rows of length 1",
        "novelty.npz": "how far training items of either space lie from their mean",
        "items.csv": "error, rank and novelty of every measured item",
        "alignment.json": "all numbers of this page",
    }
    return html.join(html.definitions(files), html.tag("pre", NUMPY_SNIPPET))
