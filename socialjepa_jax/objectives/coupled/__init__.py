"""Objectives that wrap objectives: models that learn beside others (section 3.7, Algorithm 2)."""

from socialjepa_jax.objectives.coupled.classes import Classes
from socialjepa_jax.objectives.coupled.crossed import Crossed
from socialjepa_jax.objectives.coupled.link import KINDS, Link, Pull
from socialjepa_jax.objectives.coupled.migration import Migration, Taught
from socialjepa_jax.objectives.coupled.mutual import Mutual
from socialjepa_jax.objectives.coupled.mutual_classes import MutualClasses
from socialjepa_jax.objectives.coupled.similarities import Similarities

LINKS: dict[str, type] = dict.fromkeys(KINDS, Link)
LINKS |= {"similarities": Similarities, "classes": Classes}

__all__ = [
    "LINKS", "Classes", "Crossed", "Link", "Migration", "Mutual", "MutualClasses", "Pull",
    "Similarities", "Taught",
]  # fmt: skip
