"""Labels, colours and line styles of the rows of `alignment.json`, the same in all figures.

Line styles differ as colours do, so that figures can be printed in grey.
"""

from dataclasses import dataclass

from socialjepa_jax.records import RowName
from socialjepa_jax.report.style import Dash


@dataclass(frozen=True)
class Look:
    """Label, colour, line style and explanation of a row, for every figure and table."""

    label: str
    color: str
    dash: Dash = "-"
    meaning: str = ""


LOOKS: dict[str, Look] = {
    RowName.TRAINED: Look(
        "trained", "#0072B2", "-", "agents trained apart, on different cameras; W on held-out pairs"
    ),
    RowName.SAME_CAMERA: Look(
        "same camera (ceiling)",
        "#56B4E9",
        (0, (1, 1)),
        "two trained agents on one camera, with different seeds: as alike as agents can be",
    ),
    RowName.UNTRAINED: Look(
        "untrained, other init",
        "#D55E00",
        (0, (5, 2)),
        "the same architecture before its first step, each agent with its own random weights",
    ),
    RowName.UNTRAINED_SAME_INIT: Look(
        "untrained, same init",
        "#E69F00",
        (0, (5, 2, 1, 2)),
        "the same, both agents with the same random weights",
    ),
    RowName.PIXEL_PCA: Look(
        "pixel PCA",
        "#009E73",
        (0, (3, 1, 1, 1)),
        "principal components of the images, as many as latents have dimensions",
    ),
    RowName.SHARED_FACTORS: Look(
        "shared factors",
        "#CC79A7",
        (0, (3, 2)),
        "no first agent: the second's latents predicted from what both cameras share by "
        "construction (category, elevation, lighting ...)",
    ),
    RowName.MISMATCHED_CELL: Look(
        "shuffled within cell",
        "#8C6D00",
        (0, (2, 2)),
        "pairs shuffled among states that agree in all shared factors",
    ),
    RowName.MISMATCHED: Look("shuffled", "#666666", (0, (1, 2)), "pairs shuffled among all states"),
    RowName.PARTIALLED: Look(
        "factors removed",
        "#7A5195",
        (0, (4, 1, 1, 1)),
        "the trained agents again, after the shared factors are regressed out of both: what "
        "they share beyond these",
    ),
    RowName.UNTRAINED_PARTIALLED: Look(
        "untrained, factors removed",
        "#B8860B",
        (0, (4, 2)),
        "the untrained agents after the shared factors are regressed out of both",
    ),
    RowName.PIXEL_PCA_PARTIALLED: Look(
        "pixel PCA, factors removed",
        "#5A8F29",
        (0, (3, 2, 1, 2)),
        "pixel components after the shared factors are regressed out of both",
    ),
    RowName.UNTRAINED_HIDDEN: Look(
        "untrained, hidden layer",
        "#D55E00",
        (0, (2, 2)),
        "the untrained encoders before their linear head: many more features",
    ),
    RowName.PIXEL_PCA_WIDE: Look(
        "pixel PCA, four times wider",
        "#009E73",
        (0, (6, 2)),
        "four times as many principal components as latents have dimensions",
    ),
    RowName.RANDOM_PROJECTION: Look(
        "random projection",
        "#CC79A7",
        (0, (4, 1, 1, 1)),
        "random directions of pixel space, as many as latents have dimensions",
    ),
    RowName.ALL_PIXELS: Look(
        "all pixels, by labels",
        "#1d2430",
        (0, (6, 1, 1, 1)),
        "a ridge regression from all pixels to the state, which uses the labels of the states",
    ),
    "strangers": Look(
        "trained, time shuffled", "#CC79A7", (0, (1, 1)), "pairs of unrelated moments"
    ),
    "same_picture": Look(
        "trained, same image twice", "#8C6D00", (0, (5, 2)), "both images of a pair are one"
    ),
    "photometric": Look(
        "trained, brightness and contrast",
        "#E69F00",
        (0, (2, 1, 1, 1)),
        "one image, changed twice in brightness and contrast",
    ),
    "augmented_stills": Look(
        "trained, augmented stills",
        "#56B4E9",
        (0, (5, 2)),
        "one image, shifted and changed twice in brightness and contrast",
    ),
    "augmented_stills_jitter": Look(
        "trained, augmented stills with flicker",
        "#D55E00",
        (0, (1, 2)),
        "the same, with exposure and colour drawn as the world draws them",
    ),
    RowName.ACTIONS: Look(
        "trained, W from actions", "#009E73", "-", "the map made from shared actions, no pair"
    ),
    "paper": Look("paper", "#1d2430", (0, (1, 3)), "as printed"),
    "chance": Look("chance", "#8A929C", (0, (4, 3)), "expected of unrelated spaces"),
}


def look(name: str) -> Look:
    """Returns the look of a row of `alignment.json`; grey and dashed for an unknown name."""
    return LOOKS.get(name, Look(name.replace("_", " "), "#666666", (0, (2, 1))))
