"""Worlds with known latents, and metrics of how well an encoder recovers them.

`mixings` and `dynamics` define `worlds`; `metrics` and `hermite` score an encoder against the true
latents; `spectrum` predicts the score; `separation` finds axes without labels; `sfa`, `planning`,
`control` and `reaching` are baselines and uses.
"""

from socialjepa_jax.identifiability import (
    control,
    hermite,
    metrics,
    mixings,
    planning,
    reaching,
    separation,
    sfa,
    spectrum,
    worlds,
)

__all__ = [
    "control",
    "hermite",
    "metrics",
    "mixings",
    "planning",
    "reaching",
    "separation",
    "sfa",
    "spectrum",
    "worlds",
]
