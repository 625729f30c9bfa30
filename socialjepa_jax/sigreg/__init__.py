"""SIGReg, sketched isotropic Gaussian regularisation (LeJEPA, arXiv:2511.08544), as pure functions.

The modules `sigreg.univariate` and `sigreg.multivariate` hold the other tests of normality that the
paper compares. They are part of the public API; import them by name.
"""

from socialjepa_jax.sigreg.directions import sample_directions, sobol_points, step_directions
from socialjepa_jax.sigreg.epps_pulley import epps_pulley
from socialjepa_jax.sigreg.quadrature import OFFICIAL, PAPER, Quadrature
from socialjepa_jax.sigreg.regularizer import Statistic, sigreg

__all__ = [
    "OFFICIAL",
    "PAPER",
    "Quadrature",
    "Statistic",
    "epps_pulley",
    "sample_directions",
    "sigreg",
    "sobol_points",
    "step_directions",
]
