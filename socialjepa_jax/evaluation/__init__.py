"""Measurements of trained agents: collapse, alignment, probes, and the controls beside them."""

from socialjepa_jax.evaluation.latents import (
    Untrained,
    encode_chunks,
    encode_states,
    save_latents,
    save_maps,
)
from socialjepa_jax.evaluation.metrics import (
    best_metric,
    collapse_metrics,
    fit_map,
    scalars,
)
from socialjepa_jax.evaluation.splits import Split, check_splits, pairs, splits
from socialjepa_jax.evaluation.table import Row, Subject, alignment_rows, probe_accuracies, subjects

__all__ = [
    "Row",
    "Split",
    "Subject",
    "Untrained",
    "alignment_rows",
    "best_metric",
    "check_splits",
    "collapse_metrics",
    "encode_chunks",
    "encode_states",
    "fit_map",
    "pairs",
    "probe_accuracies",
    "save_latents",
    "save_maps",
    "scalars",
    "splits",
    "subjects",
]
