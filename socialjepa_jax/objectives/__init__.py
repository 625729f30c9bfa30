"""Self-supervised objectives by the `kind` that configurations name."""

from socialjepa_jax.objectives.ijepa import IJepa

OBJECTIVES: dict[str, type] = {"ijepa": IJepa}
