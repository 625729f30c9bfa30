"""Objectives on positive pairs: of vectors here, of frames in `pairs.frames`."""

from socialjepa_jax.objectives.pairs.vectors import (
    CONTRASTIVE,
    REGULARIZERS,
    Pairs,
    PairTerms,
)

__all__ = ["CONTRASTIVE", "REGULARIZERS", "PairTerms", "Pairs"]
