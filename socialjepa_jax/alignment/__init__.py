"""Post-hoc alignment of two latent spaces: fit a map, measure it, know how sure that is, keep it.

`curves`, `references`, `study`, `files` and `export` hold what the command line tool adds.
"""

from socialjepa_jax.alignment.cca import canonical_correlations, pwcca, r2_whitened, svcca
from socialjepa_jax.alignment.geometry import Geometry, compare, dsc
from socialjepa_jax.alignment.hub import Hub, fit_hub
from socialjepa_jax.alignment.local import (
    chance_corrected_nos,
    cknna,
    mutual_knn,
    nearest_neighbors,
    retrieval,
)
from socialjepa_jax.alignment.maps import LinearMap, choose_ridge, fit
from socialjepa_jax.alignment.metrics import evaluate, r2
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
    cka,
    cka_debiased,
    cka_matrix,
    cka_minibatch,
    effective_rank,
    procrustes_error,
    rankme,
    shape_angle,
    shape_correlation,
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
    "procrustes_error",
    "pwcca",
    "r2",
    "r2_whitened",
    "rankme",
    "retrieval",
    "shape_angle",
    "shape_correlation",
    "svcca",
]
