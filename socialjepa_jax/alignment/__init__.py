"""Post-hoc alignment of two latent spaces: fit a map, measure it, know how sure that is, keep it.

`curves`, `references`, `study`, `files` and `export` hold what the command line tool adds.
"""

from socialjepa_jax.alignment.distances.compare import Geometry, compare, dsc
from socialjepa_jax.alignment.hub import Hub, fit_hub
from socialjepa_jax.alignment.maps import LinearMap, choose_ridge, fit
from socialjepa_jax.alignment.metrics import evaluate, prediction_r2, r2, shared_dimensions
from socialjepa_jax.alignment.neighbourhoods import (
    chance_corrected_nos,
    cknna,
    mutual_knn,
    nearest_neighbors,
    retrieval,
)
from socialjepa_jax.alignment.resampling import (
    Interval,
    Null,
    bootstrap,
    difference,
    intervals,
    noise_ceiling,
    permutation_null,
)
from socialjepa_jax.alignment.similarity import (
    canonical_correlations,
    cka,
    cka_debiased,
    cka_matrix,
    cka_minibatch,
    effective_rank,
    procrustes_error,
    pwcca,
    r2_whitened,
    rankme,
    shape_angle,
    shape_correlation,
    svcca,
)

__all__ = [
    "Geometry",
    "Hub",
    "Interval",
    "LinearMap",
    "Null",
    "bootstrap",
    "canonical_correlations",
    "chance_corrected_nos",
    "choose_ridge",
    "cka",
    "cka_debiased",
    "cka_matrix",
    "cka_minibatch",
    "cknna",
    "compare",
    "difference",
    "dsc",
    "effective_rank",
    "evaluate",
    "fit",
    "fit_hub",
    "intervals",
    "mutual_knn",
    "nearest_neighbors",
    "noise_ceiling",
    "permutation_null",
    "prediction_r2",
    "procrustes_error",
    "pwcca",
    "r2",
    "r2_whitened",
    "rankme",
    "retrieval",
    "shape_angle",
    "shape_correlation",
    "shared_dimensions",
    "svcca",
]
