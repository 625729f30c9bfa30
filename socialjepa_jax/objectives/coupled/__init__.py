"""Objectives that wrap objectives: models that learn beside others (section 3.7, Algorithm 2)."""

from socialjepa_jax.objectives.coupled.link import Link
from socialjepa_jax.objectives.coupled.migration import Migration, Taught
from socialjepa_jax.objectives.coupled.mutual import Mutual

__all__ = ["Link", "Migration", "Mutual", "Taught"]
