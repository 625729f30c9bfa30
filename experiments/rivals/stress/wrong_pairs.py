"""W fitted on pairs of which a share is wrong: of two spaces, and of white latents.

Wrong pairs are exchanged in a random cycle. White latents have no structure but their size and R2;
those of the paper's width show what few pairs cost.
"""

import numpy as np

from experiments.findings import Rows
from experiments.rivals.stress import spaces
from experiments.rivals.stress.spaces import WHITE, Pairs
from experiments.rivals.tables import measures
from experiments.rivals.tables.trained import HOW
from socialjepa_jax import alignment
from socialjepa_jax.alignment.study import curves
from socialjepa_jax.report.papers.social_jepa import SOCIAL_JEPA

NOISES = (0.0, 0.1, 0.3)  # shares of wrong pairs
PAPER_DIM, PAPER_TESTS = 384, 1000  # features and test pairs
TRIMMED, ALL = "trimmed", "all"


def conditions() -> list[tuple[float, str]]:
    """Returns the shares of wrong pairs and fits: all pairs, or without the worst."""
    return [(e, fit) for e in NOISES for fit in (ALL, TRIMMED) if e or fit == ALL]


def noisy(
    train: Pairs, test: Pairs, epsilon: float, fit: str, rng: np.random.Generator
) -> measures.Measured:
    """Fits training pairs of which a share is wrong and scores W on true test pairs."""
    x, y = train
    method = "robust" if fit == TRIMMED else HOW.method

    partner = curves.mismatched(rng.permutation(len(x)), epsilon)
    fitted = alignment.fit(
        x, y[partner], method=method, trim=epsilon, ridge=HOW.ridge, kappa_max=HOW.kappa_max
    )
    return measures.exact(spaces.scores(fitted, *test))


def of_white(count: int, tests: int, dim: int, r2: float) -> Rows:
    """Measures white latents: the same draw of latents for every share of wrong pairs."""
    rng = np.random.default_rng(0)
    train, test = (spaces.white(each, dim, r2, rng) for each in (count, tests))
    rows = []
    for epsilon, fit in conditions():
        found = noisy(train, test, epsilon, fit, np.random.default_rng(1))
        where = {"row": WHITE, "epsilon": epsilon, "fit": fit, "pairs": count}
        rows.append({**where, **measures.single(found)})
    return rows


def of_paper_size(counts: tuple[int, ...]) -> Rows:
    """Measures white latents of the paper's width whose R2 without noise is the paper's."""
    wanted, rows = SOCIAL_JEPA[4].value("0.0", "r2"), []
    for count in counts:
        lost = PAPER_DIM / (count - PAPER_DIM - 1)  # of the unexplained variance, by estimation
        share = (wanted + lost) / (1 + lost)
        rows += of_white(count, PAPER_TESTS, PAPER_DIM, share)
    return [row for row in rows if row["fit"] == ALL]
