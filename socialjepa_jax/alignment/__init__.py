"""Post-hoc alignment of two latent spaces: linear maps, metrics, nulls and intervals.

`study` holds what the command-line tool (`socialjepa_jax.align`) adds.
"""

from socialjepa_jax.alignment.distances.compare import Geometry, compare, dsc
from socialjepa_jax.alignment.fitting import choose_ridge, fit
from socialjepa_jax.alignment.hub import Hub, fit_hub
from socialjepa_jax.alignment.maps import LinearMap
from socialjepa_jax.alignment.metrics import (
    evaluate,
    noise_ceiling,
    prediction_r2,
    r2,
    shared_dimensions,
)
from socialjepa_jax.alignment.neighbourhoods import (
    chance_corrected_nos,
    cknna,
    mutual_knn,
    nearest_neighbors,
    retrieval,
)
from socialjepa_jax.alignment.permutation import Null, permutation_null
from socialjepa_jax.alignment.resampling import Interval, bootstrap, difference, intervals
from socialjepa_jax.alignment.similarity import (
    canonical_correlations,
    cka,
    cka_debiased,
    cka_matrix,
    cka_minibatch,
    cka_rbf,
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
    "cka_rbf",
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
