"""Post-hoc alignment of two latent spaces: fit a map, measure it, keep it."""

from socialjepa_jax.alignment.geometry import Geometry, compare, dsc
from socialjepa_jax.alignment.maps import LinearMap, choose_ridge, fit
from socialjepa_jax.alignment.metrics import evaluate, r2
from socialjepa_jax.alignment.similarity import (
    cka,
    cka_debiased,
    effective_rank,
    procrustes_error,
    rankme,
)

__all__ = [
    "Geometry",
    "LinearMap",
    "choose_ridge",
    "cka",
    "cka_debiased",
    "compare",
    "dsc",
    "effective_rank",
    "evaluate",
    "fit",
    "procrustes_error",
    "r2",
    "rankme",
]
