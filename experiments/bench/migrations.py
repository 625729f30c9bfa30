"""Made migrations of a search index: two encoders, documents, and queries of known difficulty.

Documents have L hidden features. The new encoder y sees them all, the old one x a share of them and
others of its own. A query is its document's features and noise, moved by a shift that all queries
share. The grid and the seeds were fixed before anything was measured on them:

    seed s of 0 .. 19: share of common features SHARES[s % 4], shift of the queries SHIFTS[s % 3],
    widths of x and y WIDTHS[s % 2], family FAMILIES[s % 5]; the noise of the queries, the same for
    both encoders, is drawn from [0.35, 1.1], and x adds OLD_NOISE[(s // 4) % 2] of its own.

Right answers, from 4,000 queries that no tool sees (`right_answers`), were fixed with them.

Shape suffixes: N documents, Q queries, L hidden features, D and E features of x and y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from socialjepa_jax.alignment.migration.search import Index, answer_ranks
from socialjepa_jax.alignment.moments import Float64

SHARES = (0.3, 0.6, 0.9, 1.0)
SHIFTS = (0.0, 0.2, 0.5)
WIDTHS = ((96, 128), (128, 96))
FAMILIES = ("gaussian", "topics", "tanh", "heavy", "drift")
OLD_NOISE = (0.0, 0.8)
SEEDS = tuple(range(20))
DOCUMENTS, ANSWERS, TRUE_QUERIES, CALIBRATED = 2_000, 600, 4_000, 30
HIDDEN = 64
NEGLIGIBLE = 0.02  # gain of re-embedding that no one would pay for
NEAR = 0.07  # of the asked retention: more queries are a right answer too


@dataclass(frozen=True, eq=False)
class Migration:
    """Documents and queries of two encoders.

    Attributes:
        family: how hidden features and queries are distributed.
        x, y: [N, D] and [N, E] documents.
        query_x, query_y: [Q, D] and [Q, E].
        answers: int64 [Q].
        true_x, true_y, true_answers: more queries, for the truth alone.
    """

    family: str
    x: Float64
    y: Float64
    query_x: Float64
    query_y: Float64
    answers: np.ndarray
    true_x: Float64
    true_y: Float64
    true_answers: np.ndarray

    @property
    def fitted(self) -> np.ndarray:
        """Row numbers of the documents that answer no query."""
        return np.setdiff1d(np.arange(len(self.x)), self.answers)


def make(seed: int) -> Migration:
    """Makes one migration of the grid."""
    rng = np.random.default_rng([2026, seed])
    family, common = FAMILIES[seed % 5], round(SHARES[seed % 4] * HIDDEN)
    noise, shift = rng.uniform(0.35, 1.1), SHIFTS[seed % 3] * rng.normal(size=HIDDEN)
    hidden_NL, own_NL = _hidden(family, rng), rng.normal(size=(DOCUMENTS, HIDDEN))
    scale_L = (1.0 + np.arange(HIDDEN)) ** -0.35
    encoders = [_encoder(family, width, scale_L, rng) for width in WIDTHS[seed % 2]]
    seen = np.arange(HIDDEN) < common
    old_noise = OLD_NOISE[(seed // 4) % 2]

    def encoded(hidden_L: Float64, own_L: Float64, extra: float) -> tuple[Float64, Float64]:
        for_x = np.where(seen, hidden_L, own_L)
        for_x = for_x + extra * rng.normal(size=for_x.shape)
        return encoders[0](for_x), encoders[1](hidden_L)

    def asked(answers: np.ndarray) -> tuple[Float64, Float64]:
        hidden_QL, own_QL = hidden_NL[answers], own_NL[answers]
        if family == "drift":  # towards what another document says
            hidden_QL = hidden_QL + 0.3 * hidden_NL[rng.integers(0, DOCUMENTS, len(answers))]
        moved = hidden_QL + noise * rng.normal(size=hidden_QL.shape) + shift
        own = own_QL + noise * rng.normal(size=own_QL.shape)
        return encoded(moved, own, old_noise)

    x, y = encoded(hidden_NL, own_NL, 0.0)
    answers = rng.permutation(DOCUMENTS)[:ANSWERS]
    true_answers = rng.choice(answers, TRUE_QUERIES)
    return Migration(family, x, y, *asked(answers), answers, *asked(true_answers), true_answers)


def _hidden(family: str, rng: np.random.Generator) -> Float64:
    shape = DOCUMENTS, HIDDEN
    if family == "heavy":
        return rng.standard_t(4, size=shape) / 2**0.5
    if family == "topics":
        topics = rng.normal(size=(40, HIDDEN))
        return 0.8 * topics[rng.integers(0, 40, DOCUMENTS)] + 0.6 * rng.normal(size=shape)
    return rng.normal(size=shape)


def _encoder(
    family: str, width: int, scale_L: Float64, rng: np.random.Generator
) -> Callable[[Float64], Float64]:
    """A random linear map, or a saturating one; with some noise."""
    mixing = rng.normal(size=(HIDDEN, width)) / HIDDEN**0.5

    def encode(hidden_L: Float64) -> Float64:
        z = (hidden_L * scale_L) @ mixing
        z = np.tanh(2.0 * z) if family == "tanh" else z
        return z + 0.05 * z.std() * rng.normal(size=z.shape)

    return encode


def recall(query: Float64, index: Float64, answers: np.ndarray) -> float:
    """Recall@1 by cosine."""
    ranks = answer_ranks(query, Index.of(index), answers[:, None], "cosine")
    return float(np.mean(ranks[:, 0] <= 1.0))


def right_answers(gain: float, retention: float, asked: float = 0.9) -> set[str]:
    """Decisions that are right.

    Args:
        gain: true gain in recall@1 of full re-embedding over the old index.
        retention: true retention of new queries mapped into the old index.
        asked: retention that is asked for.
    """
    answers = {"bridge"} if retention >= asked else {"re-embed"}
    if abs(retention - asked) <= NEAR:
        answers |= {"measure with queries"}
    if gain <= NEGLIGIBLE:
        return {"keep"}
    return answers | {"keep"} if gain <= 2.5 * NEGLIGIBLE else answers
