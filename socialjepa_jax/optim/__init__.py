"""Optimisers, their schedules, and the treatment of each parameter."""

from socialjepa_jax.optim.adamw import AdamW, decay_mask
from socialjepa_jax.optim.groups import (
    Group,
    Optimizer,
    Path,
    clip_by_group,
    group_by,
    is_scaled,
)
from socialjepa_jax.optim.lars import Lars
from socialjepa_jax.optim.schedules import (
    Schedule,
    Scheduled,
    constant,
    cosine,
    linear,
    warmup_both_ends,
    warmup_cosine,
)

__all__ = [
    "AdamW",
    "Group",
    "Lars",
    "Optimizer",
    "Path",
    "Schedule",
    "Scheduled",
    "clip_by_group",
    "constant",
    "cosine",
    "decay_mask",
    "group_by",
    "is_scaled",
    "linear",
    "warmup_both_ends",
    "warmup_cosine",
]
