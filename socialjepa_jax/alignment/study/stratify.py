"""Equal shares of every class on both sides of a split into whole groups.

Shape suffixes: N rows, G groups.
"""

from __future__ import annotations

import numpy as np

from socialjepa_jax.alignment.moments import Float64

UNLIKE = 0.05  # difference of a class's shares of the two parts that is remarked on


def classes(group_N: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
    """Numbers the class of every group: int64 [G]; None if a group holds several."""
    _, class_N = np.unique(labels, return_inverse=True)
    class_G = np.zeros(group_N.max() + 1, np.int64)
    class_G[group_N] = class_N
    return class_G if (class_G[group_N] == class_N).all() else None


def shares_before(order: np.ndarray, sizes: np.ndarray, class_G: np.ndarray) -> Float64:
    """Returns the share of the rows of its class before the middle of every group: [G].

    Args:
        order: of the groups.
        sizes: rows of every group.
        class_G: class of every group.
    """
    by_class = order[np.argsort(class_G[order], kind="stable")]
    totals = np.bincount(class_G, sizes)
    starts = np.cumsum(totals) - totals
    middles = np.cumsum(sizes[by_class]) - sizes[by_class] / 2
    shares = np.empty(len(order))
    shares[by_class] = (middles - starts[class_G[by_class]]) / totals[class_G[by_class]]
    return shares


def remarks(groups: np.ndarray, labels: np.ndarray, held_N: np.ndarray) -> tuple[str, ...]:
    """Says which classes are missing from a part, or much more frequent in one."""
    _, group_N = np.unique(groups, return_inverse=True)
    names, class_N = np.unique(labels, return_inverse=True)
    said = []
    if classes(group_N, labels) is None:
        said.append("groups hold several classes, so the split is not stratified by label")
    parts = {"held-out": held_N, "training": ~held_N}
    counts = {
        name: np.bincount(class_N[part], minlength=len(names)) for name, part in parts.items()
    }
    for name, count in counts.items():
        if missing := int((count == 0).sum()):
            said.append(f"{missing} of {len(names)} classes have no {name} row")
    held, train = (count / count.sum() for count in counts.values())
    worst = int(np.argmax(np.abs(held - train)))
    if abs(held[worst] - train[worst]) > UNLIKE:
        said.append(
            f"class {names[worst]} is {100 * held[worst]:.0f} % of the held-out rows and "
            f"{100 * train[worst]:.0f} % of the training rows"
        )
    return tuple(said)
