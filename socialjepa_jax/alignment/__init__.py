"""Post-hoc alignment of two latent spaces: linear maps, metrics, nulls and intervals.

`study` holds what the command-line tool (`socialjepa_jax.align`) adds.

Every name is imported when it is first used, and modules of the package are attributes of it:
`import socialjepa_jax.alignment` imports neither JAX nor SciPy.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from socialjepa_jax.alignment.distances.compare import Geometry, compare, dsc
    from socialjepa_jax.alignment.fitting import choose_ridge, fit
    from socialjepa_jax.alignment.hub import Hub, fit_hub
    from socialjepa_jax.alignment.maps import LinearMap
    from socialjepa_jax.alignment.matched import (
        MatchedRank,
        matched_rank,
        principal_components,
        rank_curve,
    )
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

_NAMES = {
    "distances.compare": "Geometry compare dsc",
    "fitting": "choose_ridge fit",
    "hub": "Hub fit_hub",
    "maps": "LinearMap",
    "matched": "MatchedRank matched_rank principal_components rank_curve",
    "metrics": "evaluate noise_ceiling prediction_r2 r2 shared_dimensions",
    "neighbourhoods": "chance_corrected_nos cknna mutual_knn nearest_neighbors retrieval",
    "permutation": "Null permutation_null",
    "resampling": "Interval bootstrap difference intervals",
    "similarity": "canonical_correlations cka cka_debiased cka_matrix cka_minibatch cka_rbf "
    "effective_rank procrustes_error pwcca r2_whitened rankme shape_angle shape_correlation svcca",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = {module.name for module in pkgutil.iter_modules(__path__)}

__all__ = [
    "Geometry",
    "Hub",
    "Interval",
    "LinearMap",
    "MatchedRank",
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
    "matched_rank",
    "mutual_knn",
    "nearest_neighbors",
    "noise_ceiling",
    "permutation_null",
    "prediction_r2",
    "principal_components",
    "procrustes_error",
    "pwcca",
    "r2",
    "r2_whitened",
    "rank_curve",
    "rankme",
    "retrieval",
    "shape_angle",
    "shape_correlation",
    "shared_dimensions",
    "svcca",
]


def __getattr__(name: str) -> Any:
    """Imports a name or a module of the package."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # the next use is that of a plain name
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
