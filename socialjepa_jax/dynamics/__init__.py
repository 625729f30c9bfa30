"""Stationary processes of latents, drawn on the device; they need NumPy, SciPy and JAX alone."""

from socialjepa_jax.dynamics.joints import JointAngles
from socialjepa_jax.dynamics.langevin import Blend, GoalSeeking, Langevin
from socialjepa_jax.dynamics.recorded import Recorded
from socialjepa_jax.dynamics.stationary import (
    Copula,
    OrnsteinUhlenbeck,
    Process,
    PublishedNoise,
)

__all__ = [
    "Blend",
    "Copula",
    "GoalSeeking",
    "JointAngles",
    "Langevin",
    "OrnsteinUhlenbeck",
    "Process",
    "PublishedNoise",
    "Recorded",
]
